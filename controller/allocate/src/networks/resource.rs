//! Custom resources of networks.

use patchbay_model::names;
use patchbay_resources::manifests::{InventoryKind, ObjectKey, Objects, Sourced};
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, Layer2Config, Layer3Config, NetworkRole, NetworkStatus,
    UserDefinedNetwork,
};

use super::render::{NetworkRequest, RequestError};

/// A UserDefinedNetwork or a ClusterUserDefinedNetwork.
pub(super) trait NetworkResource: InventoryKind {
    /// Name of the network of an object.
    fn network_name(key: &ObjectKey) -> String;

    /// Network that the object requests.
    ///
    /// # Errors
    /// The object lacks the configuration of its topology.
    fn request(&self, key: &ObjectKey) -> Result<NetworkRequest<'_>, RequestError>;

    /// `status` of the object.
    fn status(&self) -> Option<&NetworkStatus>;

    /// `status` of the object, for changes.
    fn status_mut(&mut self) -> &mut Option<NetworkStatus>;

    /// `true` if zones do not complete the network without the chassis id of their node.
    fn needs_chassis(&self) -> bool;

    /// The object as a ClusterUserDefinedNetwork, if it is one.
    fn as_cudn(&self) -> Option<&ClusterUserDefinedNetwork>;
}

impl NetworkResource for UserDefinedNetwork {
    fn network_name(key: &ObjectKey) -> String {
        names::udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name)
    }

    fn request(&self, key: &ObjectKey) -> Result<NetworkRequest<'_>, RequestError> {
        NetworkRequest::of_udn(key, &self.spec)
    }

    fn status(&self) -> Option<&NetworkStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<NetworkStatus> {
        &mut self.status
    }

    fn needs_chassis(&self) -> bool {
        needs_chassis(self.spec.layer3.as_ref(), self.spec.layer2.as_ref())
    }

    fn as_cudn(&self) -> Option<&ClusterUserDefinedNetwork> {
        None
    }
}

impl NetworkResource for ClusterUserDefinedNetwork {
    fn network_name(key: &ObjectKey) -> String {
        names::cudn_network(&key.name)
    }

    fn request(&self, key: &ObjectKey) -> Result<NetworkRequest<'_>, RequestError> {
        NetworkRequest::of_cudn(&key.name, &self.spec)
    }

    fn status(&self) -> Option<&NetworkStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<NetworkStatus> {
        &mut self.status
    }

    fn needs_chassis(&self) -> bool {
        let network = &self.spec.network;
        needs_chassis(network.layer3.as_ref(), network.layer2.as_ref())
    }

    fn as_cudn(&self) -> Option<&ClusterUserDefinedNetwork> {
        Some(self)
    }
}

fn needs_chassis(layer3: Option<&Layer3Config>, layer2: Option<&Layer2Config>) -> bool {
    layer3.is_some() || layer2.is_some_and(|config| config.role == NetworkRole::Primary)
}

/// `true` if the cluster manager allocates something for the network: not for a physical one
/// without subnets.
pub(super) fn is_allocated<T: NetworkResource>(object: &T) -> bool {
    let network = object.as_cudn().map(|cudn| &cudn.spec.network);
    let localnet = network.and_then(|network| network.localnet.as_ref());
    localnet.is_none_or(|localnet| localnet.subnets.is_some())
}

/// Changes the status of all custom resources of a kind, in the order of their keys. Objects whose
/// status stays are not copied.
pub(super) fn change_status<T: NetworkResource>(
    objects: &mut Objects<T>,
    mut change: impl FnMut(&ObjectKey, &Sourced<T>, &mut Option<NetworkStatus>),
) {
    let mut changed = Vec::new();
    for (key, sourced) in objects.iter() {
        let mut status = sourced.object.status().cloned();
        change(key, sourced, &mut status);
        if status.as_ref() != sourced.object.status() {
            changed.push((key.clone(), status));
        }
    }
    for (key, status) in changed {
        if let Some(sourced) = objects.get_mut(&key) {
            *sourced.object.status_mut() = status;
        }
    }
}
