//! Decisions of the admission policies about requests.

use kube_cel::cel::Program;
use kube_cel::cel::{Context, Value as CelValue};
use patchbay_crds::{AdmissionPolicy, CLUSTER_MANAGER, NAMESPACE, manifests, policies};
use serde_json::{Value, json};

const SUBNET: &str = "k8s.ovn.org/network-connect-subnet";
const TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";
const USER: &str = "kubernetes-admin";

/// Messages of the rules that reject a request. `None`: the request creates the object.
fn denied(policy: &AdmissionPolicy, user: &str, old: Option<&Value>, new: &Value) -> Vec<String> {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let request = json!({"operation": operation, "userInfo": {"username": user}});
    denied_request(policy, &request, old, new)
}

fn denied_request(
    policy: &AdmissionPolicy,
    request: &Value,
    old: Option<&Value>,
    new: &Value,
) -> Vec<String> {
    let mut context = Context::default();
    let variables = [
        ("request", request.clone()),
        ("oldObject", old.cloned().unwrap_or_default()),
        ("object", new.clone()),
    ];
    for (name, value) in variables {
        context.add_variable(name, value).unwrap();
    }
    let holds = |expression: &str| {
        let program = Program::compile(expression).unwrap();
        match program.execute(&context).unwrap() {
            CelValue::Bool(holds) => holds,
            other => panic!("{other:?}: {expression}"),
        }
    };
    let spec = policy.policy.spec.as_ref().unwrap();
    let mut conditions = spec.match_conditions.iter().flatten();
    if !conditions.all(|condition| holds(&condition.expression)) {
        return Vec::new();
    }
    let broken = spec.validations.iter().flatten().filter(|rule| !holds(&rule.expression));
    broken.filter_map(|rule| rule.message.clone()).collect()
}

fn annotated(annotations: &[(&str, &str)]) -> Value {
    if annotations.is_empty() {
        return json!({"metadata": {"name": "c"}});
    }
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"metadata": {"name": "c", "annotations": annotations}})
}

#[test]
fn objects_with_annotations_of_allocated_values_cannot_be_created() {
    let [policy, ..] = policies(CLUSTER_MANAGER, NAMESPACE);
    let message = "ClusterNetworkConnect resources cannot be created with the \"k8s.ovn.org/network-connect-subnet\" or \
                   \"k8s.ovn.org/connect-router-tunnel-key\" annotations. These annotations are managed by the system.";
    for user in [USER, CLUSTER_MANAGER] {
        assert!(denied(&policy, user, None, &annotated(&[])).is_empty());
        assert!(denied(&policy, user, None, &annotated(&[("a", "b")])).is_empty());
        for annotation in [SUBNET, TUNNEL_KEY] {
            assert_eq!(denied(&policy, user, None, &annotated(&[(annotation, "1")])), [message]);
        }
    }
}

#[test]
fn the_tunnel_key_is_written_once_by_the_manager() {
    let [policy, ..] = policies(CLUSTER_MANAGER, NAMESPACE);
    let message = "The \"k8s.ovn.org/connect-router-tunnel-key\" annotation is immutable once set and can only be added \
                   by the cluster-manager service account. That is \
                   system:serviceaccount:ovn-kubernetes:ovnkube-cluster-manager: run the cluster manager as this user, \
                   or name the user that runs it, with \"patchbay crds cnc --policies --manager USER\".";
    let (none, one, two) = (
        annotated(&[("a", "b")]),
        annotated(&[(TUNNEL_KEY, "1")]),
        annotated(&[(TUNNEL_KEY, "2")]),
    );
    assert_eq!(denied(&policy, USER, Some(&none), &one), [message]);
    assert!(denied(&policy, CLUSTER_MANAGER, Some(&none), &one).is_empty());
    assert!(denied(&policy, CLUSTER_MANAGER, Some(&annotated(&[])), &one).is_empty());
    for user in [USER, CLUSTER_MANAGER] {
        assert!(denied(&policy, user, Some(&one), &one).is_empty());
        assert!(denied(&policy, user, Some(&none), &none).is_empty());
        assert_eq!(denied(&policy, user, Some(&one), &two), [message]);
        assert_eq!(denied(&policy, user, Some(&one), &annotated(&[])), [message]);
    }
}

#[test]
fn subnets_are_written_by_the_manager() {
    let [policy, ..] = policies("someone", NAMESPACE);
    let message = "A regular user must not add, modify, or remove the \"k8s.ovn.org/network-connect-subnet\" annotation \
                   on a ClusterNetworkConnect custom resource.";
    let states = [
        annotated(&[]),
        annotated(&[("a", "b")]),
        annotated(&[(SUBNET, "1")]),
        annotated(&[(SUBNET, "2")]),
    ];
    for (old, before) in states.iter().enumerate() {
        for (new, after) in states.iter().enumerate() {
            assert!(denied(&policy, "someone", Some(before), after).is_empty());
            let kept = old == new || old < 2 && new < 2;
            let expected: &[&str] = if kept { &[] } else { &[message] };
            assert_eq!(denied(&policy, USER, Some(before), after), expected, "{old} to {new}");
        }
    }
}

#[test]
fn the_label_of_a_namespace_is_immutable() {
    let [_, policy, ..] = policies(CLUSTER_MANAGER, NAMESPACE);
    let namespace = |labels: Value| json!({"metadata": {"name": "blue", "labels": labels}});
    let label = "k8s.ovn.org/primary-user-defined-network";
    let (without, with) = (namespace(json!({"x": "y"})), namespace(json!({label: ""})));
    let message = "The 'k8s.ovn.org/primary-user-defined-network' label cannot be added/removed after the namespace was \
                   created";
    assert!(denied(&policy, USER, Some(&without), &without).is_empty());
    assert!(denied(&policy, USER, Some(&with), &namespace(json!({label: "other"}))).is_empty());
    assert_eq!(denied(&policy, USER, Some(&without), &with), [message]);
    assert_eq!(denied(&policy, USER, Some(&with), &without), [message]);
}

