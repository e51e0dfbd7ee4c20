//! Programs of Kube-OVN in pods of VPCs: name servers and NAT gateways.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::custom_resource;

use super::KubeOvnCondition;

custom_resource! {
    /// Name server of a VPC.
    #[derive(Default)]
    VpcDns, #[serde(default)] VpcDnsSpec, status: VpcDnsStatus;
    "kubeovn.io", "v1", "vpc-dnses", namespaced: false
}

custom_resource! {
    /// NAT gateway of a VPC in a pod.
    #[derive(Default)]
    VpcNatGateway, #[serde(default)] VpcNatGatewaySpec, status: Value;
    "kubeovn.io", "v1", "vpc-nat-gateways", namespaced: false
}

/// Specification of a [`VpcDns`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct VpcDnsSpec {
    /// Number of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Name of the VPC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// Name of the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// Name of the `ConfigMap` with the configuration.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub corefile: String,
}

/// Status of a [`VpcDns`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct VpcDnsStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// `true` if the server is the one of its VPC.
    pub active: bool,
}

/// Specification of a [`VpcNatGateway`]. What nothing here looks into is JSON.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VpcNatGatewaySpec {
    /// Name of the VPC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// Name of the subnet inside.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// Names of the subnets outside. Empty: `ovn-vpc-external-network`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_subnets: Vec<String>,
    /// Address inside.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lan_ip: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
