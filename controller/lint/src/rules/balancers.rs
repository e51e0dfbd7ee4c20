//! Rules B: load balancers in VPCs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_resources::manifests::{InventoryKind, Sourced};
use patchbay_resources::object::kube_ovn::{LBRulePort, OvnDnatRule, RouterLBRule, SwitchLBRule};
use patchbay_resources::object::{Object as _, Service};

use crate::cluster::{Cluster, name_of, objects};
use crate::nat::NatRule;
use crate::report::{Report, Subject, reference};

/// Maximum number of load balancers that a message lists.
const MAX_LISTED: usize = 5;
/// Annotations of services that Kube-OVN makes for rules.
const VIP_ANNOTATIONS: [&str; 2] =
    ["ovn.kubernetes.io/switch_lb_vip", "ovn.kubernetes.io/router_lb_vip"];
/// Annotation of a service: name of its VPC.
const ROUTER_ANNOTATION: &str = "ovn.kubernetes.io/logical_router";
/// Label of an `EndpointSlice`: name of its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// VPC, address or name of the external address, port and protocol.
type Vip<'a> = (&'a str, String, String, String);

/// An object that wants an address and port.
struct Claim<'a> {
    kind: &'static str,
    subject: Subject,
    vip: Vip<'a>,
    field: String,
}

fn protocol(text: &str) -> String {
    if text.is_empty() { "tcp".to_owned() } else { text.to_ascii_lowercase() }
}

/// Claims of a rule's ports at an address.
fn claims<'a, T: InventoryKind>(
    object: &Sourced<T>,
    vpc: &'a str,
    address: &str,
    ports: &[LBRulePort],
) -> Vec<Claim<'a>> {
    let ports = ports.iter().enumerate();
    ports
        .map(|(index, port)| Claim {
            kind: T::KIND,
            subject: Subject::of(object),
            vip: (vpc, address.to_owned(), port.port.to_string(), protocol(&port.protocol)),
            field: format!("spec.ports[{index}].port"),
        })
        .collect()
}

/// Name of the VPC of a subnet that has an address. `None`: no VPC, or several.
fn vpc_of_address<'a>(cluster: &Cluster<'a>, address: &str) -> Option<&'a str> {
    let address: IpAddr = address.trim().parse().ok()?;
    let subnets = cluster.subnets.iter();
    let found = subnets.filter(|subnet| subnet.cidrs.iter().any(|net| net.contains(&address)));
    let mut vpcs: Vec<&str> = found.map(|subnet| subnet.vpc).collect();
    vpcs.dedup();
    match *vpcs {
        [vpc] => Some(vpc),
        _ => None,
    }
}

/// Name of the VPC of the first pod with these labels, `key:value` each.
fn vpc_of_selector<'a>(
    cluster: &Cluster<'a>,
    namespace: &str,
    selector: &[String],
) -> Option<&'a str> {
    let labels: Vec<_> = selector.iter().filter_map(|text| text.split_once(':')).collect();
    if labels.is_empty() {
        return None;
    }
    let mut pods = cluster.pods.iter().filter(|pod| pod.namespace == namespace);
    let pod = pods.find(|pod| {
        let own = pod.sourced.object.labels();
        let mut labels = labels.iter();
        labels.all(|(key, value)| own.get(key.trim()).is_some_and(|own| own == value.trim()))
    })?;
    let subnet = pod.ports.iter().find_map(|port| port.subnet(cluster))?;
    Some(subnet.vpc)
}

/// Name of the VPC of a rule's load balancers.
fn vpc_of_switch_rule<'a>(cluster: &Cluster<'a>, rule: &Sourced<SwitchLBRule>) -> &'a str {
    let spec = &rule.object.spec;
    let mut endpoints = spec.endpoints.iter();
    let by_endpoints = endpoints.find_map(|address| vpc_of_address(cluster, address));
    let by_pods = || vpc_of_selector(cluster, &spec.namespace, &spec.selector);
    let by_vip = || spec.vip.split(',').find_map(|address| vpc_of_address(cluster, address));
    by_endpoints.or_else(by_pods).or_else(by_vip).unwrap_or(cluster.default_vpc())
}

