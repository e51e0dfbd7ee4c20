//! Tests of the decoding of manifests.

use std::fs;
use std::path::PathBuf;

use super::*;

/// Decodes manifests from the standard input.
fn read(yaml: &str) -> Result<Inventory, Vec<String>> {
    let texts = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect();
    let inventory = read_manifests(&["-".into()], &mut yaml.as_bytes())
        .map_err(|error| texts(error.problems))?;
    let refused: Vec<Problem> =
        inventory.refused.iter().flat_map(|object| object.problems.clone()).collect();
    if refused.is_empty() { Ok(inventory) } else { Err(texts(refused)) }
}

const BLUE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {network: blue}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: blue}
spec:
  namespaceSelector: {matchLabels: {network: blue}}
  network:
    topology: Layer3
    layer3: {role: Primary, subnets: [{cidr: 103.103.0.0/16}]}
";

#[test]
fn objects_keep_origin_and_input_order() {
    let inventory =
        read(&format!("{BLUE}---\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: a}}\n"))
            .unwrap();
    let (key, node) = inventory.nodes.iter().next().unwrap();
    assert_eq!(key.to_string(), "a");
    assert_eq!(node.origin.to_string(), "standard input:16 (document 4)");
    let network = inventory.cluster_user_defined_networks.get(&ObjectKey::cluster("blue")).unwrap();
    assert!(network.position < node.position);
    let namespace = inventory.namespaces.named("blue").unwrap();
    let labels = namespace.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["kubernetes.io/metadata.name"], "blue");
    assert_eq!(labels["network"], "blue");
}

#[test]
fn items_of_lists_are_read_and_the_namespace_has_a_default() {
    let inventory = read(
        "{apiVersion: v1, kind: List, items: [
            {apiVersion: v1, kind: Node, metadata: {name: a}},
            {apiVersion: v1, kind: Service, metadata: {name: web}}]}",
    )
    .unwrap();
    assert_eq!(inventory.nodes.len(), 1);
    assert!(inventory.services.get(&ObjectKey::namespaced("default", "web")).is_some());
    assert_eq!(
        read("{apiVersion: v1, kind: List}").unwrap_err(),
        ["standard input:1 (document 1): List without a name: items: expected a list"]
    );
}

#[test]
fn items_of_typed_lists_may_omit_api_version_and_kind() {
    let inventory = read(
        "
apiVersion: v1
kind: NodeList
items:
- metadata: {name: a}
- {apiVersion: v1, kind: Node, metadata: {name: b}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetworkList
items:
- metadata: {name: net, namespace: blue}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/16]}}
",
    )
    .unwrap();
    assert_eq!(inventory.nodes.len(), 2);
    assert_eq!(inventory.user_defined_networks.len(), 1);
    for (list, expected) in [
        (
            "{apiVersion: v1, kind: NodeList, items: [{metadata: {name: A}}]}",
            "Node A: metadata.name: Invalid value",
        ),
        (
            "{apiVersion: v1, kind: NodeList, items: [{kind: Node, metadata: {name: a}}]}",
            "Node a: not a Kubernetes object",
        ),
        ("{apiVersion: v1, kind: List, items: [{metadata: {name: a}}]}", "not a Kubernetes object"),
    ] {
        let errors = read(list).unwrap_err();
        assert!(errors[0].contains(expected), "{errors:?}");
    }
}

#[test]
fn an_invalid_status_is_ignored_where_an_api_server_drops_the_status() {
    let network = "
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: blue}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/16]}}
status: {conditions: [{type: NetworkCreated, status: 'True'}]}
";
    let inventory = read(network).unwrap();
    let (_, udn) = inventory.user_defined_networks.iter().next().unwrap();
    assert_eq!(udn.object.status, None);
    // Other errors are still reported.
    let errors = read(&network.replace("Primary", "First")).unwrap_err();
    assert!(errors[0].contains("spec.layer2.role"), "{errors:?}");
    // The status of state files is used.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.yaml");
    fs::write(&file, network).unwrap();
    let error = read_state_files(&[file]).unwrap_err().to_string();
    assert!(error.contains("status.conditions[0]"), "{error}");
}

