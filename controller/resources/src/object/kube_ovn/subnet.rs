//! Subnets of VPCs, and external subnets.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::custom_resource;
use crate::object::LabelSelector;

use super::KubeOvnCondition;

custom_resource! {
    /// Subnet: a switch with a range of addresses.
    #[derive(Default)]
    Subnet, #[serde(default)] SubnetSpec, status: SubnetStatus;
    "kubeovn.io", "v1", "subnets", namespaced: false
}

/// Specification of a [`Subnet`].
#[expect(clippy::struct_excessive_bools, reason = "the fields are those of the definition")]
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubnetSpec {
    /// `true` for the subnet of pods without another one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// Name of the VPC. Empty: the default VPC, if OVN serves the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// `IPv4`, `IPv6`, `Dual` or `Mac`, which follows from the range.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Namespaces whose pods are here without an explicit subnet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Selectors of further namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespace_selectors: Vec<LabelSelector>,
    /// Range, or one of each family with a comma between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cidr_block: String,
    /// Gateway, or one of each family with a comma between them. Empty: the first address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Addresses and ranges `a..b` that are not allocated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_ips: Vec<String>,
    /// `ovn`, or `<definition>.<namespace>.ovn` of an attachment definition. Empty: `ovn`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Way out of the default VPC: `distributed` or `centralized`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway_type: String,
    /// Names of the gateway nodes, with commas between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway_node: String,
    /// Selectors of the gateway nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateway_node_selectors: Vec<LabelSelector>,
    /// `true`: nodes translate addresses of packets that leave the default VPC.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nat_outgoing: bool,
    /// Exceptions of `natOutgoing`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nat_outgoing_policy_rules: Vec<NatOutgoingPolicyRule>,
    /// Gateway outside of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub external_egress_gateway: String,
    /// `true`: several gateway nodes at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_ecmp: bool,
    /// Priority of the nodes' policy routing rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_routing_priority: Option<i64>,
    /// Table of the nodes' policy routing.
    #[serde(rename = "policyRoutingTableID", skip_serializing_if = "Option::is_none")]
    pub policy_routing_table_id: Option<i64>,
    /// `true`: only allowed subnets reach this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Ranges that reach a private subnet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_subnets: Vec<String>,
    /// ACLs of the switch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acls: Vec<SubnetAcl>,
    /// `true`: ACLs do not separate machines of the subnet.
    #[serde(rename = "allowEWTraffic", skip_serializing_if = "std::ops::Not::not")]
    pub allow_ew_traffic: bool,
    /// Name of the VLAN of an underlay subnet. Empty: an overlay subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vlan: String,
    /// Virtual addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<String>,
    /// `true`: the gateway of an underlay subnet is a router port.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub logical_gateway: bool,
    /// `true`: the gateway need not answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_gateway_check: bool,
    /// `true`: the subnet is not announced to other clusters.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_inter_connection: bool,
    /// `true`: DHCP options on ports.
    #[serde(rename = "enableDHCP", skip_serializing_if = "std::ops::Not::not")]
    pub enable_dhcp: bool,
    /// Options of `DHCPv4`: `key=value`, with commas between them.
    #[serde(rename = "dhcpV4Options", skip_serializing_if = "String::is_empty")]
    pub dhcp_v4_options: String,
    /// Options of `DHCPv6`: `key=value`, with commas between them.
    #[serde(rename = "dhcpV6Options", skip_serializing_if = "String::is_empty")]
    pub dhcp_v6_options: String,
    /// `true`: router advertisements.
    #[serde(rename = "enableIPv6RA", skip_serializing_if = "std::ops::Not::not")]
    pub enable_ipv6_ra: bool,
    /// Options of router advertisements: `key=value`, with commas between them.
    #[serde(rename = "ipv6RAConfigs", skip_serializing_if = "String::is_empty")]
    pub ipv6_ra_configs: String,
    /// `true`: the addresses of an underlay subnet are reached from overlays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub u2o_interconnection: bool,
    /// Address of the router between underlay and overlays.
    #[serde(rename = "u2oInterconnectionIP", skip_serializing_if = "String::is_empty")]
    pub u2o_interconnection_ip: String,
    /// Features of the way between underlay and overlays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub u2o_features: Option<U2oFeatures>,
    /// `true`: load balancers of the VPC on the switch. `None`: the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_lb: Option<bool>,
    /// `true`: external addresses of services on the switch.
    #[serde(rename = "enableExternalLBAddress", skip_serializing_if = "std::ops::Not::not")]
    pub enable_external_lb_address: bool,
    /// `true`: multicast snooping.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_multicast_snoop: bool,
    /// MTU; `None`: that of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Route table of packets from the subnet. Empty: the main one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_table: String,
    /// Network of the nodes that the subnet uses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_network: String,
}

