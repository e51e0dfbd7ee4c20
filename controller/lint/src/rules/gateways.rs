//! Rules G: external subnets, gateway nodes, default VPC.

use std::collections::BTreeSet;
use std::net::IpAddr;

use patchbay_model::vpc::{CHASSIS, GATEWAY_NODE};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::kube_ovn::VpcSpec;

use crate::cluster::{Cluster, SubnetView, VpcView};
use crate::ranges::{Range, next_address, unusable};
use crate::report::Report;

/// Namespace and name of the `ConfigMap` about the external port of the default VPC.
const EXTERNAL_CONFIG: (&str, &str) = ("kube-system", "ovn-external-gw-config");
/// Number of chassis of a VPC with which a gateway node sees that another one is gone.
const MIN_CHASSIS: usize = 3;

pub(super) fn missing_external(cluster: &Cluster<'_>, report: &mut Report) {
    let external = cluster.external_subnet();
    let other = cluster.subnets.iter().find(|subnet| subnet.can_be_external());
    for vpc in cluster.custom_vpcs() {
        if vpc.has_default_external() && cluster.subnet(external).is_none() {
            let hint = other.map(|other| {
                format!(
                    " {} is an underlay subnet: rename it, or list it in extraExternalSubnets.",
                    other.name
                )
            });
            let message = format!(
                "Vpc {}: enableExternal looks for a Subnet called {external} and found none.{}",
                vpc.name,
                hint.unwrap_or_default()
            );
            let mut draft = report.about(vpc.sourced).field("spec.enableExternal");
            if let Some(other) = other {
                draft = draft.other(other.sourced);
            }
            draft.found(
                message,
                format!(
                    "Create an underlay subnet with the name {external} in Vpc {}.",
                    cluster.default_vpc()
                ),
            );
        } else if vpc.has_external() {
            missing_listed(cluster, vpc, report);
        }
    }
}

/// Reports listed external subnets that do not exist.
fn missing_listed(cluster: &Cluster<'_>, vpc: &VpcView<'_>, report: &mut Report) {
    let listed = vpc.spec.extra_external_subnets.iter().flatten();
    for (index, name) in listed.enumerate() {
        if cluster.subnet(name).is_none() {
            let message = format!(
                "Vpc {}: extraExternalSubnets names Subnet {name}, which does not exist.",
                vpc.name
            );
            let draft =
                report.about(vpc.sourced).field(format!("spec.extraExternalSubnets[{index}]"));
            draft.found(message, "Create the subnet, or correct the name.");
        }
    }
}

pub(super) fn unsuitable_external(cluster: &Cluster<'_>, report: &mut Report) {
    let mut wanted: Vec<&str> = Vec::new();
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        wanted.extend(&vpc.externals);
    }
    wanted.sort_unstable();
    wanted.dedup();
    for subnet in wanted.iter().filter_map(|name| cluster.subnet(name)) {
        if let Some((field, reason)) = unsuitability(cluster, subnet) {
            let message = format!("Subnet {} cannot serve enableExternal: {reason}.", subnet.name);
            let draft = report.about(subnet.sourced).field(field);
            draft.found(message, "Correct the field.");
        }
    }
}

/// Field and reason why a subnet cannot be external.
fn unsuitability(cluster: &Cluster<'_>, subnet: &SubnetView<'_>) -> Option<(&'static str, String)> {
    let default = cluster.default_vpc();
    if !subnet.is_underlay() {
        Some(("spec.vlan", "it has no vlan".to_owned()))
    } else if subnet.spec.logical_gateway {
        Some(("spec.logicalGateway", "it has logicalGateway".to_owned()))
    } else if subnet.vpc != default {
        Some(("spec.vpc", format!("it is not in Vpc {default}")))
    } else if subnet.name == cluster.external_subnet() && !cluster.flags.has_eip_snat {
        let reason = "the controller runs with --enable-eip-snat=false".to_owned();
        Some(("metadata.name", reason))
    } else {
        None
    }
}

pub(super) fn no_gateway_node(cluster: &Cluster<'_>, report: &mut Report) {
    // Without any node, their labels are unknown.
    if cluster.nodes.is_empty() || cluster.gateway_nodes().next().is_some() {
        return;
    }
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let message = format!(
            "Vpc {}: no gateway node; its EIP and SNAT rules would look ready while nothing leaves the VPC.",
            vpc.name
        );
        let repair = format!("Label nodes first: {GATEWAY_NODE}=true.");
        let draft = report.about(vpc.sourced).field("spec.enableExternal");
        draft.found(message, repair);
    }
}

pub(super) fn label_stripper(cluster: &Cluster<'_>, report: &mut Report) {
    let (namespace, name) = EXTERNAL_CONFIG;
    let config = cluster.inventory.config_maps.get(&ObjectKey::namespaced(namespace, name));
    let data = config.and_then(|config| config.object.data.as_ref());
    let enabled = data.and_then(|data| data.get("enable-external-gw"));
    let is_off = config.is_none() || enabled.is_some_and(|value| value == "false");
    let mut nodes = cluster.gateway_nodes();
    let (true, true, Some(node)) = (cluster.flags.has_eip_snat, is_off, nodes.next()) else {
        return;
    };
    let default = cluster.default_vpc();
    let external = cluster.external_subnet();
    let vpc = cluster.vpc(default);
    let is_silent = vpc.is_some_and(|vpc| {
        let status = vpc.sourced.object.status.as_ref();
        !vpc.externals.is_empty()
            || status.is_some_and(|status| !status.extra_external_subnets.is_empty())
    });
    if is_silent {
        return;
    }
    let draft = match vpc {
        Some(vpc) => report.about(vpc.sourced),
        None => report.about_text(format!("Vpc/{default}")),
    };
    draft.field("spec.extraExternalSubnets").other(node.sourced).found(
        "A restart of Kube-OVN's controller sets external-gw=false on every labelled node.",
        format!("Set spec.extraExternalSubnets: [{external}] on Vpc {default}."),
    );
}

