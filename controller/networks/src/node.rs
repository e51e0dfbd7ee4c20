//! Nodes as the rows of networks depend on them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, Layer2Layout, Node, NodeChassis, NodeId, NodeObject, NodeSubnetOwners,
    SubnetRefusal, UnreadableSubnets, Uplink, host_addresses, transit_addresses,
};

use super::SkipReason;
use super::remotes::WayToNode;

/// Node annotation: `"false"` if ports of the node do not check the length of packets.
const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";
/// Name of the default network in annotations of nodes.
const DEFAULT_NETWORK: &str = "default";

/// A node with its uplink and its addresses on transit switches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ZoneNode {
    pub(super) name: String,
    id: Option<NodeId>,
    pub(super) chassis: NodeChassis,
    subnets: BTreeMap<String, Vec<IpNet>>,
    unreadable: UnreadableSubnets,
    refused: BTreeMap<String, Vec<SubnetRefusal>>,
    /// IPv4 first, with the length of the range.
    pub(super) transit: Vec<IpNet>,
    /// Common part of the rows that lead to the node from other zones.
    pub(super) way: WayToNode,
    pub(super) has_gateway_mtu: bool,
    uplink: Option<Uplink>,
    pub(super) layer2: Layer2Layout,
    /// Addresses of the host. `None`: those of the uplink.
    host_addresses: Option<Vec<IpAddr>>,
}

impl ZoneNode {
    /// The ids and subnets in a node's annotations, without errors: the cluster manager reports
    /// them.
    pub(super) fn annotations(object: &NodeObject<'_>) -> Node {
        Node::read(object.name, object.annotations, object.created).0
    }

    /// A node with its own annotations. Subnets that others own are refused. Another annotation
    /// that cannot be read counts as missing.
    pub(super) fn new(mut node: Node, object: &NodeObject<'_>, owners: &NodeSubnetOwners) -> Self {
        owners.refuse(&mut node);
        let Node {
            name,
            id,
            chassis_id,
            subnets,
            unreadable,
            refused,
            ..
        } = node;
        let annotation = |key| object.annotations?.get(key);
        let transit = transit_addresses(object.annotations).unwrap_or_default();
        Self {
            way: WayToNode::new(&name, id.zip(chassis_id.as_deref()), &transit),
            name,
            id,
            chassis: NodeChassis::new(chassis_id, object.created),
            subnets,
            unreadable: unreadable.subnets,
            refused,
            transit,
            has_gateway_mtu: annotation(GATEWAY_MTU_SUPPORT).is_none_or(|value| value != "false"),
            uplink: Uplink::read(object.annotations),
            layer2: Layer2Layout::read(object.annotations),
            host_addresses: host_addresses(object.annotations).unwrap_or_default(),
        }
    }

    /// The id.
    pub(super) fn id(&self) -> Option<NodeId> {
        self.id
    }

    /// Id and chassis id.
    ///
    /// # Errors
    /// One of them is missing.
    pub(super) fn identity(&self) -> Result<(NodeId, &str), SkipReason> {
        let id = self.id.ok_or(SkipReason::NoNodeId)?;
        Ok((id, self.chassis.id().ok_or(SkipReason::NoChassisId)?))
    }

    /// The node's subnets of a network.
    pub(super) fn subnets_of(&self, network: &str) -> &[IpNet] {
        self.subnets.get(network).map_or(&[], Vec::as_slice)
    }

    /// `true` if the node's annotation names subnets of a network, even if they cannot be used.
    pub(super) fn names_subnets(&self, network: &str) -> bool {
        !self.subnets_of(network).is_empty()
            || self.unreadable.contains(network)
            || self.refused.contains_key(network)
    }

    /// The node's subnets of a network.
    ///
    /// # Errors
    /// There are none, or they cannot be read, or they are refused.
    pub(super) fn own_subnets(&self, network: &str) -> Result<&[IpNet], SkipReason> {
        if let Some(refusal) = self
            .refused
            .get(network)
            .and_then(|refused| refused.first())
        {
            return Err(SkipReason::RefusedSubnet(refusal.clone()));
        }
        match self.subnets_of(network) {
            [] if self.unreadable.contains(network) => Err(SkipReason::UnreadableSubnets),
            [] => Err(SkipReason::NoNodeSubnets),
            subnets => Ok(subnets),
        }
    }

    /// `true` if a route to a subnet of a network may lead to the node: the annotation names
    /// subnets of the network, or cannot be read, and the subnet is not refused.
    pub(super) fn may_lead_to(&self, network: &str, subnet: IpNet) -> bool {
        let refused = self.refused.get(network);
        let mut refused = refused.into_iter().flatten();
        let has_subnets = !self.subnets_of(network).is_empty();
        (has_subnets || self.unreadable.contains(network))
            && !refused.any(|refusal| refusal.forbids(subnet))
    }

    /// The node's subnets of the default network.
    pub(super) fn default_subnets(&self) -> &[IpNet] {
        self.subnets_of(DEFAULT_NETWORK)
    }

    /// Addresses of the host that are known from its annotation.
    pub(super) fn host_addresses(&self) -> &[IpAddr] {
        self.host_addresses.as_deref().unwrap_or_default()
    }

    /// Addresses of the host. Without an annotation they are those of its uplink.
    pub(super) fn own_addresses(&self, settings: &ClusterSettings) -> Vec<IpAddr> {
        let addresses = |uplink: Uplink| uplink.addresses.iter().map(IpNet::addr).collect();
        match &self.host_addresses {
            Some(addresses) => addresses.clone(),
            None => self.uplink(settings).map_or_else(Vec::new, addresses),
        }
    }

    /// The uplink, from the annotation or derived from the node's id. `None`: the node has no
    /// gateway.
    pub(super) fn uplink(&self, settings: &ClusterSettings) -> Option<Uplink> {
        let uplink = match (&self.uplink, self.id) {
            (Some(uplink), _) => uplink.clone(),
            (None, Some(id)) => Uplink::derived(id),
            (None, None) => return None,
        };
        uplink.is_enabled.then(|| uplink.of_families(settings))
    }
}
