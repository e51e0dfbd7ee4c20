//! Rules D: name servers of machines, and names of services.

use std::collections::BTreeMap;
use std::net::IpAddr;

use patchbay_model::vpc::AttachmentProvider;
use patchbay_reach::Protocol;
use patchbay_resources::manifests::{ObjectKey, Sourced};
use patchbay_resources::object::kube_ovn::VpcDns;
use patchbay_resources::object::{Object as _, Service};
use serde_json::Value;

use crate::cluster::{Cluster, SubnetView, VpcView, name_of, objects};
use crate::policies::{Policy, Probes};
use crate::ranges::{Range, is_ipv4};
use crate::report::Report;

use super::metallb::node_networks;
use super::routes::routes;

/// Namespace and name of the `ConfigMap` of name servers in VPCs.
const DNS_CONFIG: (&str, &str) = ("kube-system", "vpc-dns-config");
/// Name of the attachment definition of name servers, if the `ConfigMap` names none.
const DNS_DEFINITION: &str = "ovn-nad";
/// Namespace of the attachment definition of name servers.
const DNS_NAMESPACE: &str = "default";
/// Annotation of a service: its name in the DNS.
const HOSTNAME: &str = "external-dns.alpha.kubernetes.io/hostname";
/// Port of name servers.
const DNS_PORT: u16 = 53;

/// Name servers of a subnet's DHCP options, with the paths of their fields.
fn name_servers(subnet: &SubnetView<'_>) -> Vec<(&'static str, IpAddr)> {
    let fields = [
        ("spec.dhcpV4Options", &subnet.spec.dhcp_v4_options),
        ("spec.dhcpV6Options", &subnet.spec.dhcp_v6_options),
    ];
    let mut servers = Vec::new();
    for (field, text) in fields {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let values = text
            .split(',')
            .filter_map(|option| option.split_once('='))
            .filter(|(key, _)| *key == "dns_server")
            .map(|(_, value)| value);
        for value in values {
            let addresses = value.trim_matches(['{', '}']).split(';');
            servers.extend(addresses.filter_map(|text| Some((field, text.parse().ok()?))));
        }
    }
    servers
}

pub(super) fn unreachable_server(cluster: &Cluster<'_>, report: &mut Report) {
    for subnet in cluster.subnets.iter().filter(|subnet| subnet.spec.enable_dhcp) {
        let Some(vpc) = cluster
            .vpc(subnet.vpc)
            .filter(|vpc| !vpc.is_default)
            .filter(|_| subnet.has_router_port())
        else {
            continue;
        };
        for (field, server) in name_servers(subnet) {
            if let Some(reason) = server_problem(cluster, vpc, subnet, server) {
                let message = format!(
                    "Machines of {} cannot reach name server {server}: {reason}.",
                    subnet.name
                );
                let draft = report.about(subnet.sourced).other(vpc.sourced).field(field);
                draft.found(message, "Use a name server that the VPC reaches, or a VpcDns.");
            }
        }
    }
}

/// Reason why machines of a subnet cannot reach a name server.
fn server_problem(
    cluster: &Cluster<'_>,
    vpc: &VpcView<'_>,
    subnet: &SubnetView<'_>,
    server: IpAddr,
) -> Option<String> {
    if subnet.cidrs.iter().any(|net| net.contains(&server)) {
        return None;
    }
    // Load balancers of the VPC answer on its switches.
    let mut balancers = objects(&cluster.inventory.switch_lb_rules);
    let is_vip =
        balancers.any(|rule| rule.object.spec.vip.split(',').any(|vip| vip.parse() == Ok(server)));
    if is_vip {
        return None;
    }
    let mut ranges = cluster.service_ranges().into_iter();
    if let Some(range) = ranges.find(|range| range.contains(&server)) {
        return Some(format!("it is in the service range {range} of the under cluster"));
    }
    let mut probes = Probes::of(cluster, vpc);
    probes.sources.retain(|source| subnet.cidrs.iter().any(|net| net.contains(source)));
    probes.destinations = vec![server];
    probes.protocols = vec![Protocol::Udp(DNS_PORT)];
    probes.inputs = vec![Some(format!("{}-{}", vpc.name, subnet.name))];
    let mut policies = Policy::of(cluster, vpc);
    policies.sort_by_key(|policy| std::cmp::Reverse(policy.spec.priority));
    let mut dropping = None;
    probes.find(|packet| {
        let first = policies.iter().find(|policy| policy.matches(packet));
        dropping = first.filter(|policy| policy.is_drop()).map(|policy| policy.index);
        dropping.is_some()
    });
    if let Some(index) = dropping {
        return Some(format!("policy {index} of Vpc {} drops the packets", vpc.name));
    }
    let mut networks = cluster.router_networks(vpc).into_iter();
    let has_route = routes(vpc).any(|route| {
        let source = subnet.cidrs.iter().find(|net| is_ipv4(&net.addr()) == is_ipv4(&server));
        route.net.is_some_and(|net| {
            let by_source = source.is_some_and(|source| net.contains(source));
            if route.is_by_source { by_source } else { net.contains(&server) }
        })
    });
    let is_routed = has_route || networks.any(|(_, net)| net.contains(&server));
    (!is_routed && cluster.is_router_known(vpc))
        .then(|| format!("Vpc {} has no route to it", vpc.name))
}

