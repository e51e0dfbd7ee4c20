//! Networks of attachment definitions.

use serde_json::json;

use super::*;

fn nad(
    namespace: &str,
    name: &str,
    network: &str,
    id: Option<&str>,
    subnets: &str,
) -> NetworkAttachmentDefinition {
    let config = json!({
        "type": "ovn-k8s-cni-overlay", "name": network, "topology": "layer3", "role": "primary", "subnets": subnets,
        "netAttachDefName": format!("{namespace}/{name}"),
    });
    let mut annotations = serde_json::Map::new();
    if let Some(id) = id {
        annotations.insert(NETWORK_ID.to_owned(), id.into());
    }
    serde_json::from_value(json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"config": config.to_string()},
    }))
    .unwrap()
}

fn namespace(name: &str, labelled: bool) -> Namespace {
    let labels = if labelled { json!({PRIMARY_NETWORK_LABEL: ""}) } else { json!({}) };
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
}

fn problems(networks: &Networks) -> Vec<String> {
    networks.problems().iter().map(|(key, problem)| format!("{key}: {problem}")).collect()
}

#[test]
fn definitions_of_one_network_are_one_network() {
    let nads = [
        nad("a", "red", "cluster_udn_red", Some("1"), "10.0.0.0/16"),
        nad("b", "red", "cluster_udn_red", Some("1"), "10.0.0.0/16"),
    ];
    let namespaces = [namespace("a", true), namespace("b", false)];
    let networks = super::networks(&nads, &namespaces);
    let network = networks.by_name("cluster_udn_red").unwrap();
    assert_eq!(network.nads.len(), 2);
    assert_eq!(network.namespaces.iter().collect::<Vec<_>>(), ["a"]);
    assert_eq!(networks.by_id(network.id), Some(network));
    assert_eq!(networks.by_nad(&nad_key(&nads[1])), Some(network));
    assert_eq!(problems(&networks), Vec::<String>::new());
}

#[test]
fn definitions_without_a_network_have_problems() {
    let mut broken = nad("f", "broken", "f_broken", Some("9"), "");
    broken.spec.config = Some("{".to_owned());
    let nads = [
        nad("a", "red", "cluster_udn_red", Some("1"), "10.0.0.0/16"),
        nad("b", "red", "cluster_udn_red", Some("1"), "10.1.0.0/16"),
        nad("c", "blue", "c_blue", Some("1"), "10.2.0.0/16"),
        nad("d", "green", "d_green", None, "10.3.0.0/16"),
        nad("e", "grey", "e_grey", Some("-2"), "10.4.0.0/16"),
        nad("a", "second", "a_second", Some("3"), "10.5.0.0/16"),
        broken,
    ];
    let networks = super::networks(&nads, []);
    assert_eq!(networks.iter().count(), 1);
    let found = problems(&networks);
    assert_eq!(
        found[..5],
        [
            "a/second: primary network already exist in namespace \"a\": a/red",
            "b/red: network cluster_udn_red is defined differently by a/red",
            "c/blue: network c_blue has id 1, which is the id of network cluster_udn_red",
            "d/green: network d_green has no id yet",
            "e/grey: network e_grey: annotation k8s.ovn.org/network-id: network id -2 is not in 0..=4095",
        ]
    );
    assert!(found[5].starts_with("f/broken: spec.config: "), "{}", found[5]);
}

#[test]
fn networks_whose_rows_would_share_names_are_one_network() {
    let nads = [
        nad("a", "a-b", "cluster_udn_a-b", Some("7"), "10.0.0.0/16"),
        nad("b", "a.b", "cluster_udn_a.b", Some("3"), "10.1.0.0/16"),
        nad("c", "a.b", "cluster_udn_a.b", Some("3"), "10.1.0.0/16"),
        nad("d", "x", "cluster_udn/a/b", Some("1"), "10.2.0.0/16"),
        nad("e", "x", "cluster_udn_a_b", Some("9"), "10.3.0.0/16"),
    ];
    let networks = super::networks(&nads, &[namespace("a", true)]);
    let names: Vec<_> = networks.iter().map(|network| &*network.name).collect();
    assert_eq!(names, ["cluster_udn/a/b", "cluster_udn_a.b", "cluster_udn_a_b"]);
    assert_eq!(
        problems(&networks),
        [
            "a/a-b: network cluster_udn_a-b conflicts with network cluster_udn_a.b in OVN: routers and switches \
             of both have names that start with \"cluster_udn_a.b_\""
        ]
    );
    let refused = nad_key(&nads[0]);
    assert_eq!(networks.by_nad(&refused), None);
    assert_eq!(networks.by_id("7".parse().unwrap()), None);
    assert_eq!(networks.primary_nad("a"), Some(&refused));
}

/// The definition as one that was made for a ClusterUserDefinedNetwork of its name.
fn made(mut nad: NetworkAttachmentDefinition) -> NetworkAttachmentDefinition {
    let owner = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "name": nad.name_any(), "uid": "",
        "controller": true,
    });
    nad.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    nad
}

/// Writes a field into the configuration.
fn with(
    mut nad: NetworkAttachmentDefinition,
    field: &str,
    value: serde_json::Value,
) -> NetworkAttachmentDefinition {
    let mut config: serde_json::Value =
        serde_json::from_str(nad.spec.config.as_deref().unwrap()).unwrap();
    config[field] = value;
    nad.spec.config = Some(config.to_string());
    nad
}

#[test]
fn a_definition_without_owner_does_not_take_over_a_network() {
    let red = |namespace| nad(namespace, "red", "cluster_udn_red", Some("1"), "10.0.0.0/16");
    let unowned = |network: &str| nad("a", "x", network, Some("1"), "10.9.0.0/16");
    for definition in [
        unowned("cluster_udn_red"),
        // Owned by another network.
        made(unowned("cluster_udn_red")),
        with(made(red("a")), "name", "else".into()),
        with(nad("a", "x", "cluster_udn_red", Some("1"), "10.0.0.0/16"), "mtu", 1300.into()),
    ] {
        let refused = nad_key(&definition);
        let networks = super::networks(&[definition, made(red("b")), made(red("c"))], []);
        assert_eq!(networks.iter().count(), 1);
        let network = networks.by_name("cluster_udn_red").unwrap();
        assert_eq!(network.pod_subnets[0].to_string(), "10.0.0.0/16/24");
        assert_eq!(network.nads.len(), 2);
        assert_eq!(networks.definition("cluster_udn_red").unwrap().namespace, "b");
        assert_eq!(networks.problems().keys().collect::<Vec<_>>(), [&refused]);
    }
    let same = super::networks(
        &[nad("a", "x", "cluster_udn_red", Some("1"), "10.0.0.0/16"), made(red("b"))],
        [],
    );
    assert!(same.problems().is_empty());
    assert_eq!(same.definition("cluster_udn_red").unwrap().namespace, "b");
}

#[test]
fn a_configuration_must_name_its_own_definition() {
    let nads = [
        with(nad("a", "red", "r", Some("1"), "10.0.0.0/16"), "netAttachDefName", "b/red".into()),
        with(nad("b", "red", "r", Some("1"), "10.0.0.0/16"), "netAttachDefName", "".into()),
    ];
    assert_eq!(
        problems(&super::networks(&nads, [])),
        [
            "a/red: spec.config: net-attach-def name (a/red) is inconsistent with config (b/red)",
            "b/red: spec.config: net-attach-def name (b/red) is inconsistent with config ()",
        ]
    );
}