/// Name of the VPC of a service's load balancers: that of an annotation, or of an endpoint.
fn vpc_of_service<'a>(cluster: &Cluster<'a>, service: &'a Sourced<Service>) -> &'a str {
    if let Some(vpc) = service.object.annotations().get(ROUTER_ANNOTATION) {
        return vpc;
    }
    let slices = objects(&cluster.inventory.endpoint_slices).filter(|slice| {
        let (slice, service) = (&slice.object, &service.object);
        let name = slice.labels().get(SERVICE_LABEL);
        slice.metadata.namespace == service.metadata.namespace
            && name.is_some_and(|name| *name == service.name_any())
    });
    let mut addresses = slices
        .flat_map(|slice| slice.object.endpoints.iter().flatten())
        .flat_map(|endpoint| &endpoint.addresses);
    let found = addresses.find_map(|address| vpc_of_address(cluster, address));
    found.unwrap_or(cluster.default_vpc())
}

/// Services with a VPC, without those that Kube-OVN makes for rules.
fn services<'a>(cluster: &Cluster<'a>) -> Vec<(&'a Sourced<Service>, &'a str)> {
    let services = objects(&cluster.inventory.services).filter(|service| {
        let annotations = service.object.annotations();
        !VIP_ANNOTATIONS.iter().any(|key| annotations.contains_key(*key))
    });
    services.map(|service| (service, vpc_of_service(cluster, service))).collect()
}

fn all_claims<'a>(cluster: &Cluster<'a>) -> Vec<Claim<'a>> {
    let inventory = cluster.inventory;
    let mut all = Vec::new();
    for (service, vpc) in services(cluster) {
        let Some(spec) = &service.object.spec else {
            continue;
        };
        let mut addresses: Vec<&String> = spec
            .cluster_ips
            .iter()
            .flatten()
            .chain(&spec.cluster_ip)
            .filter(|ip| ip.parse::<IpAddr>().is_ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        for address in addresses {
            for (index, port) in spec.ports.iter().flatten().enumerate() {
                let protocol = protocol(port.protocol.as_deref().unwrap_or_default());
                all.push(Claim {
                    kind: Service::KIND,
                    subject: Subject::of(service),
                    vip: (vpc, address.clone(), port.port.to_string(), protocol),
                    field: format!("spec.ports[{index}].port"),
                });
            }
        }
    }
    for rule in objects(&inventory.switch_lb_rules) {
        let vpc = vpc_of_switch_rule(cluster, rule);
        let spec = &rule.object.spec;
        for vip in spec.vip.split(',').map(str::trim).filter(|vip| !vip.is_empty()) {
            all.extend(claims(rule, vpc, vip, &spec.ports));
        }
    }
    for rule in objects(&inventory.router_lb_rules) {
        let spec = &rule.object.spec;
        all.extend(claims(rule, &spec.vpc, &spec.ovn_eip, &spec.ports));
    }
    for rule in objects(&inventory.ovn_dnat_rules) {
        let Some(vpc) = cluster.vpc_of_rule(rule) else {
            continue;
        };
        let spec = &rule.object.spec;
        all.push(Claim {
            kind: OvnDnatRule::KIND,
            subject: Subject::of(rule),
            vip: (
                vpc.name,
                rule.object.eip().to_owned(),
                spec.external_port.trim().to_owned(),
                protocol(&spec.protocol),
            ),
            field: "spec.externalPort".to_owned(),
        });
    }
    all.sort_by_key(|claim| claim.subject.position);
    all
}

pub(super) fn claimed_twice(cluster: &Cluster<'_>, report: &mut Report) {
    let mut first: BTreeMap<Vip<'_>, Claim<'_>> = BTreeMap::new();
    for claim in all_claims(cluster) {
        let Some(other) = first.get(&claim.vip) else {
            first.insert(claim.vip.clone(), claim);
            continue;
        };
        // Two rules of one kind for one external port are rule A3.
        let is_other_rule = claim.kind == OvnDnatRule::KIND && other.kind == OvnDnatRule::KIND;
        if claim.subject.reference == other.subject.reference || is_other_rule {
            continue;
        }
        let (_, address, port, _) = &claim.vip;
        let message = format!(
            "{address}:{port} is claimed by {} and {}; the one that is written last wins, and deleting either \
             breaks both.",
            other.subject.reference, claim.subject.reference
        );
        let draft = report.about_subject(claim.subject).other_subject(&other.subject);
        draft.field(claim.field).found(message, "Use another address or port.");
    }
}

