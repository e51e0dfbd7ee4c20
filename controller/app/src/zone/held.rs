//! Rows of capabilities that objects hold back.

use patchbay_resources::manifests::Inventory;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, Service,
};

/// Rows that stay as they are, because an object that they may follow from cannot be decoded.
pub(super) struct HeldRows {
    pub(super) networks: bool,
    /// New ports wait for the policies that are about them.
    pub(super) pods: bool,
    pub(super) admin_policies: bool,
    pub(super) services: bool,
    pub(super) egress: bool,
}

impl HeldRows {
    pub(super) fn of(inventory: &Inventory) -> Self {
        let networks = inventory.lacks(&[
            Node::KIND,
            Namespace::KIND,
            NetworkAttachmentDefinition::KIND,
        ]);
        let pods = networks
            || inventory.lacks(&[
                Pod::KIND,
                NetworkPolicy::KIND,
                MultiNetworkPolicy::KIND,
                EgressFirewall::KIND,
            ]);
        Self {
            networks,
            pods,
            admin_policies: networks
                || inventory.lacks(&[
                    Pod::KIND,
                    AdminNetworkPolicy::KIND,
                    BaselineAdminNetworkPolicy::KIND,
                ]),
            services: networks || inventory.lacks(&[Service::KIND, EndpointSlice::KIND]),
            egress: pods || inventory.lacks(&[EgressIP::KIND]),
        }
    }
}
