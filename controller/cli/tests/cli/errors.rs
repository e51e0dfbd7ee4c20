//! Bad input: what, where, exit status 1, and nothing printed.

use crate::command::{Run, example, example_text, run, run_on, without_summary};
use crate::manifests::{RANGE, connect, namespace, namespaces, node, primary_namespace};

#[track_caller]
fn fails(run: &Run, expected: &[&str]) {
    assert_eq!((run.code, &*run.stdout), (Some(1), ""));
    for text in expected {
        assert!(run.stderr.contains(text), "{text}\nin {}", run.stderr);
    }
}

/// Mistakes in two objects.
fn with_mistakes() -> String {
    example_text()
        .replace("cidr: 103.103.0.0/16", "cidr: 103.103.0.0/33")
        .replace("networkPrefix: 24", "networkPrefix: 24\n    gateway: 192.168.0.1")
}

const MISTAKES: [&str; 4] = [
    "error: standard input:",
    "ClusterUserDefinedNetwork blue-network: spec.network.layer3.subnets[0].cidr: CIDR is invalid",
    "ClusterNetworkConnect blue-green-connect: spec.connectSubnets[0]",
    "gateway",
];

#[test]
fn all_mistakes_are_reported_at_once() {
    let manifests = with_mistakes() + "---\napiVersion: v1\nkind: Nod\nmetadata: {name: n}\n";
    let mut expected = MISTAKES.to_vec();
    expected.push("did you mean Node");
    fails(&run_on("apply", &manifests), &expected);
}

/// The rows of the other objects are applied, and the status is that of a failure.
#[test]
fn objects_that_cannot_be_read_stop_nothing_else() {
    for (command, printed) in [
        ("apply --zone ovn-worker", "# blue-green-connect: its rows stay"),
        ("plan --rows --zone ovn-worker", "green.network"),
    ] {
        let run = run_on(command, &with_mistakes());
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let end = "error: 2 objects cannot be read, see above; the others are used\n";
        assert!(run.stderr.ends_with(end), "{}", run.stderr);
        for text in MISTAKES {
            assert!(run.stderr.contains(text), "{text}\nin {}", run.stderr);
        }
        assert!(run.stdout.contains(printed), "{}", run.stdout);
        assert!(!run.stdout.contains("blue.network"), "{}", run.stdout);
    }
    // A state folder has the former version of the objects.
    let folder = tempfile::tempdir().unwrap();
    let state = format!("--state {}", folder.path().display());
    let good = run_on(&format!("apply --zone ovn-worker {state}"), &example_text()).succeeded();
    let run = run_on(&format!("apply --zone ovn-worker {state}"), &with_mistakes());
    let rows = without_summary(&run.stdout);
    assert_eq!((run.code, rows), (Some(1), without_summary(&good)), "{}", run.stderr);
    let former = "the former version of the object is used";
    assert_eq!(run.stderr.matches(former).count(), 2, "{}", run.stderr);
}

/// An API server stores host bits, and OVN-Kubernetes drops them.
#[test]
fn host_bits_of_subnets_are_dropped_with_a_warning() {
    let manifests = example_text().replace("cidr: 103.103.0.0/16", "cidr: 103.103.7.0/16");
    let written = run_on("apply --zone ovn-worker", &manifests);
    let warning = "ClusterUserDefinedNetwork blue-network: spec.network.layer3.subnets[0].cidr: \
                   103.103.7.0/16 has host bits, and is read as 103.103.0.0/16\n";
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    assert!(written.stderr.contains(warning), "{}", written.stderr);
    let annotation = |text: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.contains("network-connect-subnet"));
        found.unwrap().to_owned()
    };
    let masked = run_on("apply --zone ovn-worker", &example_text()).succeeded();
    assert_eq!(annotation(&written.stdout), annotation(&masked));
}

#[test]
fn manifests_that_are_not_there_or_not_yaml() {
    let missing = example().join("none.yaml");
    fails(&run("plan", &[&missing]), &["cannot read", "none.yaml"]);
    fails(&run_on("apply", "a: ["), &["standard input"]);
    fails(&run_on("apply", "# nothing\n"), &["no objects found in -"]);
}

#[test]
fn two_objects_of_one_name() {
    let manifests = example_text() + "---\n" + &example_text();
    fails(
        &run_on("apply", &manifests),
        &["ClusterNetworkConnect blue-green-connect", "Node ovn-worker2"],
    );
}

