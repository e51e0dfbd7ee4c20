//! Nodes, as rows depend on them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, Layer2Layout, Node, NodeChassis, NodeObject, Uplink, host_addresses,
    primary_interface, transit_addresses,
};

/// Annotation: `"false"` if ports of the node do not check the length of packets.
const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";

/// A node, with the values of its annotations. One that cannot be read counts as missing, and is
/// reported elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneNode {
    /// Name, id and subnets.
    pub node: Arc<Node>,
    /// Chassis id, and whether a running controller has seen another one.
    pub chassis: NodeChassis,
    /// Gateway of the annotation, or derived from the node's id. `None`: neither is known.
    pub uplink: Option<Uplink>,
    /// Addresses on transit switches, IPv4 first, with the length of the range.
    pub transit: Vec<IpNet>,
    /// `true` if ports of the node check the length of packets.
    pub has_gateway_mtu: bool,
    /// Subnets of the interface that the node's bridge has: those of the annotation, or of the
    /// uplink.
    pub primary_subnets: Vec<IpNet>,
    /// Layout of the rows of layer2 networks.
    pub layer2: Layer2Layout,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    host_addresses: HostAddresses,
}

/// Addresses of the host, as the annotation has them.
#[derive(Clone, Debug, Default, PartialEq)]
enum HostAddresses {
    #[default]
    Absent,
    Unreadable,
    Known(Vec<IpAddr>),
}

impl ZoneNode {
    /// A node of which nothing else is known.
    pub(crate) fn of(node: Node) -> Self {
        Self {
            chassis: NodeChassis::new(node.chassis_id.clone(), node.created),
            node: Arc::new(node),
            ..Self::default()
        }
    }

    pub(crate) fn read(object: &NodeObject<'_>) -> Self {
        let (node, _) = Node::read(object.name, object.annotations, object.created);
        let uplink = Uplink::read(object.annotations).or_else(|| node.id.map(Uplink::derived));
        let mut primary_subnets = primary_interface(object.annotations);
        if primary_subnets.is_empty() {
            // A node of a file has a derived uplink.
            primary_subnets.extend(uplink.iter().flat_map(|uplink| &uplink.addresses));
        }
        let gateway_mtu =
            object.annotations.and_then(|annotations| annotations.get(GATEWAY_MTU_SUPPORT));
        Self {
            transit: transit_addresses(object.annotations).unwrap_or_default(),
            has_gateway_mtu: gateway_mtu.is_none_or(|value| value != "false"),
            layer2: Layer2Layout::read(object.annotations),
            labels: object.labels.cloned().unwrap_or_default(),
            host_addresses: match host_addresses(object.annotations) {
                Ok(Some(addresses)) => HostAddresses::Known(addresses),
                Ok(None) => HostAddresses::Absent,
                Err(_) => HostAddresses::Unreadable,
            },
            chassis: NodeChassis::new(node.chassis_id.clone(), object.created),
            node: Arc::new(node),
            uplink,
            primary_subnets,
        }
    }

    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// The enabled gateway with the addresses of the cluster's families. `None`: the node has no
    /// gateway.
    pub fn gateway(&self, settings: &ClusterSettings) -> Option<Uplink> {
        let uplink = self.uplink.as_ref().filter(|uplink| uplink.is_enabled)?;
        Some(uplink.clone().of_families(settings))
    }

    /// Addresses of the host. `uplink`: the gateway, if the annotation has none.
    pub fn addresses(&self, uplink: Option<&Uplink>) -> Vec<IpAddr> {
        if let HostAddresses::Known(addresses) = &self.host_addresses {
            return addresses.clone();
        }
        let addresses = uplink.into_iter().flat_map(|uplink| &uplink.addresses);
        addresses.map(IpNet::addr).collect()
    }

    /// Addresses of the annotation. Without an annotation there are none. `None`: the annotation
    /// cannot be read.
    pub fn annotated_addresses(&self) -> Option<&[IpAddr]> {
        match &self.host_addresses {
            HostAddresses::Known(addresses) => Some(addresses),
            HostAddresses::Absent => Some(&[]),
            HostAddresses::Unreadable => None,
        }
    }

    /// Addresses of the host in all families.
    pub fn all_addresses(&self) -> Vec<IpAddr> {
        self.addresses(self.uplink.as_ref())
    }

    /// `true` if two versions of a node differ at most in its labels and its subnets of networks.
    pub(crate) fn is_same_but_subnets(&self, other: &Self) -> bool {
        let rest = |of: &Node| {
            let unreadable_id = of.unreadable.id;
            (of.created, of.id, unreadable_id, of.is_unmanaged)
        };
        rest(&self.node) == rest(&other.node)
            && self.chassis == other.chassis
            && self.uplink == other.uplink
            && self.transit == other.transit
            && self.primary_subnets == other.primary_subnets
            && self.layer2 == other.layer2
            && self.has_gateway_mtu == other.has_gateway_mtu
            && self.host_addresses == other.host_addresses
    }

    /// `true` if two versions of a node are equal, or both missing.
    pub(crate) fn are_same(one: Option<&Arc<Self>>, other: Option<&Arc<Self>>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// `true` if two versions of a node differ at most in its labels.
    pub fn is_same_but_labels(&self, other: &Self) -> bool {
        self.is_same_but_subnets(other) && self.has_same_subnets(other)
    }

    /// `true` if two versions of a node have the same labels and addresses of annotations.
    pub(crate) fn has_same_labels(&self, other: &Self) -> bool {
        self.labels == other.labels && self.annotated_addresses() == other.annotated_addresses()
    }

    /// `true` if two versions of a node have the same addresses.
    pub(crate) fn has_same_addresses(&self, other: &Self) -> bool {
        self.all_addresses() == other.all_addresses()
            && self.annotated_addresses() == other.annotated_addresses()
    }

    /// `true` if two versions of a node have the same subnets of networks.
    pub(crate) fn has_same_subnets(&self, other: &Self) -> bool {
        let (one, other) = (&self.node, &other.node);
        one.subnets == other.subnets
            && one.unreadable.subnets == other.unreadable.subnets
            && one.refused == other.refused
    }
}