/// An exception of `natOutgoing`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct NatOutgoingPolicyRule {
    /// Packets that the rule is about.
    #[serde(rename = "match")]
    pub match_: NatOutgoingPolicyMatch,
    /// `nat` or `forward`.
    pub action: String,
}

/// Packets of a [`NatOutgoingPolicyRule`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct NatOutgoingPolicyMatch {
    /// Sources, with commas between them.
    #[serde(rename = "srcIPs", skip_serializing_if = "String::is_empty")]
    pub src_ips: String,
    /// Destinations, with commas between them.
    #[serde(rename = "dstIPs", skip_serializing_if = "String::is_empty")]
    pub dst_ips: String,
}

/// An ACL of a [`Subnet`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct SubnetAcl {
    /// `from-lport` or `to-lport`.
    pub direction: String,
    /// Priority, 0 to 32767.
    pub priority: i64,
    /// Expression of OVN.
    #[serde(rename = "match")]
    pub match_: String,
    /// `allow`, `allow-related`, `allow-stateless`, `drop` or `reject`.
    pub action: String,
}

/// Features of the way between an underlay subnet and overlays.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct U2oFeatures {
    /// `true`: only packets to overlays take the way.
    #[serde(rename = "overlayOnlyRouting", skip_serializing_if = "std::ops::Not::not")]
    pub overlay_only_routing: bool,
}

/// Status of a [`Subnet`]. Numbers of IPv6 addresses may exceed 64 bits.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubnetStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// Number of free IPv4 addresses.
    #[serde(rename = "v4availableIPs", skip_serializing_if = "Option::is_none")]
    pub v4_available_ips: Option<Number>,
    /// Free IPv4 addresses: ranges, with commas between them.
    #[serde(rename = "v4availableIPrange", skip_serializing_if = "String::is_empty")]
    pub v4_available_ip_range: String,
    /// Number of used IPv4 addresses.
    #[serde(rename = "v4usingIPs", skip_serializing_if = "Option::is_none")]
    pub v4_using_ips: Option<Number>,
    /// Used IPv4 addresses: ranges, with commas between them.
    #[serde(rename = "v4usingIPrange", skip_serializing_if = "String::is_empty")]
    pub v4_using_ip_range: String,
    /// Number of free IPv6 addresses.
    #[serde(rename = "v6availableIPs", skip_serializing_if = "Option::is_none")]
    pub v6_available_ips: Option<Number>,
    /// Free IPv6 addresses: ranges, with commas between them.
    #[serde(rename = "v6availableIPrange", skip_serializing_if = "String::is_empty")]
    pub v6_available_ip_range: String,
    /// Number of used IPv6 addresses.
    #[serde(rename = "v6usingIPs", skip_serializing_if = "Option::is_none")]
    pub v6_using_ips: Option<Number>,
    /// Used IPv6 addresses: ranges, with commas between them.
    #[serde(rename = "v6usingIPrange", skip_serializing_if = "String::is_empty")]
    pub v6_using_ip_range: String,
    /// Name of the active gateway node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub activate_gateway: String,
    /// UUID of the row with the options of `DHCPv4`.
    #[serde(rename = "dhcpV4OptionsUUID", skip_serializing_if = "String::is_empty")]
    pub dhcp_v4_options_uuid: String,
    /// UUID of the row with the options of `DHCPv6`.
    #[serde(rename = "dhcpV6OptionsUUID", skip_serializing_if = "String::is_empty")]
    pub dhcp_v6_options_uuid: String,
    /// Address of the router between underlay and overlays.
    #[serde(rename = "u2oInterconnectionIP", skip_serializing_if = "String::is_empty")]
    pub u2o_interconnection_ip: String,
    /// MAC address of the router between underlay and overlays.
    #[serde(rename = "u2oInterconnectionMAC", skip_serializing_if = "String::is_empty")]
    pub u2o_interconnection_mac: String,
    /// VPC of the router between underlay and overlays.
    #[serde(rename = "u2oInterconnectionVPC", skip_serializing_if = "String::is_empty")]
    pub u2o_interconnection_vpc: String,
    /// Exceptions of `natOutgoing`, with identities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nat_outgoing_policy_rules: Vec<NatOutgoingPolicyRuleStatus>,
    /// Address of the multicast querier.
    #[serde(rename = "mcastQuerierIP", skip_serializing_if = "String::is_empty")]
    pub mcast_querier_ip: String,
    /// MAC address of the multicast querier.
    #[serde(rename = "mcastQuerierMAC", skip_serializing_if = "String::is_empty")]
    pub mcast_querier_mac: String,
}

/// A [`NatOutgoingPolicyRule`] with its identity.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct NatOutgoingPolicyRuleStatus {
    /// Identity of the rule.
    #[serde(rename = "ruleID")]
    pub rule_id: String,
    /// Packets that the rule is about.
    #[serde(rename = "match")]
    pub match_: NatOutgoingPolicyMatch,
    /// `nat` or `forward`.
    pub action: String,
}
