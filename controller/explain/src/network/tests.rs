//! Networks as zones and nodes leave them.

use std::sync::Arc;

use patchbay_connects::{ConnectReport, ConnectedNetwork};
use patchbay_model::Networks;
use patchbay_networks::DefinitionError;
use serde_json::json;

use super::*;

/// Network `net` of id 7.
fn networks(topology: &str) -> Networks {
    let config = json!({
        "type": "ovn-k8s-cni-overlay", "name": "net", "netAttachDefName": "one/a", "topology": topology, "role": "primary",
        "subnets": "10.1.0.0/16",
    });
    let nad = serde_json::from_value(json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "a", "namespace": "one", "annotations": {"k8s.ovn.org/network-id": "7"}},
        "spec": {"config": config.to_string()},
    }));
    patchbay_resources::conversion::networks([&nad.unwrap()], [])
}

/// A node with these annotations.
fn node(name: &str, annotations: &serde_json::Value) -> (Node, Vec<NodeError>) {
    let node =
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}}));
    patchbay_resources::conversion::node(&node.unwrap())
}

fn ready(name: &str) -> (Node, Vec<NodeError>) {
    let annotations = json!({
        "k8s.ovn.org/node-id": "2", "k8s.ovn.org/node-chassis-id": name,
        "k8s.ovn.org/node-subnets": r#"{"net":["10.1.0.0/24"]}"#,
    });
    node(name, &annotations)
}

fn connected(network: &Network) -> ZoneView {
    let report = ConnectReport {
        connected: vec![ConnectedNetwork {
            owner: network.owner_key(),
            network: network.name.clone(),
            is_local: true,
            ports: 2,
            routes: 2,
        }],
        ..ConnectReport::default()
    };
    ZoneView { report: Arc::new(report), ..ZoneView::default() }
}

/// A zone in which the network has no router.
fn without_router(network: &Network, reason: Option<SkipReason>) -> ZoneView {
    let report = ConnectReport {
        skipped_networks: vec![SkippedNetwork {
            owner: network.owner_key(),
            network: Some(network.name.clone()),
            reason: NetworkSkip::NoRouter(network.router()),
        }],
        ..ConnectReport::default()
    };
    ZoneView {
        report: Arc::new(report),
        without_rows: reason.map(|reason| (network.name.clone(), reason)).into_iter().collect(),
        ..ZoneView::default()
    }
}

