//! NetworkPolicies of Kubernetes, and MultiNetworkPolicies of the Network Plumbing Working Group.

use patchbay_model::FieldProblem;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LabelSelector;
use crate::selector;

/// Defines the object of a policy, whose specification may be missing.
macro_rules! policy_object {
    (
        $(#[$doc:meta])* $type:ident, $spec:ty, status: $status:ty;
        $group:literal, $version:literal, $plural:literal, namespaced: $namespaced:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, serde::Deserialize, PartialEq, serde::Serialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $type {
            /// `apiVersion`.
            pub api_version: $crate::object::ApiVersion<Self>,
            /// `kind`.
            pub kind: $crate::object::KindName<Self>,
            /// Metadata.
            pub metadata: $crate::object::ObjectMeta,
            /// Specification.
            pub spec: $spec,
            /// Status.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub status: Option<$status>,
        }

        impl $crate::object::Object for $type {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = stringify!($type);
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $namespaced;

            fn meta(&self) -> &$crate::object::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut $crate::object::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use policy_object;

policy_object!(
    /// Rules for packets to and from pods in the primary network of their namespace.
    NetworkPolicy, PolicySpec, status: Value;
    "networking.k8s.io", "v1", "networkpolicies", namespaced: true
);
policy_object!(
    /// Rules for packets to and from pods in secondary networks, which an annotation names.
    MultiNetworkPolicy, PolicySpec, status: Value;
    "k8s.cni.cncf.io", "v1beta1", "multi-networkpolicies", namespaced: true
);

/// Specification of a policy.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicySpec {
    /// Pods of the namespace that the policy isolates.
    pub pod_selector: LabelSelector,
    /// Rules for packets to the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Vec<PolicyRule>>,
    /// Rules for packets from the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<PolicyRule>>,
    /// `Ingress`, `Egress`. `None`: `Ingress`, and `Egress` if there are rules for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_types: Option<Vec<String>>,
}

impl PolicySpec {
    /// Violations of a NetworkPolicy that would leave its pods open: unknown types, and a selector
    /// that selects no pods.
    pub fn violations(&self) -> Vec<FieldProblem> {
        let types = self.policy_types.iter().flatten().enumerate();
        let unknown = types.filter(|(_, text)| !["Ingress", "Egress"].contains(&text.as_str()));
        let mut found: Vec<FieldProblem> = unknown
            .map(|(index, text)| {
                let message = format!(
                    "Unsupported value: {text:?}: supported values: \"Egress\", \"Ingress\""
                );
                FieldProblem::new(format!("spec.policyTypes[{index}]"), message)
            })
            .collect();
        found.extend(selector::violations("spec.podSelector", &self.pod_selector));
        found
    }
}

/// Rule of a policy: `from` of ingress, `to` of egress.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PolicyRule {
    /// Sources of ingress. Empty: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<PolicyPeer>>,
    /// Destinations of egress. Empty: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<PolicyPeer>>,
    /// Ports of the destinations. Empty: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PolicyPort>>,
}

/// Peer of a rule.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyPeer {
    /// Addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
    /// Namespaces. `None`: that of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Pods of the namespaces. `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
}

/// Addresses that are peers of a rule.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct IpBlock {
    /// The addresses.
    pub cidr: String,
    /// Addresses of the block that are no peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<String>>,
}

/// Port of a rule.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyPort {
    /// Last port of a range that begins with `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_port: Option<i64>,
    /// Number, or name of a container port. `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<Value>,
    /// `TCP`, `UDP` or `SCTP`; `None`: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}