#[test]
fn zones_are_nodes() {
    fails(
        &run("apply --zone elsewhere", &[&example()]),
        &["node elsewhere not found; the nodes are ovn-control-plane, ovn-worker2, ovn-worker\n"],
    );
    let manifests = example_text();
    let without_nodes = &manifests[manifests.find("# Two tenants").unwrap()..];
    fails(&run_on("apply", without_nodes), &["the manifests contain no Node"]);
    fails(&run("apply --nb unix:/none", &[&example()]), &["--zone is required"]);
}

#[test]
fn bad_arguments_are_errors_of_status_1() {
    fails(&run("plan", &[]), &["--filename"]);
    fails(
        &run("plan --nb somewhere -f x", &[]),
        &["expected embedded, unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"],
    );
    fails(
        &run("apply --service-cidr 10.96.0.0/16 --service-cidr 10.97.0.0/16", &[&example()]),
        &["--service-cidr 10.97.0.0/16: the IPv4 range is already 10.96.0.0/16"],
    );
    for (flag, error) in [
        ("--service-cidr 10.96.0.0", "the length is missing: expected 10.96.0.0/LENGTH"),
        (
            "--join-cidr 100.64.0.0/32",
            "--join-cidr 100.64.0.0/32: the range is too small: its length is at most 30",
        ),
        (
            "--service-cidr 10.0.0.0/8 --pod-cidr 10.244.0.0/16",
            "--pod-cidr 10.244.0.0/16: the range overlaps with 10.0.0.0/8 of --service-cidr",
        ),
    ] {
        fails(&run(&format!("apply {flag}"), &[&example()]), &[error]);
    }
    fails(
        &run_on("apply", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name" "n1"}}"#),
        &["standard input:1 (document 1): malformed JSON: "],
    );
    let settings = "{apiVersion: patchbay/v1, kind: ClusterSettings, metadata: {name: cluster}, \
                    spec: {podCIDRs: [10.0.0.0/16], transitCIDRs: [10.0.0.0/24]}}";
    fails(
        &run_on("apply", settings),
        &[
            "ClusterSettings cluster: spec.transitCIDRs: the range overlaps with 10.0.0.0/16 of spec.podCIDRs",
        ],
    );
    fails(&run("apply --zone n --nb ssl:h:1", &[&example()]), &["node n not found"]);
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
fn a_failed_condition_is_a_warning() {
    let manifests = example_text().replace(r#"cidr: "192.168.0.0/16""#, r#"cidr: "103.0.0.0/8""#);
    let run = run_on("apply --zone ovn-worker2", &manifests);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let message = "validation failed for CNC blue-green-connect: ";
    assert!(run.stderr.contains(message), "{}", run.stderr);
    assert!(run.stdout.contains(message), "{}", run.stdout);
    assert!(run.stdout.contains("status: Failure"), "{}", run.stdout);
}

#[test]
fn namespaces_without_a_network_of_their_own_are_a_warning() {
    let red = namespace("red", "team: a");
    let manifests = [
        node("n1") + &red,
        primary_namespace("blue", "team: a"),
        connect(&[namespaces("team: a")], RANGE),
    ];
    let run = run_on("apply", &manifests.concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let field = "ClusterNetworkConnect c: spec.networkSelectors[0].primaryUserDefinedNetworkSelector.namespaceSelector: ";
    for warning in [
        "selects namespace red without the label k8s.ovn.org/primary-user-defined-network: pods there are on the default network\n",
        "selects namespace blue without a primary network\n",
    ] {
        let warning = format!("{field}{warning}");
        assert!(run.stderr.contains(&warning), "{warning}\nin {}", run.stderr);
    }
}

/// Networks that a cluster refuses in different ways, and one that it refuses in one of its
/// namespaces.
const REFUSED: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Namespace
metadata: {name: one, labels: {k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: v1
kind: Namespace
metadata: {name: two, labels: {k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: v1
kind: Namespace
metadata: {name: three}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: half}
spec:
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [two, three]}]}
  network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.8.0.0/16, hostSubnet: 24}]}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: u, namespace: nowhere}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.9.0.0/16, hostSubnet: 24}]}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: u, namespace: one}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 100.88.0.0/16, hostSubnet: 24}]}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: fabric}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: one}}
  network:
    topology: Layer2
    layer2: {role: Primary, subnets: [10.7.0.0/16]}
    transport: EVPN
    evpn: {vtep: v, macVRF: {vni: 100}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: wide}
spec:
  namespaceSelector: {}
  network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.96.0.0/12]}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: other, namespace: two}
spec:
  config: '{"type": "ovn-k8s-cni-overlay", "name": "two_other", "netAttachDefName": "two/other", "role": "tertiary", "topology": "layer2", "subnets": "10.1.0.0/16"}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: of-another-plugin, namespace: two}