#[test]
fn other_kinds_are_ignored_with_a_warning() {
    let inventory = read(&format!(
        "{BLUE}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: c, namespace: ns}}\n"
    ))
    .unwrap();
    let warnings: Vec<_> = inventory.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "standard input:15 (document 3): Secret ns/c: ignored: patchbay does not use kind Secret of v1"
        ]
    );
}

#[test]
fn typed_lists_are_read() {
    let inventory = read(
        "{apiVersion: v1, kind: NodeList, items: [{apiVersion: v1, kind: Node, metadata: {name: a}}]}",
    )
    .unwrap();
    assert_eq!(inventory.nodes.len(), 1);
}

#[test]
fn misspelled_kinds_are_errors() {
    let object = |api_version: &str, kind: &str| {
        read(&format!(
            "{BLUE}---\n{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: x}}}}\n"
        ))
    };
    let connect = "unknown kind, did you mean ClusterNetworkConnect of k8s.ovn.org/v1?";
    for (api_version, kind, field, message) in [
        ("k8s.ovn.org/v1", "clusternetworkconnect", "kind", connect),
        ("k8s.ovn.org/v1", "ClusterNetworkConnec", "kind", connect),
        ("k8s.ovn.rog/v1", "ClusterNetworkConect", "kind", connect),
        (
            "k8s.ovn.org/v1",
            "UserDefinedNetworks",
            "kind",
            "unknown kind, did you mean UserDefinedNetwork of k8s.ovn.org/v1?",
        ),
        ("v1", "Nod", "kind", "unknown kind, did you mean Node of v1?"),
        ("v1", "Namspace", "kind", "unknown kind, did you mean Namespace of v1?"),
        ("core/v1", "Node", "apiVersion", "unknown version of kind Node, did you mean v1?"),
        (
            "k8s.cni.cncf.oi/v1",
            "NetworkAttachmentDefinition",
            "apiVersion",
            "unknown version of kind NetworkAttachmentDefinition, did you mean k8s.cni.cncf.io/v1?",
        ),
    ] {
        let expected = format!("standard input:15 (document 3): {kind} x: {field}: {message}");
        assert_eq!(object(api_version, kind).unwrap_err(), [expected]);
    }
    for api_version in ["v1", "k8s.ovn.org", "k8s.ovn.rog/v1", "example.com/v1"] {
        assert_eq!(
            object(api_version, "ClusterNetworkConnect").unwrap_err(),
            [
                "standard input:15 (document 3): ClusterNetworkConnect x: apiVersion: unknown version of \
                 kind ClusterNetworkConnect, did you mean k8s.ovn.org/v1?"
            ]
        );
    }
    for (api_version, kind) in [
        ("serving.knative.dev/v1", "Service"),
        ("k8s.ovn.org/v1", "EgressQoS"),
        ("k8s.ovn.org/v2", "KindOfALaterVersion"),
        ("apps/v1", "Deployment"),
    ] {
        assert_eq!(object(api_version, kind).unwrap().warnings.len(), 1);
    }
}

#[test]
fn names_are_validated() {
    let namespace = |name: &str| {
        let errors =
            read(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        errors.unwrap_err()[0].clone()
    };
    let dotted = namespace("a.b");
    assert!(
        dotted.contains("metadata.name: Invalid value: \"a.b\": a lowercase RFC 1123 label must"),
        "{dotted}"
    );
    let long = namespace(&"a".repeat(64));
    assert!(long.ends_with("a\": must be no more than 63 characters"), "{long}");
}

#[test]
fn quotes_are_suggested_for_plain_scalars_only() {
    let label = |value: &str| {
        let errors = read(&format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: a, labels: {{b: {value}}}}}}}"
        ));
        errors.unwrap_err()[0].ends_with("; quote the value")
    };
    assert!(label("yes"));
    assert!(label("1"));
    assert!(label("1.5"));
    assert!(!label("{c: d}"));
    assert!(!label("[c]"));
}

