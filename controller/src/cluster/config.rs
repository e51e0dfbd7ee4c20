//! What the cluster-wide half must know about the cluster.

use std::collections::BTreeSet;
use std::fmt;

use ipnet::IpNet;

use crate::model::{DatapathKey, IpFamily};

/// Built-in masquerade subnets, in force where the cluster does not set others.
const MASQUERADE_SUBNETS: [&str; 2] = ["169.254.169.0/29", "fd69::/125"];

/// A range the cluster uses itself, which connect subnets must keep clear of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterRange {
    /// What the range is for, as messages have it: `service`, `masquerade`.
    pub name: String,
    /// The subnets of the range, in configured order.
    pub subnets: Vec<IpNet>,
}

impl fmt::Display for ClusterRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} subnet", self.name)
    }
}

/// Configuration of the cluster-wide half.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterConfig {
    /// The cluster runs IPv4.
    pub ipv4: bool,
    /// The cluster runs IPv6.
    pub ipv6: bool,
    /// What connect subnets must keep clear of, in the order in which messages have it.
    pub ranges: Vec<ClusterRange>,
    /// Tunnel keys that networks use and no attachment definition tells.
    pub reserved_keys: BTreeSet<DatapathKey>,
}

impl ClusterConfig {
    /// A cluster with these families and service ranges, and the built-in masquerade subnets.
    #[must_use]
    pub fn new(ipv4: bool, ipv6: bool, service_cidrs: Vec<IpNet>) -> Self {
        let masquerade = MASQUERADE_SUBNETS.iter().filter_map(|net| net.parse().ok());
        Self {
            ipv4,
            ipv6,
            ranges: Vec::new(),
            reserved_keys: BTreeSet::new(),
        }
        .with_range("service", service_cidrs)
        .with_range("masquerade", masquerade.collect())
    }

    /// Adds or replaces a range. Pod, join and transit subnets of the default network belong here, too.
    #[must_use]
    pub fn with_range(mut self, name: &str, subnets: Vec<IpNet>) -> Self {
        match self.ranges.iter_mut().find(|range| range.name == name) {
            Some(range) => range.subnets = subnets,
            None => self.ranges.push(ClusterRange {
                name: name.to_owned(),
                subnets,
            }),
        }
        self
    }

    /// Whether the cluster runs a family.
    pub const fn runs(&self, family: IpFamily) -> bool {
        match family {
            IpFamily::V4 => self.ipv4,
            IpFamily::V6 => self.ipv6,
        }
    }
}
