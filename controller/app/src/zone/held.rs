//! Rows of capabilities that objects hold back.

use patchbay_model::{ClusterSettings, Feature};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, Service,
};

use crate::Cluster;

/// Rows that stay as they are, because an object that they may follow from cannot be decoded or
/// listed.
///
/// Announcements of networks hold nothing here: a network whose RouteAdvertisements are not known
/// stays announced or not, as it is.
pub(super) struct HeldRows<'a> {
    inventory: &'a Inventory,
    settings: &'a ClusterSettings,
}

impl<'a> HeldRows<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self {
            inventory: &cluster.inventory,
            settings: cluster.settings(),
        }
    }

    /// `true` if objects of these kinds may be missing, and the feature that reads them is on.
    fn lacks_with(&self, feature: Feature, kinds: &[&str]) -> bool {
        self.settings.has_feature(feature) && self.inventory.lacks(kinds)
    }

    /// `true` if the rows of networks stay, and with them all others. With dynamic allocation,
    /// EgressIPs determine which networks the zone has.
    pub(super) fn has_networks(&self) -> bool {
        let is_dynamic = self.settings.has_feature(Feature::DynamicUdnAllocation);
        (is_dynamic && self.lacks_with(Feature::EgressIp, &[EgressIP::KIND]))
            || self.inventory.lacks(&[
                Node::KIND,
                Namespace::KIND,
                NetworkAttachmentDefinition::KIND,
            ])
    }

    /// `true` if the rows of pods stay. New ports wait for the policies that are about them.
    pub(super) fn has_pods(&self) -> bool {
        self.has_networks()
            || self
                .inventory
                .lacks(&[Pod::KIND, NetworkPolicy::KIND, MultiNetworkPolicy::KIND])
            || self.lacks_with(Feature::EgressFirewall, &[EgressFirewall::KIND])
    }

    /// `true` if the rows of administrators' policies stay.
    pub(super) fn has_admin_policies(&self) -> bool {
        let kinds = [AdminNetworkPolicy::KIND, BaselineAdminNetworkPolicy::KIND];
        self.has_networks()
            || self.inventory.lacks(&[Pod::KIND])
            || self.lacks_with(Feature::AdminNetworkPolicy, &kinds)
    }

    /// `true` if the rows of services stay.
    pub(super) fn has_services(&self) -> bool {
        self.has_networks() || self.inventory.lacks(&[Service::KIND, EndpointSlice::KIND])
    }

    /// `true` if the rows of EgressIPs stay.
    pub(super) fn has_egress(&self) -> bool {
        self.has_pods() || self.lacks_with(Feature::EgressIp, &[EgressIP::KIND])
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use patchbay_resources::object::{RouteAdvertisements, Time};

    use super::*;

    /// The held rows of networks, pods, administrators' policies, services and EgressIPs, while a
    /// kind cannot be listed.
    fn held(kind: &'static str, features: &[Feature]) -> [bool; 5] {
        let mut inventory = Inventory::default();
        inventory.unlisted.insert(kind);
        let settings = ClusterSettings {
            features: features.iter().copied().collect(),
            ..ClusterSettings::default()
        };
        let cluster = Cluster::watched(inventory, settings, Time(Timestamp::UNIX_EPOCH));
        let held = HeldRows::of(&cluster);
        [
            held.has_networks(),
            held.has_pods(),
            held.has_admin_policies(),
            held.has_services(),
            held.has_egress(),
        ]
    }

    #[test]
    fn a_kind_without_a_list_holds_the_rows_that_follow_from_it() {
        let all = Feature::ALL;
        let others = |off| all.into_iter().filter(move |feature| *feature != off);
        let without = |off| others(off).collect::<Vec<_>>();
        let (pods, none) = ([false, true, false, false, true], [false; 5]);
        assert_eq!(held(RouteAdvertisements::KIND, &all), none);
        assert_eq!(held(MultiNetworkPolicy::KIND, &all), pods);
        assert_eq!(held(EgressFirewall::KIND, &all), pods);
        let off = without(Feature::EgressFirewall);
        assert_eq!(held(EgressFirewall::KIND, &off), none);
        let admin = [false, false, true, false, false];
        assert_eq!(held(AdminNetworkPolicy::KIND, &all), admin);
        let off = without(Feature::AdminNetworkPolicy);
        assert_eq!(held(AdminNetworkPolicy::KIND, &off), none);
        let is_static = without(Feature::DynamicUdnAllocation);
        let egress = [false, false, false, false, true];
        assert_eq!(held(EgressIP::KIND, &is_static), egress);
        assert_eq!(held(EgressIP::KIND, &all), [true; 5]);
        assert_eq!(held(EgressIP::KIND, &without(Feature::EgressIp)), none);
    }
}
