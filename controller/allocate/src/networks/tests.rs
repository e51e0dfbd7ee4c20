//! From manifests to attachment definitions, ids and conditions.

mod attachments;
mod dynamic;
mod fabric;
mod halted;
mod ids;
mod leaving;
mod pods;
mod slices;
mod strangers;
mod unlisted;

use patchbay_model::ClusterSettings;
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{NETWORK_ID, NETWORK_NAME, NODE_ID, NODE_SUBNETS};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Time;
use patchbay_resources::udn::NetworkStatus;

use super::annotations::annotation;
use super::testing::inventory;
use super::*;

const NAMESPACES: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {color: blue, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: cyan, labels: {color: blue, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: plain, labels: {color: red}}}
";

const SHARED: &str = "
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata:
  name: shared
  labels: {app: a}
  annotations: {note: text, k8s.ovn.org/x: z}
spec:
  namespaceSelector: {matchLabels: {color: blue}}
  network:
    topology: Layer2
    layer2: {role: Primary, subnets: [10.20.0.0/16]}
";

fn udn(namespace: &str, name: &str, role: &str, cidr: &str) -> String {
    format!(
        "---\n{{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {{name: {name}, namespace: {namespace}}}, \
         spec: {{topology: Layer3, layer3: {{role: {role}, subnets: [{{cidr: {cidr}}}]}}}}}}\n"
    )
}

fn node(name: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}\n")
}

fn at(second: i64) -> Time {
    Time(jiff::Timestamp::from_second(second).unwrap())
}

fn resolved(yaml: &str) -> Inventory {
    let mut inventory = inventory(yaml);
    resolve(&mut inventory, &ClusterSettings::default(), &at(0))
        .unwrap_or_else(|error| panic!("{error}"));
    inventory
}

fn conditions(status: Option<&NetworkStatus>) -> Vec<String> {
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions
        .iter()
        .map(|condition| {
            format!(
                "{}={} {}: {}",
                condition.type_, condition.status, condition.reason, condition.message
            )
        })
        .collect()
}

fn udn_conditions(inventory: &Inventory, namespace: &str, name: &str) -> Vec<String> {
    let udn = inventory.user_defined_networks.get(&ObjectKey::namespaced(namespace, name)).unwrap();
    conditions(udn.object.status.as_ref())
}

fn cudn_conditions(inventory: &Inventory, name: &str) -> Vec<String> {
    conditions(inventory.cluster_user_defined_networks.named(name).unwrap().status.as_ref())
}

/// Name, id and keys of the network of every attachment definition.
fn networks(inventory: &Inventory) -> Vec<String> {
    let nads = inventory.network_attachment_definitions.iter();
    nads.map(|(key, nad)| {
        let read = |annotation_key| annotation(&nad.object.metadata, annotation_key).unwrap_or("-");
        format!("{key} {} {} {}", read(NETWORK_NAME), read(NETWORK_ID), read(TUNNEL_KEYS))
    })
    .collect()
}

