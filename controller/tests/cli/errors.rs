//! Bad input: what, where, exit status 1, and nothing printed.

use crate::command::{Run, example, example_text, run, run_on};

#[track_caller]
fn fails(run: &Run, expected: &[&str]) {
    assert_eq!((run.code, &*run.stdout), (Some(1), ""));
    for text in expected {
        assert!(run.stderr.contains(text), "{text}\nin {}", run.stderr);
    }
}

#[test]
fn every_mistake_is_told_at_once() {
    let manifests = example_text()
        .replace("cidr: 103.103.0.0/16", "cidr: 103.103.0.1/16")
        .replace(
            "networkPrefix: 24",
            "networkPrefix: 24\n    gateway: 192.168.0.1",
        );
    fails(
        &run_on("apply", &manifests),
        &[
            "error: standard input:",
            "ClusterUserDefinedNetwork blue-network: spec.network.layer3.subnets[0].cidr: ",
            "ClusterNetworkConnect blue-green-connect: spec.connectSubnets[0]",
            "gateway",
        ],
    );
}

#[test]
fn manifests_that_are_not_there_or_not_yaml() {
    let missing = example().join("none.yaml");
    fails(&run("plan", &[&missing]), &["cannot read", "none.yaml"]);
    fails(&run_on("apply", "a: ["), &["standard input"]);
    fails(
        &run_on("apply", "# nothing\n"),
        &["there is no object in -"],
    );
}

#[test]
fn two_objects_of_one_name() {
    let manifests = example_text() + "---\n" + &example_text();
    fails(
        &run_on("apply", &manifests),
        &[
            "ClusterNetworkConnect blue-green-connect",
            "Node ovn-worker2",
        ],
    );
}

#[test]
fn zones_are_nodes() {
    fails(
        &run("apply --zone elsewhere", &[&example()]),
        &["there is no node elsewhere: the nodes are ovn-control-plane, ovn-worker2, ovn-worker\n"],
    );
    let manifests = example_text();
    let without_nodes = &manifests[manifests.find("# Two tenants").unwrap()..];
    fails(&run_on("apply", without_nodes), &["there is no node"]);
    fails(
        &run("apply --nb unix:/none", &[&example()]),
        &["--zone is required"],
    );
}

#[test]
fn bad_arguments_are_errors_of_status_1() {
    fails(&run("plan", &[]), &["--filename"]);
    fails(
        &run("plan --nb somewhere -f x", &[]),
        &["expected embedded, unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"],
    );
    fails(
        &run(
            "apply --service-cidr 10.96.0.0/16 --service-cidr 10.97.0.0/16",
            &[&example()],
        ),
        &["--service-cidr 10.97.0.0/16: 10.96.0.0/16 is the IPv4 range already"],
    );
    fails(
        &run("apply --zone n --nb ssl:h:1", &[&example()]),
        &["there is no node n"],
    );
}

#[test]
fn a_selector_that_matches_nothing_is_a_warning() {
    let manifests = example_text().replace(
        "        matchLabels:\n          app: colored-enterprise",
        "        matchLabels:\n          app: other",
    );
    let run = run_on("apply --zone ovn-worker2", &manifests);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains(
            "ClusterNetworkConnect blue-green-connect: \
             spec.networkSelectors[0].clusterUserDefinedNetworkSelector.networkSelector: matches no network\n"
        ),
        "{}",
        run.stderr
    );
    assert!(run.stderr.starts_with("warning: standard input:"));
}

#[test]
fn what_the_status_says_is_a_warning_too() {
    let manifests = example_text().replace(r#"cidr: "192.168.0.0/16""#, r#"cidr: "103.0.0.0/8""#);
    let run = run_on("apply --zone ovn-worker2", &manifests);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let message = "validation failed for CNC blue-green-connect: ";
    assert!(run.stderr.contains(message), "{}", run.stderr);
    assert!(run.stdout.contains(message), "{}", run.stdout);
    assert!(run.stdout.contains("status: Failure"), "{}", run.stdout);
}

#[test]
fn namespaces_without_a_network_of_their_own_are_a_warning() {
    let manifests = "
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {team: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {team: a, k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {name: c}
spec:
  networkSelectors:
  - networkSelectionType: PrimaryUserDefinedNetworks
    primaryUserDefinedNetworkSelector: {namespaceSelector: {matchLabels: {team: a}}}
  connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
  connectivity: [PodNetwork]
";
    let run = run_on("apply", manifests);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let field = "ClusterNetworkConnect c: spec.networkSelectors[0].primaryUserDefinedNetworkSelector.namespaceSelector: ";
    for warning in [
        "selects namespace red without the label k8s.ovn.org/primary-user-defined-network: pods there are on the default network\n",
        "selects namespace blue without a primary network\n",
    ] {
        let warning = format!("{field}{warning}");
        assert!(
            run.stderr.contains(&warning),
            "{warning}\nin {}",
            run.stderr
        );
    }
}

#[test]
fn a_kind_that_is_written_wrong_takes_nothing_away() {
    for (right, wrong, told) in [
        (
            "kind: ClusterNetworkConnect",
            "kind: ClusterNetworkConnec",
            "kind: is not known: did you mean ClusterNetworkConnect of k8s.ovn.org/v1?\n",
        ),
        (
            "apiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect",
            "apiVersion: k8s.ovn.rog/v1\nkind: ClusterNetworkConnect",
            "apiVersion: kind ClusterNetworkConnect is not known there: did you mean k8s.ovn.org/v1?\n",
        ),
    ] {
        let manifests = example_text().replace(right, wrong);
        assert_ne!(manifests, example_text());
        fails(&run_on("apply", &manifests), &[told]);
    }
}
