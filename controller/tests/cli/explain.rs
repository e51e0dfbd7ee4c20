//! `patchbay explain`: every network and node, and what to mend.

use serde_json::Value;

use crate::command::{Run, example, example_text, run, run_on};

#[track_caller]
fn tells(run: &Run, lines: &[&str]) {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for line in lines {
        let found = run.stdout.lines().any(|found| found == *line);
        assert!(found, "{line}\nin\n{}", run.stdout);
    }
}

#[test]
fn the_example_is_connected() {
    let explained = run("explain cnc blue-green-connect", &[&example()]);
    tells(&explained, &[]);
    assert_eq!(explained.stderr, "");
    insta::assert_snapshot!(explained.stdout);
    let json = run("explain cnc blue-green-connect -o json", &[&example()]).succeeded();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["networks"][0]["state"], "connected");
    assert_eq!(json["networks"][1]["nodes"][2]["connected"], true);
    assert_eq!(json["room"][0]["nodeIdsBelow"], 128);
}

/// A cluster in which something is wrong with everything.
const TROUBLE: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Node
metadata: {name: n2, annotations: {k8s.ovn.org/node-id: '40'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {team: a, k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: v1
kind: Namespace
metadata: {name: plain, labels: {team: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: empty, labels: {team: a, k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: red}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.1.0.0/16, hostSubnet: 24}]}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: nowhere, labels: {tier: app}}
spec:
  namespaceSelector: {matchLabels: {team: none}}
  network: {topology: Layer2, layer2: {role: Primary, subnets: [10.2.0.0/16]}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: second, labels: {tier: app}}
spec:
  namespaceSelector: {matchLabels: {team: a}}
  network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.3.0.0/16]}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {name: c}
spec:
  networkSelectors:
  - networkSelectionType: PrimaryUserDefinedNetworks
    primaryUserDefinedNetworkSelector: {namespaceSelector: {matchLabels: {team: a}}}
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {networkSelector: {matchLabels: {tier: app}}}
  connectSubnets: [{cidr: 192.168.0.0/24, networkPrefix: 26}]
  connectivity: [PodNetwork]
";

#[test]
fn everything_that_is_wrong_comes_with_what_to_mend() {
    let explained = run_on("explain cnc c", TROUBLE);
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
    insta::assert_snapshot!(explained.stdout);
}

#[test]
fn a_connect_that_is_refused_says_why_for_its_networks() {
    let manifests = example_text().replace("192.168.0.0/16", "103.103.0.0/17");
    let explained = run_on("explain cnc blue-green-connect", &manifests);
    tells(
        &explained,
        &["ClusterNetworkConnect blue-green-connect: not accepted"],
    );
    let reason =
        "  not connected: it has no connect subnet: validation failed for CNC blue-green-connect: ";
    let told = explained.stdout.lines();
    let told = told.filter(|line| {
        line.starts_with(reason)
            && line.ends_with(" -> ClusterNetworkConnect blue-green-connect: spec")
    });
    assert_eq!(told.count(), 2, "{}", explained.stdout);
}

#[test]
fn what_is_not_there_is_told() {
    let explained = run("explain cnc other", &[&example()]);
    assert_eq!(explained.code, Some(1));
    assert_eq!(
        explained.stderr,
        "error: there is no ClusterNetworkConnect other: there is blue-green-connect\n"
    );
    let explained = run("explain cnc c --nb unix:/none", &[&example()]);
    assert_eq!(explained.code, Some(1));
    assert!(explained.stderr.contains("--zone"), "{}", explained.stderr);
    let explained = run("explain pod c", &[&example()]);
    assert!(
        explained.stderr.contains("[possible values: cnc]"),
        "{}",
        explained.stderr
    );
}
