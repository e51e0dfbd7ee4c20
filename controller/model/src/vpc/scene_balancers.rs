//! Load balancers, with their machines resolved.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::pod::PodKey;
use crate::{FieldProblem, Protocol};

use super::DEFAULT_VPC;
use super::balancer::{
    Backend, Balancer, BalancerFront, BalancerKey, BalancerKind, WiredBalancer, WiredVip,
};
use super::problem::BalancerProblem;
use super::scene::VpcScene;

/// Ports of pods in VPCs, by what load balancers name them.
pub(super) struct Machines<'a> {
    of_pods: HashMap<&'a PodKey, Vec<MachinePort<'a>>>,
    /// VPCs of addresses, by namespace of the pod and address.
    vpcs: HashMap<(&'a str, IpAddr), &'a Arc<str>>,
}

/// Port of a pod.
struct MachinePort<'a> {
    vpc: &'a Arc<str>,
    addresses: &'a [IpAddr],
}

impl<'a> Machines<'a> {
    /// Ports of all pods; none if there are no load balancers.
    pub(super) fn new(scene: &'a VpcScene) -> Self {
        let mut found = Self { of_pods: HashMap::new(), vpcs: HashMap::new() };
        if scene.objects.balancers.is_empty() {
            return found;
        }
        for request in &scene.objects.requests {
            let port = scene.objects.ports.get(&*request.port());
            let (Ok(subnet), Some(port)) = (scene.subnet_of(request), port) else {
                continue;
            };
            for address in &port.addresses {
                let place = (&*request.pod.namespace, *address);
                found.vpcs.entry(place).or_insert(&subnet.vpc);
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
                self.vpcs.get(&(&*balancer.namespace, address.ip())).copied()
            }
        });
        let named = balancer.vpc.as_ref().map(|(_, vpc)| vpc);
        named.or_else(|| of_backends.next()).cloned()
    }

    /// Addresses of a machine in a VPC. A pod that has none there is named.
    fn addresses(
        &self,
        backend: &Backend,
        vpc: &str,
        problems: &mut Vec<FieldProblem>,
    ) -> Vec<SocketAddr> {
        let (pod, port) = match backend {
            Backend::Address(address) => return vec![*address],
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
        addresses.map(|address| SocketAddr::new(*address, port)).collect()
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
        let mut all: Vec<SocketAddr> = port
            .backends
            .iter()
            .flat_map(|backend| machines.addresses(backend, &vpc, &mut problems))
            .collect();
        all.sort_unstable();
        all.dedup();
        for address in addresses {
            let of_family = all.iter().filter(|one| one.is_ipv4() == address.is_ipv4());
            let backends: Vec<SocketAddr> = of_family.copied().collect();
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
                vips.push(WiredVip { protocol: port.protocol, vip, backends });
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

/// Addresses and ports in the load balancers of a VPC, by protocol and affinity, each with the value
/// of its machines.
pub type VpcVips = BTreeMap<(Protocol, bool), BTreeMap<String, String>>;

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
            let of_kind = of_vpc.entry((vip.protocol, balancer.has_affinity)).or_default();
            of_kind.insert(vip.vip.to_string(), vip.to_text());
        }
    }
    found
}
