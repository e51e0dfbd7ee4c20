//! Virtual private clouds.

use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::object::LabelSelector;

use super::KubeOvnCondition;

custom_resource! {
    /// Virtual private cloud: a router with subnets.
    #[derive(Default)]
    Vpc, #[serde(default)] VpcSpec, status: VpcStatus;
    "kubeovn.io", "v1", "vpcs", namespaced: false
}

/// Specification of a [`Vpc`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VpcSpec {
    /// Namespaces whose subnets may be in the VPC.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Subnet of pods without an explicit one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default_subnet: String,
    /// Static routes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_routes: Vec<VpcStaticRoute>,
    /// Policies of the router.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<VpcPolicyRoute>,
    /// Other VPCs that are directly connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vpc_peerings: Vec<VpcPeering>,
    /// `true`: the router has ports on external subnets.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_external: bool,
    /// External subnets. `None`: the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_external_subnets: Option<Vec<String>>,
    /// `true`: BFD sessions with next hops.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_bfd: bool,
    /// Port of the router for BFD sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd_port: Option<VpcBfdPort>,
}

/// A static route of a [`Vpc`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VpcStaticRoute {
    /// `policyDst` or `policySrc`. Empty: `policyDst`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// Range, or an address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cidr: String,
    /// Address of the next hop.
    #[serde(rename = "nextHopIP", skip_serializing_if = "String::is_empty")]
    pub next_hop_ip: String,
    /// Route table. Empty: the main one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_table: String,
    /// `ecmp_symmetric_reply`, written by the feature BFD.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ecmp_mode: String,
    /// UUID of a BFD row, written by the feature BFD.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bfd_id: String,
}

/// A policy of a [`Vpc`]'s router.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct VpcPolicyRoute {
    /// Priority, 0 to 32767.
    pub priority: i64,
    /// Expression of OVN.
    #[serde(rename = "match")]
    pub match_: String,
    /// `allow`, `drop` or `reroute`.
    pub action: String,
    /// Next hops of action `reroute`, with commas between them.
    #[serde(rename = "nextHopIP", skip_serializing_if = "String::is_empty")]
    pub next_hop_ip: String,
}

/// Direct connection of a [`Vpc`] with another one.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct VpcPeering {
    /// Name of the other VPC.
    #[serde(rename = "remoteVpc")]
    pub remote_vpc: String,
    /// Addresses of this VPC's port with prefix lengths, one of each family, with commas between
    /// them.
    #[serde(rename = "localConnectIP")]
    pub local_connect_ip: String,
}

/// Port of a router for BFD sessions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VpcBfdPort {
    /// `true`: the port is wanted.
    pub enabled: bool,
    /// Addresses, with commas between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Nodes that host the port. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
}

/// Status of a [`Vpc`].
#[expect(clippy::struct_excessive_bools, reason = "the fields are those of the definition")]
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VpcStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// `true` if the router exists, so that subnets may follow.
    pub standby: bool,
    /// `true` for the default VPC.
    pub default: bool,
    /// Name of the default subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default_logical_switch: String,
    /// Name of the router.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub router: String,
    /// Load balancer of TCP services.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tcp_load_balancer: String,
    /// Load balancer of UDP services.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub udp_load_balancer: String,
    /// Load balancer of SCTP services.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sctp_load_balancer: String,
    /// Load balancer of TCP services with session affinity.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tcp_session_load_balancer: String,
    /// Load balancer of UDP services with session affinity.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub udp_session_load_balancer: String,
    /// Load balancer of SCTP services with session affinity.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sctp_session_load_balancer: String,
    /// Subnets, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// VPCs that are directly connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vpc_peerings: Vec<String>,
    /// `true` if the router has ports on external subnets.
    pub enable_external: bool,
    /// External subnets with a port of the router, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_external_subnets: Vec<String>,
    /// `true` if BFD sessions exist.
    pub enable_bfd: bool,
    /// Port of the router for BFD sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd_port: Option<VpcBfdPortStatus>,
}

/// Status of a router's port for BFD sessions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct VpcBfdPortStatus {
    /// Name of the port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Addresses, with commas between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Names of the nodes that host the port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}
