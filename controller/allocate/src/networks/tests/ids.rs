//! Ids and tunnel keys that annotations have.

use patchbay_model::{ClusterSettings, DatapathKey, NETWORK_ID, TUNNEL_KEYS};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Object as _;

use super::{NAMESPACES, SHARED, at, networks, resolved};
use crate::RouterKeyCursor;
use crate::connects::{ClusterController, ClusterObjects};
use crate::networks::testing::inventory;
use crate::networks::{ManagerSettings, NetworkManager, resolve};
use patchbay_resources::conversion::networks_of;

#[test]
fn ids_that_contradict_each_other_are_errors() {
    let nad = |name: &str, network: &str, annotations: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: \
             plain, annotations: {{{annotations}}}}}\nspec: {{config: '{{\"name\":\"{network}\",\"topology\":\"layer3\",\
             \"netAttachDefName\":\"plain/{name}\",\"type\":\"ovn-k8s-cni-overlay\"}}'}}\n"
        )
    };
    let mut inventory = inventory(
        &(nad("a", "n", "k8s.ovn.org/network-id: '1'")
            + &nad("b", "n", "k8s.ovn.org/network-id: '2'")
            + &nad("c", "m", "k8s.ovn.org/network-id: '2'")
            + &nad("d", "o", "k8s.ovn.org/network-id: '0'")
            + &nad("e", "p", "k8s.ovn.org/network-id: x")
            + &nad("f", "q", "k8s.ovn.org/tunnel-keys: '[0]'")),
    );
    let error = resolve(&mut inventory, &ClusterSettings::default(), &at(0)).unwrap_err();
    let field = "metadata.annotations[k8s.ovn.org/network-id]";
    let texts: Vec<_> = error
        .problems
        .iter()
        .map(|problem| {
            problem.to_string().split_once("NetworkAttachmentDefinition ").unwrap().1.to_owned()
        })
        .collect();
    assert_eq!(
        texts,
        [
            format!("plain/b: {field}: network n has id 1 elsewhere, here it is 2"),
            format!("plain/d: {field}: network id 0 is that of the default network"),
            format!("plain/e: {field}: network id \"x\" is not a number"),
            "plain/f: metadata.annotations[k8s.ovn.org/tunnel-keys]: datapath tunnel key 0 is not in 1..=16777215".into(),
            format!("plain/c: {field}: network m has id 2, which is that of network n"),
        ]
    );
}

/// A definition of a user.
fn own(name: &str, network: &str, annotations: &str, config: &str) -> String {
    format!(
        "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: \
         plain, annotations: {{{annotations}}}}}\nspec: {{config: '{{\"name\":\"{network}\",\
         \"netAttachDefName\":\"plain/{name}\",\"type\":\"ovn-k8s-cni-overlay\",{config}}}'}}\n"
    )
}

const PRIMARY: &str = r#""topology":"layer2","role":"primary","subnets":"10.1.0.0/16""#;
const SECONDARY: &str = r#""topology":"layer2","subnets":"10.2.0.0/16""#;

#[test]
fn ids_that_somebody_changes_are_written_again() {
    let mut manager = NetworkManager::new(ManagerSettings::default());
    let mut inventory = inventory(&(own("a", "a", "", PRIMARY) + &own("b", "b", "", SECONDARY)));
    manager.reconcile(&mut inventory, &at(0));
    let wanted = networks(&inventory);
    assert_eq!(wanted, ["plain/a a 1 [16711684,16715779]", "plain/b b 2 []"]);
    let key = ObjectKey::namespaced("plain", "a");
    for (id, keys) in [("7", "[16711684,16715779]"), ("2", "[1]"), ("1", "[]")] {
        let nads = &mut inventory.network_attachment_definitions;
        let annotations = nads.get_mut(&key).unwrap().object.annotations_mut();
        annotations.insert(NETWORK_ID.into(), id.into());
        annotations.insert(TUNNEL_KEYS.into(), keys.into());
        assert_eq!(manager.reconcile(&mut inventory, &at(1)), []);
        assert_eq!(networks(&inventory), wanted);
    }
    // A new network does not take the id of one that is known.
    let copied = own("c", "c", "k8s.ovn.org/network-id: '1'", SECONDARY);
    let copied = super::inventory(&copied).network_attachment_definitions;
    for (_, nad) in copied.iter() {
        inventory.network_attachment_definitions.insert(nad.clone());
    }
    assert_eq!(manager.reconcile(&mut inventory, &at(2)), []);
    assert_eq!(networks(&inventory)[2], "plain/c c 3 []");
}

