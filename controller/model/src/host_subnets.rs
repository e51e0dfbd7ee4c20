//! How long the subnets may be that nodes get of a layer3 network.

use ipnet::IpNet;
use thiserror::Error;

use super::network::IpFamily;

/// The only length of node subnets in IPv6.
const IPV6_LENGTH: i32 = 64;
/// A subnet of this length is a single address.
const IPV4_ADDRESS: i32 = 32;

/// Ranges out of which nodes cannot get subnets.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum HostSubnetError {
    /// Another length than that of all IPv6 networks.
    #[error("IPv6 only supports /64 host subnets")]
    Ipv6,
    /// A subnet that is a single address.
    #[error("HostSubnet must < 32 for ipv4 CIDR")]
    Ipv4Address,
    /// The range would be one subnet at most.
    #[error(
        "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet length: \
         {host}, cluster subnet length: {cluster}"
    )]
    TooShort {
        /// Length of the nodes' subnets.
        host: i32,
        /// Length of the range.
        cluster: u8,
    },
    /// Ranges with different lengths.
    #[error(
        "all IPv4 cluster subnet entries must have the same host subnet length; found {first} and {other}"
    )]
    Ipv4Differ {
        /// The first length.
        first: i32,
        /// The one that is different.
        other: i32,
    },
}

/// Checks the ranges of a network, each with the length of the subnets that nodes get out of it.
///
/// # Errors
/// [`HostSubnetError`].
pub fn check_host_subnets(
    ranges: impl IntoIterator<Item = (IpNet, i32)>,
) -> Result<(), HostSubnetError> {
    let mut first_ipv4 = None;
    for (range, host) in ranges {
        let family = IpFamily::of_net(range);
        if family == IpFamily::V6 && host != IPV6_LENGTH {
            return Err(HostSubnetError::Ipv6);
        }
        if host <= i32::from(range.prefix_len()) {
            return Err(HostSubnetError::TooShort {
                host,
                cluster: range.prefix_len(),
            });
        }
        if family == IpFamily::V4 {
            if host >= IPV4_ADDRESS {
                return Err(HostSubnetError::Ipv4Address);
            }
            let first = *first_ipv4.get_or_insert(host);
            if first != host {
                return Err(HostSubnetError::Ipv4Differ { first, other: host });
            }
        }
    }
    Ok(())
}
