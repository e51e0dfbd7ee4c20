//! Load balancers, with their machines resolved.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::pod::PodKey;
use crate::{FieldProblem, Protocol};

use super::DEFAULT_VPC;
use super::balancer::{
    Backend, BalancedVips, Balancer, BalancerFront, BalancerKey, BalancerKind, CheckedMachine,
    WiredBalancer, WiredVip,
};
use super::problem::BalancerProblem;
use super::scene::VpcScene;

/// Ports of pods in VPCs, by what load balancers name them.
pub(super) struct Machines<'a> {
    of_pods: HashMap<&'a PodKey, Vec<MachinePort<'a>>>,
    /// VPCs and ports of addresses, by namespace of the pod and address.
    ports: HashMap<(&'a str, IpAddr), (&'a Arc<str>, CheckedMachine)>,
}

/// Port of a pod.
struct MachinePort<'a> {
    vpc: &'a Arc<str>,
    addresses: &'a [IpAddr],
}

/// Machine of a load balancer: its address and port, and what checks it. `None`: nothing does.
type Machine = (SocketAddr, Option<CheckedMachine>);

impl<'a> Machines<'a> {
    /// Ports of all pods; none if there are no load balancers.
    pub(super) fn new(scene: &'a VpcScene) -> Self {
        let mut found = Self { of_pods: HashMap::new(), ports: HashMap::new() };
        if scene.objects.balancers.is_empty() {
            return found;
        }
        for request in &scene.objects.requests {
            let record = scene.objects.ports.get_key_value(&*request.port());
            let (Ok(subnet), Some((name, port))) = (scene.subnet_of(request), record) else {
                continue;
            };
            for address in &port.addresses {
                let place = (&*request.pod.namespace, *address);
                let checked = || CheckedMachine {
                    port: name.clone(),
                    subnet: subnet.name.clone(),
                    source: checking_address(scene, &subnet.name),
                };
                found.ports.entry(place).or_insert_with(|| (&subnet.vpc, checked()));
            }
            let of_pod = found.of_pods.entry(&request.pod).or_default();
            of_pod.push(MachinePort { vpc: &subnet.vpc, addresses: &port.addresses });
        }
        found
    }

    /// VPC of a load balancer: the one that it names, or that of its first machine.
    fn vpc(&self, balancer: &Balancer) -> Option<Arc<str>> {
        let backends = balancer.ports.iter().flat_map(|port| &port.backends);
        let mut of_backends = backends.filter_map(|backend| match backend {
            Backend::Pod(pod, _) => Some(self.of_pods.get(pod)?.first()?.vpc),
            Backend::Address(address) => {
                let place = (&*balancer.namespace, address.ip());
                self.ports.get(&place).map(|(vpc, _)| *vpc)
            }
        });
        let named = balancer.vpc.as_ref().map(|(_, vpc)| vpc);
        named.or_else(|| of_backends.next()).cloned()
    }