/// Connection of the network, the reasons for all nodes, and each node with its reasons.
fn explained(
    topology: &str,
    nodes: Vec<(Node, Vec<NodeError>)>,
    zones: impl Fn(&Network) -> Vec<(&'static str, ZoneView)>,
) -> (NetworkState, Vec<String>, Vec<String>) {
    let networks = networks(topology);
    let network = networks.by_name("net").unwrap();
    let subnets = format!(r#"{{"{topology}_7":{{"ipv4":"192.168.0.0/24"}}}}"#);
    let zones = zones(network).into_iter().map(|(zone, view)| (zone.to_owned(), view));
    let state = ConnectState {
        name: "c",
        accepted: Some((true, String::new())),
        subnets: &ConnectSubnetMap::parse(&subnets).unwrap().0,
        nodes,
        rows: &RowReasons::default(),
        zones: &zones.collect(),
        is_central: false,
    };
    let explanation = state.network(SelectedNetwork {
        network,
        object: "UserDefinedNetwork one/a".to_owned(),
        definition: networks.definition("net"),
        without_subnets: None,
        by: BTreeSet::new(),
    });
    let texts = |reasons: &[Reason]| reasons.iter().map(ToString::to_string).collect();
    let of_nodes = explanation.nodes.iter().flat_map(|node| {
        let reasons: Vec<String> = texts(&node.reasons);
        reasons.into_iter().map(move |reason| format!("{}: {reason}", node.node))
    });
    (explanation.state, texts(&explanation.reasons), of_nodes.collect())
}

const NO_ROUTER: &str = "its router net_ovn_cluster_router does not exist yet -> Northbound row Logical_Router net_ovn_cluster_router";

#[test]
fn rows_missing_in_one_zone_concern_its_node() {
    let nodes = vec![ready("n1"), ready("n2"), ready("n3")];
    let explained_as = explained("layer3", nodes, |network| {
        vec![("n1", without_router(network, None)), ("n2", connected(network))]
    });
    let of_node = format!("n1: {NO_ROUTER}");
    assert_eq!(explained_as, (NetworkState::Partly, vec![], vec![of_node]));
}

#[test]
fn rows_missing_in_the_only_database_concern_all_nodes() {
    let nodes = vec![ready("n1"), ready("n2")];
    let (state, reasons, _) =
        explained("layer3", nodes, |network| vec![("n1", without_router(network, None))]);
    assert_eq!(state, NetworkState::NotConnected);
    assert_eq!(reasons, [NO_ROUTER]);
}

#[test]
fn an_annotation_missing_on_the_only_zones_node_concerns_no_other() {
    let chassis = json!({"k8s.ovn.org/node-chassis-id": "n2"});
    let nodes = vec![ready("n1"), node("n2", &chassis)];
    let (state, reasons, of_nodes) = explained("layer2", nodes, |network| {
        let reason = Some(SkipReason::NoNodeId);
        vec![("n2", without_router(network, reason))]
    });
    assert_eq!((state, reasons), (NetworkState::NotConnected, vec![]));
    assert_eq!(
        of_nodes,
        [
            "n1: the northbound database of its zone was not looked at -> Node n1",
            "n2: the node has no id yet -> Node n2: metadata.annotations[k8s.ovn.org/node-id]",
        ]
    );
}

#[test]
fn a_network_without_rows_has_the_zones_reason() {
    let explained_as = |reason: SkipReason| {
        let (state, reasons, of_nodes) = explained("layer2", vec![ready("n1")], |network| {
            vec![("n1", without_router(network, Some(reason.clone())))]
        });
        assert_eq!(state, NetworkState::NotConnected);
        [reasons, of_nodes].concat()
    };
    let nad = "NetworkAttachmentDefinition one/a";
    assert_eq!(
        explained_as(SkipReason::NoTunnelKeys),
        [format!(
            "the network has no tunnel keys -> {nad}: metadata.annotations[k8s.ovn.org/tunnel-keys]"
        )]
    );
    assert_eq!(
        explained_as(SkipReason::Definition(DefinitionError::Config("mtu".to_owned()))),
        [format!("spec.config: mtu -> {nad}: spec.config")]
    );
    assert_eq!(
        explained_as(SkipReason::SubnetTooSmall("10.0.0.0/31".parse().unwrap())),
        ["subnet 10.0.0.0/31 is too small for the addresses of the router and of the node itself \
             -> UserDefinedNetwork one/a"]
    );
    assert_eq!(
        explained_as(SkipReason::NoChassisId),
        [
            "n1: the node has no chassis id yet -> Node n1: metadata.annotations[k8s.ovn.org/node-chassis-id]"
        ]
    );
}

#[test]
fn a_node_without_ovn_is_named_and_does_not_count() {
    let nodes = vec![ready("n1"), node("win-1", &json!({}))];
    let explained = explained("layer3", nodes, |network| vec![("n1", connected(network))]);
    let reason = "win-1: OVN does not manage the node: it has no id, no chassis id and no subnets \
                  -> Node win-1";
    assert_eq!(explained, (NetworkState::Connected, vec![], vec![reason.to_owned()]));
}

#[test]
fn nodes_whose_zones_are_not_asked_are_looked_at() {
    let nodes = vec![
        ready("n1"),
        node("n2", &json!({"k8s.ovn.org/node-id": "3"})),
        node("n3", &json!({"k8s.ovn.org/node-id": "third"})),
    ];
    let (state, reasons, of_nodes) =
        explained("layer2", nodes, |network| vec![("n1", connected(network))]);
    assert_eq!((state, reasons), (NetworkState::Partly, vec![]));
    assert_eq!(of_nodes.len(), 2);
    assert_eq!(
        of_nodes[0],
        "n2: the node has no chassis id yet -> Node n2: metadata.annotations[k8s.ovn.org/node-chassis-id]"
    );
    assert!(
        of_nodes[1].starts_with("n3: the node's id cannot be read: ")
            && of_nodes[1].ends_with(" -> Node n3: metadata.annotations[k8s.ovn.org/node-id]"),
        "{}",
        of_nodes[1]
    );
}
