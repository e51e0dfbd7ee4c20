//! Admission policies: rules about the user of a request, or about objects of other kinds.
//! Definitions cannot express them.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use kube::core::ObjectMeta;

/// Annotations of a `ClusterNetworkConnect` that only the cluster manager writes.
const CONNECT_SUBNET: &str = "k8s.ovn.org/network-connect-subnet";
const ROUTER_TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";

/// User name of OVN-Kubernetes' cluster manager.
pub const CLUSTER_MANAGER: &str = "system:serviceaccount:ovn-kubernetes:ovnkube-cluster-manager";

/// Namespace of OVN-Kubernetes: the default of both controllers and of the zones' reports.
pub const NAMESPACE: &str = "ovn-kubernetes";
/// Name of the cluster manager's own service account.
const CLUSTER_ACCOUNT: &str = "patchbay-cluster";
/// Name of the zone controllers' own service account.
const ZONE_ACCOUNT: &str = "patchbay-zone";
/// Prefix of the name of a zone's report and lease, which the name of the node follows.
const REPORT_NAME_PREFIX: &str = "patchbay-zone-";
/// Longest node name in bytes that fits into the name of a report. A digest replaces a longer one.
const MAX_NODE_NAME_BYTES: usize = 253 - REPORT_NAME_PREFIX.len();
/// Claim of a pod's token with the name of its node.
const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";

/// A policy and its binding.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionPolicy {
    /// The policy.
    pub policy: ValidatingAdmissionPolicy,
    /// Binding that denies requests that break the policy, in all namespaces.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// User name of Patchbay's cluster manager in a namespace.
pub fn cluster_manager_in(namespace: &str) -> String {
    service_account(namespace, CLUSTER_ACCOUNT)
}

fn service_account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The policies that belong to the definitions. `manager` is the user name of the cluster manager,
/// `namespace` the one of the zone controllers.
pub fn policies(manager: &str, namespace: &str) -> [AdmissionPolicy; 3] {
    [
        connect_annotations(manager),
        namespace_label(),
        zone_reports(namespace),
    ]
}

/// Policy about who may write the annotations of allocated values.
fn connect_annotations(manager: &str) -> AdmissionPolicy {
    let is_manager = format!("request.userInfo.username == '{manager}'");
    let rules = [
        (
            format!(
                "request.operation != 'CREATE' || !{} && !{}",
                has("object", CONNECT_SUBNET),
                has("object", ROUTER_TUNNEL_KEY)
            ),
            format!(
                "ClusterNetworkConnect resources cannot be created with the \"{CONNECT_SUBNET}\" or \
                 \"{ROUTER_TUNNEL_KEY}\" annotations. These annotations are managed by the system."
            ),
        ),
        (
            format!(
                "request.operation != 'UPDATE' || ({} ? {} : !{} || {is_manager})",
                has("oldObject", ROUTER_TUNNEL_KEY),
                same(ROUTER_TUNNEL_KEY),
                has("object", ROUTER_TUNNEL_KEY),
            ),
            format!(
                "The \"{ROUTER_TUNNEL_KEY}\" annotation is immutable once set and can only be added by the \
                 cluster-manager service account."
            ),
        ),
        (
            format!(
                "request.operation != 'UPDATE' || {is_manager} || ({} ? {} : !{})",
                has("oldObject", CONNECT_SUBNET),
                same(CONNECT_SUBNET),
                has("object", CONNECT_SUBNET),
            ),
            format!(
                "A regular user must not add, modify, or remove the \"{CONNECT_SUBNET}\" annotation on a \
                 ClusterNetworkConnect custom resource."
            ),
        ),
    ];
    let validations = rules.map(|(expression, message)| Validation {
        expression,
        message: Some(message),
        reason: Some("Invalid".to_owned()),
        ..Validation::default()
    });
    policy(
        "cnc-annotation-validation",
        ("k8s.ovn.org", "clusternetworkconnects"),
        &["CREATE", "UPDATE"],
        validations.into(),
    )
}

/// CEL: an object has an annotation.
fn has(object: &str, annotation: &str) -> String {
    format!(
        "(has({object}.metadata.annotations) && '{annotation}' in {object}.metadata.annotations)"
    )
}

