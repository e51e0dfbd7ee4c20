//! Admission policies: rules about the user of a request, or about objects of other kinds.
//! Definitions cannot express them.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use kube::core::ObjectMeta;

use super::account_policies;

/// Annotations of a `ClusterNetworkConnect` that only the cluster manager writes.
pub(super) const CONNECT_SUBNET: &str = "k8s.ovn.org/network-connect-subnet";
pub(super) const ROUTER_TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";

/// User name of OVN-Kubernetes' cluster manager.
pub const CLUSTER_MANAGER: &str = "system:serviceaccount:ovn-kubernetes:ovnkube-cluster-manager";

/// Namespace of OVN-Kubernetes: the default of both controllers and of the zones' reports.
pub const NAMESPACE: &str = "ovn-kubernetes";

/// A policy and its binding.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionPolicy {
    /// The policy.
    pub policy: ValidatingAdmissionPolicy,
    /// Binding that denies requests that break the policy, in all namespaces.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// Requests about resources of a group, version `v1`.
pub(super) struct Requests {
    pub(super) group: &'static str,
    pub(super) resources: &'static [&'static str],
    pub(super) operations: &'static [&'static str],
}

/// Condition in CEL that a request has to meet.
pub(super) struct Rule {
    pub(super) expression: String,
    pub(super) message: String,
    /// `reason` of the refusal, from which its HTTP code follows. `None`: `Invalid`.
    pub(super) reason: Option<&'static str>,
}

/// The policies that belong to the definitions and to the roles of both controllers. `manager` is
/// the user name of the cluster manager, `namespace` the one of the controllers' accounts.
pub fn policies(manager: &str, namespace: &str) -> [AdmissionPolicy; 8] {
    let [reports, pods, events, annotations, definitions, objects] =
        account_policies::policies(namespace);
    [
        connect_annotations(manager),
        namespace_label(),
        reports,
        pods,
        events,
        annotations,
        definitions,
        objects,
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
            // The sentence of OVN-Kubernetes comes first.
            format!(
                "The \"{ROUTER_TUNNEL_KEY}\" annotation is immutable once set and can only be added by the \
                 cluster-manager service account. That is {manager}: run the cluster manager as this user, or \
                 name the user that runs it, with \"patchbay crds cnc --policies --manager USER\"."
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
    let requests = Requests {
        group: "k8s.ovn.org",
        resources: &["clusternetworkconnects"],
        operations: &["CREATE", "UPDATE"],
    };
    let rules =
        rules.map(|(expression, message)| Rule { expression, message, reason: Some("Invalid") });
    policy("cnc-annotation-validation", &[requests], None, rules.into())
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
    let requests = Requests { group: "", resources: &["namespaces"], operations: &["UPDATE"] };
    let rule = Rule {
        expression: format!(
            "('{label}' in oldObject.metadata.labels) == ('{label}' in object.metadata.labels)"
        ),
        message: format!(
            "The '{label}' label cannot be added/removed after the namespace was created"
        ),
        reason: None,
    };
    policy("user-defined-networks-namespace-label", &[requests], None, vec![rule])
}

/// A policy of this name about requests, denied on failure of any kind, and its binding. `condition`
/// has a name and an expression; requests that do not meet it are not checked.
pub(super) fn policy(
    name: &str,
    requests: &[Requests],
    condition: Option<(&str, String)>,
    rules: Vec<Rule>,
) -> AdmissionPolicy {
    let texts = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    let named = |name: String| ObjectMeta { name: Some(name), ..ObjectMeta::default() };
    let resource_rules = requests.iter().map(|requests| NamedRuleWithOperations {
        api_groups: texts(&[requests.group]),
        api_versions: texts(&["v1"]),
        operations: texts(requests.operations),
        resources: texts(requests.resources),
        ..NamedRuleWithOperations::default()
    });
    let validations = rules.into_iter().map(|rule| Validation {
        expression: rule.expression,
        message: Some(rule.message),
        reason: rule.reason.map(str::to_owned),
        ..Validation::default()
    });
    let condition =
        condition.map(|(name, expression)| MatchCondition { name: name.to_owned(), expression });
    AdmissionPolicy {
        policy: ValidatingAdmissionPolicy {
            metadata: named(name.to_owned()),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_conditions: condition.map(|condition| vec![condition]),
                match_constraints: Some(MatchResources {
                    resource_rules: Some(resource_rules.collect()),
                    ..MatchResources::default()
                }),
                validations: Some(validations.collect()),
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
