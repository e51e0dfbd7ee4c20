//! Connects that select no network: the condition `Connected`, and what `explain` prints.

use serde_json::Value;

use crate::command::{Run, run_on};
use crate::manifests::{
    RANGE, cluster_networks, connect, cudn, layer2, layer3, namespaces, node, primary_namespace,
    udn,
};

/// A node, and two namespaces with primary networks.
fn namespaces_of_networks() -> String {
    let red = primary_namespace("red", "team: a");
    node("n1") + &red + &primary_namespace("blue", "team: b")
}

/// A primary network that a connect may select by its labels.
fn red_network() -> String {
    let network = layer2("Primary", "10.2.0.0/16");
    cudn("red", "tier: app, zone: x", "team: a", &network)
}

/// Two primary networks and a secondary one, on one node.
fn three_networks() -> String {
    let second = layer2("Secondary", "10.3.0.0/16");
    let second = cudn("second", "tier: extra", "team: a", &second);
    let blue = udn("blue", "net", &layer3("Primary", "10.1.0.0/16"));
    namespaces_of_networks() + &red_network() + &second + &blue
}

/// The condition `Connected` and `status.status` in the output of `apply -o json`.
fn connected(applied: &Run) -> [String; 4] {
    let document: Value = serde_json::from_str(&applied.stdout).unwrap();
    let status = &document["connects"][0]["status"];
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let condition = conditions.find(|one| one["type"] == "Connected").unwrap();
    [&condition["status"], &condition["reason"], &condition["message"], &status["status"]]
        .map(|value| value.as_str().unwrap_or_default().to_owned())
}

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
        let manifests = three_networks() + &connect(&[selector], RANGE);
        let applied = run_on("apply -o json", &manifests);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
        let message = format!(
            "connected: 0 networks with 0 ports in 1 zone; no network is selected: {reason}"
        );
        assert_eq!(connected(&applied), ["False", "NoNetworksSelected", &*message, "Success"],);

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
    let head = namespaces_of_networks();
    let selects = |label: &str| connect(&[cluster_networks(label)], RANGE);
    let nothing = head.clone() + &selects("tier: app");
    let message = &connected(&run_on("apply -o json", &nothing))[2];
    let end = "matches nothing: there is no ClusterUserDefinedNetwork with attachment definitions";
    assert!(message.ends_with(end), "{message}");
    let one = head + &red_network() + &selects("tier: nope");
    let message = &connected(&run_on("apply -o json", &one))[2];
    let end = "does not match the only ClusterUserDefinedNetwork with attachment definitions \
               (labels there: tier=app, zone=x)";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn labels_are_listed_up_to_a_limit() {
    let labels: Vec<String> = (0..40).map(|number| format!("key{number:02}: x")).collect();
    let many = three_networks().replace("tier: app, zone: x", &labels.join(", "));
    let manifests = many + &connect(&[cluster_networks("tier: nope")], RANGE);
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
    let red = layer2("Primary", "10.2.0.0/16");
    let networks = three_networks().replace(&red, &layer3("Primary", "10.2.0.0/16"));
    let third = primary_namespace("green", "team: c")
        + &udn("green", "net", &layer3("Primary", "10.4.0.0/16"));
    let selector = "{networkSelectionType: PrimaryUserDefinedNetworks, \
                    primaryUserDefinedNetworkSelector: {namespaceSelector: {}}}";
    let range = "{cidr: 192.168.0.0/24, networkPrefix: 25}";
    let manifests = networks + &third + &connect(&[selector.to_owned()], range);
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
    let second = udn("blue", "other", &layer3("Primary", "10.5.0.0/16"));
    let manifests = three_networks() + &second;
    let applied = run_on("apply", &manifests);
    assert_eq!(applied.code, Some(1), "{}", applied.stderr);
    let error = "error: not accepted: UserDefinedNetwork blue/";
    assert!(applied.stderr.contains(error), "{}", applied.stderr);
    assert!(applied.stdout.contains("blue_"), "{}", applied.stdout);
    // `plan` has its own statuses.
    assert_eq!(run_on("plan", &manifests).code, Some(2));
}
