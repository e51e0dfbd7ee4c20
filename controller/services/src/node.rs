//! Nodes as load balancers depend on them.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{ClusterSettings, Network, Topology, Uplink, names};
use patchbay_zone::ZoneNode;

/// Place of a network on the zone's node.
#[derive(Debug)]
pub(super) struct NodePlace {
    /// Name of the network's switch.
    pub(super) switch: String,
    /// Gateway router. `None`: the node has no gateway.
    pub(super) gateway: Option<NodeGateway>,
    /// Addresses of node ports. Empty: the node forwards none.
    pub(super) node_port_addresses: Vec<IpAddr>,
}

/// Gateway router of a network.
#[derive(Debug)]
pub(super) struct NodeGateway {
    /// Name of the router.
    pub(super) router: String,
    /// Addresses of the node that the gateway router has, too.
    pub(super) addresses: Vec<IpAddr>,
}

impl NodePlace {
    /// The place of a network on a node. `None`: the network has no switch there yet.
    pub(super) fn new(
        node: &ZoneNode,
        network: &Network,
        settings: &ClusterSettings,
    ) -> Option<Self> {
        let of = &node.node;
        let has_switch =
            network.topology == Topology::Layer2 || of.subnets.contains_key(&network.name);
        let known = node.uplink.clone();
        let of_cluster = known.map(|uplink| uplink.of_families(settings));
        // Without a chassis id, gateway routers have no place.
        let is_enabled = |uplink: &&Uplink| uplink.is_enabled && of.chassis_id.is_some();
        let gateway = of_cluster.as_ref().filter(is_enabled);
        let has_node_ports = gateway.is_some_and(|uplink| uplink.has_node_ports(settings));
        has_switch.then(|| Self {
            switch: network.switch(&of.name),
            gateway: gateway.map(|uplink| NodeGateway {
                router: names::gateway_router(&network.name, &of.name),
                addresses: uplink.addresses.iter().map(IpNet::addr).collect(),
            }),
            node_port_addresses: if has_node_ports {
                node.addresses(of_cluster.as_ref())
            } else {
                Vec::new()
            },
        })
    }
}
