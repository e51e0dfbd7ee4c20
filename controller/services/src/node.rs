//! Nodes as load balancers depend on them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, Network, Node, NodeObject, Topology, Uplink, host_addresses, names,
};

/// A node with its addresses and its gateway.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceNode {
    name: String,
    /// Addresses of the annotation. `None`: those of the uplink.
    host_addresses: Option<Vec<IpAddr>>,
    /// From the annotation, or derived from the node's id. `None`: neither is known.
    uplink: Option<Uplink>,
    /// `true` if the chassis id is known. Without it, gateway routers have no place.
    has_chassis: bool,
    subnets: BTreeMap<String, Vec<IpNet>>,
}

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

impl ServiceNode {
    /// Reads a node. An annotation that cannot be read counts as missing, and is reported elsewhere.
    pub(super) fn read(object: NodeObject<'_>) -> Self {
        let (node, _) = Node::read(object.name, object.annotations, None);
        let uplink = Uplink::read(object.annotations);
        Self {
            uplink: uplink.or_else(|| node.id.map(Uplink::derived)),
            has_chassis: node.chassis_id.is_some(),
            name: node.name,
            host_addresses: host_addresses(object.annotations).unwrap_or_default(),
            subnets: node.subnets,
        }
    }

    /// All addresses of the node.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        match (&self.host_addresses, &self.uplink) {
            (Some(addresses), _) => addresses.clone(),
            (None, Some(uplink)) => uplink.addresses.iter().map(IpNet::addr).collect(),
            (None, None) => Vec::new(),
        }
    }

    /// The place of a network on the node. `None`: the network has no switch there yet.
    pub(super) fn place(&self, network: &Network, settings: &ClusterSettings) -> Option<NodePlace> {
        let has_switch =
            network.topology == Topology::Layer2 || self.subnets.contains_key(&network.name);
        let uplink = self.uplink.as_ref().filter(|_| self.has_chassis);
        let uplink = uplink.filter(|uplink| uplink.is_enabled);
        let uplink = uplink.map(|uplink| uplink.clone().of_families(settings));
        let has_node_ports = uplink
            .as_ref()
            .is_some_and(|uplink| uplink.has_node_ports(settings));
        has_switch.then(|| NodePlace {
            switch: network.switch(&self.name),
            gateway: uplink.map(|uplink| NodeGateway {
                router: names::gateway_router(&network.name, &self.name),
                addresses: uplink.addresses.iter().map(IpNet::addr).collect(),
            }),
            node_port_addresses: if has_node_ports {
                self.host_addresses_of(settings)
            } else {
                Vec::new()
            },
        })
    }

    fn host_addresses_of(&self, settings: &ClusterSettings) -> Vec<IpAddr> {
        let Some(addresses) = &self.host_addresses else {
            let uplink = self
                .uplink
                .clone()
                .map(|uplink| uplink.of_families(settings));
            let addresses = uplink.map_or_else(Vec::new, |uplink| uplink.addresses);
            return addresses.iter().map(IpNet::addr).collect();
        };
        addresses.clone()
    }
}
