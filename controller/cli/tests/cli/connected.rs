//! Connects that select no network: the condition `Connected`, and what `explain` prints.

use serde_json::Value;

use crate::command::{Run, run_on};

/// Two primary networks and a secondary one, on one node.
const NETWORKS: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {team: a, k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {team: b, k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: red, labels: {tier: app, zone: x}}
spec:
  namespaceSelector: {matchLabels: {team: a}}
  network: {topology: Layer2, layer2: {role: Primary, subnets: [10.2.0.0/16]}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: second, labels: {tier: extra}}
spec:
  namespaceSelector: {matchLabels: {team: a}}
  network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.3.0.0/16]}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: blue}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.1.0.0/16, hostSubnet: 24}]}}
---
";

/// Selector of ClusterUserDefinedNetworks with a label.
fn cluster_networks(label: &str) -> String {
    format!(
        "{{networkSelectionType: ClusterUserDefinedNetworks, \
         clusterUserDefinedNetworkSelector: {{networkSelector: {{matchLabels: {{{label}}}}}}}}}"
    )
}

/// Selector of namespaces with a label.
fn namespaces(label: &str) -> String {
    format!(
        "{{networkSelectionType: PrimaryUserDefinedNetworks, \
         primaryUserDefinedNetworkSelector: {{namespaceSelector: {{matchLabels: {{{label}}}}}}}}}"
    )
}

fn connect(selector: &str, range: &str) -> String {
    format!(
        "---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {{name: c}}
spec:
  networkSelectors: [{selector}]
  connectSubnets: [{range}]
  connectivity: [PodNetwork]
"
    )
}

/// The condition `Connected` and `status.status` in the output of `apply -o json`.
fn connected(applied: &Run) -> [String; 4] {
    let document: Value = serde_json::from_str(&applied.stdout).unwrap();
    let status = &document["connects"][0]["status"];
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let condition = conditions.find(|one| one["type"] == "Connected").unwrap();
    [
        &condition["status"],
        &condition["reason"],
        &condition["message"],
        &status["status"],
    ]
    .map(|value| value.as_str().unwrap_or_default().to_owned())
}

const RANGE: &str = "{cidr: 192.168.0.0/16, networkPrefix: 24}";

#[test]
fn a_connect_without_networks_is_not_connected_and_names_the_labels() {
    let networks = "ClusterUserDefinedNetworks with attachment definitions";
    let primary = "namespaces with the label k8s.ovn.org/primary-user-defined-network";
    for (selector, reason) in [
        (
            cluster_networks("tier: nope"),
            format!(
                "spec.networkSelectors[0] matches none of 2 {networks} \
                 (labels there: tier=app, tier=extra, zone=x)"
            ),
        ),
        (
            cluster_networks("zone: w"),
            format!(
                "spec.networkSelectors[0] matches none of 2 {networks} \
                 (labels there: zone=x, tier=app, tier=extra)"
            ),
        ),
        (
            cluster_networks("tier: extra"),
            "spec.networkSelectors[0]: network cluster_udn_second is not primary".to_owned(),
        ),
        (
            namespaces("team: nope"),
            format!(
                "spec.networkSelectors[0] matches none of 2 {primary} (labels there: team=a, team=b, \
                 kubernetes.io/metadata.name=blue, kubernetes.io/metadata.name=red)"
            ),
        ),
    ] {
        let manifests = format!("{NETWORKS}{}", connect(&selector, RANGE));
        let applied = run_on("apply -o json", &manifests);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
        let message = format!(
            "connected: 0 networks with 0 ports in 1 zone; no network is selected: {reason}"
        );
        assert_eq!(
            connected(&applied),
            ["False", "NoNetworksSelected", &*message, "Success"],
        );

        let explained = run_on("explain cnc c", &manifests);
        assert_eq!(explained.code, Some(2), "{}", explained.stdout);
        let end = format!("\nno network is selected\n  {reason}\n");
        assert!(explained.stdout.ends_with(&end), "{}", explained.stdout);
        let explained = run_on("explain cnc c -o json", &manifests);
        assert_eq!(explained.code, Some(2));
        let document: Value = serde_json::from_str(&explained.stdout).unwrap();
        assert_eq!(document["unselected"], serde_json::json!([reason]));
    }
}

