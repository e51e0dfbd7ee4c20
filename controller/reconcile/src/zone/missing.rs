//! Kinds of which objects may be missing, or of which manifests have none.

use patchbay_model::CniConfig;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{
    EgressFirewall, EndpointSlice, MultiNetworkPolicy, NetworkPolicy, Object as _, Pod,
};

use crate::Cluster;

/// `role` in the configuration of a primary network.
const PRIMARY_ROLE: &str = "primary";

/// `true` if objects of one of these kinds may be missing, because they cannot be decoded or listed.
///
/// MultiNetworkPolicies count only if there may be a secondary network. In manifests,
/// EndpointSlices follow from pods.
pub(super) fn may_lack(cluster: &Cluster, kinds: &[&str]) -> bool {
    let inventory = &cluster.inventory;
    kinds.iter().any(|kind| match *kind {
        MultiNetworkPolicy::KIND => inventory.lacks(&[kind]) && has_secondary_network(inventory),
        EndpointSlice::KIND if !cluster.is_watched() => inventory.lacks(&[kind, Pod::KIND]),
        _ => inventory.lacks(&[kind]),
    })
}

/// `true` if a definition may be that of a secondary network.
fn has_secondary_network(inventory: &Inventory) -> bool {
    let definitions = inventory.network_attachment_definitions.iter();
    let mut configs = definitions.filter_map(|(_, nad)| nad.object.spec.config.as_deref());
    configs.any(|config| match CniConfig::from_json(config) {
        Ok(None) => false,
        Ok(Some(config)) => !config.topology.is_empty() && config.role != PRIMARY_ROLE,
        Err(_) => true,
    })
}

/// `true` if the objects specify something about rows that are for these kinds: there is an object
/// of one of them, or no kind was left out. Rows for no kind in particular are always specified.
pub(crate) fn specifies(cluster: &Cluster, kinds: &[&str]) -> bool {
    let inventory = &cluster.inventory;
    let mut kinds_with_objects = kinds.iter().map(|kind| match *kind {
        Pod::KIND => !inventory.pods.is_empty(),
        NetworkPolicy::KIND => !inventory.network_policies.is_empty(),
        MultiNetworkPolicy::KIND => !inventory.multi_network_policies.is_empty(),
        EgressFirewall::KIND => !inventory.egress_firewalls.is_empty(),
        _ => true,
    });
    kinds.is_empty()
        || cluster.has_every_kind()
        || kinds_with_objects.any(|has_objects| has_objects)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use patchbay_egress::Egress;
    use patchbay_model::{ClusterSettings, Feature};
    use patchbay_pods::Pods;
    use patchbay_policies::admin::AdminPolicies;
    use patchbay_resources::cnc::ClusterNetworkConnect;
    use patchbay_resources::manifests::read_manifests;
    use patchbay_resources::object::{AdminNetworkPolicy, EgressIP, RouteAdvertisements, Time};
    use patchbay_services::Services;
    use patchbay_zone::{ZoneCapability as _, network_kinds};

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
        let settings = cluster.settings();
        let needs = [
            network_kinds(settings),
            Pods::needs(settings),
            AdminPolicies::needs(settings),
            Services::needs(settings),
            Egress::needs(settings),
        ];
        needs.map(|kinds| may_lack(&cluster, &kinds))
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
