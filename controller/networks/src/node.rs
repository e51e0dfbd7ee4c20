//! Nodes as the rows of networks depend on them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, IpFamily, Node, NodeId, NodeObject, Uplink, transit_addresses,
};

use super::SkipReason;

/// Node annotation: `"false"` if ports of the node do not check the length of packets.
const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";
/// Name of the default network in annotations of nodes.
const DEFAULT_NETWORK: &str = "default";

/// A node with its uplink and its addresses on transit switches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ZoneNode {
    pub(super) name: String,
    id: Option<NodeId>,
    chassis: Option<String>,
    subnets: BTreeMap<String, Vec<IpNet>>,
    /// IPv4 first, with the length of the range.
    pub(super) transit: Vec<IpNet>,
    pub(super) has_gateway_mtu: bool,
    uplink: Option<Uplink>,
}

impl ZoneNode {
    /// Reads a node. An annotation that cannot be read counts as missing: the cluster manager has
    /// reported it.
    pub(super) fn read(object: NodeObject<'_>) -> Self {
        let (
            Node {
                name,
                id,
                chassis_id,
                subnets,
                ..
            },
            _,
        ) = Node::read(object.name, object.annotations, None);
        let annotation = |key| object.annotations?.get(key);
        Self {
            name,
            id,
            chassis: chassis_id,
            subnets,
            transit: transit_addresses(object.annotations).unwrap_or_default(),
            has_gateway_mtu: annotation(GATEWAY_MTU_SUPPORT).is_none_or(|value| value != "false"),
            uplink: Uplink::read(object.annotations),
        }
    }

    /// Id and chassis id.
    pub(super) fn identity(&self) -> Result<(NodeId, &str), SkipReason> {
        let id = self.id.ok_or(SkipReason::NoNodeId)?;
        Ok((id, self.chassis.as_deref().ok_or(SkipReason::NoChassisId)?))
    }

    /// The node's subnets of a network.
    pub(super) fn subnets_of(&self, network: &str) -> &[IpNet] {
        self.subnets.get(network).map_or(&[], Vec::as_slice)
    }

    /// The node's subnets of the default network.
    pub(super) fn default_subnets(&self) -> &[IpNet] {
        self.subnets_of(DEFAULT_NETWORK)
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

    /// The address on transit switches in one family.
    pub(super) fn transit_address(&self, family: IpFamily) -> Option<IpAddr> {
        let mut addresses = self.transit.iter().map(IpNet::addr);
        addresses.find(|address| IpFamily::of(*address) == family)
    }
}
