//! Rules A: external addresses and their translation.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_resources::manifests::Sourced;
use patchbay_resources::object::kube_ovn::OvnSnatRule;

use crate::cluster::{Cluster, name_of, objects};
use crate::nat::NatRule;
use crate::ranges::{is_ipv4, read_addresses, unusable};
use crate::report::{Report, reference};

use super::routes::routes;

/// Calls a function for each rule of all kinds.
macro_rules! for_each_rule {
    ($cluster:expr, $check:expr) => {{
        let inventory = $cluster.inventory;
        objects(&inventory.ovn_snat_rules).for_each($check);
        objects(&inventory.ovn_dnat_rules).for_each($check);
        objects(&inventory.ovn_fips).for_each($check);
        objects(&inventory.router_lb_rules).for_each($check);
    }};
}

pub(super) fn missing_eip(cluster: &Cluster<'_>, report: &mut Report) {
    for_each_rule!(cluster, |rule| check_eip(cluster, rule, report));
}

fn check_eip<T: NatRule>(cluster: &Cluster<'_>, rule: &Sourced<T>, report: &mut Report) {
    let eip = rule.object.eip();
    if cluster.eip_view(eip).is_some() {
        return;
    }
    let vpc = cluster.vpc_of_rule(rule).filter(|vpc| vpc.has_external());
    let automatic = vpc.and_then(|vpc| {
        let external = cluster.externals_of(vpc).next()?;
        Some(format!("{}-{}", vpc.name, external.name))
    });
    let (kind, name) = (T::KIND, name_of(rule));
    let missing = if eip.is_empty() {
        "no EIP is named".to_owned()
    } else {
        format!("there is no EIP {eip}")
    };
    let hint = match (&automatic, vpc) {
        (Some(automatic), Some(vpc)) => {
            format!("; the automatic one of {} is called {automatic}", vpc.name)
        }
        (None, Some(vpc)) => {
            format!("; Vpc {} makes none, because its external subnet is missing", vpc.name)
        }
        (_, None) => String::new(),
    };
    let repair = match &automatic {
        Some(automatic) => format!("Use ovnEip: {automatic}, or create the OvnEip."),
        None => "Create the OvnEip, or correct the name.".to_owned(),
    };
    let draft = report.about(rule).field("spec.ovnEip");
    draft.found(format!("{kind} {name}: {missing}{hint}."), repair);
}

pub(super) fn unconnected_rule(cluster: &Cluster<'_>, report: &mut Report) {
    for_each_rule!(cluster, |rule| check_connection(cluster, rule, report));
}

fn check_connection<T: NatRule>(cluster: &Cluster<'_>, rule: &Sourced<T>, report: &mut Report) {
    let external = cluster.eip_view(rule.object.eip()).and_then(|eip| eip.external);
    let (Some(external), Some(vpc)) =
        (external, cluster.vpc_of_rule(rule).filter(|vpc| !vpc.is_default))
    else {
        return;
    };
    if vpc.externals.contains(&external.name) {
        return;
    }
    let message = format!(
        "{} {}: Vpc {} has no port on {}.",
        T::KIND,
        name_of(rule),
        vpc.name,
        external.name
    );
    let draft = report.about(rule).other(vpc.sourced).other(external.sourced);
    let repair = format!(
        "Connect the VPC (enableExternal, extraExternalSubnets), or use an EIP of another subnet than {}.",
        external.name
    );
    draft.field("spec.ovnEip").found(message, repair);
}

pub(super) fn foreign_eip(cluster: &Cluster<'_>, report: &mut Report) {
    for_each_rule!(cluster, |rule| check_owner(cluster, rule, report));
}

fn check_owner<T: NatRule>(cluster: &Cluster<'_>, rule: &Sourced<T>, report: &mut Report) {
    let eip = rule.object.eip();
    let (Some(owner), Some(vpc)) =
        (cluster.eip_view(eip).and_then(|eip| eip.owner), cluster.vpc_of_rule(rule))
    else {
        return;
    };
    if owner != vpc.name {
        let message = format!(
            "{} {} of Vpc {}: EIP {eip} belongs to Vpc {owner}.",
            T::KIND,
            name_of(rule),
            vpc.name
        );
        let draft = report.about(rule).field("spec.ovnEip");
        draft.found(message, format!("Use an EIP of Vpc {}.", vpc.name));
    }
}

/// SNAT rules with their VPC and sources, in the order of the manifests.
fn snat_rules<'c>(
    cluster: &'c Cluster<'_>,
) -> Vec<(&'c Sourced<OvnSnatRule>, &'c str, Vec<IpNet>)> {
    let mut rules: Vec<_> = objects(&cluster.inventory.ovn_snat_rules)
        .filter_map(|rule| {
            let vpc = cluster.vpc_of_rule(rule)?;
            Some((rule, vpc.name, cluster.snat_sources(rule)))
        })
        .collect();
    rules.sort_by_key(|(rule, _, _)| rule.position);
    rules
}

pub(super) fn equal_snat(cluster: &Cluster<'_>, report: &mut Report) {
    let mut first: BTreeMap<(&str, &str, IpNet), &Sourced<OvnSnatRule>> = BTreeMap::new();
    for (rule, vpc, sources) in snat_rules(cluster) {
        for source in sources {
            let other = *first.entry((vpc, rule.object.eip(), source)).or_insert(rule);
            if name_of(other) != name_of(rule) {
                let message = format!(
                    "{} and {} share one NAT row for {source}; deleting one breaks the other.",
                    name_of(other),
                    name_of(rule)
                );
                report.about(rule).other(other).found(message, "Delete one of them.");
                break;
            }
        }
    }
}

