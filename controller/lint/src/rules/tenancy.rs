//! Rules T: tenants, their names and walls.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_resources::manifests::{InventoryKind, ObjectKey, Sourced};
use patchbay_resources::object::Object as _;

use crate::cluster::{Cluster, SubnetView, VpcView, name_of, objects};
use crate::policies::{Policy, Probes, wall_addresses};
use crate::ranges::Range;
use crate::report::Report;

/// Annotation of a Vip: names of its security groups, with commas between them.
const SECURITY_GROUPS: &str = "ovn.kubernetes.io/security_groups";

pub(super) fn foreign_namespace(cluster: &Cluster<'_>, report: &mut Report) {
    // The first VPC in the order of the manifests owns the namespace.
    let mut owners: BTreeMap<&str, &VpcView<'_>> = BTreeMap::new();
    let mut vpcs: Vec<_> = cluster.custom_vpcs().collect();
    vpcs.sort_by_key(|vpc| vpc.sourced.position);
    for vpc in vpcs {
        for (index, namespace) in vpc.spec.namespaces.iter().enumerate() {
            let owner = *owners.entry(namespace).or_insert(vpc);
            if owner.name != vpc.name {
                let message = format!(
                    "Namespace {namespace} belongs to both Vpc {} and Vpc {}.",
                    owner.name, vpc.name
                );
                let draft = report
                    .about(vpc.sourced)
                    .other(owner.sourced)
                    .field(format!("spec.namespaces[{index}]"));
                draft.found(message, "Remove it from one of them.");
            }
        }
    }
    for subnet in &cluster.subnets {
        let vpc = cluster.vpc(subnet.vpc);
        for (index, namespace) in subnet.spec.namespaces.iter().enumerate() {
            let message = match (vpc, owners.get(&**namespace)) {
                (Some(vpc), _) if !vpc.is_default => {
                    if vpc.spec.namespaces.contains(namespace) {
                        continue;
                    }
                    format!(
                        "Subnet {}: namespace {namespace} is not part of Vpc {}; the subnet is not made, and \
                         its status has no reason.",
                        subnet.name, vpc.name
                    )
                }
                (_, Some(owner)) if subnet.vpc == cluster.default_vpc() => format!(
                    "Subnet {} of the default VPC: namespace {namespace} belongs to Vpc {}.",
                    subnet.name, owner.name
                ),
                _ => continue,
            };
            let draft = report.about(subnet.sourced).field(format!("spec.namespaces[{index}]"));
            draft.found(message, "Add the namespace to the VPC, or remove it from the subnet.");
        }
    }
}

/// `true` if a name begins with `<tenant>-<cluster>-`.
fn is_of_tenant_cluster(name: &str, tenant: &str) -> bool {
    let rest = name.strip_prefix(tenant).and_then(|rest| rest.strip_prefix('-'));
    let parts = rest.and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(cluster, own)| !cluster.is_empty() && !own.is_empty())
}

fn has_prefix(name: &str, tenant: &str) -> bool {
    let rest = name.strip_prefix(tenant).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| !rest.is_empty())
}

pub(super) fn subnet_names(cluster: &Cluster<'_>, report: &mut Report) {
    for subnet in &cluster.subnets {
        let Some(vpc) = cluster.vpc(subnet.vpc).filter(|vpc| !vpc.is_default) else {
            continue;
        };
        let mut tenants = vpc.spec.namespaces.iter().chain(&subnet.spec.namespaces);
        let Some(tenant) = vpc.spec.namespaces.first().or(subnet.spec.namespaces.first()) else {
            continue;
        };
        if !tenants.any(|tenant| is_of_tenant_cluster(subnet.name, tenant)) {
            let message = format!(
                "Subnet names are cluster-wide: {} must start with {tenant}-<cluster>-.",
                subnet.name
            );
            let draft = report.about(subnet.sourced).field("metadata.name");
            draft.found(message, "Create the subnet anew with another name.");
        }
    }
}

pub(super) fn tenant_prefixes(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        check_prefix(vpc.sourced, Some(vpc), report);
    }
    for eip in objects(&cluster.inventory.ovn_eips) {
        // The address of a router port has the name of its port.
        if cluster.automatic_eip(name_of(eip)).is_none() {
            check_prefix(eip, cluster.owner_of_eip(eip), report);
        }
    }
    for rule in objects(&cluster.inventory.ovn_snat_rules) {
        check_prefix(rule, cluster.vpc_of_rule(rule), report);
    }
    for rule in objects(&cluster.inventory.ovn_dnat_rules) {
        check_prefix(rule, cluster.vpc_of_rule(rule), report);
    }
    for rule in objects(&cluster.inventory.ovn_fips) {
        check_prefix(rule, cluster.vpc_of_rule(rule), report);
    }
}