#[test]
fn all_errors_are_reported() {
    let errors = read(
        "apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata:
  name: blue
  label: {a: b}
spec:
  namespaceSelector:
    matchLabel: {network: blue}
  network:
    topology: Layer3
    layer3:
      role: Primary
      subnet: []
      subnets:
      - cidr: 103.103.0.1/16
        hostSubnet: 16
---
apiVersion: v1
kind: Node
metadata: {annotations: {k8s.ovn.org/node-id: 2}}
---
apiVersion: v1
kind: Node
metadata: {labels: {}}
---
a: b: c
---
just text
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: Blue, namespace: blue}
spec: {topology: Layer4}
---
apiVersion: k8s.ovn.org/v1beta1
kind: UserDefinedNetwork
metadata: {name: blue, namespace: blue}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: blue, namespace: x}
spec: {namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}}}
---
kind: Node
",
    )
    .unwrap_err();
    let cudn = "ClusterUserDefinedNetwork blue";
    assert_eq!(
        errors,
        [
            format!(
                "standard input:13 (document 1): {cudn}: spec.network.layer3.subnet: unknown field, did \
                 you mean subnets?"
            ),
            format!("standard input:5 (document 1): {cudn}: metadata.label: unknown field, did you mean labels?"),
            format!("standard input:8 (document 1): {cudn}: spec.namespaceSelector.matchLabel: unknown field, did you mean matchLabels?"),
            format!(
                "standard input:16 (document 1): {cudn}: spec.network.layer3.subnets[0].hostSubnet: HostSubnet must be \
                 smaller than CIDR subnet"
            ),
            "standard input:20 (document 2): Node without a name: metadata.annotations[k8s.ovn.org/node-id]: \
             expected a text, found the number 2; quote the value"
                .into(),
            "standard input:24 (document 3): Node without a name: metadata.name: Required value".into(),
            "standard input:26 (document 4): malformed YAML: mapping values are not allowed in this context".into(),
            "standard input:28 (document 5): not a Kubernetes object: expected a mapping".into(),
            "standard input:33 (document 6): UserDefinedNetwork blue/Blue: spec.topology: unknown value \"Layer4\", \
             expected Layer2 or Layer3, did you mean Layer2?"
                .into(),
            "standard input:35 (document 7): UserDefinedNetwork blue/blue: apiVersion: unsupported version \
             \"v1beta1\", expected \"v1\""
                .into(),
            "standard input:41 (document 8): ClusterUserDefinedNetwork x/blue: metadata.namespace: Forbidden: not \
             allowed on this kind"
                .into(),
            "standard input:44 (document 9): Node without a name: not a Kubernetes object: apiVersion and kind are required strings".into(),
        ]
    );
}

#[test]
fn duplicate_objects_are_refused() {
    let errors = read(&format!("{BLUE}---{BLUE}")).unwrap_err();
    assert_eq!(
        errors,
        [
            "standard input:15 (document 3): Namespace blue: duplicate object, first defined at standard input:2 \
             (document 1)",
            "standard input:19 (document 4): ClusterUserDefinedNetwork blue: duplicate object, first defined at \
             standard input:6 (document 2)",
        ]
    );
}

#[test]
fn unknown_fields_are_allowed_in_the_status_only() {
    let node =
        "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {SPEC}, status: {novel: {x: 1}}}";
    assert!(read(&node.replace("SPEC", "podCIDR: 10.0.0.0/24")).is_ok());
    assert_eq!(
        read(&node.replace("SPEC", "podCidr: 10.0.0.0/24")).unwrap_err(),
        [
            "standard input:1 (document 1): Node a: spec.podCidr: unknown field, did you mean podCIDR?"
        ]
    );
}

#[test]
fn files_of_folders_are_read_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, node: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n"))
            .unwrap();
    };
    write("b.yaml", "two");
    write("a/z.yml", "one");
    write("c.json", "three");
    write("d.txt", "no");
    write(".hidden/e.yaml", "no");
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("f.yaml")).unwrap();
    let inventory = read_manifests(&[folder.path().to_owned()], &mut "".as_bytes()).unwrap();
    let order: Vec<_> =
        inventory.nodes.in_order().iter().map(|(key, _)| key.name.clone()).collect();
    assert_eq!(order, ["one", "two", "three"]);
}

