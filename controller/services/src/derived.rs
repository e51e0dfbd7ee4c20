//! Endpoints that follow from a service's selector, for manifests without EndpointSlices.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    Endpoint, EndpointPort, EndpointSlice, Network, Pod, Service, ServicePort, TargetPort,
};
use patchbay_zone::ZoneObjects;

/// The slices of services that have no mirrored ones: those that Kubernetes and OVN-Kubernetes would
/// make of a service's pods, mirrored into the network of its namespace.
///
/// A pod is an endpoint if it is scheduled, has not completed, and has all labels of the selector.
/// Its addresses are those in the network, or those of its node if it is on the node's network. A
/// service without selector has no slices.
pub fn derived_slices(objects: &ZoneObjects) -> Vec<EndpointSlice> {
    let services = objects.services();
    services
        .filter(|service| !objects.has_mirrored_slices(&service.key))
        .filter_map(|service| {
            let network = objects.primary_network_of(&service.key.namespace)?;
            Some(slices_of(service, objects.primary_network(network)?, objects))
        })
        .flatten()
        .collect()
}

fn slices_of(service: &Service, network: &Network, objects: &ZoneObjects) -> Vec<EndpointSlice> {
    let selected: Vec<&Arc<Pod>> =
        objects.pods_in(&service.key.namespace).filter(|pod| is_selected(service, pod)).collect();
    let mut slices = Vec::new();
    for port in &service.ports {
        // Pods may have different numbers under one name, and a slice has one number.
        let mut by_number = BTreeMap::<u16, Vec<Endpoint>>::new();
        for pod in &selected {
            if let Some(number) = target_number(port, pod) {
                let endpoints = by_number.entry(number).or_default();
                endpoints.push(endpoint(network, pod));
            }
        }
        for (number, endpoints) in by_number {
            slices.push(EndpointSlice {
                service: service.key.clone(),
                name: format!("{}-{}-{}-{number}", service.key.name, port.protocol, port.name)
                    .into(),
                network: Some(network.name.clone()),
                endpoints,
                ports: vec![EndpointPort {
                    name: port.name.clone(),
                    protocol: port.protocol,
                    port: number,
                }],
            });
        }
    }
    slices
}

fn is_selected(service: &Service, pod: &Pod) -> bool {
    let mut labels = service.selector.iter();
    !service.selector.is_empty()
        && pod.node.is_some()
        && !pod.is_completed
        && labels.all(|(key, value)| pod.labels.get(key) == Some(value))
}

/// Number of a port in a pod. `None`: the pod has no port of this name.
fn target_number(port: &ServicePort, pod: &Pod) -> Option<u16> {
    match &port.target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => pod.named_port(name, port.protocol),
    }
}

fn endpoint(network: &Network, pod: &Pod) -> Endpoint {
    Endpoint {
        addresses: addresses(network, pod),
        node: pod.node.clone(),
        state: pod.endpoint_state,
    }
}

fn addresses(network: &Network, pod: &Pod) -> Vec<IpAddr> {
    if pod.has_host_network {
        return pod.default_addresses.clone();
    }
    let nads = network.nads.iter();
    let mut in_namespace = nads.filter(|nad| nad.namespace == *pod.key.namespace);
    let place = in_namespace.find_map(|nad| pod.networks.get(&nad.to_string()));
    let addresses = place.map_or(&[][..], |place| &place.addresses);
    addresses.iter().map(IpNet::addr).collect()
}
