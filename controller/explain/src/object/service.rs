//! Explanation of a service.

use patchbay_model::{EndpointState, Pod, Requirement, Selector, Service, TargetPort};
use patchbay_resources::conversion::{network_service, pod};
use patchbay_resources::manifests::{Inventory, ObjectKey};

use super::labels::{known_labels, names, selector_text};
use super::{Findings, ObjectView};

/// Explains a service.
pub(super) fn of(key: &ObjectKey, inventory: &Inventory, view: ObjectView<'_>) -> Option<Findings> {
    let service = network_service(&inventory.services.get(key)?.object);
    let mut found = Findings::default();
    let named = format!("Service {key}");
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let nad = view.networks.primary_nad(namespace);
    match nad.and_then(|nad| view.networks.by_nad(nad)) {
        Some(network) => found.facts.push(format!("in network {}", network.name)),
        None => found.notices.push(format!(
            "namespace {namespace} has no primary user-defined network, so its services are those of the default network"
        )),
    }
    if service.cluster_ips.is_empty() {
        found.facts.push("without a cluster IP, so it has no load balancer".to_owned());
    } else {
        let addresses: Vec<String> = service.cluster_ips.iter().map(ToString::to_string).collect();
        found.facts.push(format!("cluster IPs {}", names(&addresses)));
    }
    if service.ports.is_empty() {
        found.stop("the service has no port", &named, "spec.ports");
    }
    let ports = service.ports.iter().map(|port| {
        let target = match &port.target {
            TargetPort::Number(number) => number.to_string(),
            TargetPort::Name(name) => format!("the container port {name}"),
        };
        format!("{} {} to {target}", port.protocol, port.port)
    });
    let ports: Vec<String> = ports.collect();
    if !ports.is_empty() {
        found.facts.push(format!("ports {}", names(&ports)));
    }
    if service.selector.is_empty() {
        let slices = inventory.endpoint_slices.in_namespace(namespace);
        let of_service = slices
            .filter_map(|(_, slice)| patchbay_resources::conversion::endpoint_slice(&slice.object));
        let endpoints = of_service.filter(|slice| slice.service == service.key);
        let count: usize = endpoints.map(|slice| slice.endpoints.len()).sum();
        found.facts.push(format!("without a selector, with {count} endpoints of EndpointSlices"));
        if count == 0 {
            found.stop("the service has no endpoints", &named, "spec.selector");
        }
        return Some(found);
    }
    describe_endpoints(&service, &named, inventory, &mut found);
    Some(found)
}

/// Describes the pods that a service selects.
fn describe_endpoints(service: &Service, named: &str, inventory: &Inventory, found: &mut Findings) {
    let namespace = &*service.key.namespace;
    let labels = service.selector.iter();
    let selector: Selector =
        labels.map(|(key, value)| Requirement::Equals(key.clone(), value.clone())).collect();
    let pods: Vec<Pod> =
        inventory.pods.in_namespace(namespace).map(|(_, object)| pod(&object.object)).collect();
    let (selected, _): (Vec<&Pod>, Vec<&Pod>) =
        pods.iter().partition(|pod| selector.matches(&pod.labels));
    if selected.is_empty() {
        let known = known_labels(&selector, pods.iter().map(|pod| &pod.labels));
        let text = selector_text(&selector);
        let message = format!("no pod of namespace {namespace} has the labels {text}; {known}");
        found.stop(message, named, "spec.selector");
        return;
    }
    let endpoints: Vec<&str> = selected.iter().map(|pod| &*pod.key.name).collect();
    found.facts.push(format!("endpoints {}", names(&endpoints)));
    for pod in &selected {
        let object = format!("Pod {}", pod.key);
        if pod.endpoint_state != EndpointState::Ready && !service.publishes_unready {
            found.notices.push(format!("{object} is not ready, so it gets no connections"));
        }
        for (index, port) in service.ports.iter().enumerate() {
            let TargetPort::Name(name) = &port.target else {
                continue;
            };
            if pod.named_port(name, port.protocol).is_none() {
                let ports = pod.container_ports.iter().map(|port| port.name.as_str());
                let ports: Vec<&str> = ports.filter(|name| !name.is_empty()).collect();
                let message = format!(
                    "{object} has no container port {name} for {}; its ports are {}",
                    port.protocol,
                    names(&ports)
                );
                found.stop(message, named, &format!("spec.ports[{index}].targetPort"));
            }
        }
    }
}
