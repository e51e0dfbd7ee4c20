//! Nodes as the rows of networks depend on them.

use ipnet::IpNet;
use patchbay_model::NodeId;
use patchbay_zone::ZoneNode;

use super::SkipReason;
use super::remotes::WayToNode;

/// Id and chassis id of a node.
///
/// # Errors
/// One of them is missing.
pub(super) fn identity(node: &ZoneNode) -> Result<(NodeId, &str), SkipReason> {
    let id = node.node.id.ok_or(SkipReason::NoNodeId)?;
    Ok((id, node.chassis.id().ok_or(SkipReason::NoChassisId)?))
}

/// Subnets of the zone's node in a network.
///
/// # Errors
/// There are none, or they cannot be read, or they are refused.
pub(super) fn own_subnets<'a>(
    node: &'a ZoneNode,
    network: &str,
) -> Result<&'a [IpNet], SkipReason> {
    if let Some(refusal) = node.node.refused_subnets_of(network).first() {
        return Err(SkipReason::RefusedSubnet(refusal.clone()));
    }
    match node.node.subnets_of(network) {
        [] if node.node.has_unknown_subnets_of(network) => Err(SkipReason::UnreadableSubnets),
        [] => Err(SkipReason::NoNodeSubnets),
        subnets => Ok(subnets),
    }
}

/// Common part of the rows that lead to a node from other zones.
pub(super) fn way_to(node: &ZoneNode) -> WayToNode {
    WayToNode::new(node.name(), identity(node).ok(), &node.transit)
}
