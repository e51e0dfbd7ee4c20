//! Rules about external addresses, with their references resolved.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{FieldProblem, format_net};

use super::eip::{Eip, EipKind};
use super::nat::{NatKey, NatKind, NatRule, NatTarget};
use super::problem::NatProblem;
use super::scene::{VpcScene, port_name};
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
    /// First rule that uses an address, or a port of it.
    used: HashMap<String, NatKey>,
}

/// Inner addresses of a rule, by family, and its VPC.
struct Inner {
    vpc: Arc<str>,
    v4: Option<String>,
    v6: Option<String>,
    /// Port and MAC address of the machine.
    machine: Option<(Arc<str>, Arc<str>)>,
}

/// Resolves all rules. Of two that exclude each other the first one has rows.
pub(super) fn resolve(scene: &VpcScene) -> BTreeMap<NatKey, Result<WiredNat, NatProblem>> {
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
    };
    let mut ordered: Vec<&NatRule> = scene.objects.nats.values().flatten().collect();
    ordered.sort_by_key(|rule| rule.position);
    let mut resolved: BTreeMap<NatKey, Result<WiredNat, NatProblem>> =
        ordered.into_iter().map(|rule| (rule.key.clone(), claims.resolve(rule))).collect();
    for (key, rule) in &scene.objects.nats {
        if let Err(problem) = rule {
            resolved.insert(key.clone(), Err(problem.clone().into()));
        }
    }
    resolved
}

impl Claims<'_> {
    fn resolve(&mut self, rule: &NatRule) -> Result<WiredNat, NatProblem> {
        let scene = self.scene;
        let eip = scene.objects.eips.get(&rule.eip);
        let eip = eip.ok_or_else(|| NatProblem::NoEip(rule.eip.clone()))?;
        check_eip(eip)?;
        let inner = inner(scene, rule)?;
        let subnets = self.connected.get(&inner.vpc);
        let subnets = subnets.filter(|subnets| subnets.contains(&eip.subnet)).ok_or_else(|| {
            NatProblem::NotConnected {
                vpc: inner.vpc.clone(),
                subnet: eip.subnet.clone(),
                eip: eip.name.clone(),
            }
        })?;
        let names_port = subnets.len() > 1;
        let of_port = self.ports.get(&*eip.name);
        let owner = of_port.or_else(|| self.owners.get(&eip.name));
        if let Some(owner) = owner.filter(|owner| **owner != inner.vpc) {
            return Err(NatProblem::Foreign { eip: eip.name.clone(), owner: owner.clone() });
        }
        let rows = rows(rule.key.kind, eip, &inner);
        if rows.is_empty() {
            return Err(NatProblem::Target {
                field: "spec",
                reason: format!("no address has the IP family of OvnEip {}", eip.name),
            });
        }
        self.claim(rule, &rows)?;
        self.owners.insert(eip.name.clone(), inner.vpc.clone());
        Ok(WiredNat {
            vpc: inner.vpc,
            subnet: eip.subnet.clone(),
            rows,
            names_port,
            port: rule.port,
            machine: inner.machine.filter(|_| rule.is_distributed),
        })
    }

    /// Claims the addresses of a rule, or their ports.
    fn claim(&mut self, rule: &NatRule, rows: &[NatRow]) -> Result<(), NatProblem> {
        let claim = |row: &NatRow| match (rule.key.kind, rule.port) {
            (NatKind::Dnat, Some(port)) => {
                format!("{} {}:{}", port.protocol, row.external, port.external)
            }
            (NatKind::Snat, _) => format!("{} for {}", row.external, row.logical),
            _ => row.external.clone(),
        };
        let claimed: Vec<String> = rows.iter().map(claim).collect();
        for what in &claimed {
            if let Some(other) = self.used.get(what) {
                return Err(NatProblem::Taken { what: what.clone(), other: other.to_string() });
            }
        }
        let claimed = claimed.into_iter();
        self.used.extend(claimed.map(|what| (what, rule.key.clone())));
        Ok(())
    }
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
                machine: Some((name.clone(), port.mac.clone())),
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
