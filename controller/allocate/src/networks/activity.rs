//! Nodes on which networks have users, with dynamic allocation.

use patchbay_model::{ClusterSettings, Feature, NetworkActivity, Networks};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion::network_users;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{EgressIP, Object as _, Pod};

use super::pods::AttachedPods;

/// The nodes of networks whose definitions belong to a UserDefinedNetwork or a
/// ClusterUserDefinedNetwork. All other ones are on all nodes.
///
/// Users are pods, EgressIPs of namespaces, and users of networks that a ClusterNetworkConnect
/// connects a network with.
pub(super) fn of_networks(
    inventory: &Inventory,
    networks: &Networks,
    pods: &AttachedPods,
    settings: &ClusterSettings,
) -> NetworkActivity {
    network_users(inventory, networks, pods.networks(), settings).activity(pods.uses())
}

/// `true` if [`of_networks`] lacks no users: all pods and connects are known, and all EgressIPs
/// unless their feature is off.
pub(super) fn is_known(inventory: &Inventory, settings: &ClusterSettings) -> bool {
    let mut users = vec![Pod::KIND, ClusterNetworkConnect::KIND];
    users.extend(settings.has_feature(Feature::EgressIp).then_some(EgressIP::KIND));
    !inventory.lacks(&users)
}