#[test]
fn a_namespace_has_one_primary_network_at_a_time() {
    let yaml = own("a", "a", "", PRIMARY) + &own("b", "b", "k8s.ovn.org/network-id: '5'", PRIMARY);
    let mut inventory = inventory(&yaml);
    let mut manager = NetworkManager::new(ManagerSettings::default());
    manager.reconcile(&mut inventory, &at(0));
    assert_eq!(networks(&inventory), ["plain/a - - -", "plain/b b 5 [16711688,16715779]"]);
    let warnings = inventory.warnings.iter().map(|warning| warning.message.clone());
    let expected = "NAD plain/b is primary for the namespace, NAD plain/a can't be primary";
    assert!(warnings.clone().any(|text| text == expected), "{warnings:?}");
    let key = ObjectKey::namespaced("plain", "b");
    inventory.network_attachment_definitions.remove(&key);
    manager.reconcile(&mut inventory, &at(1));
    assert_eq!(networks(&inventory), ["plain/a a 1 [16711684,16715780]"]);
}

#[test]
fn a_broken_primary_definition_leaves_its_namespace_to_no_other_one() {
    let mut inventory = inventory(&own("b", "b", "", PRIMARY));
    let mut manager = NetworkManager::new(ManagerSettings::default());
    manager.reconcile(&mut inventory, &at(0));
    let first = "plain/b b 1 [16711684,16715779]";
    assert_eq!(networks(&inventory), [first]);
    let key = ObjectKey::namespaced("plain", "b");
    let nads = &mut inventory.network_attachment_definitions;
    let config = nads.get(&key).unwrap().object.spec.config.clone();
    let second = super::inventory(&own("a", "a", "", PRIMARY)).network_attachment_definitions;
    for (_, nad) in second.iter() {
        nads.insert(nad.clone());
    }
    let refused = config.as_deref().unwrap().replace("10.1.0.0", "10.1.0");
    for broken in ["{", &*refused] {
        let nads = &mut inventory.network_attachment_definitions;
        nads.get_mut(&key).unwrap().object.spec.config = Some(broken.to_owned());
        manager.reconcile(&mut inventory, &at(1));
        assert_eq!(networks(&inventory), ["plain/a - - -", first], "{broken}");
    }
    let nads = &mut inventory.network_attachment_definitions;
    nads.get_mut(&key).unwrap().object.spec.config = config;
    manager.reconcile(&mut inventory, &at(2));
    assert_eq!(networks(&inventory), ["plain/a - - -", first]);
    // It is free once the definition is gone.
    inventory.network_attachment_definitions.remove(&key);
    manager.reconcile(&mut inventory, &at(3));
    assert_eq!(networks(&inventory), ["plain/a a 2 [16711685,16715780]"]);
}

#[test]
fn a_network_has_the_id_that_nodes_of_an_older_version_note() {
    let node = |ids: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n1, annotations: {{k8s.ovn.org/network-ids: '{ids}'}}}}}}\n"
        )
    };
    let yaml = own("a", "a", "", SECONDARY)
        + &own("b", "b", "k8s.ovn.org/network-id: '9'", SECONDARY)
        + &own("c", "c", "", SECONDARY)
        + &node(r#"{"default":"0","a":"7","c":"9"}"#);
    assert_eq!(networks(&resolved(&yaml)), ["plain/a a 7 []", "plain/b b 9 []", "plain/c c 1 []"]);
}

