//! Kinds of objects that the rows of several capabilities follow from.

use patchbay_model::{ClusterSettings, Feature, object_kind};

/// Kinds from which the networks of a zone follow, and with them the rows of every capability. With
/// dynamic allocation, pods, connects and EgressIPs determine which networks the zone has.
pub fn network_kinds(settings: &ClusterSettings) -> Vec<&'static str> {
    let mut kinds =
        vec![object_kind::NODE, object_kind::NAMESPACE, object_kind::ATTACHMENT_DEFINITION];
    if settings.has_feature(Feature::DynamicUdnAllocation) {
        kinds.extend([object_kind::POD, object_kind::CONNECT]);
        kinds.extend(kinds_of(settings, Feature::EgressIp, &[object_kind::EGRESS_IP]));
    }
    kinds
}

/// Kinds from which the rows of pods follow. A new port waits for the policies that are about it.
pub fn pod_kinds(settings: &ClusterSettings) -> Vec<&'static str> {
    let mut kinds = network_kinds(settings);
    kinds.extend([
        object_kind::POD,
        object_kind::NETWORK_POLICY,
        object_kind::MULTI_NETWORK_POLICY,
    ]);
    kinds.extend(kinds_of(settings, Feature::EgressFirewall, &[object_kind::EGRESS_FIREWALL]));
    kinds
}

/// The kinds, if the feature that reads them is on.
pub fn kinds_of<'a>(
    settings: &ClusterSettings,
    feature: Feature,
    kinds: &'a [&'static str],
) -> impl Iterator<Item = &'static str> + use<'a> {
    let is_on = settings.has_feature(feature);
    kinds.iter().copied().filter(move |_| is_on)
}
