//! What the cluster's administrator has decided.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::network::IpFamily;

const JOIN_SUBNETS: [IpNet; 2] = [v4([100, 64], 16), v6(0xfd98, 64)];
const MASQUERADE_SUBNETS: [IpNet; 2] = [v4([169, 254], 17), v6(0xfd69, 112)];
const TRANSIT_SUBNETS: [IpNet; 2] = [v4([100, 88], 16), v6(0xfd97, 64)];

const fn v4([first, second]: [u8; 2], length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(
        Ipv4Addr::new(first, second, 0, 0),
        length,
    ))
}

const fn v6(first: u16, length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0),
        length,
    ))
}

/// Settings of a cluster that networks and connects depend on.
///
/// Ranges that are not told are not known to overlap with anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterSettings {
    /// IP families of the cluster.
    pub families: Vec<IpFamily>,
    /// MTU of networks that name none.
    pub mtu: u32,
    /// Pod ranges of the default network.
    pub cluster_subnets: Vec<IpNet>,
    /// Service ranges, in configured order.
    pub service_cidrs: Vec<IpNet>,
    /// Join ranges of the default network.
    pub join_subnets: Vec<IpNet>,
    /// Ranges of the addresses between OVN and the host.
    pub masquerade_subnets: Vec<IpNet>,
    /// Ranges that connect the zones.
    pub transit_subnets: Vec<IpNet>,
}

impl Default for ClusterSettings {
    /// Both families, the ranges that OVN-Kubernetes uses by itself, and none that an installer chooses.
    fn default() -> Self {
        Self {
            families: IpFamily::BOTH.to_vec(),
            mtu: 1400,
            cluster_subnets: Vec::new(),
            service_cidrs: Vec::new(),
            join_subnets: JOIN_SUBNETS.to_vec(),
            masquerade_subnets: MASQUERADE_SUBNETS.to_vec(),
            transit_subnets: TRANSIT_SUBNETS.to_vec(),
        }
    }
}

impl ClusterSettings {
    /// Whether the cluster runs this family.
    pub fn has_family(&self, family: IpFamily) -> bool {
        self.families.contains(&family)
    }
}
