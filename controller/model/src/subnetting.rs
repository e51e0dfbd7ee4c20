//! Division of a range into subnets of one prefix length, and the order in which OVN-Kubernetes'
//! allocators allocate them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Bits of the numbers of a range: only the first 2^24 subnets are allocated.
const MAX_NUMBER_BITS: u32 = 24;

/// Subnets of one prefix length in a range.
///
/// Each subnet has a place in the range and a number in the order of allocation. Places count by
/// address. Numbers are those of the subnet allocator in OVN-Kubernetes:
///
/// - IPv4: the numbers are rotated places if the bits of the place cross an octet border and the
///   subnet does not end at one. So the higher octet changes first: `192.168.0.0/26`,
///   `192.168.1.0/26`, and so on.
/// - IPv6: in a range of 2^16 subnets or more, numbers that end with 16 zero bits are skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Subnetting {
    range: IpNet,
    prefix: u8,
    /// Bits of a subnet's place in the range.
    bits: u32,
    /// Bits by which a number is rotated to get the place; 0 if both are equal.
    rotation: u32,
    /// `true` if numbers that end with 16 zero bits are skipped.
    skips_zero_groups: bool,
}

impl Subnetting {
    /// Divides a range. `prefix` is the prefix length of the subnets, at least that of the range.
    pub(crate) fn new(range: IpNet, prefix: u8) -> Self {
        let range = range.trunc();
        let host_bits = u32::from(range.max_prefix_len().saturating_sub(prefix));
        let bits = u32::from(prefix.saturating_sub(range.prefix_len()));
        let is_v4 = matches!(range, IpNet::V4(_));
        // Octets of the lowest and of the highest bit of the place.
        let crosses_octet =
            host_bits.saturating_sub(1) / 8 != (host_bits + bits).saturating_sub(1) / 8;
        let rotation =
            if is_v4 && host_bits % 8 != 0 && crosses_octet { 8 - host_bits % 8 } else { 0 };
        Self { range, prefix, bits, rotation, skips_zero_groups: !is_v4 && bits >= 16 }
    }

    /// The range.
    pub(crate) const fn range(&self) -> IpNet {
        self.range
    }

    /// Count of numbers, skipped numbers included.
    pub(crate) fn count(&self) -> u64 {
        1 << self.bits.min(MAX_NUMBER_BITS)
    }

    /// Count of places.
    pub(crate) fn places(&self) -> u64 {
        1_u64.checked_shl(self.bits).unwrap_or(u64::MAX)
    }

    /// Number of the subnet at a place. `None`: the subnet is never allocated.
    pub(crate) fn number(&self, place: u64) -> Option<u64> {
        // The lowest bits of the place are the highest of the number.
        let low = place & ((1 << self.rotation) - 1);
        let number = (place >> self.rotation) | (low << (self.bits - self.rotation).min(63));
        self.is_allocatable(number).then_some(number)
    }

    /// Place of the subnet with a number. `None`: the number is skipped.
    pub(crate) fn place(&self, number: u64) -> Option<u64> {
        if !self.is_allocatable(number) {
            return None;
        }
        if self.rotation == 0 {
            return Some(number);
        }
        let rotated = number << self.rotation;
        Some((rotated & ((1 << self.bits) - 1)) | (number >> (self.bits - self.rotation)))
    }

    /// Subnet at a place.
    pub(crate) fn subnet(&self, place: u64) -> IpNet {
        let base = address_bits(self.range.network()) + (u128::from(place) << self.host_bits());
        match self.range {
            IpNet::V4(_) => Ipv4Net::new_assert(Ipv4Addr::from(base as u32), self.prefix).into(),
            IpNet::V6(_) => Ipv6Net::new_assert(Ipv6Addr::from(base), self.prefix).into(),
        }
    }

    /// Place of a subnet. `None`: it is not one of the range's subnets.
    pub(crate) fn place_of(&self, subnet: IpNet) -> Option<u64> {
        if subnet.prefix_len() != self.prefix || !self.range.contains(&subnet) {
            return None;
        }
        let offset = address_bits(subnet.network()) - address_bits(self.range.network());
        u64::try_from(offset >> self.host_bits()).ok()
    }

    fn is_allocatable(&self, number: u64) -> bool {
        number < self.count() && !(self.skips_zero_groups && number.trailing_zeros() >= 16)
    }

    fn host_bits(&self) -> u8 {
        self.range.max_prefix_len() - self.prefix
    }
}

/// The address as a number.
fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn skipped_subnets_have_neither_number_nor_place() {
        let subnetting = Subnetting::new("fd01::/64".parse().unwrap(), 96);
        assert_eq!((subnetting.number(0), subnetting.place(0)), (None, None));
        assert_eq!(subnetting.place(1 << 16), None);
        assert_eq!(subnetting.place(subnetting.count()), None);
        let first = subnetting.place(1).map(|place| subnetting.subnet(place));
        assert_eq!(first, Some("fd01::1:0:0/96".parse().unwrap()));
    }

    #[test]
    fn only_subnets_of_the_range_have_a_place() {
        let subnetting = Subnetting::new("10.0.0.0/22".parse().unwrap(), 24);
        let place = |subnet: &str| subnetting.place_of(subnet.parse().unwrap());
        assert_eq!(place("10.0.2.0/24"), Some(2));
        for other in ["10.0.0.0/25", "10.1.0.0/24", "fd00::/24"] {
            assert_eq!(place(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn places_and_numbers_identify_the_same_subnet(
            length in 8_u8..24,
            bits in 0_u8..20,
            number in any::<u64>(),
        ) {
            let range: IpNet = format!("10.0.0.0/{length}").parse().unwrap();
            let subnetting = Subnetting::new(range, (length + bits).min(31));
            let number = number % subnetting.count();
            let place = subnetting.place(number).unwrap();
            prop_assert_eq!(subnetting.number(place), Some(number));
            let subnet = subnetting.subnet(place);
            prop_assert!(subnetting.range().contains(&subnet));
            prop_assert_eq!(subnetting.place_of(subnet), Some(place));
        }
    }
}