fn check_prefix<T: InventoryKind>(
    object: &Sourced<T>,
    vpc: Option<&VpcView<'_>>,
    report: &mut Report,
) {
    let Some(vpc) = vpc.filter(|vpc| !vpc.is_default) else {
        return;
    };
    let tenants = &vpc.spec.namespaces;
    let name = name_of(object);
    if let (Some(tenant), false) =
        (tenants.first(), tenants.iter().any(|one| has_prefix(name, one)))
    {
        let message = format!("{} {name} lacks the tenant prefix {tenant}-.", T::KIND);
        let draft = report.about(object).field("metadata.name");
        draft.found(message, "Create the object anew with another name.");
    }
}

pub(super) fn foreign_pod(cluster: &Cluster<'_>, report: &mut Report) {
    for pod in &cluster.pods {
        for port in &pod.ports {
            let Some(subnet) = port.subnet(cluster) else {
                continue;
            };
            let Some(vpc) = cluster.vpc(subnet.vpc).filter(|vpc| !vpc.is_default) else {
                continue;
            };
            if vpc.spec.namespaces.iter().any(|one| one == pod.namespace) {
                continue;
            }
            let message = format!(
                "Pod {}/{} may not join subnet {} of Vpc {}: the VPC does not list the namespace, and Kube-OVN \
                 does not check it.",
                pod.namespace, pod.name, subnet.name, vpc.name
            );
            let draft = report
                .about(pod.sourced)
                .other(subnet.sourced)
                .other(vpc.sourced)
                .field("metadata.annotations");
            draft.found(message, "Add the namespace to the VPC, or use a network of the tenant.");
        }
    }
}

pub(super) fn no_wall(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let policies = Policy::of(cluster, vpc);
        for external in cluster.externals_of(vpc) {
            for net in &external.cidrs {
                let mut probes = Probes::of(cluster, vpc);
                probes.destinations = wall_addresses(net, &external.gateways);
                let mut walls = policies.iter().filter(|policy| policy.is_drop());
                let open =
                    probes.find(|packet| !walls.clone().any(|policy| policy.matches(packet)));
                if open.is_none() || walls.any(|wall| wall.parsed.is_err()) {
                    continue;
                }
                let family = if net.addr().is_ipv4() { "ip4" } else { "ip6" };
                let message =
                    format!("Tenants of {} can reach other tenants' addresses in {net}.", vpc.name);
                let repair =
                    format!("Add a policy route: match: {family}.dst == {net}, action: drop.");
                let draft = report.about(vpc.sourced).other(external.sourced);
                draft.field("spec.policyRoutes").found(message, repair);
            }
        }
    }
}

pub(super) fn opened_wall(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let policies = Policy::of(cluster, vpc);
        for policy in policies.iter().filter(|policy| !policy.is_drop()) {
            for external in cluster.externals_of(vpc) {
                let mut probes = Probes::of(cluster, vpc).with_constants(&policy.spec.match_);
                for net in &external.cidrs {
                    probes.destinations.extend(wall_addresses(net, &external.gateways));
                }
                let is_external =
                    |address: &IpAddr| external.cidrs.iter().any(|net| net.contains(address));
                probes.destinations.retain(is_external);
                let walls = policies
                    .iter()
                    .filter(|wall| wall.is_drop() && wall.spec.priority <= policy.spec.priority);
                let opened = walls.clone().find(|wall| {
                    let opened =
                        probes.find(|packet| policy.matches(packet) && wall.matches(packet));
                    opened.is_some()
                });
                if let Some(wall) = opened {
                    let message = format!(
                        "Vpc {}: policy {} (priority {}) opens the wall of policy {} (priority {}) for {}.",
                        vpc.name,
                        policy.index,
                        policy.spec.priority,
                        wall.index,
                        wall.spec.priority,
                        policy.spec.match_
                    );
                    let draft = report.about(vpc.sourced).field(policy.field());
                    draft.found(
                        message,
                        format!(
                            "Use a priority below {}, or a narrower match.",
                            wall.spec.priority
                        ),
                    );
                    break;
                }
            }
        }
    }
}

