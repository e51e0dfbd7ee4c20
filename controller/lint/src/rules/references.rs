//! References of load balancers' rules, virtual addresses, pools and security groups.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::vpc::AddressRange;
use patchbay_resources::manifests::{InventoryKind, ObjectKey, Sourced};
use patchbay_resources::object::Object as _;
use patchbay_resources::object::kube_ovn::{IPPool, LBRulePort, SecurityGroupRule};

use crate::cluster::{Cluster, name_of, objects};
use crate::report::{Report, reference};

/// Annotation of a `SwitchLBRule` or service: name of its VPC.
const ROUTER: &str = "ovn.kubernetes.io/logical_router";
/// Annotation of a pod: names of its virtual addresses, with commas between them.
const ADDRESS_PAIRS: &str = "ovn.kubernetes.io/aaps";

pub(super) fn balancer_without_vpc(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    for rule in objects(&inventory.router_lb_rules) {
        check_vpc(cluster, rule, &rule.object.spec.vpc, "spec.vpc", report);
    }
    let field = format!("metadata.annotations[{ROUTER}]");
    for rule in objects(&inventory.switch_lb_rules) {
        let vpc = rule.object.annotations().get(ROUTER);
        check_vpc(cluster, rule, vpc.map(String::as_str).unwrap_or_default(), &field, report);
    }
    for service in objects(&inventory.services) {
        let vpc = service.object.annotations().get(ROUTER);
        check_vpc(cluster, service, vpc.map(String::as_str).unwrap_or_default(), &field, report);
    }
}

fn check_vpc<T: InventoryKind>(
    cluster: &Cluster<'_>,
    object: &Sourced<T>,
    vpc: &str,
    field: &str,
    report: &mut Report,
) {
    if vpc.is_empty() || vpc == cluster.default_vpc() || cluster.vpc(vpc).is_some() {
        return;
    }
    let message =
        format!("{} {}: there is no Vpc {vpc}; Kube-OVN only logs it.", T::KIND, name_of(object));
    report.about(object).field(field).found(message, "Correct the name, or create the Vpc.");
}

pub(super) fn equal_ports(cluster: &Cluster<'_>, report: &mut Report) {
    for rule in objects(&cluster.inventory.switch_lb_rules) {
        check_ports(rule, &rule.object.spec.ports, report);
    }
    for rule in objects(&cluster.inventory.router_lb_rules) {
        check_ports(rule, &rule.object.spec.ports, report);
    }
}

fn check_ports<T: InventoryKind>(object: &Sourced<T>, ports: &[LBRulePort], report: &mut Report) {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let protocol = match &*port.protocol {
            "" => "TCP".to_owned(),
            other => other.to_ascii_uppercase(),
        };
        let is_new = numbers.insert((port.port, protocol.clone()));
        let (field, what) = if !is_new {
            ("port", format!("two ports are {} of {protocol}", port.port))
        } else if names.insert(&*port.name) {
            continue;
        } else if port.name.is_empty() {
            ("name", "two ports have no name".to_owned())
        } else {
            ("name", format!("two ports have the name {}", port.name))
        };
        let message = format!(
            "{} {}: {what}; the API server refuses the Service that Kube-OVN makes of it, and nothing is \
             balanced.",
            T::KIND,
            name_of(object)
        );
        let draft = report.about(object).field(format!("spec.ports[{index}].{field}"));
        draft.found(message, "Give each port a name and a number of its own.");
    }
}

pub(super) fn missing_subnet(cluster: &Cluster<'_>, report: &mut Report) {
    for vip in objects(&cluster.inventory.vips) {
        check_subnet(cluster, vip, &vip.object.spec.subnet, report);
    }
    for pool in objects(&cluster.inventory.ip_pools) {
        check_subnet(cluster, pool, &pool.object.spec.subnet, report);
    }
}

fn check_subnet<T: InventoryKind>(
    cluster: &Cluster<'_>,
    object: &Sourced<T>,
    subnet: &str,
    report: &mut Report,
) {
    if subnet.is_empty() || cluster.subnet(subnet).is_some() {
        return;
    }
    let message = format!(
        "{} {}: there is no Subnet {subnet}, so that no address follows.",
        T::KIND,
        name_of(object)
    );
    let draft = report.about(object).field("spec.subnet");
    draft.found(message, "Correct the name, or create the Subnet.");
}