#[test]
fn a_cudn_is_one_network_in_every_selected_namespace() {
    let inventory = resolved(&(NAMESPACES.to_owned() + SHARED));
    assert_eq!(
        networks(&inventory),
        [
            "blue/shared cluster_udn_shared 1 [16711684,16715779]",
            "cyan/shared cluster_udn_shared 1 [16711684,16715779]",
        ]
    );
    assert_eq!(
        cudn_conditions(&inventory, "shared"),
        [
            "NetworkCreated=True NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in \
             following namespaces: [blue, cyan]",
            "NetworkAllocationSucceeded=True NetworkAllocationSucceeded: Network allocation succeeded for all synced \
             nodes.",
        ]
    );
    let nad = &inventory
        .network_attachment_definitions
        .get(&ObjectKey::namespaced("cyan", "shared"))
        .unwrap();
    assert_eq!(nad.origin.to_string(), "rendered for ClusterUserDefinedNetwork shared");
    let text = serde_json::to_value(&nad.object.metadata).unwrap();
    assert_eq!(
        text,
        serde_json::json!({
            "name": "shared",
            "namespace": "cyan",
            "labels": {"app": "a", "k8s.ovn.org/user-defined-network": ""},
            "annotations": {
                "note": "text",
                "k8s.ovn.org/network-id": "1",
                "k8s.ovn.org/network-name": "cluster_udn_shared",
                "k8s.ovn.org/tunnel-keys": "[16711684,16715779]",
            },
            "finalizers": ["k8s.ovn.org/user-defined-network-protection"],
            "ownerReferences": [{
                "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "name": "shared", "uid": "",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
}

#[test]
fn ids_follow_the_order_of_the_manifests_and_keep_what_is_annotated() {
    let taken = r#"
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: own, namespace: plain, annotations: {k8s.ovn.org/network-id: '2'}}
spec: {config: '{"name":"own","netAttachDefName":"plain/own","type":"ovn-k8s-cni-overlay","topology":"localnet","role":"secondary"}'}
"#;
    let yaml = NAMESPACES.to_owned()
        + &udn("plain", "z", "Secondary", "10.1.0.0/16")
        + taken
        + &udn("blue", "a", "Secondary", "10.2.0.0/16")
        + &node("n1")
        + &node("n0");
    let inventory = resolved(&yaml);
    assert_eq!(
        networks(&inventory),
        ["blue/a blue_a 3 []", "plain/own own 2 []", "plain/z plain_z 1 []"]
    );
    let node = &inventory.nodes.named("n0").unwrap().metadata;
    assert_eq!(annotation(node, NODE_ID), Some("3"));
    assert_eq!(
        annotation(node, NODE_SUBNETS),
        Some(r#"{"blue_a":["10.2.1.0/24"],"plain_z":["10.1.1.0/24"]}"#)
    );
}

#[test]
fn resolving_again_changes_nothing() {
    let yaml = NAMESPACES.to_owned()
        + SHARED
        + &udn("plain", "z", "Secondary", "10.1.0.0/16")
        + &node("a")
        + &node("b");
    let mut inventory = resolved(&yaml);
    let first = inventory.clone();
    resolve(&mut inventory, &ClusterSettings::default(), &at(100)).unwrap();
    assert_eq!(inventory, first);
}

#[test]
fn a_namespace_has_one_primary_network_and_asks_for_it() {
    let yaml = NAMESPACES.to_owned()
        + &udn("blue", "own", "Primary", "10.1.0.0/16")
        + SHARED
        + &udn("plain", "p", "Primary", "10.3.0.0/16")
        + &udn("gone", "p", "Primary", "10.4.0.0/16");
    let inventory = resolved(&yaml);
    assert_eq!(
        networks(&inventory),
        ["blue/own blue_own 1 []", "cyan/shared cluster_udn_shared 2 [16711685,16715779]"]
    );
    assert_eq!(
        cudn_conditions(&inventory, "shared"),
        [
            "NetworkCreated=False NetworkAttachmentDefinitionSyncError: primary network already exist in namespace \
          \"blue\": \"own\""
        ]
    );
    assert_eq!(
        udn_conditions(&inventory, "plain", "p"),
        [
            "NetworkCreated=False SyncError: invalid primary network state for namespace \"plain\": a valid primary user \
          defined network or network attachment definition custom resource, and required namespace label \
          \"k8s.ovn.org/primary-user-defined-network\" must both be present"
        ]
    );
    assert_eq!(
        udn_conditions(&inventory, "gone", "p"),
        [
            "NetworkCreated=False SyncError: failed to get namespace \"gone\": namespace \"gone\" not found"
        ]
    );
}

#[test]
fn a_foreign_definition_is_not_changed() {
    let foreign = "
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: z, namespace: plain}
spec: {config: '{\"type\":\"bridge\"}'}
";
    let inventory = resolved(
        &(NAMESPACES.to_owned() + foreign + &udn("plain", "z", "Secondary", "10.1.0.0/16")),
    );
    assert_eq!(
        udn_conditions(&inventory, "plain", "z"),
        [
            "NetworkCreated=False SyncError: foreign NetworkAttachmentDefinition with the desired name already exist \
          [plain/z]"
        ]
    );
    assert_eq!(networks(&inventory), ["plain/z - - -"]);
}

#[test]
fn a_selector_that_selects_nothing_is_a_warning() {
    let inventory = resolved(&SHARED.replace("color: blue", "color: none"));
    let warnings: Vec<_> = inventory.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "standard input:3 (document 1): ClusterUserDefinedNetwork shared: spec.namespaceSelector: selects no namespace"
        ]
    );
    assert!(cudn_conditions(&inventory, "shared")[0].ends_with("in following namespaces: []"));
}

#[test]
fn transports_that_need_more_than_ovn_say_so() {
    let network = |transport: &str| {
        SHARED.replace(
            "topology: Layer2\n    layer2: {role: Primary, subnets: [10.20.0.0/16]}",
            &format!("topology: Layer3\n    layer3: {{role: Primary, subnets: [{{cidr: 10.20.0.0/16}}]}}\n    {transport}"),
        )
    };
    let flat =
        network("transport: NoOverlay\n    noOverlay: {outboundSNAT: Enabled, routing: Managed}");
    let inventory = resolved(&(NAMESPACES.to_owned() + &flat));
    assert_eq!(
        cudn_conditions(&inventory, "shared")[1],
        "TransportAccepted=False RouteAdvertisementsNotEnabled: RouteAdvertisements feature is not enabled but required \
         for NoOverlay transport."
    );
    assert_eq!(inventory.network_attachment_definitions.len(), 2);
    let inventory = resolved(
        &(NAMESPACES.to_owned()
            + &network("transport: EVPN\n    evpn: {vtep: v, ipVRF: {vni: 1}}")),
    );
    assert_eq!(
        cudn_conditions(&inventory, "shared")[0],
        "NetworkCreated=False EVPNConfigError: EVPN transport requested but EVPN feature is not enabled"
    );
    assert!(inventory.network_attachment_definitions.is_empty());
}

#[test]
fn the_example_has_the_ids_and_subnets_of_the_documents() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/blue-green");
    let mut inventory =
        patchbay_resources::manifests::read_manifests(&[folder.into()], &mut "".as_bytes())
            .unwrap();
    let annotated = inventory.clone();
    resolve(&mut inventory, &ClusterSettings::default(), &at(0)).unwrap();
    assert!(inventory.warnings.is_empty());
    for (name, id) in [("ovn-control-plane", "2"), ("ovn-worker2", "3"), ("ovn-worker", "4")] {
        let node = &inventory.nodes.named(name).unwrap().metadata;
        assert_eq!(annotation(node, NODE_ID), Some(id));
        let before = &annotated.nodes.named(name).unwrap().metadata;
        assert_eq!(annotation(node, NODE_SUBNETS), annotation(before, NODE_SUBNETS));
    }
    assert_eq!(
        networks(&inventory),
        [
            "blue/blue-network cluster_udn_blue-network 1 []",
            "green/green-network cluster_udn_green-network 2 []",
        ]
    );
}
