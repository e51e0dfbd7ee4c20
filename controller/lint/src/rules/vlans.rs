//! Rules V: provider networks and VLANs.

use std::collections::BTreeMap;

use patchbay_model::vpc::vlan_device_id;
use patchbay_resources::manifests::Sourced;
use patchbay_resources::object::Object as _;
use patchbay_resources::object::kube_ovn::{ProviderNetwork, ProviderNetworkSpec, Vlan};
use patchbay_resources::selector;

use crate::cluster::{Cluster, NodeView, interfaces, name_of, objects};
use crate::report::Report;

use super::objects::is_impossible_id;

/// Maximum length of a provider network's name in characters: the bridge is `br-NAME`, and the
/// kernel permits 15.
const MAX_NETWORK_CHARS: usize = 12;

/// Name of the provider network of a VLAN that names none.
const DEFAULT_NETWORK: &str = "provider";

/// `true` for the name of a VLAN device of the kernel, such as `data.222`.
pub(super) fn is_vlan_device(name: &str) -> bool {
    vlan_device_id(name).is_some()
}

/// VLANs with their provider networks, without those whose network does not exist.
fn vlans<'c>(
    cluster: &'c Cluster<'_>,
) -> impl Iterator<Item = (&'c Sourced<Vlan>, &'c Sourced<ProviderNetwork>)> {
    objects(&cluster.inventory.vlans)
        .filter_map(|vlan| Some((vlan, cluster.provider_network(network_name(vlan))?)))
}

/// Name of a VLAN's provider network.
fn network_name(vlan: &Sourced<Vlan>) -> &str {
    match &*vlan.object.spec.provider {
        "" => DEFAULT_NETWORK,
        name => name,
    }
}

pub(super) fn double_tag(cluster: &Cluster<'_>, report: &mut Report) {
    for (vlan, network) in vlans(cluster) {
        let (id, name) = (vlan.object.spec.id, name_of(vlan));
        let mut devices = interfaces(&network.object.spec);
        let device = devices.find(|(_, name)| is_vlan_device(name));
        if let (Some((_, nic)), 1..) = (device, id) {
            let message = format!(
                "Vlan {name}: interface {nic} of {} is a kernel VLAN device and adds the tag itself; id \
                 {id} would tag twice, and every frame is lost without an error.",
                name_of(network)
            );
            let draft = report.about(vlan).field("spec.id").other(network);
            draft.found(message, "Use id: 0.");
        }
    }
}

pub(super) fn missing_tag(cluster: &Cluster<'_>, report: &mut Report) {
    for (vlan, network) in vlans(cluster) {
        let spec = &network.object.spec;
        if vlan.object.spec.id == 0 && !interfaces(spec).any(|(_, name)| is_vlan_device(name)) {
            let message = format!(
                "Vlan {}: frames leave {} untagged.",
                name_of(vlan),
                spec.default_interface
            );
            let draft = report.about(vlan).field("spec.id").other(network);
            draft.found(message, "Set the VLAN number, unless the switch port is an access port.");
        }
    }
}

pub(super) fn mixed_interfaces(cluster: &Cluster<'_>, report: &mut Report) {
    for network in objects(&cluster.inventory.provider_networks) {
        let all: Vec<_> = interfaces(&network.object.spec).collect();
        let tagging = all.iter().find(|(_, name)| is_vlan_device(name));
        let plain = all.iter().find(|(_, name)| !is_vlan_device(name));
        if let (Some((one, tagging)), Some((other, plain))) = (tagging, plain) {
            let message = format!(
                "ProviderNetwork {}: {tagging} tags, {plain} does not; no single VLAN id fits both.",
                name_of(network)
            );
            // The default interface is the first one; the other one is the exception.
            let field = one.max(other);
            report
                .about(network)
                .field(field)
                .found(message, "Use VLAN devices on all nodes, or on none.");
        }
    }
}

pub(super) fn repeated_id(cluster: &Cluster<'_>, report: &mut Report) {
    let mut first: BTreeMap<(&str, i64), &Sourced<Vlan>> = BTreeMap::new();
    let mut vlans: Vec<_> = objects(&cluster.inventory.vlans).collect();
    // The older one keeps the id.
    vlans.sort_by_key(|vlan| (vlan.object.creation_timestamp(), vlan.position));
    for vlan in vlans {
        let id = vlan.object.spec.id;
        let network = network_name(vlan);
        match first.get(&(network, id)) {
            Some(other) if id != 0 => {
                let (name, owner) = (name_of(vlan), name_of(other));
                let message = format!(
                    "Vlan {name} repeats id {id} of {owner} on {network}: it gets a conflict, and its \
                     subnets fail."
                );
                let repair = format!("Use another id, or Vlan {owner} for both.");
                let draft = report.about(vlan).field("spec.id").other(*other);
                draft.found(message, repair);
            }
            _ => {
                first.insert((network, id), vlan);
            }
        }
    }
}

