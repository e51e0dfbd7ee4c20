//! Types of conditions of networks.

use patchbay_resources::object::Condition;
use patchbay_resources::udn::NetworkStatus;

/// Condition: the network has its attachment definitions.
pub const NETWORK_CREATED: &str = "NetworkCreated";
/// Condition: the transport of the network can be used.
pub const TRANSPORT_ACCEPTED: &str = "TransportAccepted";
/// Condition: all nodes have their subnets.
pub const NETWORK_ALLOCATION_SUCCEEDED: &str = "NetworkAllocationSucceeded";
/// Condition: pods on all nodes can get ports of the network. OVN-Kubernetes has none for it.
pub const PORTS_AVAILABLE: &str = "PortsAvailable";
/// Condition: nodes have the network, with dynamic allocation.
pub(super) const NODES_SELECTED: &str = "NodesSelected";

/// The condition of a type. `None`: the network has none.
pub(super) fn condition<'a>(
    status: Option<&'a NetworkStatus>,
    kind: &str,
) -> Option<&'a Condition> {
    let mut conditions = status?.conditions.iter();
    conditions.find(|condition| condition.type_ == kind)
}

/// `true` if all definitions of a network exist that it should have.
pub(super) fn is_created(status: Option<&NetworkStatus>) -> bool {
    condition(status, NETWORK_CREATED).is_some_and(|condition| condition.status == "True")
}