pub(super) fn shared_health_check(cluster: &Cluster<'_>, report: &mut Report) {
    // Kube-OVN finds health checks by their addresses alone, in all VPCs.
    if !cluster.is_kube_ovn_live() {
        return;
    }
    let mut first: BTreeMap<(String, i32), (&str, &Sourced<SwitchLBRule>)> = BTreeMap::new();
    let mut rules: Vec<_> = objects(&cluster.inventory.switch_lb_rules).collect();
    rules.sort_by_key(|rule| rule.position);
    for rule in rules {
        let vpc = vpc_of_switch_rule(cluster, rule);
        let spec = &rule.object.spec;
        let vips = spec.vip.split(',').map(str::trim).filter(|vip| vip.contains('.'));
        let pairs =
            vips.flat_map(|vip| spec.ports.iter().map(move |port| (vip.to_owned(), port.port)));
        for pair in pairs {
            let (other_vpc, other) = *first.entry(pair.clone()).or_insert((vpc, rule));
            if other_vpc != vpc {
                let message = format!(
                    "{} and {} share a health check of {}:{}; deleting one can end the other.",
                    reference(other),
                    reference(rule),
                    pair.0,
                    pair.1
                );
                let draft = report.about(rule).other(other).field("spec.vip");
                draft.found(message, "Use addresses that differ between VPCs.");
                break;
            }
        }
    }
}

pub(super) fn equal_numbers(cluster: &Cluster<'_>, report: &mut Report) {
    let external = [OvnDnatRule::KIND, RouterLBRule::KIND];
    let mut first: BTreeMap<(String, String), Claim<'_>> = BTreeMap::new();
    for claim in all_claims(cluster).into_iter().filter(|claim| external.contains(&claim.kind)) {
        let (_, eip, port, protocol) = claim.vip.clone();
        let Some(other) = first.get(&(eip.clone(), port.clone())) else {
            first.insert((eip, port), claim);
            continue;
        };
        let has_router_rule = [claim.kind, other.kind].contains(&RouterLBRule::KIND);
        let is_other_object = claim.subject.reference != other.subject.reference;
        if has_router_rule && is_other_object && other.vip.3 != protocol {
            let message = format!(
                "{} and {} use port {port} of {eip} with different protocols; Kube-OVN compares numbers only and \
                 refuses {}.",
                other.subject.reference, claim.subject.reference, claim.subject.reference
            );
            let draft = report.about_subject(claim.subject).other_subject(&other.subject);
            draft.field(claim.field).found(message, "Use another port, or another EIP.");
        }
    }
}

pub(super) fn opened_balancers(cluster: &Cluster<'_>, report: &mut Report) {
    let mut inside: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (service, vpc) in services(cluster) {
        inside.entry(vpc).or_default().push(reference(service));
    }
    for rule in objects(&cluster.inventory.switch_lb_rules) {
        let vpc = vpc_of_switch_rule(cluster, rule);
        inside.entry(vpc).or_default().push(reference(rule));
    }
    for rule in objects(&cluster.inventory.router_lb_rules) {
        let vpc = &rule.object.spec.vpc;
        let Some(list) = inside.get(&**vpc) else {
            continue;
        };
        let external = cluster.eip_view(&rule.object.spec.ovn_eip).and_then(|eip| eip.external);
        let external = external.map_or("its external subnet", |subnet| subnet.name);
        let message = format!(
            "RouterLBRule {}: Kube-OVN hangs all load balancers of {vpc} on its router: {} answer on {external}, \
             too.",
            name_of(rule),
            abbreviate_list(list, MAX_LISTED)
        );
        let draft = report.about(rule).field("spec.vpc");
        draft.found(message, "Use an OvnDnatRule, or a VPC without other load balancers.");
    }
}
