//! Subnets of nodes.

use super::*;
use crate::networks::nodes::NodeIds;
use crate::networks::testing::inventory;

const NETWORKS: &str = r#"
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: net, namespace: blue, annotations: {k8s.ovn.org/network-id: '1'}}
spec: {config: '{"name":"blue_net","netAttachDefName":"blue/net","type":"ovn-k8s-cni-overlay","topology":"layer3","subnets":"10.0.0.0/23/24,fd00::/48"}'}
"#;

/// Assigns subnets and writes them.
fn assign(inventory: &mut Inventory, memory: &mut NodeSubnetMemory) -> NodeSubnets {
    let numbered = NumberedNetworks {
        networks: conversion::networks_of(inventory),
        node_ids: NodeIds::default(),
        refused: BTreeSet::new(),
        left: BTreeSet::new(),
        problems: Vec::new(),
    };
    let (settings, now) = (ManagerSettings::default(), Time(Timestamp::UNIX_EPOCH));
    let mut subnets = assign_node_subnets(inventory, &numbered, &settings, None, memory, &now);
    subnets.write(&mut inventory.nodes);
    inventory.warnings.append(&mut subnets.warnings);
    subnets
}

fn completed(inventory: &mut Inventory) -> NodeSubnets {
    assign(inventory, &mut NodeSubnetMemory::default())
}

/// Another client writes the annotation of a node.
fn annotate(inventory: &mut Inventory, node: &str, text: &str) {
    let values = [(NODE_SUBNETS, Some(text.to_owned()))];
    write_annotations(&mut inventory.nodes, &ObjectKey::cluster(node), values);
}

fn node(name: &str, subnets: &str) -> String {
    format!(
        "---
{{apiVersion: v1, kind: Node, metadata: {{name: {name}, annotations: {{k8s.ovn.org/node-subnets: '{subnets}'}}}}}}
"
    )
}

fn annotations(inventory: &Inventory) -> Vec<&str> {
    let nodes = inventory.nodes.in_order().into_iter();
    let annotations = nodes.map(|(_, node)| node.object.metadata.annotations.as_ref().unwrap());
    annotations
        .map(|annotations| annotations.get(NODE_SUBNETS).map_or("", String::as_str))
        .collect()
}

#[test]
fn nodes_get_a_subnet_of_every_family_and_keep_what_they_have() {
    let kept =
        r#"{"default":["10.244.0.0/24"],"gone_net":"10.9.0.0/24","blue_net":["10.0.0.0/24"]}"#;
    let mut inventory = inventory(&(NETWORKS.to_owned() + &node("z", "") + &node("a", kept)));
    assert!(completed(&mut inventory).failures.is_empty());
    assert_eq!(
        annotations(&inventory),
        [
            r#"{"blue_net":["10.0.1.0/24","fd00:0:0:1::/64"]}"#,
            r#"{"blue_net":["10.0.0.0/24","fd00:0:0:2::/64"],"default":["10.244.0.0/24"]}"#,
        ]
    );
    let again = inventory.clone();
    assert!(completed(&mut inventory).failures.is_empty());
    assert_eq!(inventory, again);
}