#[test]
fn unreadable_paths_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let read = |paths: &[PathBuf]| {
        let error = read_manifests(paths, &mut "".as_bytes()).unwrap_err().to_string();
        error
            .replace(&format!("{}/", folder.path().display()), "")
            .replace(&folder.path().display().to_string(), "DIR")
    };
    assert_eq!(read(&[folder.path().to_owned()]), "no *.yaml, *.yml or *.json files in folder DIR");
    fs::write(path("empty.yaml"), "# nothing yet\n---\n").unwrap();
    assert_eq!(read(&[path("empty.yaml"), "-".into()]), "no objects found in empty.yaml, -");
    fs::write(path("latin1.yaml"), b"a: \xe9\n").unwrap();
    assert_eq!(
        read(&[path("latin1.yaml"), path("missing.yaml")]),
        "cannot read latin1.yaml: not UTF-8 text\ncannot read missing.yaml: No such file or directory (os error 2)"
    );
}

#[test]
fn objects_of_other_controllers_are_read_with_all_their_fields() {
    let objects = "
apiVersion: v1
kind: List
items:
- apiVersion: k8s.ovn.org/v1
  kind: RouteAdvertisements
  metadata: {name: ra}
  spec:
    targetVRF: auto
    advertisements: [PodNetwork, EgressIP]
    nodeSelector: {}
    frrConfigurationSelector: {matchLabels: {a: b}}
    networkSelectors:
    - networkSelectionType: ClusterUserDefinedNetworks
      clusterUserDefinedNetworkSelector: {networkSelector: {}}
  status: {status: Accepted, conditions: []}
- apiVersion: k8s.ovn.org/v1
  kind: EgressIP
  metadata: {name: eip}
  spec: {egressIPs: [172.18.0.100], namespaceSelector: {}, podSelector: {}}
  status: {items: [{node: n1, egressIP: 172.18.0.100}]}
- apiVersion: k8s.ovn.org/v1
  kind: EgressFirewall
  metadata: {name: default, namespace: blue}
  spec:
    egress:
    - {type: Allow, to: {cidrSelector: 10.0.0.0/8}, ports: [{protocol: TCP, port: 80}]}
    - {type: Deny, to: {dnsName: example.com}}
    - {type: Deny, to: {nodeSelector: {matchLabels: {a: b}}}}
  status: {status: applied, messages: [n1]}
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: AdminNetworkPolicy
  metadata: {name: anp}
  spec:
    priority: 5
    subject: {pods: {namespaceSelector: {}, podSelector: {}}}
    ingress: [{name: a, action: Pass, from: [{namespaces: {}}], ports: [{namedPort: web}]}]
    egress: [{name: b, action: Deny, to: [{networks: [10.0.0.0/8]}], ports: [{portRange: {protocol: TCP, start: 1, end: 9}}]}]
  status:
    conditions:
    - {type: Ready-In-Zone-n1, status: 'True', reason: SetupSucceeded, message: m, lastTransitionTime: '2026-01-01T00:00:00Z'}
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: BaselineAdminNetworkPolicy
  metadata: {name: default}
  spec: {subject: {namespaces: {}}}
- apiVersion: k8s.cni.cncf.io/v1alpha1
  kind: IPAMClaim
  metadata: {name: vm, namespace: blue}
  spec: {network: blue_l2, interface: eth0}
  status: {ips: [10.20.0.5/16], ownerPod: {name: vm-1}}
";
    let inventory = read(objects).unwrap();
    assert_eq!(inventory.route_advertisements.len(), 1);
    assert_eq!(inventory.egress_ips.len(), 1);
    assert_eq!(inventory.egress_firewalls.len(), 1);
    assert_eq!(inventory.admin_network_policies.len(), 1);
    assert_eq!(inventory.baseline_admin_network_policies.len(), 1);
    assert_eq!(inventory.ipam_claims.len(), 1);
    let misnamed = objects.replace("name: default", "name: other");
    let errors = read(&misnamed).unwrap_err();
    assert!(
        errors[0].ends_with("EgressFirewall blue/other: metadata.name: should match '^default$'"),
        "{errors:?}"
    );
}
