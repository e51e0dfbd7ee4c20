//! Ranges of connect subnets, `spec.connectSubnets` of a ClusterNetworkConnect.

use std::net::IpAddr;

use ipnet::IpNet;
use thiserror::Error;

use super::network::IpFamily;

/// Error of an entry of `spec.connectSubnets`.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConnectRangeError {
    /// The text is not a CIDR.
    #[error("failed to parse connect subnet CIDR {0}: invalid CIDR address: {0}")]
    Cidr(String),
    /// A block is not smaller than the range.
    #[error("networkPrefix {network_prefix} must be larger than base CIDR prefix {cidr_prefix}")]
    PrefixTooShort {
        /// Prefix length of a block.
        network_prefix: i32,
        /// Prefix length of the range.
        cidr_prefix: u8,
    },
    /// A block is smaller than a pair of addresses.
    #[error("networkPrefix {network_prefix} must be smaller than address length {address_bits}")]
    PrefixTooLong {
        /// Prefix length of a block.
        network_prefix: i32,
        /// Bits of an address of this family.
        address_bits: u8,
    },
}

/// Range of one family, divided into blocks of one size.
///
/// Each layer3 network has a block; layer2 networks share blocks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ConnectRange {
    cidr: IpNet,
    network_prefix: u8,
}

impl ConnectRange {
    /// Reads the CIDR of an entry of `spec.connectSubnets`.
    ///
    /// # Errors
    /// [`ConnectRangeError::Cidr`].
    pub fn parse_cidr(text: &str) -> Result<IpNet, ConnectRangeError> {
        text.parse().map_err(|_| ConnectRangeError::Cidr(text.to_owned()))
    }

    /// Makes a range with blocks of the given prefix length. Host bits of `cidr` are cleared.
    ///
    /// # Errors
    /// The prefix length is not greater than that of the range, or not less than that of an
    /// address.
    pub fn try_new(cidr: IpNet, network_prefix: i32) -> Result<Self, ConnectRangeError> {
        let cidr = cidr.trunc();
        if network_prefix <= i32::from(cidr.prefix_len()) {
            return Err(ConnectRangeError::PrefixTooShort {
                network_prefix,
                cidr_prefix: cidr.prefix_len(),
            });
        }
        if network_prefix >= i32::from(cidr.max_prefix_len()) {
            return Err(ConnectRangeError::PrefixTooLong {
                network_prefix,
                address_bits: cidr.max_prefix_len(),
            });
        }
        Ok(Self { cidr, network_prefix: network_prefix as u8 })
    }

    /// CIDR of the range.
    pub const fn cidr(self) -> IpNet {
        self.cidr
    }

    /// Prefix length of a block.
    pub const fn network_prefix(self) -> u8 {
        self.network_prefix
    }

    /// Family of the range.
    pub fn family(self) -> IpFamily {
        IpFamily::of_net(self.cidr)
    }

    /// Host bits of a block: 1 to 127.
    pub fn host_bits(self) -> u8 {
        self.cidr.max_prefix_len() - self.network_prefix
    }

    /// Distance of `address` from the start of the range. `None`: it is outside of the range.
    pub fn offset(self, address: IpAddr) -> Option<u128> {
        self.cidr
            .contains(&address)
            .then(|| address_bits(address) - address_bits(self.cidr.network()))
    }
}

/// The address as a number.
fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Ranges of one ClusterNetworkConnect: at most one of each family.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ConnectRanges {
    /// The IPv4 range.
    pub ipv4: Option<ConnectRange>,
    /// The IPv6 range.
    pub ipv6: Option<ConnectRange>,
}

impl ConnectRanges {
    /// Range of a family.
    pub const fn of(&self, family: IpFamily) -> Option<ConnectRange> {
        match family {
            IpFamily::V4 => self.ipv4,
            IpFamily::V6 => self.ipv6,
        }
    }

    /// Ranges, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = ConnectRange> {
        self.ipv4.into_iter().chain(self.ipv6)
    }
}

impl FromIterator<ConnectRange> for ConnectRanges {
    /// Collects ranges; the last one of each family is used.
    fn from_iter<I: IntoIterator<Item = ConnectRange>>(ranges: I) -> Self {
        let mut collected = Self::default();
        for range in ranges {
            match range.family() {
                IpFamily::V4 => collected.ipv4 = Some(range),
                IpFamily::V6 => collected.ipv6 = Some(range),
            }
        }
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(cidr: &str, prefix: i32) -> Result<ConnectRange, ConnectRangeError> {
        ConnectRange::try_new(ConnectRange::parse_cidr(cidr)?, prefix)
    }

    #[test]
    fn blocks_are_smaller_than_the_range_and_larger_than_an_address() {
        let message = |cidr, prefix| range(cidr, prefix).unwrap_err().to_string();
        assert_eq!(
            message("192.168.0.0/16", 16),
            "networkPrefix 16 must be larger than base CIDR prefix 16"
        );
        assert_eq!(
            message("192.168.0.0/16", 32),
            "networkPrefix 32 must be smaller than address length 32"
        );
        assert_eq!(
            message("192.168.0.0", 24),
            "failed to parse connect subnet CIDR 192.168.0.0: invalid CIDR address: 192.168.0.0"
        );
        assert_eq!(range("fd01::/112", 120).unwrap().host_bits(), 8);
    }

    #[test]
    fn offsets_count_from_the_start_of_the_range() {
        let range = range("10.0.16.0/20", 26).unwrap();
        assert_eq!(range.offset("10.0.19.64".parse().unwrap()), Some(832));
        assert_eq!(range.offset("10.0.32.0".parse().unwrap()), None);
        assert_eq!(range.offset("fd01::1".parse().unwrap()), None);
    }
}