pub(super) fn default_vpc_fields(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(vpc) = cluster.vpc(cluster.default_vpc()) else {
        return;
    };
    let wanted = VpcSpec {
        extra_external_subnets: vpc.spec.extra_external_subnets.clone(),
        ..VpcSpec::default()
    };
    // An object of a cluster has what the controller wrote.
    if *vpc.spec != wanted && vpc.sourced.object.metadata.uid.is_none() {
        let message = format!(
            "Vpc {}: the manifest has more than extraExternalSubnets; the rest belongs to the controller.",
            vpc.name
        );
        let repair = "Apply extraExternalSubnets only, with server-side apply.";
        report.about(vpc.sourced).field("spec").found(message, repair);
    }
}

pub(super) fn gateway_without_chassis(cluster: &Cluster<'_>, report: &mut Report) {
    for node in cluster.gateway_nodes().filter(|node| node.node.chassis.is_none()) {
        let message = format!(
            "Node {} is labelled as gateway but has no chassis; one such node blocks every new external VPC.",
            node.node.name
        );
        let repair = format!("Remove the label until Kube-OVN has set the annotation {CHASSIS}.");
        let draft = report.about(node.sourced).field("metadata.annotations");
        draft.found(message, repair);
    }
}

pub(super) fn single_gateway(cluster: &Cluster<'_>, report: &mut Report) {
    let is_used = cluster.custom_vpcs().any(VpcView::has_external);
    let mut nodes = cluster.gateway_nodes();
    if let (true, Some(node), None) = (is_used, nodes.next(), nodes.next()) {
        let message = format!(
            "Node {} is the only gateway node: external ports have no failover.",
            node.node.name
        );
        let draft = report.about(node.sourced).field("metadata.labels");
        draft.found(message, format!("Label a second node: {GATEWAY_NODE}=true."));
    }
}

pub(super) fn ignored_gateway_type(cluster: &Cluster<'_>, report: &mut Report) {
    for subnet in &cluster.subnets {
        if subnet.can_be_external() && !subnet.spec.gateway_type.is_empty() {
            let message = format!(
                "Subnet {}: gatewayType has no effect here; NAT runs on the active gateway node of each VPC.",
                subnet.name
            );
            let draft = report.about(subnet.sourced).field("spec.gatewayType");
            draft.found(message, "Remove the field, or expect one active node per VPC.");
        }
    }
}

pub(super) fn no_reserved_address(cluster: &Cluster<'_>, report: &mut Report) {
    for subnet in cluster.external_subnets() {
        let Some(net) = subnet.cidrs.first() else {
            continue;
        };
        let excluded: Vec<Range> =
            (subnet.spec.exclude_ips.iter()).filter_map(|text| Range::parse(text, "..")).collect();
        let is_plain = |range: &Range| {
            range.first == range.last && unusable(&range.first, net, &subnet.gateways).is_some()
        };
        if !excluded.iter().all(is_plain) {
            continue;
        }
        let taken: BTreeSet<IpAddr> = (cluster.inventory.ovn_eips.iter())
            .flat_map(|(_, eip)| [&eip.object.spec.v4_ip, &eip.object.spec.v6_ip])
            .filter_map(|text| text.parse().ok())
            .collect();
        let mut addresses =
            std::iter::successors(Some(net.network()), |address| next_address(*address))
                .take_while(|address| net.contains(address));
        let free = addresses.find(|address| {
            !taken.contains(address) && unusable(address, net, &subnet.gateways).is_none()
        });
        let next = free.map_or_else(String::new, |free| format!("; {free} goes to the next VPC"));
        let message = format!("Subnet {}: no address is kept for edge NAT{next}.", subnet.name);
        let draft = report.about(subnet.sourced).field("spec.excludeIps");
        draft.found(
            message,
            "List reserved addresses in excludeIps. Network and broadcast address need no entry.",
        );
    }
}

pub(super) fn no_third_chassis(cluster: &Cluster<'_>, report: &mut Report) {
    let gateways: Vec<&str> = cluster.gateway_nodes().map(|node| &*node.node.name).collect();
    let [first, second, ..] = *gateways else {
        return;
    };
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let mut nodes: BTreeSet<&str> = gateways.iter().copied().collect();
        nodes.extend(cluster.nodes_of(vpc));
        if nodes.len() < MIN_CHASSIS {
            let message = format!(
                "Vpc {}: if {first} fails, {second} sees no other chassis, takes itself for cut off, and does \
                 not take over.",
                vpc.name
            );
            let draft = report.about(vpc.sourced).field("spec.enableExternal");
            draft.found(message, format!("Label a third node: {GATEWAY_NODE}=true."));
        }
    }
}