pub(super) fn ambiguous_snat(cluster: &Cluster<'_>, report: &mut Report) {
    let mut first: BTreeMap<(&str, IpNet, &str), &Sourced<OvnSnatRule>> = BTreeMap::new();
    for (rule, vpc, sources) in snat_rules(cluster) {
        let Some(external) = cluster.eip_view(rule.object.eip()).and_then(|eip| eip.external)
        else {
            continue;
        };
        for source in sources {
            let other = *first.entry((vpc, source, external.name)).or_insert(rule);
            let (eip, other_eip) = (rule.object.eip(), other.object.eip());
            if eip != other_eip {
                let message = format!(
                    "{} and {}: OVN uses {other_eip} or {eip} for {source}, as it likes.",
                    name_of(other),
                    name_of(rule)
                );
                let draft = report.about(rule).other(other).field("spec.ovnEip");
                draft.found(
                    message,
                    "Use one EIP of the external subnet, or sources of different lengths.",
                );
                break;
            }
        }
    }
}

pub(super) fn taken_port(cluster: &Cluster<'_>, report: &mut Report) {
    let mut ports: BTreeMap<(&str, String, &str), String> = BTreeMap::new();
    let mut rules: Vec<_> = objects(&cluster.inventory.ovn_dnat_rules).collect();
    rules.sort_by_key(|rule| rule.position);
    for rule in rules {
        let spec = &rule.object.spec;
        let protocol = spec.protocol.to_ascii_lowercase();
        let key = (&*spec.ovn_eip, protocol, spec.external_port.trim());
        let (eip, port) = (&spec.ovn_eip, spec.external_port.trim());
        let protocol = key.1.clone();
        if let Some(other) = ports.insert(key, reference(rule)) {
            let message = format!(
                "OvnDnatRule {}: {eip}:{port}/{protocol} is used by {other}.",
                name_of(rule)
            );
            let draft = report.about(rule).field("spec.externalPort");
            draft.found(message, "Use another port, or another EIP.");
        }
    }
    let mut floating: BTreeMap<&str, String> = BTreeMap::new();
    let mut fips: Vec<_> = objects(&cluster.inventory.ovn_fips).collect();
    fips.sort_by_key(|fip| fip.position);
    for fip in fips {
        let eip = &*fip.object.spec.ovn_eip;
        if let Some(other) = floating.insert(eip, reference(fip)) {
            let message = format!("OvnFip {}: {eip} is used by {other}.", name_of(fip));
            let draft = report.about(fip).field("spec.ovnEip");
            draft.found(message, "Use another EIP.");
        }
    }
}

pub(super) fn unusable_eip(cluster: &Cluster<'_>, report: &mut Report) {
    let mut taken: BTreeMap<(&str, IpAddr), String> = BTreeMap::new();
    let mut eips: Vec<_> = objects(&cluster.inventory.ovn_eips).collect();
    eips.sort_by_key(|eip| eip.position);
    for eip in eips {
        let Some(subnet) = cluster.external_of(eip).filter(|subnet| !subnet.cidrs.is_empty())
        else {
            continue;
        };
        let spec = &eip.object.spec;
        for (field, text) in [("spec.v4Ip", &spec.v4_ip), ("spec.v6Ip", &spec.v6_ip)] {
            for address in read_addresses(text) {
                let mut nets = subnet.cidrs.iter();
                let net = nets.find(|net| is_ipv4(&net.addr()) == is_ipv4(&address));
                let reason = net.map_or(Some("the subnet has no addresses of the family"), |net| {
                    unusable(&address, net, &subnet.gateways)
                });
                let other = taken.insert((subnet.name, address), reference(eip));
                let reason = match (reason, other) {
                    (Some(reason), _) => reason.to_owned(),
                    (None, Some(other)) => format!("{other} has it"),
                    (None, None) => continue,
                };
                let message = format!(
                    "OvnEip {}: {address} cannot be used in {}: {reason}.",
                    name_of(eip),
                    subnet.name
                );
                let draft = report.about(eip).other(subnet.sourced).field(field);
                draft.found(message, "Use a free address of the subnet.");
            }
        }
    }
}

pub(super) fn no_snat(cluster: &Cluster<'_>, report: &mut Report) {
    let mut sources: BTreeMap<&str, Vec<IpNet>> = BTreeMap::new();
    for (_, vpc, nets) in snat_rules(cluster) {
        sources.entry(vpc).or_default().extend(nets);
    }
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let translated = sources.get(vpc.name).map_or(&[][..], Vec::as_slice);
        for subnet in cluster.overlays_of(vpc) {
            let open = subnet.cidrs.iter().find(|net| {
                routes(vpc).any(|route| route.is_default(is_ipv4(&net.addr())))
                    && !translated.iter().any(|source| source.contains(*net))
            });
            if open.is_some() {
                let message = format!(
                    "Machines of {} leave with their private address and get no answer.",
                    subnet.name
                );
                let draft = report.about(subnet.sourced).other(vpc.sourced);
                let repair = format!("Add an OvnSnatRule with vpcSubnet: {}.", subnet.name);
                draft.field("spec.cidrBlock").found(message, repair);
            }
        }
    }
}
