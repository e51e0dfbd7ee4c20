//! Rules about external addresses, with their references resolved.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{FieldProblem, Protocol, format_net};

use super::balancer::{Balancer, BalancerFront, BalancerKey, WiredBalancer};
use super::eip::{Eip, EipKind};
use super::nat::{NatKey, NatKind, NatRule, NatTarget};
use super::problem::{BalancerProblem, NatProblem};
use super::scene::{VpcScene, port_name};
use super::scene_balancers::{self, Inside, Machines};
use super::wiring::{NatRow, WiredNat};

/// What rules have together.
struct Claims<'a> {
    scene: &'a VpcScene,
    /// External subnets on which VPCs have ports.
    connected: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// VPCs that have an external address as that of their port.
    ports: BTreeMap<String, Arc<str>>,
    /// VPC of the first rule about an external address.
    owners: HashMap<Arc<str>, Arc<str>>,
    /// Kind and name of the first rule that uses an address, or a port of it.
    used: HashMap<String, String>,
    /// First load balancers with an address and port in a VPC.
    inside: Inside,
}

/// Rules about external addresses and load balancers: what their rows follow from, or why they have
/// none.
#[derive(Clone, Debug, Default)]
pub struct ResolvedRules {
    /// Rules about external addresses.
    pub nats: BTreeMap<NatKey, Result<WiredNat, NatProblem>>,
    /// Load balancers. Services that are in no VPC are left out.
    pub balancers: BTreeMap<BalancerKey, Result<WiredBalancer, BalancerProblem>>,
}

