//! A user-defined network as the controller's halves see it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::ids::{NetworkId, OwnerKey, Topology};
use super::names;
use super::networks::NadKey;

/// IP family. `Display` prints `v4` or `v6`, as external ids have it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Both families in the order in which they always come.
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

    /// `ipv4` or `ipv6`, as messages have it.
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

/// What a network is to the pods on it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Role {
    /// It replaces the default network. Only such networks can be connected.
    Primary,
    /// It is an additional interface.
    Secondary,
}

/// How packets travel between nodes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Transport {
    /// Geneve tunnels. Only such networks can be connected.
    #[default]
    Overlay,
    /// The fabric routes pod addresses.
    NoOverlay,
    /// The fabric is an EVPN.
    Evpn,
}

impl Transport {
    /// The word used in configurations; the overlay, being the default, is not spelled out there.
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

/// A pod subnet of a network.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PodSubnet {
    /// The whole subnet.
    pub cidr: IpNet,
    /// Layer3: prefix length of the subnets that nodes get out of it.
    pub host_prefix: Option<u8>,
}

impl fmt::Display for PodSubnet {
    /// `<cidr>/<host prefix>`, with 0 where nodes have no subnets of their own.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.cidr, self.host_prefix.unwrap_or(0))
    }
}

/// A network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Network {
    /// Name, as in the CNI configuration: `cluster_udn_<name>` or `<namespace>_<name>`.
    pub name: String,
    /// Id in the cluster.
    pub id: NetworkId,
    /// How it is built.
    pub topology: Topology,
    /// What it is to its pods.
    pub role: Role,
    /// How packets travel.
    pub transport: Transport,
    /// Pod subnets, in the order of the configuration.
    pub pod_subnets: Vec<PodSubnet>,
    /// Subnets of the links between gateway routers and the cluster router; primary networks have them.
    pub join_subnets: Vec<IpNet>,
    /// Subnets of the links around the transit router; primary layer2 networks have them.
    pub transit_subnets: Vec<IpNet>,
    /// Namespaces whose primary network it is.
    pub namespaces: BTreeSet<String>,
    /// Its attachment definitions.
    pub nads: BTreeSet<NadKey>,
}

impl Network {
    /// The key under which connects keep their allocations for the network.
    pub const fn owner_key(&self) -> OwnerKey {
        OwnerKey {
            topology: self.topology,
            network_id: self.id,
        }
    }

    /// The pod subnets of one family, in the order of the configuration.
    pub fn pod_subnets_of(&self, family: IpFamily) -> impl Iterator<Item = IpNet> {
        self.pod_subnets
            .iter()
            .map(|subnet| subnet.cidr)
            .filter(move |cidr| IpFamily::of_net(*cidr) == family)
    }

    /// Whether the network has pod subnets of the family.
    pub fn has_family(&self, family: IpFamily) -> bool {
        self.pod_subnets_of(family).next().is_some()
    }

    /// Whether all pod subnets are of the family, and there is one.
    pub fn is_only(&self, family: IpFamily) -> bool {
        self.has_family(family) && !self.has_family(family.other())
    }

    /// Name of the router to which a connect router is linked.
    pub fn router(&self) -> String {
        names::network_router(&self.name, self.topology)
    }

    /// Name of the switch; `node` matters for layer3 only.
    pub fn switch(&self, node: &str) -> String {
        names::network_switch(&self.name, self.topology, node)
    }

    /// Name of the router's port behind which the pods on `node` are.
    pub fn inport(&self, node: &str) -> String {
        names::network_inport(&self.name, self.topology, node)
    }
}
