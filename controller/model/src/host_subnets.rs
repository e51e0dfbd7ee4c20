//! Check of the prefix lengths of node subnets in a layer3 network.

use ipnet::IpNet;
use thiserror::Error;

use super::network::IpFamily;

/// Prefix length of all node subnets in IPv6.
const IPV6_HOST_PREFIX: i32 = 64;
/// Prefix length of a subnet with a single IPv4 address.
const IPV4_ADDRESS_BITS: i32 = 32;

/// Reason why ranges cannot be divided into node subnets.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum HostSubnetError {
    /// IPv6 node subnets have a prefix length other than 64.
    #[error("IPv6 only supports /64 host subnets")]
    Ipv6,
    /// An IPv4 node subnet is a single address.
    #[error("HostSubnet must < 32 for ipv4 CIDR")]
    Ipv4Address,
    /// The range has at most one node subnet.
    #[error(
        "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet length: \
         {host}, cluster subnet length: {cluster}"
    )]
    TooShort {
        /// Prefix length of node subnets.
        host: i32,
        /// Prefix length of the range.
        cluster: u8,
    },
    /// IPv4 ranges have node subnets of different prefix lengths.
    #[error(
        "all IPv4 cluster subnet entries must have the same host subnet length; found {first} and {other}"
    )]
    Ipv4Differ {
        /// Prefix length of the first range.
        first: i32,
        /// The other prefix length.
        other: i32,
    },
}

/// Checks the ranges of a network, each with the prefix length of its node subnets.
///
/// # Errors
/// [`HostSubnetError`].
pub fn check_host_subnets(
    ranges: impl IntoIterator<Item = (IpNet, i32)>,
) -> Result<(), HostSubnetError> {
    let mut first_ipv4 = None;
    for (range, host) in ranges {
        let family = IpFamily::of_net(range);
        if family == IpFamily::V6 && host != IPV6_HOST_PREFIX {
            return Err(HostSubnetError::Ipv6);
        }
        if family == IpFamily::V4 {
            if host >= IPV4_ADDRESS_BITS {
                return Err(HostSubnetError::Ipv4Address);
            }
            let first = *first_ipv4.get_or_insert(host);
            if first != host {
                return Err(HostSubnetError::Ipv4Differ { first, other: host });
            }
        }
        if host <= i32::from(range.prefix_len()) {
            return Err(HostSubnetError::TooShort { host, cluster: range.prefix_len() });
        }
    }
    Ok(())
}