#[test]
fn zones_write_reports_of_their_own() {
    let [_, _, policy, ..] = policies(CLUSTER_MANAGER, NAMESPACE);
    let zones = "system:serviceaccount:ovn-kubernetes:patchbay-zone";
    let write = |user: &str, namespace: &str, extra: Value, name: &str| {
        let mut request = json!({
            "operation": "CREATE", "namespace": namespace, "userInfo": {"username": user},
        });
        if !extra.is_null() {
            request["userInfo"]["extra"] = extra;
        }
        let object = json!({"metadata": {"name": name, "namespace": namespace}});
        let created = denied_request(&policy, &request, None, &object);
        request["operation"] = "UPDATE".into();
        let updated = denied_request(&policy, &request, Some(&object), &object);
        assert_eq!(created, updated);
        created
    };
    let constraints = policy.policy.spec.as_ref().unwrap().match_constraints.as_ref();
    let rules = constraints.unwrap().resource_rules.as_ref().unwrap();
    let resources: Vec<_> =
        rules.iter().map(|rule| json!([rule.api_groups, rule.resources])).collect();
    assert_eq!(
        resources,
        [json!([[""], ["configmaps"]]), json!([["coordination.k8s.io"], ["leases"]]),]
    );
    let write_as_zone = |extra: Value, name: &str| write(zones, "ovn-kubernetes", extra, name);
    let other = "Zone controllers may write only ConfigMaps and Leases named patchbay-zone-NODE.";
    let foreign = "A zone controller may write only the report and the lease of its own node, which a token that is \
                   bound to its pod names.";
    let of_node = |node: &str| json!({"authentication.kubernetes.io/node-name": [node]});
    for unknown in [json!(null), json!({"x": ["y"]})] {
        let refused = write_as_zone(unknown.clone(), "patchbay-zone-n1");
        assert_eq!(refused, [foreign]);
        assert_eq!(write_as_zone(unknown, "ovnkube-config"), [other, foreign]);
    }
    assert!(write_as_zone(of_node("n1"), "patchbay-zone-n1").is_empty());
    assert_eq!(write_as_zone(of_node("n2"), "patchbay-zone-n1"), [foreign]);
    assert_eq!(write_as_zone(of_node("n1"), "ovnkube-config"), [other, foreign]);
    // Long names of nodes are replaced by a digest, because names of objects are limited.
    let (fits, long) = ("n".repeat(239), "n".repeat(240));
    assert_eq!(write_as_zone(of_node(&fits), "patchbay-zone-0"), [foreign]);
    let digest = format!("patchbay-zone-{}", "0f".repeat(16));
    assert!(write_as_zone(of_node(&long), &digest).is_empty());
    assert_eq!(write_as_zone(of_node(&long), "patchbay-zone-0"), [foreign]);
    // The policy does not apply to others, such as the controllers of OVN-Kubernetes.
    let node = "system:serviceaccount:ovn-kubernetes:ovnkube-node";
    assert!(write(node, "ovn-kubernetes", json!(null), "ovnkube-config").is_empty());
    assert!(write(USER, "ovn-kubernetes", json!(null), "ovnkube-config").is_empty());
    assert!(write(zones, "default", json!(null), "x").is_empty());
}

#[test]
fn policies_deny_and_follow_the_definitions() {
    let text = manifests(&[], &policies(CLUSTER_MANAGER, NAMESPACE)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let names: Vec<_> = documents
        .iter()
        .map(|document| {
            format!(
                "{} {}",
                document["kind"].as_str().unwrap(),
                document["metadata"]["name"].as_str().unwrap()
            )
        })
        .skip(3)
        .collect();
    assert_eq!(
        names,
        [
            "ValidatingAdmissionPolicy cnc-annotation-validation",
            "ValidatingAdmissionPolicyBinding cnc-annotation-validation-binding",
            "ValidatingAdmissionPolicy user-defined-networks-namespace-label",
            "ValidatingAdmissionPolicyBinding user-defined-networks-namespace-label-binding",
            "ValidatingAdmissionPolicy patchbay-zone-reports",
            "ValidatingAdmissionPolicyBinding patchbay-zone-reports-binding",
            "ValidatingAdmissionPolicy patchbay-zone-pods",
            "ValidatingAdmissionPolicyBinding patchbay-zone-pods-binding",
            "ValidatingAdmissionPolicy patchbay-events",
            "ValidatingAdmissionPolicyBinding patchbay-events-binding",
            "ValidatingAdmissionPolicy patchbay-cluster-annotations",
            "ValidatingAdmissionPolicyBinding patchbay-cluster-annotations-binding",
            "ValidatingAdmissionPolicy patchbay-cluster-definitions",
            "ValidatingAdmissionPolicyBinding patchbay-cluster-definitions-binding",
            "ValidatingAdmissionPolicy patchbay-cluster-objects",
            "ValidatingAdmissionPolicyBinding patchbay-cluster-objects-binding",
        ]
    );
    assert_eq!(documents[3]["spec"]["failurePolicy"], "Fail");
    let rule = &documents[3]["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!(rule["resources"], json!(["clusternetworkconnects"]), "and not those of the status");
    assert_eq!(rule["operations"], json!(["CREATE", "UPDATE"]));
    assert_eq!(documents[3]["spec"]["validations"][0]["reason"], "Invalid");
    assert_eq!(
        documents[4]["spec"],
        json!({"policyName": "cnc-annotation-validation", "validationActions": ["Deny"]})
    );
}