pub(super) fn no_server(cluster: &Cluster<'_>, report: &mut Report) {
    for subnet in cluster.subnets.iter().filter(|subnet| subnet.spec.enable_dhcp) {
        if name_servers(subnet).is_empty() {
            let message = format!("Machines of {} get no name server.", subnet.name);
            let draft = report.about(subnet.sourced).field("spec.dhcpV4Options");
            draft.found(message, "Add dns_server=<address> to the DHCP options.");
        }
    }
}

pub(super) fn inactive_server(cluster: &Cluster<'_>, report: &mut Report) {
    let mut servers: Vec<&Sourced<VpcDns>> = objects(&cluster.inventory.vpc_dnses).collect();
    servers.sort_by_key(|server| server.position);
    let mut first: BTreeMap<&str, &Sourced<VpcDns>> = BTreeMap::new();
    for server in servers {
        let message = |missing: String| {
            format!("VpcDns {}: {missing}; it never becomes active.", name_of(server))
        };
        if let Some(missing) = missing_config(cluster) {
            report.about(server).found(message(missing), "Create it.");
        }
        let vpc = &*server.object.spec.vpc;
        let other = *first.entry(vpc).or_insert(server);
        if name_of(other) != name_of(server) {
            let other_name = name_of(other);
            let draft = report.about(server).other(other).field("spec.vpc");
            draft.found(
                message(format!("VpcDns {other_name} is the one of Vpc {vpc}")),
                "Delete one of them.",
            );
        }
    }
}

/// What all name servers lack.
fn missing_config(cluster: &Cluster<'_>) -> Option<String> {
    let (namespace, name) = DNS_CONFIG;
    let config = cluster.inventory.config_maps.get(&ObjectKey::namespaced(namespace, name));
    let Some(config) = config else {
        return Some(format!("ConfigMap {namespace}/{name} is missing"));
    };
    let entry = |key: &str| {
        let value = config.object.data.as_ref().and_then(|data| data.get(key));
        value.map(String::as_str).filter(|value| !value.is_empty())
    };
    if entry("coredns-vip").is_none() {
        return Some(format!("coredns-vip in ConfigMap {namespace}/{name} is missing"));
    }
    let definition = entry("nad-name").unwrap_or(DNS_DEFINITION);
    let wanted = AttachmentProvider::new(DNS_NAMESPACE, definition);
    cluster
        .attachment(&wanted)
        .is_none()
        .then(|| format!("NetworkAttachmentDefinition {DNS_NAMESPACE}/{definition} is missing"))
}

pub(super) fn unattached_server(cluster: &Cluster<'_>, report: &mut Report) {
    if cluster.flags.is_secondary != Some(true) {
        return;
    }
    for server in objects(&cluster.inventory.vpc_dnses) {
        let message = format!(
            "VpcDns {}: in non-primary mode its CoreDNS pods get no interface in {}; names do not resolve.",
            name_of(server),
            server.object.spec.vpc
        );
        report.about(server).found(message, "Use a name server outside of the VPC.");
    }
}

/// Addresses of a service of type `LoadBalancer`.
fn balancer_addresses(service: &Service) -> Vec<IpAddr> {
    let status = service.status.as_ref();
    let ingress = status
        .and_then(|status| status.pointer("/loadBalancer/ingress"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    ingress.filter_map(|one| one.get("ip")?.as_str()?.parse().ok()).collect()
}

pub(super) fn unreachable_name(cluster: &Cluster<'_>, report: &mut Report) {
    let networks = node_networks(cluster);
    let pools: Vec<(Range, &str)> = objects(&cluster.inventory.ip_address_pools)
        .flat_map(|pool| {
            let ranges = pool.object.spec.addresses.iter();
            ranges.filter_map(move |text| Some((Range::parse(text, "-")?, name_of(pool))))
        })
        .filter(|(range, _)| networks.iter().any(|net| Range::from(*net).overlaps(range)))
        .collect();
    for service in objects(&cluster.inventory.services) {
        let Some(host) = service.object.annotations().get(HOSTNAME) else {
            continue;
        };
        let spec = service.object.spec.as_ref();
        let is_balancer = spec.is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
        let addresses = balancer_addresses(&service.object);
        let managed = addresses.iter().find_map(|address| {
            let mut pools = pools.iter();
            let (_, pool) = pools.find(|(range, _)| range.contains(address))?;
            Some((address, pool))
        });
        let message = match (managed, is_balancer) {
            (Some((address, pool)), _) => format!(
                "{host} will point to {address}, which is of pool {pool} on the management network."
            ),
            (None, false) if addresses.is_empty() => {
                format!("{host} will point to no address: the Service is not of type LoadBalancer.")
            }
            (None, true) if addresses.is_empty() && service.object.status.is_some() => {
                format!("{host} will point to no address: the Service has none.")
            }
            _ => continue,
        };
        let draft = report.about(service).field(format!("metadata.annotations[{HOSTNAME}]"));
        draft.found(message, "Give the Service an address that its clients reach.");
    }
}
