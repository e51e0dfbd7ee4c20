//! MAC addresses, IP addresses as bits, and prefixes, in the notations that OVN accepts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// MAC address.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mac([u8; 6]);

impl Mac {
    /// Address without any bit set, which OVN uses for "not resolved".
    pub const ZERO: Self = Self([0; 6]);

    /// Address of all machines.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Creates an address from its bytes.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// Parses six hexadecimal bytes, separated by colons. `None`: another text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next()?;
            let is_byte =
                matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = is_byte.then(|| u8::from_str_radix(part, 16).ok()).flatten()?;
        }
        parts.next().is_none().then_some(Self(bytes))
    }

    /// The address as an integer of 48 bits.
    pub fn bits(self) -> u128 {
        self.0.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
    }

    /// The link-local IPv6 address that is derived from this address.
    pub fn link_local(self) -> Ipv6Addr {
        let mut bytes = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 0];
        bytes[8..11].copy_from_slice(&self.0[..3]);
        bytes[8] ^= 2;
        bytes[13..].copy_from_slice(&self.0[3..]);
        Ipv6Addr::from(bytes)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let separator = if place > 0 { ":" } else { "" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Address of a network interface and the length of its network's prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Prefix {
    /// Address, whose bits behind the prefix are kept.
    pub address: IpAddr,
    /// Length in bits.
    pub length: u8,
}

impl Prefix {
    /// Parses `ADDRESS`, `ADDRESS/LENGTH` or, for IPv4, `ADDRESS/MASK`. Without a length the prefix
    /// has all bits. `None`: another text, or a mask that is not a prefix.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address = IpAddr::from_str(address).ok()?;
        let width = width(address);
        let length = match length {
            None => width,
            Some(length) if length.contains('.') => {
                let mask = Ipv4Addr::from_str(length).ok()?.to_bits();
                let is_prefix = address.is_ipv4() && mask.leading_ones() == mask.count_ones();
                is_prefix.then_some(mask.count_ones() as u8)?
            }
            Some(length) => parse_length(length, width)?,
        };
        Some(Self { address, length })
    }

    /// Creates the prefix of a single address.
    pub fn host(address: IpAddr) -> Self {
        Self { address, length: width(address) }
    }

    /// `true` if the prefix has all bits of its address.
    pub fn is_host(&self) -> bool {
        self.length == width(self.address)
    }

    /// `true` if an address of the same family begins with the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && (bits(self.address) ^ bits(address)) & mask_bits(self.length, width(address)) == 0
    }

    /// Bits of the prefix; the others are zero.
    pub fn network_bits(&self) -> u128 {
        bits(self.address) & mask_bits(self.length, width(self.address))
    }

    /// Broadcast address of an IPv4 network. `None`: IPv6.
    pub fn broadcast(&self) -> Option<IpAddr> {
        match self.address {
            IpAddr::V4(address) => {
                let mask = mask_bits(self.length, 32) as u32;
                Some(Ipv4Addr::from_bits(address.to_bits() | !mask).into())
            }
            IpAddr::V6(_) => None,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = match self.address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from_bits(self.network_bits() as u32)),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from_bits(self.network_bits())),
        };
        write!(f, "{network}/{}", self.length)
    }
}

/// Parses a decimal length of at most `width` bits. `None`: another text.
fn parse_length(text: &str, width: u8) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let length = text.parse().ok().filter(|_| is_number)?;
    (length <= width).then_some(length)
}

/// Number of bits of an address.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address as an integer of [`width`] bits.
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Mask of the first `length` of `width` bits.
pub(crate) fn mask_bits(length: u8, width: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(width));
    let host = u32::from(width.saturating_sub(length));
    all & u128::MAX.checked_shl(host).unwrap_or(0)
}

/// MAC address of an interface and its IP addresses, such as an element of the column `addresses`
/// of `Logical_Switch_Port`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Interface {
    pub(crate) mac: Mac,
    pub(crate) addresses: Vec<Prefix>,
}

impl Interface {
    /// Parses `MAC [ADDRESS[/LENGTH]...]`. Words behind the first invalid one are ignored, as OVN
    /// does. `None`: the text does not begin with a MAC address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mac = Mac::parse(words.next()?)?;
        Some(Self { mac, addresses: words.map_while(Prefix::parse).collect() })
    }

    /// `true` if one of the addresses is `address`.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_its_addresses_only() {
        let prefix = Prefix::parse("10.1.2.3/16").unwrap();
        assert!(prefix.contains("10.1.255.255".parse().unwrap()));
        assert!(!prefix.contains("10.2.0.0".parse().unwrap()));
        assert!(!prefix.contains("::1".parse().unwrap()));
        assert_eq!(prefix.to_string(), "10.1.0.0/16");
        assert_eq!(prefix.broadcast(), "10.1.255.255".parse().ok());
        assert!(Prefix::parse("0.0.0.0/0").unwrap().contains("9.9.9.9".parse().unwrap()));
        assert_eq!(Prefix::parse("10.0.0.0/255.255.0.0").unwrap().length, 16);
        for bad in ["10.0.0.0/33", "10.0.0.0/255.0.255.0", "10.0.0.0/+8", "fd00::/129", "x", ""] {
            assert_eq!(Prefix::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_interface_ends_at_the_first_invalid_word() {
        let interface =
            Interface::parse("0a:58:64:58:00:03 100.88.0.3/16 fd97::3 x 10.0.0.1").unwrap();
        assert_eq!(interface.mac.to_string(), "0a:58:64:58:00:03");
        assert_eq!(interface.addresses.len(), 2);
        assert!(interface.has("fd97::3".parse().unwrap()));
        assert_eq!(Interface::parse("unknown"), None);
        assert_eq!(
            interface.mac.link_local(),
            "fe80::858:64ff:fe58:3".parse::<Ipv6Addr>().unwrap()
        );
    }
}
