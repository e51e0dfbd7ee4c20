//! A range cut into subnets of one length, and the order in which OVN-Kubernetes' allocators hand them out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Most numbers a range has.
const MAX_NUMBER_BITS: u32 = 24;

/// The subnets of one length in a range.
///
/// Each has a place in the range and a number in the order of handing out. In IPv4 ranges where a subnet does not end at
/// an octet border but the range reaches beyond it, numbers are rotated so that the higher octet moves first:
/// `192.168.0.0/26`, `192.168.1.0/26`, and so on. In IPv6 ranges with 2^16 subnets and more, those whose number ends with
/// 16 zero bits are left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Subnetting {
    range: IpNet,
    prefix: u8,
    /// Bits of a subnet's place in the range.
    bits: u32,
    /// By how many bits numbers are rotated to get places; 0 if they are the same.
    rotation: u32,
    /// Whether numbers that end with 16 zero bits are left out.
    skips_zero: bool,
}

impl Subnetting {
    /// `prefix` is the length of the subnets, not shorter than that of the range.
    pub(crate) fn new(range: IpNet, prefix: u8) -> Self {
        let range = range.trunc();
        let host_bits = u32::from(range.max_prefix_len().saturating_sub(prefix));
        let bits = u32::from(prefix.saturating_sub(range.prefix_len()));
        let is_v4 = matches!(range, IpNet::V4(_));
        // The octets of the lowest and of the highest bit that tells the subnets apart.
        let crosses_octet =
            host_bits.saturating_sub(1) / 8 != (host_bits + bits).saturating_sub(1) / 8;
        let rotation = if is_v4 && host_bits % 8 != 0 && crosses_octet {
            8 - host_bits % 8
        } else {
            0
        };
        Self {
            range,
            prefix,
            bits,
            rotation,
            skips_zero: !is_v4 && bits >= 16,
        }
    }

    /// The range.
    pub(crate) const fn range(&self) -> IpNet {
        self.range
    }

    /// How many numbers there are, those that are left out included.
    pub(crate) fn count(&self) -> u64 {
        1 << self.bits.min(MAX_NUMBER_BITS)
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> u64 {
        1_u64.checked_shl(self.bits).unwrap_or(u64::MAX)
    }

    /// The number of the subnet at a place; none for a place that is never handed out.
    pub(crate) fn number(&self, place: u64) -> Option<u64> {
        // The lowest bits of the place are the highest of the number.
        let low = place & ((1 << self.rotation) - 1);
        let number = (place >> self.rotation) | (low << (self.bits - self.rotation).min(63));
        self.is_handed_out(number).then_some(number)
    }

    /// The place of the subnet with a number; none for a number that is left out.
    pub(crate) fn place(&self, number: u64) -> Option<u64> {
        if !self.is_handed_out(number) {
            return None;
        }
        if self.rotation == 0 {
            return Some(number);
        }
        let rotated = number << self.rotation;
        Some((rotated & ((1 << self.bits) - 1)) | (number >> (self.bits - self.rotation)))
    }

    /// The subnet at a place.
    pub(crate) fn subnet(&self, place: u64) -> IpNet {
        let base = bits(self.range.network()) + (u128::from(place) << self.host_bits());
        match self.range {
            IpNet::V4(_) => Ipv4Net::new_assert(Ipv4Addr::from(base as u32), self.prefix).into(),
            IpNet::V6(_) => Ipv6Net::new_assert(Ipv6Addr::from(base), self.prefix).into(),
        }
    }

    /// The place of a subnet; none if the range is not cut like this.
    pub(crate) fn place_of(&self, subnet: IpNet) -> Option<u64> {
        if subnet.prefix_len() != self.prefix || !self.range.contains(&subnet) {
            return None;
        }
        let offset = bits(subnet.network()) - bits(self.range.network());
        u64::try_from(offset >> self.host_bits()).ok()
    }

    fn is_handed_out(&self, number: u64) -> bool {
        number < self.count() && !(self.skips_zero && number.trailing_zeros() >= 16)
    }

    fn host_bits(&self) -> u8 {
        self.range.max_prefix_len() - self.prefix
    }
}

fn bits(address: IpAddr) -> u128 {
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
    fn what_is_left_out_has_neither_number_nor_place() {
        let subnetting = Subnetting::new("fd01::/64".parse().unwrap(), 96);
        assert_eq!((subnetting.number(0), subnetting.place(0)), (None, None));
        assert_eq!(subnetting.place(1 << 16), None);
        assert_eq!(subnetting.place(subnetting.count()), None);
        let first = subnetting.place(1).map(|place| subnetting.subnet(place));
        assert_eq!(first, Some("fd01::1:0:0/96".parse().unwrap()));
    }

    #[test]
    fn only_its_subnets_have_a_place() {
        let subnetting = Subnetting::new("10.0.0.0/22".parse().unwrap(), 24);
        let place = |subnet: &str| subnetting.place_of(subnet.parse().unwrap());
        assert_eq!(place("10.0.2.0/24"), Some(2));
        for other in ["10.0.0.0/25", "10.1.0.0/24", "fd00::/24"] {
            assert_eq!(place(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn places_and_numbers_are_two_names_of_a_subnet(
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