spec: {}
"#;

#[test]
fn each_refused_network_is_one_warning_with_its_reason() {
    let label = r#"required namespace label "k8s.ovn.org/primary-user-defined-network" must both be present"#;
    let expected = [
        format!(
            r#"warning: standard input:18 (document 5): ClusterUserDefinedNetwork half: NetworkCreated is False: failed to validate no primary network exist: unmarshal failed [two/of-another-plugin]: unexpected end of JSON input; invalid primary network state for namespace "three": a valid primary user defined network or network attachment definition custom resource, and {label}"#
        ),
        r#"warning: standard input:25 (document 6): UserDefinedNetwork nowhere/u: NetworkCreated is False: failed to get namespace "nowhere": namespace "nowhere" not found"#.to_owned(),
        r#"warning: standard input:30 (document 7): UserDefinedNetwork one/u: NetworkCreated is False: failed to generate NetworkAttachmentDefinition: failed to render CNI network config: invalid subnet configuration: pod or join subnet overlaps with already configured internal subnets: user defined subnet "100.88.0.0/16" overlaps transit switch subnet "100.88.0.0/16""#.to_owned(),
        "warning: standard input:35 (document 8): ClusterUserDefinedNetwork fabric: NetworkCreated is False: EVPN transport requested but EVPN feature is not enabled".to_owned(),
        r#"warning: standard input:46 (document 9): ClusterUserDefinedNetwork wide: NetworkCreated is False: failed to generate NetworkAttachmentDefinition: failed to render CNI network config: invalid subnet configuration: pod or join subnet overlaps with already configured internal subnets: user defined subnet "10.96.0.0/12" overlaps service subnet "10.96.0.0/16""#.to_owned(),
        "warning: standard input:53 (document 10): NetworkAttachmentDefinition two/other: spec.config: Failed to parse network config: invalid network role value tertiary".to_owned(),
    ];
    for command in ["apply", "apply -o yaml", "plan"] {
        let run = run_on(&format!("{command} --service-cidr 10.96.0.0/16"), REFUSED);
        let lines = run.stderr.lines();
        let (warnings, errors): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.starts_with("warning: "));
        assert_eq!(warnings, expected, "{command}");
        let is_apply = command.starts_with("apply");
        assert_eq!(run.code == Some(1), is_apply, "{command}");
        assert_eq!(errors.len(), usize::from(is_apply), "{errors:?}");
    }
    let document = run_on("apply -o json", REFUSED).stdout;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let created: Vec<String> = document["networks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|network| {
            let condition = &network["status"]["conditions"][0];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
            let (namespace, name) =
                (text(&network["metadata"]["namespace"]), text(&network["metadata"]["name"]));
            let kind = text(&condition["type"]);
            format!("{namespace} {name} {kind} {}", text(&condition["status"]))
        })
        .collect();
    assert_eq!(
        created,
        [
            "nowhere u NetworkCreated False",
            "one u NetworkCreated False",
            "- fabric NetworkCreated False",
            "- half NetworkCreated False",
            "- wide NetworkCreated True",
        ]
    );
}

#[test]
fn a_network_that_has_no_place_in_a_zone_is_in_the_document() {
    let manifests = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Namespace
metadata: {name: one, labels: {k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: a, namespace: one}
spec:
  config: '{"type": "ovn-k8s-cni-overlay", "name": "a", "netAttachDefName": "one/a", "role": "primary", "topology": "layer2", "subnets": "10.1.0.0/16", "defaultGatewayIPs": "first"}'
"#;
    let run = run_on("apply -o json", manifests);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let skipped = &document["zones"][0]["skipped"][0];
    assert_eq!(skipped["network"], "a");
    let message = skipped["message"].as_str().unwrap();
    assert!(message.contains("defaultGatewayIPs"), "{message}");
    assert!(run.stderr.contains(message), "{}", run.stderr);
}

#[test]
fn a_misspelled_kind_removes_no_rows() {
    for (right, wrong, printed) in [
        (
            "kind: ClusterNetworkConnect",
            "kind: ClusterNetworkConnec",
            "kind: unknown kind, did you mean ClusterNetworkConnect of k8s.ovn.org/v1?\n",
        ),
        (
            "apiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect",
            "apiVersion: k8s.ovn.rog/v1\nkind: ClusterNetworkConnect",
            "apiVersion: unknown version of kind ClusterNetworkConnect, did you mean k8s.ovn.org/v1?\n",
        ),
    ] {
        let manifests = example_text().replace(right, wrong);
        assert_ne!(manifests, example_text());
        fails(&run_on("apply", &manifests), &[printed]);
    }
}
