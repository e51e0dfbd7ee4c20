//! Rows of capabilities that objects hold back.

use patchbay_resources::manifests::Inventory;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, Service,
};

/// Rows that stay as they are, because an object that they may follow from cannot be decoded.
pub(super) struct HeldRows<'a> {
    inventory: &'a Inventory,
}

impl<'a> HeldRows<'a> {
    pub(super) fn of(inventory: &'a Inventory) -> Self {
        Self { inventory }
    }

    /// `true` if the rows of networks stay, and with them all others.
    pub(super) fn has_networks(&self) -> bool {
        self.inventory.lacks(&[
            Node::KIND,
            Namespace::KIND,
            NetworkAttachmentDefinition::KIND,
        ])
    }

    /// `true` if the rows of pods stay. New ports wait for the policies that are about them.
    pub(super) fn has_pods(&self) -> bool {
        self.has_networks()
            || self.inventory.lacks(&[
                Pod::KIND,
                NetworkPolicy::KIND,
                MultiNetworkPolicy::KIND,
                EgressFirewall::KIND,
            ])
    }

    /// `true` if the rows of administrators' policies stay.
    pub(super) fn has_admin_policies(&self) -> bool {
        self.has_networks()
            || self.inventory.lacks(&[
                Pod::KIND,
                AdminNetworkPolicy::KIND,
                BaselineAdminNetworkPolicy::KIND,
            ])
    }

    /// `true` if the rows of services stay.
    pub(super) fn has_services(&self) -> bool {
        self.has_networks() || self.inventory.lacks(&[Service::KIND, EndpointSlice::KIND])
    }

    /// `true` if the rows of EgressIPs stay.
    pub(super) fn has_egress(&self) -> bool {
        self.has_pods() || self.inventory.lacks(&[EgressIP::KIND])
    }
}
