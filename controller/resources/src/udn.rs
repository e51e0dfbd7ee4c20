//! `UserDefinedNetwork` and `ClusterUserDefinedNetwork`, group `k8s.ovn.org`, version `v1`.
//!
//! The attributes of the types give the part of the definitions that derives can express;
//! `patchbay-crds` adds the rest. [`UserDefinedNetworkSpec::violations`] and
//! [`ClusterUserDefinedNetworkSpec::violations`] list violations of the schema and its rules,
//! `transition_violations` of the same types those of a change. Values stand as the user wrote
//! them: defaults are filled in where networks are rendered.

use crate::custom_resource;
use crate::object::{Condition, LabelSelector};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod evpn;
mod host_bits;
mod layer2;
mod layer3;
mod localnet;
mod rule_checker;
mod transition;
mod validation;

#[cfg(test)]
mod tests;

pub use host_bits::UnmaskedSubnet;

/// Topology of a [`UserDefinedNetwork`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum UdnTopology {
    /// One broadcast domain over all nodes.
    Layer2,
    /// A subnet per node, routed between nodes.
    Layer3,
}

/// Topology of a [`ClusterUserDefinedNetwork`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum CudnTopology {
    /// One broadcast domain over all nodes.
    Layer2,
    /// A subnet per node, routed between nodes.
    Layer3,
    /// A physical network that nodes are attached to.
    Localnet,
}

/// Role of a network for its pods.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum NetworkRole {
    /// Primary network of every pod in the namespace.
    Primary,
    /// Additional network of the pods that request it.
    Secondary,
}

custom_resource! {
    /// A network of one namespace.
    UserDefinedNetwork, UserDefinedNetworkSpec, status: NetworkStatus;
    "k8s.ovn.org", "v1", "userdefinednetworks", namespaced: true
}

/// The `spec` of a [`UserDefinedNetwork`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UserDefinedNetworkSpec {
    /// Topology, which decides which of `layer3` and `layer2` is set.
    pub topology: UdnTopology,
    /// Set with topology `Layer3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer3: Option<Layer3Config>,
    /// Set with topology `Layer2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer2: Option<Layer2Config>,
}

custom_resource! {
    /// A network of the namespaces that its selector matches.
    ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec, status: NetworkStatus;
    "k8s.ovn.org", "v1", "clusteruserdefinednetworks", namespaced: false
}

/// The `spec` of a [`ClusterUserDefinedNetwork`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClusterUserDefinedNetworkSpec {
    /// Selector of the namespaces in which the network is available. An empty selector matches all.
    pub namespace_selector: LabelSelector,
    /// The network itself.
    pub network: NetworkSpec,
    /// Names of the host's uplinks: exactly one, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(
            length(min = 1, max = 1),
            inner(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
        )
    )]
    pub uplinks: Option<Vec<String>>,
}

/// The network of a [`ClusterUserDefinedNetwork`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NetworkSpec {
    /// Topology, which decides which of `layer3`, `layer2` and `localnet` is set.
    pub topology: CudnTopology,
    /// Set with topology `Layer3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer3: Option<Layer3Config>,
    /// Set with topology `Layer2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer2: Option<Layer2Config>,
    /// Set with topology `Localnet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub localnet: Option<LocalnetConfig>,
    /// Transport of packets between nodes. Default: the overlay of OVN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Set with transport `NoOverlay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_overlay: Option<NoOverlayConfig>,
    /// Set with transport `EVPN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evpn: Option<EvpnConfig>,
}

/// A layer3 network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Layer3Config {
    /// Role of the network for its pods.
    pub role: NetworkRole,
    /// Maximum transmission unit, 576 to 65536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 576, max = 65536)))]
    pub mtu: Option<i32>,
    /// Ranges from which node subnets are allocated, 1 to 400.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 400)))]
    pub subnets: Vec<Layer3Subnet>,
    /// Ranges of the network's join switch, one per family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2), inner(length(max = 43))))]
    pub join_subnets: Option<Vec<String>>,
}

/// One range of a layer3 network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Layer3Subnet {
    /// The range.
    #[cfg_attr(feature = "schema", schemars(length(max = 43)))]
    pub cidr: String,
    /// Prefix length of each node's subnet, 1 to 127.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 127)))]
    pub host_subnet: Option<i32>,
}

