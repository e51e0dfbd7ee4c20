//! Mirrored EndpointSlices.

use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Problem};
use patchbay_resources::object::Object as _;

use super::{NAMESPACES, at};
use crate::networks::testing::inventory;
use crate::networks::{Layer2Layouts, ManagerSettings, NetworkManager};

const NETWORK: &str = "---
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: blue}, \
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/24]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: blue}, spec: {nodeName: n1, containers: []}}
";

fn slice(name: &str, address_type: &str, endpoints: &str) -> String {
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: blue, labels: \
         {{kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}}}, \
         addressType: {address_type}, endpoints: {endpoints}, ports: []}}\n"
    )
}

fn mirror(name: &str, source: &str) -> String {
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: blue, labels: \
         {{endpointslice.kubernetes.io/managed-by: endpointslice-mirror-controller.k8s.ovn.org}}, annotations: \
         {{k8s.ovn.org/source-endpointslice: {source}}}}}, addressType: IPv4, endpoints: [], ports: []}}\n"
    )
}

/// Source and addresses of each mirror.
fn mirrors(yaml: &str) -> Vec<String> {
    let mut inventory: Inventory = inventory(&(NAMESPACES.to_owned() + NETWORK + yaml));
    complete(&mut inventory)
}

fn complete(inventory: &mut Inventory) -> Vec<String> {
    let mut manager = NetworkManager::new(ManagerSettings {
        workloads: Some(Layer2Layouts::TransitRouters),
        ..ManagerSettings::default()
    });
    assert!(manager.reconcile(inventory, &at(0)).is_empty());
    let slices = inventory.endpoint_slices.iter();
    let mirrors = slices.filter_map(|(_, slice)| {
        let slice = &slice.object;
        let source = slice.annotations().get("k8s.ovn.org/source-endpointslice")?;
        let endpoints = slice.endpoints.iter().flatten();
        let addresses: Vec<&str> =
            endpoints.flat_map(|endpoint| &endpoint.addresses).map(String::as_str).collect();
        Some(format!("{source} {}", addresses.join(",")))
    });
    mirrors.collect()
}

const POD: &str = "[{addresses: [10.244.0.9], targetRef: {kind: Pod, name: a, namespace: blue}}]";

#[test]
fn a_slice_of_names_has_no_mirror() {
    let names = slice("names", "FQDN", "[{addresses: [example.com]}]");
    assert_eq!(mirrors(&names), [""; 0]);
    assert_eq!(mirrors(&(names + &mirror("m", "names"))), [""; 0]);
}

#[test]
fn a_slice_without_endpoints_gets_no_new_mirror() {
    let empty = slice("web", "IPv4", "[]");
    assert_eq!(mirrors(&empty), [""; 0]);
    assert_eq!(mirrors(&(empty + &mirror("m", "web"))), ["web "]);
    assert_eq!(mirrors(&slice("web", "IPv4", POD)), ["web 10.1.0.3"]);
}

#[test]
fn of_several_mirrors_of_a_slice_one_is_left() {
    let yaml = slice("web", "IPv4", POD) + &mirror("m1", "web") + &mirror("m2", "web");
    assert_eq!(mirrors(&yaml), ["web 10.1.0.3"]);
}

#[test]
fn a_deleted_pod_in_a_slice_is_a_problem_of_files_only() {
    let gone = "[{addresses: [10.244.0.8], targetRef: {kind: Pod, name: gone, namespace: blue}}]";
    let yaml = slice("web", "IPv4", gone) + &mirror("m", "web");
    let mut of_files = inventory(&(NAMESPACES.to_owned() + NETWORK + &yaml));
    let mut of_cluster = of_files.clone();
    let key = ObjectKey::namespaced("blue", "web");
    let slices = &mut of_cluster.endpoint_slices;
    slices.get_mut(&key).unwrap().origin = Origin::Cluster;
    for inventory in [&mut of_files, &mut of_cluster] {
        // The mirror stays as it is.
        assert_eq!(complete(inventory), ["web "]);
    }
    let messages = |inventory: &Inventory| -> Vec<String> {
        let warnings = inventory.warnings.iter();
        warnings.map(|Problem { message, .. }| message.clone()).collect()
    };
    assert_eq!(messages(&of_files), ["there is no Pod blue/gone"]);
    assert_eq!(messages(&of_cluster), [""; 0]);
}

#[test]
fn slices_of_nobody_have_a_warning() {
    let manual = |labels: &str| {
        format!(
            "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: web-1, namespace: blue, \
             labels: {{kubernetes.io/service-name: web{labels}}}}}, addressType: IPv4, endpoints: \
             [{{addresses: [10.1.0.3]}}], ports: []}}\n"
        )
    };
    for (labels, manager) in
        [("", r#""""#), (", endpointslice.kubernetes.io/managed-by: staff", r#""staff""#)]
    {
        let yaml = NAMESPACES.to_owned() + NETWORK + &manual(labels);
        let mut inventory: Inventory = inventory(&yaml);
        assert!(complete(&mut inventory).is_empty());
        let warnings: Vec<String> = inventory.warnings.iter().map(Problem::to_string).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let expected = format!(
            "EndpointSlice blue/web-1: metadata.labels[endpointslice.kubernetes.io/managed-by]: is {manager}, and only"
        );
        assert!(warnings[0].contains(&expected), "{warnings:?}");
    }
}
