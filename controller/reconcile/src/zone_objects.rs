//! Objects of a cluster that one zone keeps.

use std::collections::BTreeSet;

use patchbay_model::{EndpointSlice, Network, NetworkObjects, Networks, Pod, Service, ServiceKey};
use patchbay_policies::gates;
use patchbay_resources::conversion::{
    admin_network_policy, baseline_admin_network_policy, egress_firewall, egress_ip,
    endpoint_slice, multi_network_policy, network_policy, network_service, pod,
};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Object as _;
use patchbay_services::derived_slices;
use patchbay_zone::ZoneObjects;

use super::Cluster;
use super::pods::zone_pods;

/// The objects of a zone, with the networks that it renders. A service without mirrored
/// EndpointSlices has those that follow from its selector and the pods, unless the objects are those
/// of a running cluster.
pub(crate) fn zone_objects(
    cluster: &Cluster,
    zone: &str,
    rendered: &NetworkObjects<'_>,
    labelled: &BTreeSet<String>,
) -> ZoneObjects {
    let (inventory, settings) = (&cluster.inventory, cluster.settings());
    let mut objects = zone_pods(inventory, zone, settings, rendered, labelled);
    for (key, namespace) in inventory.namespaces.iter() {
        let (labels, annotations) = (namespace.object.labels(), namespace.object.annotations());
        objects.put_namespace(&key.name, labels, annotations);
    }
    for (_, policy) in inventory.network_policies.iter() {
        objects.put_policy(network_policy(&policy.object));
    }
    for (_, policy) in inventory.multi_network_policies.iter() {
        objects.put_policy(multi_network_policy(&policy.object));
    }
    for (_, firewall) in inventory.egress_firewalls.iter() {
        objects.put_firewall(egress_firewall(&firewall.object));
    }
    for (_, policy) in inventory.admin_network_policies.iter() {
        objects.put_admin_policy(admin_network_policy(&policy.object));
    }
    for (_, policy) in inventory.baseline_admin_network_policies.iter() {
        objects.put_admin_policy(baseline_admin_network_policy(&policy.object));
    }
    for (_, object) in inventory.egress_ips.iter() {
        objects.put_egress_ip(egress_ip(&object.object));
    }
    for (_, slice) in inventory.endpoint_slices.iter() {
        if let Some(slice) = endpoint_slice(&slice.object) {
            objects.put_slice(slice);
        }
    }
    for (_, service) in inventory.services.iter() {
        objects.put_service(network_service(&service.object));
    }
    if !cluster.is_watched() {
        for slice in missing_slices(inventory, &rendered.networks) {
            objects.put_slice(slice);
        }
    }
    objects.set_gates(gates(&objects));
    objects
}

/// The slices of services that have no mirrored ones: those that follow from the selectors and the
/// pods.
fn missing_slices(inventory: &Inventory, networks: &Networks) -> Vec<EndpointSlice> {
    let slices = inventory.endpoint_slices.iter();
    let mirrored: BTreeSet<ServiceKey> = slices
        .filter_map(|(_, slice)| endpoint_slice(&slice.object))
        .filter(|slice| slice.network.is_some())
        .map(|slice| slice.service)
        .collect();
    let pods: Vec<Pod> = (inventory.pods.iter())
        .map(|(_, sourced)| pod(&sourced.object))
        .collect();
    let services = inventory.services.iter();
    services
        .map(|(_, service)| network_service(&service.object))
        .filter(|service| !mirrored.contains(&service.key))
        .filter_map(|service| {
            let network = primary_network(networks, &service)?;
            Some(derived_slices(&service, network, &pods))
        })
        .flatten()
        .collect()
}

/// The primary network of a service's namespace.
fn primary_network<'a>(networks: &'a Networks, service: &Service) -> Option<&'a Network> {
    networks.by_nad(networks.primary_nad(&service.key.namespace)?)
}
