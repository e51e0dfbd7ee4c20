//! EgressIPs of a cluster's objects: the inputs of their rows.

use patchbay_egress::{EgressObjects, ZoneEgress};
use patchbay_model::{ClusterSettings, Feature, NetworkObjects};
use patchbay_pods::ZonePods;
use patchbay_resources::conversion::egress_ip;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Object;

/// The inputs of the egress rows in a zone.
pub(crate) fn zone_egress(
    inventory: &Inventory,
    zone: &str,
    settings: &ClusterSettings,
    objects: &NetworkObjects<'_>,
    pods: Option<&ZonePods>,
) -> ZoneEgress {
    if !settings.has_feature(Feature::EgressIp) {
        let names = inventory.egress_ips.iter();
        return ZoneEgress::off(names.map(|(key, _)| key.name.clone()));
    }
    let namespaces = inventory.namespaces.iter();
    let pods = pods.into_iter();
    let egress = EgressObjects {
        pods: pods
            .flat_map(|pods| {
                pods.pods()
                    .map(|pod| (pod.clone(), pods.places(pod).collect()))
            })
            .collect(),
        namespaces: namespaces
            .map(|(key, namespace)| (key.name.as_str(), namespace.object.labels()))
            .collect(),
        egress_ips: inventory
            .egress_ips
            .iter()
            .map(|(_, object)| egress_ip(&object.object))
            .collect(),
    };
    ZoneEgress::read(zone, settings, &objects.networks, &objects.nodes, &egress)
}