/// CEL: an annotation has its old value.
fn same(annotation: &str) -> String {
    format!(
        "({} && object.metadata.annotations['{annotation}'] == oldObject.metadata.annotations['{annotation}'])",
        has("object", annotation)
    )
}

/// Policy about the label for a primary network, which a namespace has from its creation or never.
fn namespace_label() -> AdmissionPolicy {
    let label = "k8s.ovn.org/primary-user-defined-network";
    policy(
        "user-defined-networks-namespace-label",
        ("", "namespaces"),
        &["UPDATE"],
        vec![Validation {
            expression: format!(
                "('{label}' in oldObject.metadata.labels) == ('{label}' in object.metadata.labels)"
            ),
            message: Some(format!(
                "The '{label}' label cannot be added/removed after the namespace was created"
            )),
            ..Validation::default()
        }],
    )
}

/// `ConfigMap`s and leases that zones write. A role cannot limit the names of objects that are
/// created, so without this policy the token of one node would reach all of the namespace.
fn zone_reports(namespace: &str) -> AdmissionPolicy {
    let user = service_account(namespace, ZONE_ACCOUNT);
    let extra = "request.userInfo.extra";
    let rules = [
        (
            format!("object.metadata.name.startsWith('{REPORT_NAME_PREFIX}')"),
            format!(
                "Zone controllers may write only ConfigMaps and Leases named {REPORT_NAME_PREFIX}NODE."
            ),
        ),
        (
            format!(
                "!has({extra}) || !('{NODE_CLAIM}' in {extra}) || {extra}['{NODE_CLAIM}'].all(node, \
                 size(node) > {MAX_NODE_NAME_BYTES} || object.metadata.name == '{REPORT_NAME_PREFIX}' + node)"
            ),
            "A zone controller may write only the report and the lease of its own node.".to_owned(),
        ),
    ];
    let validations = rules.map(|(expression, message)| Validation {
        expression,
        message: Some(message),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    });
    let mut made = policy(
        "patchbay-zone-reports",
        ("", "configmaps"),
        &["CREATE", "UPDATE"],
        validations.into(),
    );
    if let Some(spec) = &mut made.policy.spec {
        if let Some(MatchResources {
            resource_rules: Some(rules),
            ..
        }) = &mut spec.match_constraints
        {
            let leases = rules.iter().map(|rule| NamedRuleWithOperations {
                api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
                resources: Some(vec!["leases".to_owned()]),
                ..rule.clone()
            });
            let leases: Vec<_> = leases.collect();
            rules.extend(leases);
        }
        spec.match_conditions = Some(vec![MatchCondition {
            name: "zones".to_owned(),
            expression: format!(
                "request.userInfo.username == '{user}' && request.namespace == '{namespace}'"
            ),
        }]);
    }
    made
}

/// A policy of this name about a resource, denied on failure of any kind, and its binding.
fn policy(
    name: &str,
    (group, resource): (&str, &str),
    operations: &[&str],
    validations: Vec<Validation>,
) -> AdmissionPolicy {
    let text = |text: &str| Some(vec![text.to_owned()]);
    let named = |name: String| ObjectMeta {
        name: Some(name),
        ..ObjectMeta::default()
    };
    let rule = NamedRuleWithOperations {
        api_groups: text(group),
        api_versions: text("v1"),
        operations: Some(
            operations
                .iter()
                .map(|&operation| operation.to_owned())
                .collect(),
        ),
        resources: text(resource),
        ..NamedRuleWithOperations::default()
    };
    AdmissionPolicy {
        policy: ValidatingAdmissionPolicy {
            metadata: named(name.to_owned()),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_constraints: Some(MatchResources {
                    resource_rules: Some(vec![rule]),
                    ..MatchResources::default()
                }),
                validations: Some(validations),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            status: None,
        },
        binding: ValidatingAdmissionPolicyBinding {
            metadata: named(format!("{name}-binding")),
            spec: ValidatingAdmissionPolicyBindingSpec {
                policy_name: name.to_owned(),
                validation_actions: vec!["Deny".to_owned()],
                ..ValidatingAdmissionPolicyBindingSpec::default()
            },
        },
    }
}
