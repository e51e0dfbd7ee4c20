//! `patchbay explain`: every network and node, and what to mend.

use serde_json::Value;

use crate::command::{Run, example, example_text, run, run_on};
use crate::manifests::{
    RANGE, cluster_networks, connect, cudn, layer2, layer3, namespace, namespaces as of_namespaces,
    node, primary_namespace, udn,
};

#[track_caller]
fn assert_lines(run: &Run, code: i32, lines: &[&str]) {
    assert_eq!(run.code, Some(code), "{}", run.stderr);
    for line in lines {
        let found = run.stdout.lines().any(|found| found == *line);
        assert!(found, "{line}\nin\n{}", run.stdout);
    }
}

#[test]
fn the_example_is_connected() {
    let explained = run("explain cnc blue-green-connect", &[&example()]);
    assert_lines(&explained, 0, &[]);
    assert_eq!(explained.stderr, "");
    insta::assert_snapshot!(explained.stdout);
    let json = run("explain cnc blue-green-connect -o json", &[&example()]).succeeded();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["networks"][0]["state"], "connected");
    assert_eq!(json["networks"][1]["nodes"][2]["connected"], true);
    assert_eq!(json["ranges"][0]["nodeIdsBelow"], 127);
    assert_eq!(json["nodeIds"], serde_json::json!({"total": 126, "left": 123}));
}

#[test]
fn a_kind_has_the_names_that_it_has_for_kubectl() {
    for kind in ["cnc", "CNC", "clusternetworkconnects", "ClusterNetworkConnect"] {
        let arguments = format!("explain {kind} blue-green-connect");
        let text = run(&arguments, &[&example()]).succeeded();
        let expected = "ClusterNetworkConnect blue-green-connect: accepted\n";
        assert!(text.starts_with(expected), "{kind}: {text}");
    }
}

/// `-f` takes all arguments up to the next flag, so the object has to come before it.
#[test]
fn the_usage_has_the_object_before_the_manifests() {
    let explained = run("explain -f cluster.yaml cnc c", &[]);
    assert_eq!(explained.code, Some(1));
    let usage = "Usage: patchbay explain <KIND> <NAME> [OPTIONS]\n";
    assert!(explained.stderr.contains(usage), "{}", explained.stderr);
}

/// A cluster in which something is wrong with everything.
fn trouble() -> String {
    let n2 = node("n2, annotations: {k8s.ovn.org/node-id: '40'}");
    let namespaces = primary_namespace("red", "team: a") + &namespace("plain", "team: a");
    let nowhere = layer2("Primary", "10.2.0.0/16");
    let second = layer2("Secondary", "10.3.0.0/16");
    [
        node("n1") + &n2,
        namespaces + &primary_namespace("empty", "team: a"),
        udn("red", "net", &layer3("Primary", "10.1.0.0/16")),
        cudn("nowhere", "tier: app", "team: none", &nowhere),
        cudn("second", "tier: app", "team: a", &second),
        connect(
            &[of_namespaces("team: a"), cluster_networks("tier: app")],
            "{cidr: 192.168.0.0/24, networkPrefix: 26}",
        ),
    ]
    .concat()
}

#[test]
fn each_obstacle_names_object_and_field() {
    let explained = run_on("explain cnc c", &trouble());
    assert_eq!(explained.code, Some(2), "{}", explained.stderr);
    insta::assert_snapshot!(explained.stdout);
}

/// Objects as a cluster has them: a definition without the network that it is of, a service without
/// load balancers.
const AS_IN_A_CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: red
  namespace: red
  labels: {tier: app}
  annotations: {k8s.ovn.org/network-id: '7', k8s.ovn.org/network-name: cluster_udn_red}
  ownerReferences:
  - {apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, name: red, uid: '1', controller: true}
spec:
  config: '{"type": "ovn-k8s-cni-overlay", "name": "cluster_udn_red", "netAttachDefName": "red/red", "role": "primary", "topology": "layer2", "subnets": "10.1.0.0/16"}'
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: red}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {name: c}
spec:
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {networkSelector: {matchLabels: {tier: app}}}
  connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
  connectivity: [PodNetwork, ServiceNetwork]