#[test]
fn nodes_beyond_the_capacity_are_reported_and_others_have_subnets() {
    let nodes: String = ["a", "b", "c", "d"].map(|name| node(name, "")).concat();
    let mut inventory = inventory(&(NETWORKS.to_owned() + &nodes));
    let failures = completed(&mut inventory).failures;
    let expected = vec!["c".to_owned(), "d".to_owned()];
    assert_eq!(failures, Failures::from([("blue_net".into(), expected)]));
    assert_eq!(annotations(&inventory)[1], r#"{"blue_net":["10.0.1.0/24","fd00:0:0:2::/64"]}"#);
}

#[test]
fn a_subnet_of_another_node_is_replaced_and_an_unreadable_annotation_stays() {
    let subnets = r#"{"blue_net":["10.0.0.0/24"]}"#;
    let yaml = NETWORKS.to_owned() + &node("a", subnets) + &node("b", subnets);
    let mut shared = inventory(&yaml);
    assert!(completed(&mut shared).problems.is_empty());
    assert_eq!(
        shared.warnings[0].to_string(),
        "standard input:9 (document 3): Node b: metadata.annotations[k8s.ovn.org/node-subnets]: 10.0.0.0/24 of network blue_net is already that of node a and gets replaced"
    );
    assert_eq!(annotations(&shared)[1], r#"{"blue_net":["10.0.1.0/24","fd00:0:0:2::/64"]}"#);
    let errors = completed(&mut inventory(&node("a", "{"))).problems;
    assert!(
        errors[0]
            .to_string()
            .contains("Node a: metadata.annotations[k8s.ovn.org/node-subnets]: not a JSON object")
    );
}

#[test]
fn a_node_keeps_its_subnet_when_an_older_one_claims_it() {
    let mut inventory = inventory(&(NETWORKS.to_owned() + &node("a", "") + &node("b", "")));
    let mut memory = NodeSubnetMemory::default();
    assign(&mut inventory, &mut memory);
    let stolen = annotations(&inventory)[1].to_owned();
    annotate(&mut inventory, "a", &stolen);
    assign(&mut inventory, &mut memory);
    assert_eq!(
        annotations(&inventory),
        [r#"{"blue_net":["10.0.0.0/24","fd00:0:0:1::/64"]}"#, &stolen]
    );
}

#[test]
fn a_node_that_loses_its_annotation_gets_its_subnets_back() {
    let mut inventory = inventory(&(NETWORKS.to_owned() + &node("a", "") + &node("b", "")));
    let mut memory = NodeSubnetMemory::default();
    let mut pass = |inventory: &mut Inventory| {
        assign(inventory, &mut memory);
    };
    pass(&mut inventory);
    let before = inventory.clone();
    for text in ["{}", r#"{"blue_net":["10.7.0.0/24"]}"#] {
        annotate(&mut inventory, "a", text);
        pass(&mut inventory);
        assert_eq!(annotations(&inventory), annotations(&before), "{text}");
    }
    // The subnets of a node that is gone are free.
    let key = ObjectKey::cluster("a");
    let mut node = inventory.nodes.get(&key).unwrap().clone();
    inventory.nodes.remove(&key);
    pass(&mut inventory);
    node.object.metadata.annotations = None;
    inventory.nodes.insert(node);
    pass(&mut inventory);
    assert!(annotations(&inventory).contains(&r#"{"blue_net":["10.0.0.0/24","fd00:0:0:3::/64"]}"#));
}

#[test]
fn a_node_has_one_subnet_of_each_family() {
    let two = r#"{"blue_net":["10.0.0.0/24","10.0.1.0/24","fd00:0:0:1::/64"]}"#;
    let mut inventory = inventory(&(NETWORKS.to_owned() + &node("a", two)));
    assert!(completed(&mut inventory).failures.is_empty());
    assert_eq!(annotations(&inventory), [r#"{"blue_net":["10.0.0.0/24","fd00:0:0:1::/64"]}"#]);
    assert_eq!(
        inventory.warnings[0].message,
        "10.0.1.0/24 of network blue_net is one too many beside 10.0.0.0/24"
    );
}

#[test]
fn a_node_without_a_subnet_of_each_family_has_none_and_keeps_its_annotation() {
    let text = r#"{"default":"10.244.0.0/24","other":["10.9.0.0/24"]}"#;
    let nodes = node("a", "") + &node("b", "") + &node("c", text);
    let mut inventory = inventory(&(NETWORKS.to_owned() + &nodes));
    completed(&mut inventory);
    assert_eq!(annotations(&inventory)[2], r#"{"default":["10.244.0.0/24"]}"#);
    let mut again = inventory.clone();
    assert_eq!(completed(&mut again).failures["blue_net"], ["c"]);
    assert_eq!(again.nodes, inventory.nodes);
}

#[test]
fn subnets_of_an_earlier_network_of_the_name_are_replaced() {
    let mut inventory =
        inventory(&(NETWORKS.to_owned() + &node("a", r#"{"blue_net":["10.7.0.0/24"]}"#)));
    assert!(completed(&mut inventory).failures.is_empty());
    assert_eq!(annotations(&inventory), [r#"{"blue_net":["10.0.0.0/24","fd00:0:0:1::/64"]}"#]);
    assert!(
        inventory.warnings[0]
            .message
            .starts_with("10.7.0.0/24 is no node subnet of network blue_net")
    );
}