#[test]
fn the_only_network_without_a_match_has_its_own_words() {
    let without = NETWORKS.replace("{name: second, labels: {tier: extra}}", "{name: second}");
    let (head, rest) = without
        .split_once("---\napiVersion: k8s.ovn.org/v1")
        .unwrap();
    let nothing = format!("{head}{}", connect(&cluster_networks("tier: app"), RANGE));
    let message = &connected(&run_on("apply -o json", &nothing))[2];
    let end = "matches nothing: there is no ClusterUserDefinedNetwork with attachment definitions";
    assert!(message.ends_with(end), "{message}");
    let (one, _) = rest.split_once("---").unwrap();
    let one = format!(
        "{head}---\napiVersion: k8s.ovn.org/v1{one}{}",
        connect(&cluster_networks("tier: nope"), RANGE)
    );
    let message = &connected(&run_on("apply -o json", &one))[2];
    let end = "does not match the only ClusterUserDefinedNetwork with attachment definitions \
               (labels there: tier=app, zone=x)";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn labels_are_listed_up_to_a_limit() {
    let labels: Vec<String> = (0..40).map(|number| format!("key{number:02}: x")).collect();
    let many = NETWORKS.replace("tier: app, zone: x", &labels.join(", "));
    let manifests = format!("{many}{}", connect(&cluster_networks("tier: nope"), RANGE));
    let message = &connected(&run_on("apply -o json", &manifests))[2];
    assert!(
        message.contains("(labels there: tier=extra, key00=x, ")
            && message.ends_with("key08=x and 31 more)"),
        "{message}"
    );
}

#[test]
fn selected_networks_without_subnets_are_not_connected() {
    // Two blocks, and three networks of which each needs its own.
    let layer3 = NETWORKS.replace(
        "topology: Layer2, layer2: {role: Primary, subnets: [10.2.0.0/16]}",
        "topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.2.0.0/16, hostSubnet: 24}]}",
    );
    let third = "apiVersion: v1
kind: Namespace
metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: green}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.4.0.0/16, hostSubnet: 24}]}}
";
    let selector = "{networkSelectionType: PrimaryUserDefinedNetworks, \
                    primaryUserDefinedNetworkSelector: {namespaceSelector: {}}}";
    let range = "{cidr: 192.168.0.0/24, networkPrefix: 25}";
    let manifests = format!("{layer3}{third}{}", connect(selector, range));
    let applied = run_on("apply -o json", &manifests);
    let [status, reason, message, short] = connected(&applied);
    assert_eq!(
        [&*status, &*reason, &*short],
        ["False", "SomethingSkipped", "Failure"],
        "{message}"
    );
    assert!(
        message.starts_with(
            "connected: 2 networks with 2 ports in 1 zone; without connect subnets: network "
        ),
        "{message}"
    );
    // The connect is not accepted, which ends `apply` with 1 once its rows are made.
    assert_eq!(applied.code, Some(1));
    let warning = "ClusterNetworkConnect c: Accepted is False: ";
    let error = "\nerror: not accepted: ClusterNetworkConnect c; see the warnings\n";
    assert!(
        applied.stderr.contains(warning) && applied.stderr.ends_with(error),
        "{}",
        applied.stderr
    );
    assert_eq!(run_on("explain cnc c", &manifests).code, Some(2));
}

#[test]
fn a_network_that_is_not_accepted_ends_an_apply_with_an_error() {
    // The second primary network of a namespace.
    let second = "apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: other, namespace: blue}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.5.0.0/16, hostSubnet: 24}]}}
";
    let manifests = format!("{NETWORKS}{second}");
    let applied = run_on("apply", &manifests);
    assert_eq!(applied.code, Some(1), "{}", applied.stderr);
    let error = "error: not accepted: UserDefinedNetwork blue/";
    assert!(applied.stderr.contains(error), "{}", applied.stderr);
    assert!(applied.stdout.contains("blue_"), "{}", applied.stdout);
    // `plan` has its own statuses.
    assert_eq!(run_on("plan", &manifests).code, Some(2));
}
