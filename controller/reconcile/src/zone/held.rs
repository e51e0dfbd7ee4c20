//! Rows of capabilities that objects hold back.

use patchbay_model::{ClusterSettings, CniConfig, Feature};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, Service,
};

use crate::Cluster;

/// `role` in the configuration of a primary network.
const PRIMARY_ROLE: &str = "primary";

/// Rows that stay as they are, because an object that they may follow from cannot be decoded or
/// listed.
///
/// Announcements of networks hold nothing here: a network whose RouteAdvertisements are not known
/// stays announced or not, as it is.
pub(super) struct HeldRows<'a> {
    inventory: &'a Inventory,
    settings: &'a ClusterSettings,
    /// `true`: the inventory has all objects of every kind.
    is_watched: bool,
}

impl<'a> HeldRows<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self {
            inventory: &cluster.inventory,
            settings: cluster.settings(),
            is_watched: cluster.is_watched(),
        }
    }

    /// `true` if objects of these kinds may be missing, and the feature that reads them is on.
    fn lacks_with(&self, feature: Feature, kinds: &[&str]) -> bool {
        self.settings.has_feature(feature) && self.inventory.lacks(kinds)
    }

    /// `true` if the rows of networks stay, and with them all others. With dynamic allocation, pods,
    /// connects and EgressIPs determine which networks the zone has.
    pub(super) fn has_networks(&self) -> bool {
        let is_dynamic = self.settings.has_feature(Feature::DynamicUdnAllocation);
        let lacks_users = self
            .inventory
            .lacks(&[Pod::KIND, ClusterNetworkConnect::KIND])
            || self.lacks_with(Feature::EgressIp, &[EgressIP::KIND]);
        (is_dynamic && lacks_users)
            || self.inventory.lacks(&[
                Node::KIND,
                Namespace::KIND,
                NetworkAttachmentDefinition::KIND,
            ])
    }

    /// `true` if the rows of pods stay. New ports wait for the policies that are about them.
    pub(super) fn has_pods(&self) -> bool {
        self.has_networks()
            || self.inventory.lacks(&[Pod::KIND, NetworkPolicy::KIND])
            || (self.inventory.lacks(&[MultiNetworkPolicy::KIND]) && self.has_secondary_network())
            || self.lacks_with(Feature::EgressFirewall, &[EgressFirewall::KIND])
    }

    /// `true` if a definition may be that of a secondary network. MultiNetworkPolicies apply to no
    /// others.
    fn has_secondary_network(&self) -> bool {
        let definitions = self.inventory.network_attachment_definitions.iter();
        let mut configs = definitions.filter_map(|(_, nad)| nad.object.spec.config.as_deref());
        configs.any(|config| match CniConfig::from_json(config) {
            Ok(None) => false,
            Ok(Some(config)) => !config.topology.is_empty() && config.role != PRIMARY_ROLE,
            Err(_) => true,
        })
    }

    /// `true` if the rows of administrators' policies stay.
    pub(super) fn has_admin_policies(&self) -> bool {
        let kinds = [AdminNetworkPolicy::KIND, BaselineAdminNetworkPolicy::KIND];
        self.has_networks()
            || self.inventory.lacks(&[Pod::KIND])
            || self.lacks_with(Feature::AdminNetworkPolicy, &kinds)
    }

    /// `true` if the rows of services stay. In manifests, endpoints follow from pods.
    pub(super) fn has_services(&self) -> bool {
        self.has_networks()
            || self.inventory.lacks(&[Service::KIND, EndpointSlice::KIND])
            || (!self.is_watched && self.inventory.lacks(&[Pod::KIND]))
    }

    /// `true` if the rows of all connects stay.
    pub(super) fn has_connects(&self) -> bool {
        self.has_networks() || self.inventory.lacks(&[Service::KIND])
    }

    /// `true` if the rows of EgressIPs stay.
    pub(super) fn has_egress(&self) -> bool {
        self.has_pods() || self.lacks_with(Feature::EgressIp, &[EgressIP::KIND])
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use patchbay_resources::manifests::read_manifests;
    use patchbay_resources::object::{RouteAdvertisements, Time};

    use super::*;

    /// The held rows of networks, pods, administrators' policies, services and EgressIPs, while a
    /// kind cannot be listed.
    fn held(kind: &'static str, features: &[Feature]) -> [bool; 5] {
        held_with(Inventory::default(), kind, features)
    }

    /// [`held`] with other objects.
    fn held_with(mut inventory: Inventory, kind: &'static str, features: &[Feature]) -> [bool; 5] {
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
        assert_eq!(held(NetworkPolicy::KIND, &all), pods);
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
        for users in [Pod::KIND, ClusterNetworkConnect::KIND] {
            assert_eq!(held(users, &all), [true; 5], "{users}");
        }
        assert_eq!(held(ClusterNetworkConnect::KIND, &is_static), none);
        assert_eq!(held(EgressIP::KIND, &without(Feature::EgressIp)), none);
    }

    #[test]
    fn multi_network_policies_hold_pods_if_there_may_be_a_secondary_network() {
        let held = |config: &str| {
            let yaml = format!(
                "{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {{name: a, \
                 namespace: blue}}, spec: {{config: '{config}'}}}}"
            );
            let inventory = read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap();
            held_with(inventory, MultiNetworkPolicy::KIND, &[])[1]
        };
        let network = |fields: &str| {
            format!(
                r#"{{"name":"a","netAttachDefName":"blue/a","type":"ovn-k8s-cni-overlay"{fields}}}"#
            )
        };
        for fields in [
            r#","topology":"localnet""#,
            r#","topology":"layer2","role":"secondary""#,
            r#","topology":"layer3","subnets":"10.1.0.0/16""#,
        ] {
            assert!(held(&network(fields)), "{fields}");
        }
        assert!(held("{"));
        assert!(!held(&network("")));
        assert!(!held(&network(r#","topology":"layer2","role":"primary""#)));
        assert!(!held(r#"{"name":"a","type":"macvlan"}"#));
    }
}