/// An object of one of both kinds.
enum Rule<'a> {
    Nat(&'a NatRule),
    Balancer(&'a Balancer),
}

/// Inner addresses of a rule, by family, and its VPC.
struct Inner {
    vpc: Arc<str>,
    v4: Option<String>,
    v6: Option<String>,
    /// Port of the machine.
    machine: Option<Arc<str>>,
}

/// Resolves all rules. Of two that exclude each other the first one has rows.
pub(super) fn resolve(scene: &VpcScene) -> ResolvedRules {
    let connected: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = scene
        .objects
        .vpcs
        .iter()
        .map(|(name, vpc)| {
            let ports = scene.external_ports(vpc).into_iter();
            (name.clone(), ports.map(|port| port.subnet).collect())
        })
        .collect();
    let ports = connected.iter().flat_map(|(vpc, subnets)| {
        let subnets = subnets.iter();
        subnets.map(move |subnet| (port_name(vpc, subnet), vpc.clone()))
    });
    let mut claims = Claims {
        scene,
        ports: ports.collect(),
        connected,
        owners: HashMap::new(),
        used: HashMap::new(),
        inside: Inside::new(),
    };
    let nats = scene.objects.nats.values().flatten().map(|rule| (rule.position, Rule::Nat(rule)));
    let balancers = scene.objects.balancers.values().flatten();
    let mut ordered: Vec<(u64, Rule<'_>)> =
        nats.chain(balancers.map(|one| (one.position, Rule::Balancer(one)))).collect();
    ordered.sort_by_key(|(position, _)| *position);
    let machines = Machines::new(scene);
    let mut resolved = ResolvedRules::default();
    for (_, rule) in ordered {
        match rule {
            Rule::Nat(rule) => {
                resolved.nats.insert(rule.key.clone(), claims.resolve(rule));
            }
            Rule::Balancer(balancer) => {
                let found = claims.resolve_balancer(balancer, &machines);
                resolved.balancers.extend(found.map(|found| (balancer.key.clone(), found)));
            }
        }
    }
    for (key, rule) in &scene.objects.nats {
        if let Err(problem) = rule {
            resolved.nats.insert(key.clone(), Err(problem.clone().into()));
        }
    }
    for (key, balancer) in &scene.objects.balancers {
        if let Err(problem) = balancer {
            resolved.balancers.insert(key.clone(), Err(problem.clone().into()));
        }
    }
    resolved
}

impl<'a> Claims<'a> {
    fn resolve(&mut self, rule: &NatRule) -> Result<WiredNat, NatProblem> {
        let inner = inner(self.scene, rule)?;
        let (eip, names_port) = self.usable_eip(&rule.eip, &inner.vpc)?;
        let rows = rows(rule.key.kind, eip, &inner);
        if rows.is_empty() {
            return Err(NatProblem::Target {
                field: "spec",
                reason: format!("no address has the IP family of OvnEip {}", eip.name),
            });
        }
        self.claim(rule, &rows)?;
        self.owners.insert(eip.name.clone(), inner.vpc.clone());
        let mac = eip.mac.as_deref().map(Arc::from);
        Ok(WiredNat {
            vpc: inner.vpc,
            subnet: eip.subnet.clone(),
            rows,
            names_port,
            port: rule.port,
            machine: inner.machine.filter(|_| rule.is_distributed).zip(mac),
        })
    }

    /// The external address that a VPC may use, and whether the router has several external ports.
    fn usable_eip(&self, name: &Arc<str>, vpc: &Arc<str>) -> Result<(&'a Eip, bool), NatProblem> {
        let eip = self.scene.objects.eips.get(name);
        let eip = eip.ok_or_else(|| NatProblem::NoEip(name.clone()))?;
        check_eip(eip)?;
        let subnets = self.connected.get(vpc);
        let subnets = subnets.filter(|subnets| subnets.contains(&eip.subnet)).ok_or_else(|| {
            NatProblem::NotConnected {
                vpc: vpc.clone(),
                subnet: eip.subnet.clone(),
                eip: eip.name.clone(),
            }
        })?;
        let of_port = self.ports.get(&*eip.name);
        let owner = of_port.or_else(|| self.owners.get(&eip.name));
        if let Some(owner) = owner.filter(|owner| *owner != vpc) {
            return Err(NatProblem::Foreign { eip: eip.name.clone(), owner: owner.clone() });
        }
        Ok((eip, subnets.len() > 1))
    }

    /// Resolves a load balancer. `None`: a service that is in no VPC.
    fn resolve_balancer(
        &mut self,
        balancer: &Balancer,
        machines: &Machines<'_>,
    ) -> Option<Result<WiredBalancer, BalancerProblem>> {
        let scene = self.scene;
        let (BalancerFront::Eip(name), Some((_, vpc))) = (&balancer.front, &balancer.vpc) else {
            let inside = &mut self.inside;
            return scene_balancers::resolve(scene, machines, balancer, None, &[], inside);
        };
        if let Some(problem) = scene_balancers::unknown_vpc(scene, balancer, vpc) {
            return Some(Err(problem));
        }
        let addresses = match self.usable_eip(name, vpc) {
            Ok((eip, _)) => eip.addresses.clone(),
            Err(problem) => return Some(Err(problem.into())),
        };
        // Ports that another rule forwards are left out.
        let mut free = balancer.clone();
        free.ports.retain(|port| {
            let claims: Vec<String> =
                addresses.iter().map(|one| external_port(port.protocol, one, port.port)).collect();
            let taken = claims.iter().find_map(|what| Some((what, self.used.get(what)?)));
            if let Some((what, other)) = taken {
                let reason = format!("{what} is used by {other}");
                free.problems.push(FieldProblem::new(format!("{}.port", port.field), reason));
                return false;
            }
            let key = balancer.key.to_string();
            self.used.extend(claims.into_iter().map(|what| (what, key.clone())));
            true
        });
        self.owners.insert(name.clone(), vpc.clone());
        let vpc = Some(vpc.clone());
        scene_balancers::resolve(scene, machines, &free, vpc, &addresses, &mut self.inside)
    }

    /// Claims the addresses of a rule, or their ports.
    fn claim(&mut self, rule: &NatRule, rows: &[NatRow]) -> Result<(), NatProblem> {
        let claim = |row: &NatRow| match (rule.key.kind, rule.port) {
            (NatKind::Dnat, Some(port)) => {
                external_port(port.protocol, &row.external, port.external)
            }
            (NatKind::Snat, _) => format!("{} for {}", row.external, row.logical),
            _ => row.external.clone(),
        };
        let claimed: Vec<String> = rows.iter().map(claim).collect();
        for what in &claimed {
            if let Some(other) = self.used.get(what) {
                return Err(NatProblem::Taken { what: what.clone(), other: other.clone() });
            }
        }
        self.used.extend(claimed.into_iter().map(|what| (what, rule.key.to_string())));
        Ok(())
    }
}

/// Text for a port of an external address.
fn external_port(protocol: Protocol, address: impl Display, port: u16) -> String {
    format!("{protocol} {address}:{port}")
}

fn check_eip(eip: &Eip) -> Result<(), NatProblem> {
    let not_ready = |reason: String| NatProblem::EipNotReady { eip: eip.name.clone(), reason };
    if let Some(problem) = &eip.problem {
        return Err(not_ready(problem.to_string()));
    }
    if eip.kind == EipKind::NodePort {
        return Err(not_ready("its type is lsp".to_owned()));
    }
    if eip.addresses.is_empty() {
        return Err(not_ready("it has no address yet".to_owned()));
    }
    Ok(())
}

/// Inner addresses of a rule.
fn inner(scene: &VpcScene, rule: &NatRule) -> Result<Inner, NatProblem> {
    match &rule.target {
        NatTarget::Addresses { vpc, v4, v6 } => {
            if !scene.objects.vpcs.contains_key(vpc) {
                return Err(NatProblem::Target {
                    field: "spec.vpc",
                    reason: format!("there is no Vpc {vpc}"),
                });
            }
            let is_range = rule.key.kind == NatKind::Snat;
            let (name4, name6) = if is_range {
                ("spec.v4IpCidr", "spec.v6IpCidr")
            } else {
                ("spec.v4Ip", "spec.v6Ip")
            };
            let read = |name, text: &Option<String>, is_ipv6| {
                let text = text.as_deref();
                text.map(|text| logical(name, text, is_ipv6, is_range)).transpose()
            };
            Ok(Inner {
                vpc: vpc.clone(),
                v4: read(name4, v4, false)?,
                v6: read(name6, v6, true)?,
                machine: None,
            })
        }
        NatTarget::Subnet(name) => {
            let problem = |reason| NatProblem::Target {
                field: "spec.vpcSubnet",
                reason: format!("Subnet {name}: {reason}"),
            };
            let subnet = scene.usable_subnet(name).map_err(problem)?;
            let range = |is_ipv6| {
                let mut nets = subnet.nets.iter();
                let net = nets.find(|net| net.net.addr().is_ipv6() == is_ipv6)?;
                Some(format_net(net.net))
            };
            Ok(Inner { vpc: subnet.vpc.clone(), v4: range(false), v6: range(true), machine: None })
        }
        NatTarget::VirtualIp(name) => {
            let problem = |reason: &dyn Display| NatProblem::Target {
                field: "spec.ipName",
                reason: format!("Vip {name}: {reason}"),
            };
            let (virtual_ip, subnet) = scene.virtual_ip(name).map_err(|reason| problem(&reason))?;
            if virtual_ip.addresses.is_empty() {
                return Err(problem(&"it has no address yet"));
            }
            let address = |is_ipv6| {
                let mut addresses = virtual_ip.addresses.iter();
                Some(addresses.find(|address| address.is_ipv6() == is_ipv6)?.to_string())
            };
            let (v4, v6) = (address(false), address(true));
            Ok(Inner { vpc: subnet.vpc.clone(), v4, v6, machine: None })
        }
        NatTarget::Port(name) => {
            let problem = |reason: String| NatProblem::Target { field: "spec.ipName", reason };
            let port = scene
                .objects
                .ports
                .get(name)
                .ok_or_else(|| problem(format!("there is no IP {name}")))?;
            let subnet = scene.usable_subnet(&port.subnet);
            let subnet =
                subnet.map_err(|reason| problem(format!("Subnet {}: {reason}", port.subnet)))?;
            let address = |is_ipv6| {
                let mut addresses = port.addresses.iter();
                let address = addresses.find(|address| address.is_ipv6() == is_ipv6)?;
                Some(address.to_string())
            };
            Ok(Inner {
                vpc: subnet.vpc.clone(),
                v4: address(false),
                v6: address(true),
                machine: Some(name.clone()),
            })
        }
    }
}

/// An inner address, or a range without host bits.
fn logical(
    field: &'static str,
    text: &str,
    is_ipv6: bool,
    is_range: bool,
) -> Result<String, NatProblem> {
    let address = text.parse::<IpAddr>().ok().filter(|one| one.is_ipv6() == is_ipv6);
    if let Some(address) = address {
        return Ok(address.to_string());
    }
    let net = text.parse::<IpNet>().ok().filter(|_| is_range);
    let net = net.filter(|net| net.addr().is_ipv6() == is_ipv6);
    let family = if is_ipv6 { "IPv6" } else { "IPv4" };
    let reason = if is_range {
        format!("is neither an {family} address nor a range")
    } else {
        format!("is not an {family} address")
    };
    net.map(|net| format_net(net.trunc()))
        .ok_or_else(|| FieldProblem::of_text(field, text, &reason).into())
}

/// Pairs of external and inner addresses: one for each family that both sides have. A floating
/// address may also be of another family than the machine's only one.
fn rows(kind: NatKind, eip: &Eip, inner: &Inner) -> Vec<NatRow> {
    let external = |is_ipv6| {
        let mut addresses = eip.addresses.iter();
        addresses.find(move |address| address.is_ipv6() == is_ipv6)
    };
    let (e4, e6) = (external(false), external(true));
    let pair = |external: Option<&IpAddr>, logical: &Option<String>| {
        Some(NatRow { external: external?.to_string(), logical: logical.clone()? })
    };
    let (v4, v6) = (&inner.v4, &inner.v6);
    let rows: Vec<NatRow> = [pair(e4, v4), pair(e6, v6)].into_iter().flatten().collect();
    let is_crossed = kind == NatKind::Fip && rows.is_empty();
    if is_crossed {
        return [pair(e4, v6), pair(e6, v4)].into_iter().flatten().collect();
    }
    rows
}
