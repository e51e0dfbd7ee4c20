//! Services of a cluster's objects: the inputs of their load balancers.

use std::collections::BTreeSet;

use patchbay_model::{
    ClusterSettings, EndpointSlice, Network, NetworkObjects, Networks, Pod, Service, ServiceKey,
};
use patchbay_resources::conversion::{endpoint_slice, network_service, pod};
use patchbay_resources::manifests::Inventory;
use patchbay_services::{ZoneServices, derived_slices};

/// The inputs of the services' rows in a zone. With `derives_slices`, a service without mirrored
/// EndpointSlices has those that follow from its selector and the pods.
pub(crate) fn zone_services(
    inventory: &Inventory,
    zone: &str,
    settings: &ClusterSettings,
    objects: &NetworkObjects<'_>,
    derives_slices: bool,
) -> ZoneServices {
    let mut inputs = ZoneServices::new(zone, settings);
    inputs.set_networks(&objects.networks);
    for node in &objects.nodes {
        inputs.put_node(*node);
    }
    let slices = inventory.endpoint_slices.iter();
    let slices: Vec<EndpointSlice> = slices
        .filter_map(|(_, slice)| endpoint_slice(&slice.object))
        .collect();
    let mirrored = slices.iter().filter(|slice| slice.network.is_some());
    let mirrored: BTreeSet<ServiceKey> = mirrored.map(|slice| slice.service.clone()).collect();
    for slice in slices {
        inputs.put_slice(slice);
    }
    let pods: Vec<Pod> = (inventory.pods.iter())
        .map(|(_, pod_object)| pod(&pod_object.object))
        .collect();
    let services = inventory.services.iter();
    for service in services.map(|(_, service)| network_service(&service.object)) {
        let network = primary_network(&objects.networks, &service);
        let is_derived = derives_slices && !mirrored.contains(&service.key);
        if let Some(network) = network.filter(|_| is_derived) {
            for slice in derived_slices(&service, network, &pods) {
                inputs.put_slice(slice);
            }
        }
        inputs.put_service(service);
    }
    inputs
}

/// The primary network of a service's namespace.
fn primary_network<'a>(networks: &'a Networks, service: &Service) -> Option<&'a Network> {
    networks.by_nad(networks.primary_nad(&service.key.namespace)?)
}