/// A ClusterNetworkConnect that selects all networks.
fn connect(annotations: &str) -> String {
    format!(
        "
---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {{name: c, annotations: {{{annotations}}}}}
spec:
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {{networkSelector: {{}}}}
  connectSubnets: [{{cidr: 192.168.0.0/16, networkPrefix: 24}}]
  connectivity: [PodNetwork]
"
    )
}

#[test]
fn keys_of_connect_routers_are_not_allocated_again() {
    let cnc = connect("k8s.ovn.org/connect-router-tunnel-key: '16715779'");
    let inventory = resolved(&(NAMESPACES.to_owned() + SHARED + &cnc));
    assert!(networks(&inventory)[0].ends_with("[16711684,16715780]"));
}

#[test]
fn networks_and_connects_take_keys_from_one_position() {
    let keys = RouterKeyCursor::default();
    let mut manager =
        NetworkManager::new(ManagerSettings::default()).with_router_keys(keys.clone());
    let mut controller = ClusterController::new(ClusterSettings::default()).with_router_keys(keys);
    let mut key_of_connect = |yaml: &str| {
        let inventory = inventory(yaml);
        let networks = networks_of(&inventory);
        let connects =
            inventory.cluster_network_connects.iter().map(|(_, connect)| &connect.object);
        let objects = ClusterObjects::new(&networks, [], [], connects);
        let report = controller.reconcile(&objects, &at(0));
        report.outcomes.first()?.tunnel_key.map(DatapathKey::get)
    };
    assert_eq!(key_of_connect(&connect("")), Some(16_715_779));
    // The connect goes, and its key is free.
    assert_eq!(key_of_connect(NAMESPACES), None);
    let mut inventory = inventory(&(NAMESPACES.to_owned() + SHARED));
    assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
    assert!(networks(&inventory)[0].ends_with("[16711684,16715780]"));
    // The other side does not see the definition of the network yet.
    assert_eq!(key_of_connect(&connect("")), Some(16_715_781));
}

#[test]
fn tunnel_keys_are_those_of_the_id_and_of_a_router() {
    let nad = |name: &str, config: &str, annotations: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: \
             plain, annotations: {{{annotations}}}}}\nspec: {{config: '{{\"name\":\"{name}\",\"type\":\"ovn-k8s-cni-overlay\",\
             \"netAttachDefName\":\"plain/{name}\",{config}}}'}}\n"
        )
    };
    let layer2 = r#""topology":"layer2","role":"primary","subnets":"10.1.0.0/16""#;
    for keys in
        ["[16711684,16715779]", "[16711688,16711684]", "[16711688]", "[16711688,16715779,16715780]"]
    {
        let annotations = format!("k8s.ovn.org/network-id: '5', k8s.ovn.org/tunnel-keys: '{keys}'");
        let mut inventory = inventory(&nad("a", layer2, &annotations));
        let error = resolve(&mut inventory, &ClusterSettings::default(), &at(0)).unwrap_err();
        assert!(
            error.problems[0].to_string().ends_with(
                "NetworkAttachmentDefinition plain/a: metadata.annotations[k8s.ovn.org/tunnel-keys]: network a has id 5, \
                 so its tunnel keys are 16711688 and one of 16715779..=16777215"
            ),
            "{keys}: {error}"
        );
    }
    // What it was handed out as a layer2 network is not that of a layer3 network any more.
    let layer3 = r#""topology":"layer3","subnets":"10.1.0.0/16""#;
    let yaml =
        nad("a", layer3, "k8s.ovn.org/tunnel-keys: '[16711684,16715779]'") + &nad("b", layer2, "");
    assert_eq!(networks(&resolved(&yaml)), ["plain/a a 1 []", "plain/b b 2 [16711685,16715779]"]);
}