/// A layer2 network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Layer2Config {
    /// Role of the network for its pods.
    pub role: NetworkRole,
    /// Maximum transmission unit, 576 to 65536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 576, max = 65536)))]
    pub mtu: Option<i32>,
    /// Ranges of the network, one per family; absent only without IPAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2), inner(length(max = 43))))]
    pub subnets: Option<Vec<String>>,
    /// Ranges from which no address is allocated automatically, 1 to 25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 25), inner(length(max = 43))))]
    pub reserved_subnets: Option<Vec<String>>,
    /// Ranges for gateway and management addresses only, 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 4), inner(length(max = 43))))]
    pub infrastructure_subnets: Option<Vec<String>>,
    /// Gateway addresses, one per family. Default: the first address of each range.
    #[serde(default, rename = "defaultGatewayIPs", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2)))]
    pub default_gateway_ips: Option<Vec<String>>,
    /// Join ranges of the network, one per family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2), inner(length(max = 43))))]
    pub join_subnets: Option<Vec<String>>,
    /// Address management.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<IpamConfig>,
}

/// A localnet network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LocalnetConfig {
    /// Always `Secondary`.
    pub role: NetworkRole,
    /// Name of the physical network in the nodes' bridge mappings.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 253)))]
    pub physical_network_name: String,
    /// Ranges of the network, one per family; absent only without IPAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2), inner(length(max = 43))))]
    pub subnets: Option<Vec<String>>,
    /// Ranges from which no address is allocated, 1 to 25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 25), inner(length(max = 43))))]
    pub exclude_subnets: Option<Vec<String>>,
    /// Address management.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<IpamConfig>,
    /// Maximum transmission unit, 576 to 65536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 576, max = 65536)))]
    pub mtu: Option<i32>,
    /// VLAN of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanConfig>,
}

/// Address management of a network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(extend("minProperties" = 1)))]
pub struct IpamConfig {
    /// Mode of the address management. Default: `Enabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<IpamMode>,
    /// Lifecycle of addresses. Default: that of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<IpamLifecycle>,
}

/// Mode of the address management.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum IpamMode {
    /// Pods get addresses.
    Enabled,
    /// Pods get MAC addresses only.
    Disabled,
}

/// Lifecycle of addresses.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum IpamLifecycle {
    /// Addresses exist as long as the IPAMClaim, also without the pod.
    Persistent,
}

/// VLAN of a localnet network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VlanConfig {
    /// Mode, which decides which other member is set.
    pub mode: VlanMode,
    /// Set with mode `Access`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessVlan>,
}

/// VLAN modes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum VlanMode {
    /// One VLAN for the whole network.
    Access,
}

/// The VLAN of an access port.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AccessVlan {
    /// VLAN id, 1 to 4094.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 4094)))]
    pub id: i32,
}

/// Transport of a network's packets between nodes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum Transport {
    /// The routed network of the nodes.
    NoOverlay,
    /// An EVPN fabric.
    #[serde(rename = "EVPN")]
    Evpn,
}

/// A network without overlay.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NoOverlayConfig {
    /// Source NAT of packets that leave the cluster.
    #[serde(rename = "outboundSNAT")]
    pub outbound_snat: OutboundSnat,
    /// Program that distributes the routes.
    pub routing: Routing,
}

/// Source NAT of packets that leave the cluster.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum OutboundSnat {
    /// Sources are translated.
    Enabled,
    /// Sources are kept.
    Disabled,
}

/// Program that distributes the routes of a network without overlay.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum Routing {
    /// OVN-Kubernetes distributes them.
    Managed,
    /// Another program distributes them.
    Unmanaged,
}

/// A network on an EVPN fabric.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EvpnConfig {
    /// Name of the VTEP object.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub vtep: String,
    /// MAC-VRF, the layer2 service.
    #[serde(default, rename = "macVRF", skip_serializing_if = "Option::is_none")]
    pub mac_vrf: Option<VrfConfig>,
    /// IP-VRF, the layer3 service.
    #[serde(default, rename = "ipVRF", skip_serializing_if = "Option::is_none")]
    pub ip_vrf: Option<VrfConfig>,
}

/// One VRF of an EVPN network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VrfConfig {
    /// VXLAN network identifier, 1 to 16777215.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 16_777_215)))]
    pub vni: i32,
    /// BGP route target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 21)))]
    pub route_target: Option<String>,
}

/// The `status` of a [`UserDefinedNetwork`] or [`ClusterUserDefinedNetwork`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NetworkStatus {
    /// At most one condition per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