pub(super) fn dangling_reference(cluster: &Cluster<'_>, report: &mut Report) {
    for vlan in objects(&cluster.inventory.vlans) {
        let network = network_name(vlan);
        if cluster.provider_network(network).is_none() {
            let message = format!(
                "Vlan {} refers to ProviderNetwork {network}, which does not exist; it waits for ever.",
                name_of(vlan)
            );
            let draft = report.about(vlan).field("spec.provider");
            draft.found(message, "Create the ProviderNetwork, or correct the name.");
        }
    }
    for subnet in &cluster.subnets {
        let vlan = &subnet.spec.vlan;
        // A refused VLAN has its own finding.
        let is_refused = || {
            let mut refused = cluster.inventory.refused.iter();
            refused.any(|one| one.kind == Vlan::KIND && one.key.name == *vlan)
        };
        if subnet.is_underlay() && cluster.vlan(vlan).is_none() && !is_refused() {
            let message = format!(
                "Subnet {} refers to Vlan {vlan}, which does not exist; it waits for ever.",
                subnet.name
            );
            let draft = report.about(subnet.sourced).field("spec.vlan");
            draft.found(message, "Create the Vlan, or correct the name.");
        }
    }
}

pub(super) fn long_name(cluster: &Cluster<'_>, report: &mut Report) {
    for network in objects(&cluster.inventory.provider_networks) {
        let name = name_of(network);
        if name.chars().count() > MAX_NETWORK_CHARS {
            let message = format!("The name of the bridge, br-{name}, exceeds 15 characters.");
            let repair = format!("Use a name of at most {MAX_NETWORK_CHARS} characters.");
            let draft = report.about(network).field("metadata.name");
            draft.found(message, repair);
        }
    }
}

pub(super) fn ignored_exclusion(cluster: &Cluster<'_>, report: &mut Report) {
    for network in objects(&cluster.inventory.provider_networks) {
        let spec = &network.object.spec;
        if spec.node_selector.is_some() && !spec.exclude_nodes.is_empty() {
            let message = format!(
                "ProviderNetwork {}: excludeNodes has no effect beside nodeSelector.",
                name_of(network)
            );
            let draft = report.about(network).field("spec.excludeNodes");
            draft.found(message, "Exclude the nodes by the selector.");
        }
    }
}

/// `true` if a node is of a provider network.
fn has_network(node: &NodeView<'_>, spec: &ProviderNetworkSpec) -> bool {
    match &spec.node_selector {
        Some(wanted) => selector::matches(wanted, node.sourced.object.labels()),
        None => !spec.exclude_nodes.iter().any(|name| *name == *node.node.name),
    }
}

pub(super) fn gateway_without_bridge(cluster: &Cluster<'_>, report: &mut Report) {
    let mut networks: Vec<_> = (cluster.external_subnets().into_iter())
        .filter_map(|subnet| cluster.network_of(subnet))
        .collect();
    networks.sort_by_key(|network| name_of(network));
    networks.dedup_by_key(|network| name_of(network));
    for node in cluster.gateway_nodes() {
        for network in &networks {
            let status = network.object.status.as_ref();
            let is_known = |names: &[String]| names.iter().any(|name| *name == *node.node.name);
            let is_late = status.is_some_and(|status| {
                let is_empty = status.ready_nodes.is_empty() && status.not_ready_nodes.is_empty();
                !(is_empty || is_known(&status.ready_nodes))
            });
            if has_network(node, &network.object.spec) && !is_late {
                continue;
            }
            let (name, network_name) = (&node.node.name, name_of(network));
            let message = format!(
                "Node {name} may host external ports but has no bridge for {network_name}; a VPC that is \
                 active there loses its egress."
            );
            let repair = if is_late {
                format!("See the condition of the node in ProviderNetwork {network_name}.")
            } else {
                format!("Remove the label, or add the node to ProviderNetwork {network_name}.")
            };
            let draft = report.about(node.sourced).other(*network);
            draft.field("metadata.labels").found(message, repair);
        }
    }
}

pub(super) fn impossible_id(cluster: &Cluster<'_>, report: &mut Report) {
    let refused = cluster.inventory.refused.iter();
    for object in refused.filter(|object| is_impossible_id(object)) {
        let id = object.json.pointer("/spec/id").map(ToString::to_string);
        let message = format!(
            "Vlan {}: no VLAN has the id {}; Kube-OVN before 1.17 accepts it and fails at each subnet.",
            object.key,
            id.unwrap_or_default()
        );
        let draft = report.about_refused(object).field("spec.id");
        draft.found(message, "Use an id from 0 to 4095.");
    }
}
