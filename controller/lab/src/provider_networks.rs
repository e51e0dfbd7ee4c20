//! Provider networks of a cluster: nodes with their interfaces, subnets, and VLANs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::vpc::{SubnetNet, VpcScene, vlan_device_id};
use patchbay_reconcile::Cluster;
use patchbay_resources::object::kube_ovn::{ProviderNetwork, ProviderNetworkSpec};
use patchbay_resources::object::{Node, Object as _};
use patchbay_resources::selector;

use super::wire::packet::Mac;

/// Maximum length of the name of a bridge in characters, the limit of the kernel for devices.
const MAX_BRIDGE_CHARS: usize = 15;
/// Bridges of each node that are for no provider network.
const OWN_BRIDGES: [&str; 2] = ["br-int", "br-phys"];

/// A provider network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PlannedNetwork {
    /// Name.
    pub(crate) name: String,
    /// Name of the bridge on its nodes.
    pub(crate) bridge: String,
    /// Tags that the interfaces of nodes add, by node. `None`: the interface is no VLAN device.
    pub(crate) interfaces: BTreeMap<String, Option<u16>>,
    /// Underlay subnets.
    pub(crate) subnets: Vec<PlannedSubnet>,
}

/// An underlay subnet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PlannedSubnet {
    /// Name.
    pub(crate) name: String,
    /// VLAN on the wire; 0: frames have no tag there.
    pub(crate) vlan: u16,
    /// Ranges.
    pub(crate) ranges: Vec<IpNet>,
    /// Addresses of the gateway with the lengths of the ranges.
    pub(crate) gateways: Vec<IpNet>,
    /// `true`: the gateway is a host on the wire, not a router of OVN.
    pub(crate) has_gateway_host: bool,
}

impl PlannedSubnet {
    /// The range of an address, with the address. `None`: the address is not in the subnet.
    pub(crate) fn host(&self, address: IpAddr) -> Option<IpNet> {
        let range = self.ranges.iter().find(|range| range.contains(&address))?;
        IpNet::new(address, range.prefix_len()).ok()
    }
}

/// Ethernet address of a host on a wire, by the number of its endpoint.
pub(crate) fn host_mac(number: usize) -> Mac {
    let [.., b, c, d] = number.to_be_bytes();
    [0x02, 0, 0xfe, b, c, d]
}

/// Provider networks of a cluster by name, and why some have no wire, one line each.
///
/// Hosts are in the VLAN that the default interface tags with. If it is no VLAN device, they are in
/// that of the subnet.
pub(crate) fn planned(cluster: &Cluster, scene: &VpcScene) -> (Vec<PlannedNetwork>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut networks = Vec::new();
    for (key, sourced) in cluster.inventory.provider_networks.iter() {
        let spec = &sourced.object.spec;
        let bridge = format!("br-{}", key.name);
        let reason = if bridge.chars().count() > MAX_BRIDGE_CHARS {
            format!("the name of its bridge, {bridge}, has more than {MAX_BRIDGE_CHARS} characters")
        } else if OWN_BRIDGES.contains(&&*bridge) {
            format!("its bridge, {bridge}, is another one of the lab")
        } else {
            let interfaces = interfaces(cluster, spec);
            if interfaces.is_empty() {
                let about = format!("{} {}", ProviderNetwork::KIND, key.name);
                warnings.push(format!("{about}: no node has an interface of it"));
            }
            networks.push(PlannedNetwork {
                subnets: subnets(scene, &key.name, vlan_device_id(&spec.default_interface)),
                name: key.name.clone(),
                bridge,
                interfaces,
            });
            continue;
        };
        let about = format!("{} {}", ProviderNetwork::KIND, key.name);
        warnings.push(format!("{about}: {reason}, so that it has no wire"));
    }
    (networks, warnings)
}

/// Interfaces of the nodes of a provider network.
fn interfaces(cluster: &Cluster, spec: &ProviderNetworkSpec) -> BTreeMap<String, Option<u16>> {
    let nodes = cluster.inventory.nodes.iter();
    let nodes = nodes.filter(|(_, node)| is_in(&node.object, spec));
    nodes
        .map(|(key, _)| {
            let mut custom = spec.custom_interfaces.iter();
            let own = custom.find(|one| one.nodes.contains(&key.name));
            let interface = own.map_or(&spec.default_interface, |one| &one.interface);
            (key.name.clone(), vlan_device_id(interface))
        })
        .collect()
}

/// `true` if a node is of a provider network. As in Kube-OVN, excluded nodes have no effect beside a
/// selector.
fn is_in(node: &Node, spec: &ProviderNetworkSpec) -> bool {
    match &spec.node_selector {
        Some(wanted) => selector::matches(wanted, node.labels()),
        None => !spec.exclude_nodes.contains(&node.name_any()),
    }
}

fn subnets(scene: &VpcScene, network: &str, device_tag: Option<u16>) -> Vec<PlannedSubnet> {
    let switches = scene.switches().filter_map(|(name, subnet)| {
        let localnet = subnet.localnet.filter(|localnet| &*localnet.network == network)?;
        let tag = localnet.tag.and_then(|tag| tag.try_into().ok()).unwrap_or_default();
        let nets = || subnet.nets.iter();
        Some(PlannedSubnet {
            name: name.to_string(),
            vlan: device_tag.unwrap_or(tag),
            ranges: nets().map(|net| net.net).collect(),
            gateways: nets().map(SubnetNet::gateway_net).collect(),
            has_gateway_host: !subnet.has_router_port && !subnet.nets.is_empty(),
        })
    });
    switches.collect()
}