pub(super) fn missing_virtual_ip(cluster: &Cluster<'_>, report: &mut Report) {
    for pod in objects(&cluster.inventory.pods) {
        let Some(text) = pod.object.annotations().get(ADDRESS_PAIRS) else {
            continue;
        };
        let namespace = pod.object.metadata.namespace.as_deref().unwrap_or_default();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let reason = match cluster.inventory.vips.named(name) {
                None => format!("there is no Vip {name}"),
                Some(vip) if vip.spec.namespace != namespace => {
                    format!("Vip {name} is for namespace {:?}", vip.spec.namespace)
                }
                Some(_) => continue,
            };
            let message = format!(
                "Pod {namespace}/{}: {reason}; Kube-OVN skips it, and packets with the address may be lost.",
                name_of(pod)
            );
            let draft = report.about(pod).field(format!("metadata.annotations[{ADDRESS_PAIRS}]"));
            draft.found(message, "Name a Vip of the namespace of the pod.");
        }
    }
}

pub(super) fn shared_pool_address(cluster: &Cluster<'_>, report: &mut Report) {
    let mut pools: Vec<&Sourced<IPPool>> = objects(&cluster.inventory.ip_pools).collect();
    pools.sort_by_key(|pool| pool.position);
    let mut used: BTreeMap<&str, Vec<(AddressRange, &Sourced<IPPool>)>> = BTreeMap::new();
    for pool in pools {
        let spec = &pool.object.spec;
        let of_subnet = used.entry(&spec.subnet).or_default();
        let mut own = Vec::new();
        for (index, text) in spec.ips.iter().enumerate() {
            let Some(range) = AddressRange::parse_any(text) else {
                continue;
            };
            own.push((range, pool));
            if let Some((_, other)) = of_subnet.iter().find(|(other, _)| other.overlaps(range)) {
                let message = format!(
                    "IPPool {}: {range} has addresses of {}; no pod gets addresses of it.",
                    name_of(pool),
                    reference(other)
                );
                let draft = report.about(pool).other(other).field(format!("spec.ips[{index}]"));
                draft.found(message, "Use addresses that no other pool of the Subnet has.");
            }
        }
        of_subnet.extend(own);
    }
}

pub(super) fn unused_group(cluster: &Cluster<'_>, report: &mut Report) {
    let of_pods = cluster.pods.iter().flat_map(|pod| {
        let ports = pod.ports.iter();
        ports.filter_map(|port| Some(port.annotation(&pod.sourced.object, "security_groups")?.1))
    });
    let mut used: BTreeSet<&str> =
        of_pods.flat_map(|text| text.split(',').map(str::trim)).collect();
    let groups = objects(&cluster.inventory.security_groups);
    let rules = groups.flat_map(|group| {
        let spec = &group.object.spec;
        spec.ingress_rules.iter().chain(&spec.egress_rules)
    });
    used.extend(rules.map(|rule| &*rule.remote_security_group));
    // Without pods it is unknown which groups they have.
    if cluster.pods.is_empty() {
        return;
    }
    for group in objects(&cluster.inventory.security_groups) {
        let name = name_of(group);
        if !used.contains(name) {
            let message = format!("SecurityGroup {name}: no port and no rule has it.");
            report
                .about(group)
                .found(message, "Name it in the annotation security_groups of a pod.");
        }
    }
}

pub(super) fn missing_remote_group(cluster: &Cluster<'_>, report: &mut Report) {
    for group in objects(&cluster.inventory.security_groups) {
        let spec = &group.object.spec;
        let lists = [("ingressRules", &spec.ingress_rules), ("egressRules", &spec.egress_rules)];
        for (list, rules) in lists {
            for (index, rule) in rules.iter().enumerate() {
                let SecurityGroupRule { remote_security_group: remote, .. } = rule;
                let key = ObjectKey::cluster(&**remote);
                if remote.is_empty() || cluster.inventory.security_groups.get(&key).is_some() {
                    continue;
                }
                let message = format!(
                    "SecurityGroup {}: there is no SecurityGroup {remote}; Kube-OVN stops at this rule, and \
                     the group keeps its former rules.",
                    name_of(group)
                );
                let field = format!("spec.{list}[{index}].remoteSecurityGroup");
                let draft = report.about(group).field(field);
                draft.found(message, "Correct the name, or create the SecurityGroup.");
            }
        }
    }
}
