//! Admission policies about the accounts of both controllers. A role cannot limit the names of objects
//! that are created, nor which fields of which objects change. These policies do.
//!
//! Zone controllers run on every node, so an attacker on a node has the rights of its zone
//! controller. A token that is bound to a pod names the pod's node, and each zone may write only
//! the objects of that node.

use super::policy::{AdmissionPolicy, CONNECT_SUBNET, ROUTER_TUNNEL_KEY, Requests, Rule, policy};

/// Name of the cluster manager's own service account, and of its lease.
const CLUSTER_ACCOUNT: &str = "patchbay-cluster";
/// Name of the zone controllers' own service account.
const ZONE_ACCOUNT: &str = "patchbay-zone";
/// Prefix of the name of a zone's report and lease, which the name of the node follows.
const REPORT_NAME_PREFIX: &str = "patchbay-zone-";
/// Longest node name in bytes that fits into the name of a report. A digest replaces a longer one.
const MAX_NODE_NAME_BYTES: usize = 253 - REPORT_NAME_PREFIX.len();
/// `reportingController` of the events of both controllers.
const REPORTING_CONTROLLER: &str = "patchbay";

/// Claims of a pod's token, with the names of its node and of the pod itself.
const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";
const POD_CLAIM: &str = "authentication.kubernetes.io/pod-name";
/// Claims of a token, by name.
const CLAIMS: &str = "request.userInfo.extra";

/// Annotations that the cluster manager writes.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
const NODE_ANNOTATIONS: [&str; 3] = [
    "k8s.ovn.org/node-id",
    "k8s.ovn.org/node-subnets",
    "k8s.ovn.org/node-transit-switch-port-ifaddr",
];
/// Start of the annotations that the cluster manager writes in attachment definitions of other
/// programs.
const OVN_ANNOTATIONS: &str = "k8s.ovn.org/";
/// Namespace and name of the attachment definition of the default network, which no network owns.
const DEFAULT_DEFINITION: (&str, &str) = ("ovn-kubernetes", "default");
/// Finalizer of a network that pods may still use.
const NETWORK_FINALIZER: &str = "k8s.ovn.org/user-defined-network-protection";
/// Label and value of a mirrored `EndpointSlice`.
const SLICE_MANAGER: (&str, &str) =
    ("endpointslice.kubernetes.io/managed-by", "endpointslice-mirror-controller.k8s.ovn.org");

/// Kinds that own attachment definitions, and the resources of these kinds.
const OWNERS: &str = "['UserDefinedNetwork', 'ClusterUserDefinedNetwork']";
const NETWORKS: &str = "['userdefinednetworks', 'clusteruserdefinednetworks']";

/// User name of Patchbay's cluster manager in a namespace.
pub fn cluster_manager_in(namespace: &str) -> String {
    service_account(namespace, CLUSTER_ACCOUNT)
}

fn service_account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The policies about both accounts of a namespace.
pub(super) fn policies(namespace: &str) -> [AdmissionPolicy; 6] {
    let zones = is_user(&service_account(namespace, ZONE_ACCOUNT));
    let manager = is_user(&cluster_manager_in(namespace));
    [
        zone_reports(&zones, namespace),
        zone_pods(&zones),
        events(&zones, &manager),
        manager_annotations(&manager),
        manager_definitions(&manager),
        manager_objects(&manager),
    ]
}

/// `ConfigMap`s and leases that zones write.
fn zone_reports(zones: &str, namespace: &str) -> AdmissionPolicy {
    let requests = [("", &["configmaps"]), ("coordination.k8s.io", &["leases"])]
        .map(|(group, resources)| Requests { group, resources, operations: &["CREATE", "UPDATE"] });
    let name = "object.metadata.name";
    let of_node = format!(
        "size(node) > {MAX_NODE_NAME_BYTES} ? {name}.matches('^{REPORT_NAME_PREFIX}[0-9a-f]{{32}}$') : \
         {name} == '{REPORT_NAME_PREFIX}' + node"
    );
    let rules = vec![
        forbidden(
            format!("{name}.startsWith('{REPORT_NAME_PREFIX}')"),
            format!(
                "Zone controllers may write only ConfigMaps and Leases named {REPORT_NAME_PREFIX}NODE."
            ),
        ),
        forbidden(
            claims(NODE_CLAIM, "node", &of_node),
            "A zone controller may write only the report and the lease of its own node, which a token \
             that is bound to its pod names.",
        ),
    ];
    let condition = Some(("zones", format!("{zones} && request.namespace == '{namespace}'")));
    policy("patchbay-zone-reports", &requests, condition, rules)
}