    /// Addresses of a machine in a VPC. A pod that has none there is named.
    fn addresses(
        &self,
        (backend, namespace): (&Backend, &str),
        vpc: &str,
        problems: &mut Vec<FieldProblem>,
    ) -> Vec<Machine> {
        let check = |namespace: &str, address: IpAddr| {
            let (of, checked) = self.ports.get(&(namespace, address))?;
            (***of == *vpc).then(|| checked.clone())
        };
        let (pod, port) = match backend {
            Backend::Address(address) => return vec![(*address, check(namespace, address.ip()))],
            Backend::Pod(pod, port) => (pod, *port),
        };
        let ports = self.of_pods.get(pod).map_or(&[][..], Vec::as_slice);
        let inside = ports.iter().find(|port| **port.vpc == *vpc);
        if let (None, Some(other)) = (inside, ports.first()) {
            let reason = format!("Pod {pod} is in Vpc {}, not in Vpc {vpc}", other.vpc);
            let problem = FieldProblem::new("spec.selector", reason);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let addresses = inside.into_iter().flat_map(|port| port.addresses);
        let machines = addresses
            .map(|address| (SocketAddr::new(*address, port), check(&pod.namespace, *address)));
        machines.collect()
    }
}

/// First objects with an address and port in a VPC.
pub(super) type Inside = HashMap<(Arc<str>, Protocol, SocketAddr), BalancerKey>;

/// The problem that there is no such VPC.
pub(super) fn unknown_vpc(
    scene: &VpcScene,
    balancer: &Balancer,
    vpc: &Arc<str>,
) -> Option<BalancerProblem> {
    let (field, _) = balancer.vpc.as_ref()?;
    let is_known = scene.objects.vpcs.contains_key(vpc);
    (!is_known).then(|| BalancerProblem::UnknownVpc { field: field.clone(), vpc: vpc.clone() })
}

/// Resolves a load balancer with these addresses. `eip`: the addresses that are those of an
/// external address. `None`: it is in no VPC of ours, which is usual for a service.
pub(super) fn resolve(
    scene: &VpcScene,
    machines: &Machines<'_>,
    balancer: &Balancer,
    vpc: Option<Arc<str>>,
    eip: &[IpAddr],
    inside: &mut Inside,
) -> Option<Result<WiredBalancer, BalancerProblem>> {
    // Most services are in no VPC.
    let is_service = balancer.key.kind == BalancerKind::Service;
    let Some(vpc) = vpc.or_else(|| machines.vpc(balancer)) else {
        return (!is_service).then_some(Err(BalancerProblem::NoVpc));
    };
    if &*vpc == DEFAULT_VPC {
        return (!is_service).then_some(Err(BalancerProblem::DefaultVpc));
    }
    if let Some(problem) = unknown_vpc(scene, balancer, &vpc) {
        return Some(Err(problem));
    }
    let addresses = match &balancer.front {
        BalancerFront::Addresses(addresses) => addresses,
        BalancerFront::Eip(_) => eip,
    };
    let mut problems = balancer.problems.clone();
    let mut vips = Vec::new();
    for port in &balancer.ports {
        let backends = port.backends.iter().flat_map(|backend| {
            machines.addresses((backend, &balancer.namespace), &vpc, &mut problems)
        });
        let all: BTreeMap<SocketAddr, Option<CheckedMachine>> = backends.collect();
        let is_checked = has_checks(balancer.key.kind, port.protocol);
        for address in addresses {
            let of_family = || all.iter().filter(|(one, _)| one.is_ipv4() == address.is_ipv4());
            let backends: Vec<SocketAddr> = of_family().map(|(one, _)| *one).collect();
            let vip = SocketAddr::new(*address, port.port);
            let claim = (vpc.clone(), port.protocol, vip);
            if let Some(other) = inside.get(&claim) {
                let what = format!("{} {vip}", port.protocol);
                let reason = format!("{what} is used by {other}");
                problems.push(FieldProblem::new(format!("{}.port", port.field), reason));
                continue;
            }
            inside.insert(claim, balancer.key.clone());
            if !backends.is_empty() {
                let checked = of_family().filter(|_| is_checked && address.is_ipv4());
                let checked =
                    checked.filter_map(|(one, checked)| Some((one.ip(), checked.clone()?)));
                let checked = checked.collect();
                vips.push(WiredVip { protocol: port.protocol, vip, backends, checked });
            }
        }
    }
    let has_machine = vips.iter().any(|vip| !vip.backends.is_empty());
    if !is_service && !has_machine {
        let problem = problems.into_iter().next();
        return Some(Err(problem.map_or(BalancerProblem::NoMachine(vpc), BalancerProblem::Field)));
    }
    let is_at_router = balancer.key.kind == BalancerKind::RouterRule;
    let subnets = is_at_router.then(|| scene.subnets_of(&vpc)).into_iter().flatten();
    let balanced = subnets.filter(|subnet| subnet.has_load_balancers);
    let switches = balanced.map(|subnet| subnet.name.clone()).collect();
    let has_affinity = balancer.has_affinity;
    Some(Ok(WiredBalancer { vpc, has_affinity, vips, switches, problems }))
}

/// `true` if machines of a kind of object are checked for health. OVN checks TCP and UDP.
fn has_checks(kind: BalancerKind, protocol: Protocol) -> bool {
    kind != BalancerKind::Service && protocol != Protocol::Sctp
}

/// Address of a subnet that checks machines: that of the `Vip` with its name.
fn checking_address(scene: &VpcScene, subnet: &Arc<str>) -> Option<IpAddr> {
    let (virtual_ip, of) = scene.virtual_ip(subnet).ok()?;
    let mut addresses = virtual_ip.addresses.iter().filter(|_| of.name == *subnet);
    addresses.find(|address| address.is_ipv4()).copied()
}

/// Load balancers of a VPC, by protocol and affinity.
pub type VpcVips = BTreeMap<(Protocol, bool), BalancedVips>;

/// Subnets of which an address checks machines for health.
pub fn checking_subnets(
    balancers: &BTreeMap<BalancerKey, Result<WiredBalancer, BalancerProblem>>,
) -> BTreeSet<Arc<str>> {
    let vips = balancers.values().flatten().flat_map(|balancer| &balancer.vips);
    let checked = vips.flat_map(|vip| vip.checked.values());
    checked.map(|checked| checked.subnet.clone()).collect()
}

/// Addresses and ports in the load balancers of all VPCs. Those of `RouterLBRule`s have load balancers
/// of their own.
pub fn shared_vips(
    balancers: &BTreeMap<BalancerKey, Result<WiredBalancer, BalancerProblem>>,
) -> BTreeMap<Arc<str>, VpcVips> {
    let mut found: BTreeMap<Arc<str>, VpcVips> = BTreeMap::new();
    let shared = balancers.iter().filter(|(key, _)| key.kind != BalancerKind::RouterRule);
    for balancer in shared.filter_map(|(_, balancer)| balancer.as_ref().ok()) {
        let of_vpc = found.entry(balancer.vpc.clone()).or_default();
        for vip in &balancer.vips {
            of_vpc.entry((vip.protocol, balancer.has_affinity)).or_default().add(vip);
        }
    }
    found
}
