//! Pods in networks whose addresses are given for the whole cluster.

use patchbay_model::{POD_NETWORKS, PodNetworks};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object;

use super::{NAMESPACES, at};
use crate::networks::testing::inventory;
use crate::networks::{Layer2Layouts, ManagerSettings, NetworkManager};

/// A secondary network of namespace `plain`.
fn network(name: &str, config: &str) -> String {
    format!(
        "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: plain}}\n\
         spec: {{config: '{{\"name\":\"{name}\",\"netAttachDefName\":\"plain/{name}\",\"type\":\"ovn-k8s-cni-overlay\",{config}}}'}}\n"
    )
}

/// A pod with these annotations.
fn pod(namespace: &str, name: &str, annotations: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, annotations: {{{annotations}}}}}, \
         spec: {{nodeName: n1, containers: []}}}}\n"
    )
}

fn selects(network: &str) -> String {
    format!("k8s.v1.cni.cncf.io/networks: {network}")
}

fn manager() -> NetworkManager {
    NetworkManager::new(ManagerSettings {
        workloads: Some(Layer2Layouts::TransitRouters),
        ..ManagerSettings::default()
    })
}

/// The entry of a pod in the network `definition`, as JSON.
fn entry(inventory: &Inventory, pod: &str, definition: &str) -> Option<String> {
    let (namespace, name) = pod.split_once('/').unwrap();
    let pod = inventory.pods.get(&ObjectKey::namespaced(namespace, name));
    let text = pod.unwrap().object.annotations().get(POD_NETWORKS)?;
    let networks = PodNetworks::parse(text).unwrap();
    let entry = networks.get(definition)?;
    Some(serde_json::to_string(entry).unwrap())
}

fn warnings(inventory: &mut Inventory) -> Vec<String> {
    let warnings = std::mem::take(&mut inventory.warnings).into_iter();
    warnings
        .filter(|warning| {
            warning
                .object
                .as_deref()
                .is_some_and(|one| one.starts_with("Pod "))
        })
        .map(|warning| warning.message)
        .collect()
}

#[test]
fn localnet_pods_get_addresses_and_no_tunnel_id() {
    let yaml = NAMESPACES.to_owned()
        + &network(
            "lan",
            r#""topology":"localnet","subnets":"10.9.0.0/24","excludeSubnets":"10.9.0.0/30""#,
        )
        + &pod("plain", "a", &selects("lan"));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert_eq!(
        entry(&inventory, "plain/a", "plain/lan").unwrap(),
        r#"{"ip_addresses":["10.9.0.4/24"],"mac_address":"0a:58:0a:09:00:04","ip_address":"10.9.0.4/24","role":"secondary"}"#
    );
}

#[test]
fn a_network_without_addresses_gives_a_mac_address_that_stays() {
    let yaml = NAMESPACES.to_owned()
        + &network("bare", r#""topology":"layer2""#)
        + &pod("plain", "a", &selects("bare"));
    let given = |yaml: &str| {
        let mut inventory = inventory(yaml);
        assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
        entry(&inventory, "plain/a", "plain/bare").unwrap()
    };
    let first = given(&yaml);
    assert!(
        first.starts_with(r#"{"ip_addresses":null,"mac_address":"0a:58:"#),
        "{first}"
    );
    assert!(
        first.ends_with(r#","tunnel_id":10,"role":"secondary"}"#),
        "{first}"
    );
    assert_eq!(given(&yaml), first);
}

#[test]
fn an_address_outside_of_the_network_is_refused_once() {
    let udn = "---\n{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: blue}, \
               spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/24]}}}\n";
    let request = |address: &str| {
        format!(
            r#"v1.multus-cni.io/default-network: '[{{"namespace":"ovn-kubernetes","name":"default","ips":["{address}/24"]}}]'"#
        )
    };
    let yaml = NAMESPACES.to_owned()
        + udn
        + &pod("blue", "outside", &request("10.2.0.9"))
        + &pod("blue", "gateway", &request("10.1.0.1"))
        + &pod("blue", "free", "");
    let mut inventory = inventory(&yaml);
    let mut manager = manager();
    assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
    assert_eq!(
        warnings(&mut inventory),
        [
            "failed to update pod blue/outside: failed to ensure requested or annotated IPs [10.2.0.9/24] for \
             blue/net/blue/outside: 10.2.0.9/24 is not for pods of the network",
            "failed to update pod blue/gateway: failed to ensure requested or annotated IPs [10.1.0.1/24] for \
             blue/net/blue/gateway: provided IP is already allocated",
        ]
    );
    assert!(entry(&inventory, "blue/outside", "blue/net").is_none());
    let free = entry(&inventory, "blue/free", "blue/net").unwrap();
    assert!(free.contains(r#""ip_address":"10.1.0.3/24""#), "{free}");
    let before = inventory.clone();
    assert!(manager.reconcile(&mut inventory, &at(1)).is_empty());
    assert_eq!(inventory, before);
}

#[test]
fn annotations_that_cannot_be_read_are_not_overwritten() {
    let broken = format!("{}, {POD_NETWORKS}: '{{'", selects("bare"));
    let yaml = NAMESPACES.to_owned()
        + &network("bare", r#""topology":"layer2""#)
        + &pod("plain", "a", &broken);
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    let pod = inventory.pods.get(&ObjectKey::namespaced("plain", "a"));
    assert_eq!(pod.unwrap().object.annotations()[POD_NETWORKS], "{");
}