/// Addresses of a node's pods in layer3 networks, in an annotation.
fn zone_pods(zones: &str) -> AdmissionPolicy {
    let requests = Requests { group: "", resources: &["pods"], operations: &["UPDATE"] };
    let is_there = "has(oldObject.spec.nodeName) && oldObject.spec.nodeName == node";
    let rules = vec![
        forbidden(
            claims(NODE_CLAIM, "node", is_there),
            "A zone controller may change only pods of its own node, which a token that is bound to \
             its pod names.",
        ),
        forbidden(
            all([
                are_unchanged(&[
                    "spec",
                    "metadata.labels",
                    "metadata.ownerReferences",
                    "metadata.finalizers",
                ]),
                are_other_annotations_unchanged(&format!("key == '{POD_NETWORKS}'")),
            ]),
            format!("A zone controller may change only the annotation {POD_NETWORKS} of a pod."),
        ),
    ];
    let condition = Some(("zones", zones.to_owned()));
    policy("patchbay-zone-pods", &[requests], condition, rules)
}

/// Events, which a role for events about objects of all namespaces cannot limit.
fn events(zones: &str, manager: &str) -> AdmissionPolicy {
    let requests = Requests {
        group: "events.k8s.io",
        resources: &["events"],
        operations: &["CREATE", "UPDATE"],
    };
    let is_reporter = |object: &str| {
        format!(
            "has({object}.reportingController) && {object}.reportingController == '{REPORTING_CONTROLLER}'"
        )
    };
    let is_of_pod = |object: &str| {
        format!(
            "has({object}.reportingInstance) && {object}.reportingInstance.startsWith(pod + '_')"
        )
    };
    let rules = vec![
        forbidden(
            before_and_after(&is_reporter),
            format!(
                "Patchbay may write only events with the reportingController {REPORTING_CONTROLLER}."
            ),
        ),
        forbidden(
            format!("!({zones}) || {}", claims(POD_CLAIM, "pod", &before_and_after(&is_of_pod))),
            "A zone controller may write only events of its own pod, which a token that is bound to it \
             names.",
        ),
    ];
    let condition = Some(("controllers", format!("{zones} || {manager}")));
    policy("patchbay-events", &[requests], condition, rules)
}

/// Objects of other programs in which the cluster manager writes annotations or finalizers.
fn manager_annotations(manager: &str) -> AdmissionPolicy {
    let requests = [
        ("", &["nodes", "pods"] as &[&str]),
        (
            "k8s.ovn.org",
            &["clusternetworkconnects", "userdefinednetworks", "clusteruserdefinednetworks"],
        ),
    ]
    .map(|(group, resources)| Requests { group, resources, operations: &["UPDATE"] });
    let resource = "request.resource.resource";
    let keys = [
        ("nodes", &NODE_ANNOTATIONS as &[&str]),
        ("pods", &[POD_NETWORKS]),
        ("clusternetworkconnects", &[CONNECT_SUBNET, ROUTER_TUNNEL_KEY]),
    ];
    let keys = keys.map(|(plural, keys)| {
        let keys: Vec<String> = keys.iter().map(|key| format!("'{key}'")).collect();
        format!("({resource} == '{plural}' && key in [{}])", keys.join(", "))
    });
    let finalizers = |one: &str, other: &str| {
        let is_known =
            format!("has({other}.metadata.finalizers) && one in {other}.metadata.finalizers");
        format!(
            "(!has({one}.metadata.finalizers) || {one}.metadata.finalizers.all(one, {is_known} || \
             one == '{NETWORK_FINALIZER}' && {resource} in {NETWORKS}))"
        )
    };
    let rules = vec![
        forbidden(
            are_unchanged(&["spec", "metadata.labels", "metadata.ownerReferences"]),
            "The cluster manager may change only annotations and finalizers of an object of others.",
        ),
        forbidden(
            are_other_annotations_unchanged(&keys.join(" || ")),
            "The cluster manager may change only annotations that it writes.",
        ),
        forbidden(
            all([finalizers("object", "oldObject"), finalizers("oldObject", "object")]),
            format!(
                "The cluster manager may change only the finalizer {NETWORK_FINALIZER} of networks."
            ),
        ),
    ];
    let condition = Some(("manager", manager.to_owned()));
    policy("patchbay-cluster-annotations", &requests, condition, rules)
}

