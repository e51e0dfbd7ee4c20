//! User-defined networks, as cluster manager and zone controllers see them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::arithmetic::nth_address;
use super::ids::{NetworkId, NodeId, OwnerKey, Topology};
use super::names;
use super::networks::NadKey;

/// IP family. `Display` prints `v4` or `v6`, as in external ids.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Both families, IPv4 first.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The family of a subnet.
    pub const fn of_net(net: IpNet) -> Self {
        match net {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    /// The family of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The other family.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    /// Prefix length of node subnets, if a network configures none.
    pub(crate) const fn default_host_prefix(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }

    /// `ipv4` or `ipv6`, as in messages.
    pub const fn long_name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        })
    }
}

/// Role of a network for its pods.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Role {
    /// The network replaces the default network. Only primary networks can be connected.
    Primary,
    /// The network is an additional interface.
    Secondary,
}

/// Transport of packets between nodes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Transport {
    /// Geneve tunnels. Only overlay networks can be connected.
    #[default]
    Overlay,
    /// The fabric routes pod addresses.
    NoOverlay,
    /// The fabric is an EVPN.
    Evpn,
}

impl Transport {
    /// The value of `transport` in CNI configurations. They omit `geneve`, the default.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "geneve",
            Self::NoOverlay => "no-overlay",
            Self::Evpn => "evpn",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Pod subnet of a network.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PodSubnet {
    /// The subnet of the whole network.
    pub cidr: IpNet,
    /// Prefix length of the node subnets in `cidr`. `None`: layer2, all nodes share `cidr`.
    pub host_prefix: Option<u8>,
}

impl fmt::Display for PodSubnet {
    /// Prints `<cidr>/<host prefix>`; the host prefix of layer2 networks is 0.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.cidr, self.host_prefix.unwrap_or(0))
    }
}

/// User-defined network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Network {
    /// Name as in the CNI configuration: `cluster_udn_<name>` or `<namespace>_<name>`.
    pub name: String,
    /// Id of the network in the cluster.
    pub id: NetworkId,
    /// Topology of the network.
    pub topology: Topology,
    /// Role of the network for its pods.
    pub role: Role,
    /// Transport of packets between nodes.
    pub transport: Transport,
    /// Pod subnets, in the order of the configuration.
    pub pod_subnets: Vec<PodSubnet>,
    /// Subnets of the links between gateway routers and the cluster router; primary networks only.
    pub join_subnets: Vec<IpNet>,
    /// Subnets of the links of the transit router; primary layer2 networks only.
    pub transit_subnets: Vec<IpNet>,
    /// Namespaces that have the network as their primary network.
    pub namespaces: BTreeSet<String>,
    /// Attachment definitions of the network.
    pub nads: BTreeSet<NadKey>,
}

/// The fields of a [`Network`] from which rows are derived. `Display` prints all of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetworkConfig<'a> {
    name: &'a str,
    id: NetworkId,
    topology: Topology,
    role: Role,
    transport: Transport,
    pod_subnets: &'a [PodSubnet],
    join_subnets: &'a [IpNet],
    transit_subnets: &'a [IpNet],
}

impl fmt::Display for NetworkConfig<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            id,
            topology,
            role,
            transport,
            pod_subnets,
            join_subnets,
            transit_subnets,
        } = self;
        let pod_subnets: Vec<String> = pod_subnets.iter().map(ToString::to_string).collect();
        write!(
            formatter,
            "{name:?} {id} {topology} {role:?} {transport} {pod_subnets:?} {join_subnets:?} {transit_subnets:?}"
        )
    }
}

impl Network {
    /// The key of the network in subnet annotations of ClusterNetworkConnects.
    pub const fn owner_key(&self) -> OwnerKey {
        OwnerKey { topology: self.topology, network_id: self.id }
    }

    /// The fields from which rows are derived: all but namespaces and attachment definitions.
    pub fn config(&self) -> NetworkConfig<'_> {
        // Every field is named, so that a new one is not forgotten.
        let Self {
            name,
            id,
            topology,
            role,
            transport,
            pod_subnets,
            join_subnets,
            transit_subnets,
            namespaces: _,
            nads: _,
        } = self;
        NetworkConfig {
            name,
            id: *id,
            topology: *topology,
            role: *role,
            transport: *transport,
            pod_subnets,
            join_subnets,
            transit_subnets,
        }
    }

    /// Pod subnets of one family, in the order of the configuration.
    pub fn pod_subnets_of(&self, family: IpFamily) -> impl Iterator<Item = IpNet> {
        self.pod_subnets
            .iter()
            .map(|subnet| subnet.cidr)
            .filter(move |cidr| IpFamily::of_net(*cidr) == family)
    }

    /// `true` if the network has pod subnets of the family.
    pub fn has_family(&self, family: IpFamily) -> bool {
        self.pod_subnets_of(family).next().is_some()
    }

    /// `true` if the network has pod subnets of this family and none of the other.
    pub fn is_only(&self, family: IpFamily) -> bool {
        self.has_family(family) && !self.has_family(family.other())
    }

    /// Join address of the gateway router of a node. `None`: there is no join subnet of the family,
    /// or it is too small.
    pub fn join_address(&self, node: NodeId, family: IpFamily) -> Option<IpNet> {
        nth_of_family(&self.join_subnets, node.get().into(), family)
    }

    /// Addresses of a node at the transit router of a layer2 network: the router's and the gateway
    /// router's.
    pub fn transit_pair(&self, node: NodeId, family: IpFamily) -> Option<(IpNet, IpNet)> {
        let even = 2 * u128::from(node.get());
        let length = match family {
            IpFamily::V4 => 31,
            IpFamily::V6 => 127,
        };
        let at = |place| {
            let address = nth_of_family(&self.transit_subnets, place, family)?;
            IpNet::new(address.addr(), length).ok()
        };
        Some((at(even)?, at(even + 1)?))
    }

    /// Name of the network's router, to which connect routers are linked.
    pub fn router(&self) -> String {
        names::network_router(&self.name, self.topology)
    }

    /// Name of the network's switch. Each node has its own in layer3; layer2 ignores `node`.
    pub fn switch(&self, node: &str) -> String {
        names::network_switch(&self.name, self.topology, node)
    }

    /// Name of the router port through which packets of the pods on `node` arrive.
    pub fn inport(&self, node: &str) -> String {
        names::network_inport(&self.name, self.topology, node)
    }
}

/// The address `place` after the first one of the subnet of a family, with the subnet's length.
pub fn nth_of_family(subnets: &[IpNet], place: u128, family: IpFamily) -> Option<IpNet> {
    let mut subnets = subnets.iter().copied();
    let subnet = subnets.find(|subnet| IpFamily::of_net(*subnet) == family)?;
    IpNet::new(nth_address(subnet, place)?, subnet.prefix_len()).ok()
}
