//! Settings of the cluster's administrator, and the defaults of OVN-Kubernetes.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::SignedDuration;

use super::network::IpFamily;

/// Join subnets of the cluster's default network, if the administrator configures none.
const DEFAULT_NETWORK_JOIN_SUBNETS: [IpNet; 2] = [v4([100, 64], 16), v6(0xfd98, 64)];
/// Join subnets, IPv4 first, of a primary user-defined network that configures none.
pub const USER_DEFINED_JOIN_SUBNETS: [IpNet; 2] = [v4([100, 65], 16), v6(0xfd99, 64)];
/// Subnets between OVN and the host, if the administrator configures none.
const DEFAULT_MASQUERADE_SUBNETS: [IpNet; 2] = [v4([169, 254], 17), v6(0xfd69, 112)];
/// Transit subnets, IPv4 first: of the cluster, if the administrator configures none, and of a
/// primary layer2 network that configures none.
pub(crate) const DEFAULT_TRANSIT_SUBNETS: [IpNet; 2] = [v4([100, 88], 16), v6(0xfd97, 64)];

/// IPv4 subnet with these two octets before zeros.
const fn v4([first, second]: [u8; 2], length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), length))
}

/// IPv6 subnet with this group before zeros.
const fn v6(first: u16, length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), length))
}

/// Local ports that NAT gives to connections, if the administrator configures none: the default of
/// Linux' `ip_local_port_range`.
const DEFAULT_EPHEMERAL_PORTS: (u16, u16) = (32_768, 60_999);
/// Time for which a zone keeps a network without users, with
/// [`DynamicUdnAllocation`](Feature::DynamicUdnAllocation), if the administrator configures
/// nothing.
const DEFAULT_UDN_DELETION_GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(120);
/// Services of the default network that primary networks reach, if the administrator configures
/// none.
const DEFAULT_REACHABLE_SERVICES: [&str; 2] = ["default/kubernetes", "kube-system/kube-dns"];

/// Way of packets that leave the cluster.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum GatewayMode {
    /// Through the gateway router and the node's bridge.
    #[default]
    Shared,
    /// Through the management port and the routes of the host.
    Local,
}

/// Feature that is off unless the administrator switches it on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Feature {
    /// IP multicast between the pods of a namespace that allows it. Without it, multicast is
    /// neither dropped nor routed by rows of the networks.
    Multicast,
    /// EgressFirewalls of namespaces.
    EgressFirewall,
    /// RouteAdvertisements: routers outside of the cluster know the way to pods.
    RouteAdvertisements,
    /// Networks with transport `EVPN`, with [`RouteAdvertisements`](Self::RouteAdvertisements) and
    /// in local gateway mode.
    Evpn,
    /// Networks whose gateways are on physical networks of their own.
    Uplink,
    /// EgressIPs.
    EgressIp,
    /// AdminNetworkPolicies and the BaselineAdminNetworkPolicy.
    AdminNetworkPolicy,
    /// Networks on nodes with users only: pods, EgressIPs and connected networks.
    DynamicUdnAllocation,
}

impl Feature {
    /// All features.
    pub const ALL: [Self; 8] = [
        Self::Multicast,
        Self::EgressFirewall,
        Self::RouteAdvertisements,
        Self::Evpn,
        Self::Uplink,
        Self::EgressIp,
        Self::AdminNetworkPolicy,
        Self::DynamicUdnAllocation,
    ];

    /// Name: that of the flag of OVN-Kubernetes without `--enable-`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Multicast => "multicast",
            Self::EgressFirewall => "egress-firewall",
            Self::RouteAdvertisements => "route-advertisements",
            Self::Evpn => "evpn",
            Self::Uplink => "uplink",
            Self::EgressIp => "egress-ip",
            Self::AdminNetworkPolicy => "admin-network-policy",
            Self::DynamicUdnAllocation => "dynamic-udn-allocation",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Northbound databases of a cluster.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Databases {
    /// Each node has its own, which is a zone.
    #[default]
    Zone,
    /// All nodes have one together.
    Central,
}

impl Databases {
    /// Name of the only database of [`Central`](Self::Central).
    pub const CENTRAL: &str = "central";
}

/// Settings of a cluster that networks and connects depend on.
///
/// Subnets that overlap with a range in these settings are refused. An empty list permits all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterSettings {
    /// Northbound databases of the nodes.
    pub databases: Databases,
    /// `true`: ovn-northd is that of an OVN release, and not one with the changes of Kube-OVN.
    pub is_northd_stock: bool,
    /// IP families of the cluster.
    pub families: Vec<IpFamily>,
    /// MTU in bytes of networks that configure none.
    pub mtu: u32,
    /// Pod ranges of the default network.
    pub cluster_subnets: Vec<IpNet>,
    /// Service ranges, in the configured order.
    pub service_cidrs: Vec<IpNet>,
    /// Join ranges of the default network.
    pub join_subnets: Vec<IpNet>,
    /// Ranges of the addresses between OVN and the host (masquerade subnets).
    pub masquerade_subnets: Vec<IpNet>,
    /// Ranges of the transit switches, which connect the zones.
    pub transit_subnets: Vec<IpNet>,
    /// Way of packets that leave the cluster.
    pub gateway_mode: GatewayMode,
    /// First and last local port that NAT gives to connections. `None`: any port.
    pub ephemeral_ports: Option<(u16, u16)>,
    /// `true` if nodes forward the node ports of services.
    pub node_ports: bool,
    /// Services of the default network that primary networks reach, as `<namespace>/<name>`.
    pub reachable_default_services: Vec<String>,
    /// Features that are switched on.
    pub features: BTreeSet<Feature>,
    /// Time for which a zone keeps a network without users, with
    /// [`DynamicUdnAllocation`](Feature::DynamicUdnAllocation).
    pub udn_deletion_grace_period: SignedDuration,
}

impl Default for ClusterSettings {
    /// Both families and OVN-Kubernetes' default ranges. Pod and service ranges are empty, because
    /// an installer chooses them.
    fn default() -> Self {
        Self {
            databases: Databases::default(),
            is_northd_stock: true,
            families: IpFamily::BOTH.to_vec(),
            mtu: 1400,
            cluster_subnets: Vec::new(),
            service_cidrs: Vec::new(),
            join_subnets: DEFAULT_NETWORK_JOIN_SUBNETS.to_vec(),
            masquerade_subnets: DEFAULT_MASQUERADE_SUBNETS.to_vec(),
            transit_subnets: DEFAULT_TRANSIT_SUBNETS.to_vec(),
            gateway_mode: GatewayMode::Shared,
            ephemeral_ports: Some(DEFAULT_EPHEMERAL_PORTS),
            node_ports: true,
            reachable_default_services: DEFAULT_REACHABLE_SERVICES.map(str::to_owned).to_vec(),
            features: BTreeSet::new(),
            udn_deletion_grace_period: DEFAULT_UDN_DELETION_GRACE_PERIOD,
        }
    }
}

impl ClusterSettings {
    /// `true` if the cluster runs this family.
    pub fn has_family(&self, family: IpFamily) -> bool {
        self.families.contains(&family)
    }

    /// `true` if the feature is switched on.
    pub fn has_feature(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}