pub(super) fn private_subnet(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        for subnet in cluster.overlays_of(vpc).filter(|subnet| subnet.spec.private) {
            let allowed = match &*subnet.spec.allow_subnets {
                [] => "its own subnet".to_owned(),
                allowed => allowed.join(", "),
            };
            let message = format!(
                "Subnet {} is private: it cannot go out either, only to {allowed}.",
                subnet.name
            );
            let draft = report.about(subnet.sourced).field("spec.private");
            draft.found(message, "Use acls of the subnet, or policies of the VPC.");
        }
    }
}

pub(super) fn overlapping_subnets(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in &cluster.vpcs {
        let mut ranges: Vec<(Range, IpNet, &SubnetView<'_>)> = (cluster.connected_with(vpc))
            .flat_map(|subnet| subnet.cidrs.iter().map(move |net| ((*net).into(), *net, subnet)))
            .collect();
        check_overlaps(&mut ranges, &mut *report);
        // Underlays of one VLAN are in one layer 2 network.
        let mut of_vlans: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        let underlays = cluster.subnets_of(vpc).filter(|subnet| subnet.is_underlay());
        for subnet in underlays.filter(|subnet| !subnet.has_router_port()) {
            let nets = subnet.cidrs.iter().map(|net| ((*net).into(), *net, subnet));
            of_vlans.entry(&subnet.spec.vlan).or_default().extend(nets);
        }
        for mut ranges in of_vlans.into_values() {
            check_overlaps(&mut ranges, report);
        }
    }
}

/// Reports ranges that overlap, each once, with the one that reaches furthest before it.
fn check_overlaps(ranges: &mut [(Range, IpNet, &SubnetView<'_>)], report: &mut Report) {
    ranges.sort_by_key(|(range, _, _)| *range);
    let mut widest: Option<(Range, IpNet, &SubnetView<'_>)> = None;
    for &(range, net, subnet) in &*ranges {
        if let Some((other_range, other_net, other)) = widest
            && other_range.overlaps(&range)
            && other.name != subnet.name
        {
            let is_later = other.sourced.position < subnet.sourced.position;
            let [(first, first_net), (later, later_net)] = if is_later {
                [(other, other_net), (subnet, net)]
            } else {
                [(subnet, net), (other, other_net)]
            };
            let message =
                format!("{} {later_net} overlaps {} {first_net}.", later.name, first.name);
            let draft = report.about(later.sourced).other(first.sourced).field("spec.cidrBlock");
            draft.found(message, "Use ranges without common addresses in one VPC.");
        }
        let reaches_further = |(other, _, _): &(Range, _, _)| {
            range.last > other.last || range.first.is_ipv4() != other.first.is_ipv4()
        };
        if widest.as_ref().is_none_or(reaches_further) {
            widest = Some((range, net, subnet));
        }
    }
}

pub(super) fn missing_groups(cluster: &Cluster<'_>, report: &mut Report) {
    let exists = |name: &str| {
        let key = ObjectKey::cluster(name);
        cluster.inventory.security_groups.get(&key).is_some()
    };
    let missing = |text: &str| {
        let groups: Vec<&str> =
            text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        (!groups.is_empty() && !groups.iter().any(|group| exists(group))).then(|| groups.join(", "))
    };
    let message = |port: &str, groups: &str| {
        format!("{port}: no group of {groups} exists, so nothing is denied: the port is open.")
    };
    let repair = "Create the SecurityGroup, or correct the name.";
    for pod in &cluster.pods {
        for port in &pod.ports {
            let Some((key, text)) = port.annotation(&pod.sourced.object, "security_groups") else {
                continue;
            };
            if let Some(groups) = missing(text) {
                let port = format!("Pod {}/{}, port of {}", pod.namespace, pod.name, port.provider);
                let draft = report.about(pod.sourced).field(format!("metadata.annotations[{key}]"));
                draft.found(message(&port, &groups), repair);
            }
        }
    }
    for vip in objects(&cluster.inventory.vips) {
        let text = vip.object.annotations().get(SECURITY_GROUPS);
        if let Some(groups) = text.and_then(|text| missing(text)) {
            let port = format!("Vip {}", name_of(vip));
            let draft = report.about(vip).field(format!("metadata.annotations[{SECURITY_GROUPS}]"));
            draft.found(message(&port, &groups), repair);
        }
    }
}
