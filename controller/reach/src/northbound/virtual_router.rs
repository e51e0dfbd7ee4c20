//! MAC addresses of virtual routers, which `VRRPv3` fixes (RFC 9568, section 7.3).

use crate::address::{Mac, mask_bits};

/// Number of bits of a MAC address.
const MAC_BITS: u8 = 48;
/// Number of the bits that all virtual routers of a family share.
const FAMILY_BITS: u8 = 40;

/// MAC addresses of virtual routers of one family that begin with the same bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct VirtualMacs {
    first: Mac,
    /// Number of the bits.
    length: u8,
}

impl VirtualMacs {
    /// Those of all virtual routers, of IPv4 and of IPv6.
    pub(super) const ALL: [Self; 2] = [Self::of_family(1), Self::of_family(2)];

    const fn of_family(number: u8) -> Self {
        Self { first: Mac::new([0, 0, 0x5e, 0, number, 0]), length: FAMILY_BITS }
    }

    /// Parses `MAC[/LENGTH]` without bits behind the length. `None`: another text, or the address
    /// of no virtual router.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mac, length) = match text.split_once('/') {
            Some((mac, length)) => (mac, length.parse().ok()?),
            None => (text, MAC_BITS),
        };
        let first = Mac::parse(mac)?;
        let is_length = (FAMILY_BITS..=MAC_BITS).contains(&length);
        let has_host = first.bits() & !mask_bits(length, MAC_BITS) != 0;
        // The numbers of virtual routers begin with 1.
        let is_zero = length == MAC_BITS && Self::ALL.iter().any(|all| all.first == first);
        let is_virtual = Self::ALL.iter().any(|all| all.contains(first));
        (is_length && !has_host && !is_zero && is_virtual).then_some(Self { first, length })
    }

    pub(super) fn contains(self, mac: Mac) -> bool {
        (self.first.bits() ^ mac.bits()) & mask_bits(self.length, MAC_BITS) == 0
    }

    /// `true` if the virtual routers are those of IPv4.
    pub(super) fn is_ipv4(self) -> bool {
        let [ipv4, _] = Self::ALL;
        ipv4.contains(self.first)
    }
}
