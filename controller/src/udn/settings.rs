//! What the cluster's administrator has decided.

use ipnet::IpNet;

use crate::model::IpFamily;

/// Settings of a cluster that networks depend on.
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
    /// Service ranges.
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
        let parse = |texts: [&str; 2]| texts.iter().filter_map(|text| text.parse().ok()).collect();
        Self {
            families: IpFamily::BOTH.to_vec(),
            mtu: 1400,
            cluster_subnets: Vec::new(),
            service_cidrs: Vec::new(),
            join_subnets: parse(["100.64.0.0/16", "fd98::/64"]),
            masquerade_subnets: parse(["169.254.0.0/17", "fd69::/112"]),
            transit_subnets: parse(["100.88.0.0/16", "fd97::/64"]),
        }
    }
}

impl ClusterSettings {
    /// Whether the cluster runs this family.
    pub fn has_family(&self, family: IpFamily) -> bool {
        self.families.contains(&family)
    }
}