"#;

#[test]
fn a_refused_connect_has_reasons_in_its_spec() {
    let first = &AS_IN_A_CLUSTER[AS_IN_A_CLUSTER.rfind("---").unwrap()..];
    let second = first.replace("metadata: {name: c}", "metadata: {name: d}");
    let objects = format!("{AS_IN_A_CLUSTER}{second}");
    let explained = run_on("explain cnc d", &objects);
    assert!(
        explained.stdout.contains("] -> ClusterNetworkConnect d: spec\n"),
        "{}",
        explained.stdout
    );
    assert!(!explained.stdout.contains("metadata.annotations"), "{}", explained.stdout);
}

#[test]
fn rows_of_other_programs_are_assumed_to_exist() {
    let explained = run_on("explain cnc c", AS_IN_A_CLUSTER);
    assert_lines(&explained, 0, &["network cluster_udn_red: connected"]);
    assert_eq!(explained.stderr, "");
    assert!(!explained.stdout.contains("note:"), "{}", explained.stdout);
}

#[test]
fn equal_reasons_of_many_nodes_are_one_line() {
    let node =
        |number: usize| format!("\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{number}}}");
    let nodes = (10..30).map(node).collect::<Vec<_>>().concat();
    let manifests = AS_IN_A_CLUSTER.replace("layer2", "layer3");
    // Blocks for node ids below 8, and 21 nodes from id 2 on.
    let manifests = manifests.replace("networkPrefix: 24", "networkPrefix: 28");
    let explained = run_on("explain cnc c", &(manifests + &nodes));
    let of_a_node = "  node n17: not connected: generated ip 192.168.0.20 from the idx 10 is out of range in the network \
                     192.168.0.0/28 -> ClusterNetworkConnect c: spec.connectSubnets";
    let rest = "  5 more nodes: not connected -> ClusterNetworkConnect c: spec.connectSubnets";
    assert_lines(&explained, 2, &[of_a_node, rest]);
    let lines = explained.stdout.lines();
    assert_eq!(lines.filter(|line| line.starts_with("  node ")).count(), 10);
}

#[test]
fn a_refused_connect_has_a_reason_for_each_network() {
    let manifests = example_text().replace("192.168.0.0/16", "103.103.0.0/17");
    let explained = run_on("explain cnc blue-green-connect", &manifests);
    assert_lines(&explained, 2, &["ClusterNetworkConnect blue-green-connect: not accepted"]);
    let reason =
        "  not connected: it has no connect subnet: validation failed for CNC blue-green-connect: ";
    let printed = explained.stdout.lines().filter(|line| {
        line.starts_with(reason)
            && line.ends_with(" -> ClusterNetworkConnect blue-green-connect: spec")
    });
    assert_eq!(printed.count(), 2, "{}", explained.stdout);
}

#[test]
fn missing_objects_are_reported() {
    let explained = run("explain cnc other", &[&example()]);
    assert_eq!(explained.code, Some(1));
    assert_eq!(
        explained.stderr,
        "error: ClusterNetworkConnect other not found; found blue-green-connect\n"
    );
    let explained = run("explain cnc c --nb unix:/none", &[&example()]);
    assert_eq!(explained.code, Some(1));
    assert!(explained.stderr.contains("--zone"), "{}", explained.stderr);
    let explained = run("explain tunnel c", &[&example()]);
    assert!(
        explained.stderr.contains("[possible values: cnc, udn, cudn, pod"),
        "{}",
        explained.stderr
    );
}

