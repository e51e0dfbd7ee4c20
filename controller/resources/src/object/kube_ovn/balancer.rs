//! Load balancers of VPCs.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

use super::KubeOvnCondition;

custom_resource! {
    /// Load balancer on the switches of a VPC.
    #[derive(Default)]
    SwitchLBRule, #[serde(default)] SwitchLBRuleSpec, status: LBRuleStatus;
    "kubeovn.io", "v1", "switch-lb-rules", namespaced: false
}

custom_resource! {
    /// Load balancer on the router of a VPC, at an external address.
    #[derive(Default)]
    RouterLBRule, #[serde(default)] RouterLBRuleSpec, status: LBRuleStatus;
    "kubeovn.io", "v1", "router-lb-rules", namespaced: false
}

/// Specification of a [`SwitchLBRule`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SwitchLBRuleSpec {
    /// Address of the load balancer, or one of each family with a comma between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vip: String,
    /// Namespace of the machines.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels of the machines: `key:value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selector: Vec<String>,
    /// Addresses of the machines, in place of a selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// `ClientIP` or `None`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_affinity: String,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<LBRulePort>,
}

/// Specification of a [`RouterLBRule`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouterLBRuleSpec {
    /// Name of the external address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovn_eip: String,
    /// Name of the VPC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// Namespace of the machines. Empty: `default`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels of the machines: `key:value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selector: Vec<String>,
    /// Addresses of the machines, in place of a selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// `ClientIP` or `None`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_affinity: String,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<LBRulePort>,
}

/// Port of a load balancer.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LBRulePort {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Port of the address.
    pub port: i32,
    /// Port of the machines. `None`: as `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<i32>,
    /// `TCP` or `UDP`. Empty: TCP.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

/// Status of a [`SwitchLBRule`] or [`RouterLBRule`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct LBRuleStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// Ports with their protocols.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ports: String,
    /// Namespace and name of the service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service: String,
}