/// Attachment definitions, which the cluster manager creates for networks.
fn manager_definitions(manager: &str) -> AdmissionPolicy {
    let requests = Requests {
        group: "k8s.cni.cncf.io",
        resources: &["network-attachment-definitions"],
        operations: &["CREATE", "UPDATE", "DELETE"],
    };
    let is_owned = |object: &str| {
        let owners = format!("{object}.metadata.ownerReferences");
        format!(
            "(has({owners}) && {owners}.exists(owner, owner.apiVersion == 'k8s.ovn.org/v1' && owner.kind in \
             {OWNERS} && has(owner.controller) && owner.controller))"
        )
    };
    let is_annotated = all([
        "request.operation == 'UPDATE'".to_owned(),
        are_unchanged(&[
            "spec",
            "metadata.labels",
            "metadata.ownerReferences",
            "metadata.finalizers",
        ]),
        are_other_annotations_unchanged(&format!("key.startsWith('{OVN_ANNOTATIONS}')")),
    ]);
    let (namespace, name) = DEFAULT_DEFINITION;
    let is_default = format!(
        "request.operation == 'CREATE' && request.namespace == '{namespace}' && object.metadata.name == '{name}'"
    );
    let rule = forbidden(
        format!("({}) || ({is_annotated}) || ({is_default})", before_and_after(&is_owned)),
        format!(
            "The cluster manager may create, change and delete only attachment definitions that a network \
             owns, and create that of the default network. Of others it may change annotations that start with {OVN_ANNOTATIONS}."
        ),
    );
    let condition = Some(("manager", manager.to_owned()));
    policy("patchbay-cluster-definitions", &[requests], condition, vec![rule])
}

/// `EndpointSlice`s, which the cluster manager mirrors, and its lease.
fn manager_objects(manager: &str) -> AdmissionPolicy {
    let slices = Requests {
        group: "discovery.k8s.io",
        resources: &["endpointslices"],
        operations: &["CREATE", "UPDATE", "DELETE"],
    };
    let leases =
        Requests { group: "coordination.k8s.io", resources: &["leases"], operations: &["CREATE"] };
    let (label, value) = SLICE_MANAGER;
    let is_mirror = |object: &str| {
        let labels = format!("{object}.metadata.labels");
        format!("(has({labels}) && '{label}' in {labels} && {labels}['{label}'] == '{value}')")
    };
    let about =
        |plural: &str, rule: &str| format!("request.resource.resource != '{plural}' || {rule}");
    let rules = vec![
        forbidden(
            about("endpointslices", &format!("({})", before_and_after(&is_mirror))),
            format!("The cluster manager may write only EndpointSlices that {value} manages."),
        ),
        forbidden(
            about("leases", &format!("object.metadata.name == '{CLUSTER_ACCOUNT}'")),
            format!("The cluster manager may create only the lease {CLUSTER_ACCOUNT}."),
        ),
    ];
    let condition = Some(("manager", manager.to_owned()));
    policy("patchbay-cluster-objects", &[slices, leases], condition, rules)
}

/// CEL: a rule holds for the object before and after the request, as far as there is one.
fn before_and_after(rule: &dyn Fn(&str) -> String) -> String {
    format!(
        "(request.operation == 'DELETE' || {}) && (request.operation == 'CREATE' || {})",
        rule("object"),
        rule("oldObject")
    )
}

fn forbidden(expression: String, message: impl Into<String>) -> Rule {
    Rule { expression, message: message.into(), reason: Some("Forbidden") }
}

/// CEL: a request is of a user.
fn is_user(name: &str) -> String {
    format!("request.userInfo.username == '{name}'")
}

/// CEL: the token has a claim, and `rule` holds for its value, which has the name `variable` there.
fn claims(claim: &str, variable: &str, rule: &str) -> String {
    format!(
        "(has({CLAIMS}) && '{claim}' in {CLAIMS} && {CLAIMS}['{claim}'].exists({variable}, {rule}))"
    )
}

/// CEL: fields are equal in the old and the new object.
fn are_unchanged(fields: &[&str]) -> String {
    let rules = fields.iter().map(|field| {
        format!(
            "has(object.{field}) == has(oldObject.{field}) && (!has(object.{field}) || \
             object.{field} == oldObject.{field})"
        )
    });
    rules.collect::<Vec<_>>().join(" && ")
}

/// CEL: all annotations are equal in the old and the new object, but those for whose `key` a rule
/// holds.
fn are_other_annotations_unchanged(but: &str) -> String {
    let (old, new) = ("oldObject.metadata.annotations", "object.metadata.annotations");
    format!(
        "(!has({new}) || {new}.all(key, ({but}) || has({old}) && key in {old} && {old}[key] == {new}[key])) && \
         (!has({old}) || {old}.all(key, ({but}) || has({new}) && key in {new}))"
    )
}

/// CEL: all rules hold.
fn all<const N: usize>(rules: [String; N]) -> String {
    rules.map(|rule| format!("({rule})")).join(" && ")
}