/// Of one network there are subnets for two of three nodes, and another one has a gateway that is
/// none.
fn uneven() -> String {
    let small = layer3("Primary", "10.1.0.0/23");
    let bent = r#"{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: bent, namespace: two}, spec: {config: '{"type": "ovn-k8s-cni-overlay", "name": "bent", "netAttachDefName": "two/bent", "role": "primary", "topology": "layer2", "subnets": "10.2.0.0/16", "defaultGatewayIPs": "first"}'}}
---
"#;
    [
        primary_namespace("one", "team: a"),
        primary_namespace("two", "team: a"),
        udn("one", "small", &small),
        bent.to_owned(),
        connect(&[of_namespaces("team: a")], RANGE),
    ]
    .concat()
}

/// A node, with its part of a network if it has one.
fn node_with(name: &str, subnet: Option<&str>) -> String {
    let annotations = subnet.map_or_else(String::new, |subnet| {
        format!(", annotations: {{k8s.ovn.org/node-subnets: '{{\"one_small\": [\"{subnet}\"]}}'}}")
    });
    node(&format!("{name}{annotations}"))
}

#[test]
fn it_does_not_matter_which_node_lacks_a_part_of_a_network() {
    let (first, second) = (Some("10.1.0.0/24"), Some("10.1.1.0/24"));
    for (subnets, without) in [
        ([None, None, first, second], ["n0", "n1"]),
        ([first, None, None, second], ["n1", "n2"]),
        ([first, second, None, None], ["n2", "n3"]),
    ] {
        let nodes: String = subnets
            .iter()
            .enumerate()
            .map(|(number, subnet)| node_with(&format!("n{number}"), *subnet))
            .collect();
        let explained = run_on("explain cnc c", &(nodes + &uneven()));
        assert_lines(&explained, 2, &["network one_small: connected on some nodes"]);
        let of_nodes: Vec<&str> =
            explained.stdout.lines().filter(|line| line.starts_with("  node n")).collect();
        let expected = without.map(|node| {
            format!("  node {node}: not connected: the node has no subnet of the network: Network allocation failed for at least one node: ")
        });
        assert_eq!(of_nodes.len(), 2, "{}", explained.stdout);
        for (line, expected) in of_nodes.iter().zip(&expected) {
            assert!(
                line.starts_with(expected)
                    && line.ends_with(" -> UserDefinedNetwork one/small: spec.layer3.subnets"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_network_without_rows_has_a_reason() {
    let manifests = node_with("n0", None) + &uneven();
    assert_lines(
        &run_on("explain cnc c", &manifests),
        2,
        &[
            "network bent: NOT connected",
            r#"  not connected: spec.config: defaultGatewayIPs: "first": invalid IP address syntax -> NetworkAttachmentDefinition two/bent: spec.config"#,
        ],
    );
}

/// Networks that are refused, and a connect of all of them by label and by namespace.
fn refused() -> String {
    let all = "{networkSelectionType: PrimaryUserDefinedNetworks, \
               primaryUserDefinedNetworkSelector: {namespaceSelector: {}}}";
    let half = layer3("Primary", "10.8.0.0/16");
    let fabric = layer2("Primary", "10.7.0.0/16");
    let fabric = format!("{fabric}, transport: EVPN, evpn: {{vtep: v, macVRF: {{vni: 100}}}}");
    let lan = "topology: Localnet, localnet: {role: Secondary, physicalNetworkName: p, subnets: \
               [10.6.0.0/16]}";
    [
        node("n1"),
        primary_namespace("one", "team: a"),
        primary_namespace("two", "team: b"),
        namespace("three", "team: b"),
        namespace("four", "team: c"),
        udn("one", "u", &layer3("Primary", "100.88.0.0/16")),
        udn("four", "u", &layer2("Primary", "10.4.0.0/16")),
        cudn("half", "x: z", "team: b", &half),
        cudn("fabric", "x: z", "team: a", &fabric),
        cudn("lan", "x: z", "team: a", lan),
        connect(&[all.to_owned(), cluster_networks("x: z")], RANGE),
    ]
    .concat()
}

#[test]
fn a_refused_network_has_a_reason_with_a_field() {
    let explained = run_on("explain cnc c", &refused());
    assert_eq!(explained.code, Some(2), "{}", explained.stderr);
    insta::assert_snapshot!(explained.stdout);
}
