//! The subnets of one size of a range, and the order in which they are handed out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Most numbers a range has.
const MAX_NUMBER_BITS: u32 = 24;

/// A subnet of the pool.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Place in the order of handing out.
    number: u64,
    /// Place in the range.
    block: u64,
    taken: bool,
}

/// Hands out subnets of one size of a range.
///
/// The next one is the first free one after the last one handed out. A subnet that was given back is thus used again
/// only when the pool has gone round.
///
/// Subnets have numbers. In IPv4 ranges where a subnet does not end at an octet border but the range reaches beyond it,
/// numbers are rotated so that the higher octet moves first: `192.168.0.0/26`, `192.168.1.0/26`, and so on. In IPv6 ranges
/// with 2^16 subnets and more, those whose number ends with 16 zero bits are left out.
#[derive(Clone, Debug)]
pub(super) struct SubnetPool {
    range: IpNet,
    prefix: u8,
    slots: Vec<Slot>,
    next: usize,
}

impl SubnetPool {
    /// A pool of the first `blocks` subnets of a range, as far as there are that many.
    pub(super) fn new(range: IpNet, prefix: u8, blocks: u32) -> Self {
        let range = range.trunc();
        let numbering = Numbering::new(range, prefix);
        let blocks = u64::from(blocks).min(1_u64.checked_shl(numbering.bits).unwrap_or(u64::MAX));
        let mut slots: Vec<Slot> = (0..blocks)
            .filter_map(|block| {
                let number = numbering.number(block)?;
                Some(Slot {
                    number,
                    block,
                    taken: false,
                })
            })
            .collect();
        slots.sort_unstable_by_key(|slot| slot.number);
        Self {
            range,
            prefix,
            slots,
            next: 0,
        }
    }

    /// A pool of as many subnets as are needed beside another pool of `count` subnets.
    pub(super) fn with_count(range: IpNet, prefix: u8, count: u32) -> Self {
        // One more, because IPv6 ranges leave out one of their first 2^16 subnets.
        let mut pool = Self::new(range, prefix, count.saturating_add(1));
        pool.slots.truncate(count as usize);
        pool
    }

    /// Takes the next free subnet.
    pub(super) fn allocate(&mut self) -> Option<IpNet> {
        let (before, after) = self.slots.split_at_mut(self.next);
        let Some(slot) = after.iter_mut().chain(before).find(|slot| !slot.taken) else {
            self.next = 0;
            return None;
        };
        slot.taken = true;
        let Slot { number, block, .. } = *slot;
        self.next = self.slots.partition_point(|slot| slot.number <= number);
        Some(self.subnet(block))
    }

    /// Takes this very subnet. False if it is taken already or is none of the pool's.
    pub(super) fn reserve(&mut self, subnet: IpNet) -> bool {
        self.slot(subnet)
            .is_some_and(|slot| !std::mem::replace(&mut slot.taken, true))
    }

    /// Gives a subnet back. False if it was not taken.
    pub(super) fn release(&mut self, subnet: IpNet) -> bool {
        self.slot(subnet)
            .is_some_and(|slot| std::mem::replace(&mut slot.taken, false))
    }

    /// Whether no subnet is taken.
    pub(super) fn is_unused(&self) -> bool {
        self.slots.iter().all(|slot| !slot.taken)
    }

    /// How many subnets there are, taken or not.
    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    fn slot(&mut self, subnet: IpNet) -> Option<&mut Slot> {
        if subnet.prefix_len() != self.prefix || !self.range.contains(&subnet) {
            return None;
        }
        let offset = bits(subnet.network()) - bits(self.range.network());
        let block = u64::try_from(offset >> self.host_bits()).ok()?;
        let number = Numbering::new(self.range, self.prefix).number(block)?;
        let index = self
            .slots
            .binary_search_by_key(&number, |slot| slot.number)
            .ok()?;
        self.slots.get_mut(index)
    }

    fn host_bits(&self) -> u8 {
        self.range.max_prefix_len() - self.prefix
    }

    fn subnet(&self, block: u64) -> IpNet {
        let offset = u128::from(block) << self.host_bits();
        let base = bits(self.range.network()) + offset;
        match self.range {
            IpNet::V4(_) => Ipv4Net::new_assert(Ipv4Addr::from(base as u32), self.prefix).into(),
            IpNet::V6(_) => Ipv6Net::new_assert(Ipv6Addr::from(base), self.prefix).into(),
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// How the subnets of a range are numbered.
#[derive(Clone, Copy)]
struct Numbering {
    /// Bits of a subnet's place in the range.
    bits: u32,
    /// By how many bits numbers are rotated to get places; 0 if they are the same.
    rotation: u32,
    /// Whether numbers that end with 16 zero bits are left out.
    skips_zero: bool,
}

impl Numbering {
    fn new(range: IpNet, prefix: u8) -> Self {
        let host_bits = u32::from(range.max_prefix_len() - prefix);
        let bits = u32::from(prefix - range.prefix_len());
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
            bits,
            rotation,
            skips_zero: !is_v4 && bits >= 16,
        }
    }

    /// The number of the subnet at a place; `None` for a place that is never handed out.
    fn number(self, block: u64) -> Option<u64> {
        // The lowest bits of the place are the highest of the number.
        let low = block & ((1 << self.rotation) - 1);
        let number = (block >> self.rotation) | (low << (self.bits - self.rotation).min(63));
        let left_out = self.skips_zero && number.trailing_zeros() >= 16;
        (number < 1 << self.bits.min(MAX_NUMBER_BITS) && !left_out).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(range: &str, prefix: u8) -> SubnetPool {
        SubnetPool::new(range.parse().unwrap(), prefix, u32::from(u16::MAX))
    }

    fn take(pool: &mut SubnetPool, count: usize) -> Vec<String> {
        std::iter::from_fn(|| pool.allocate())
            .take(count)
            .map(|subnet| subnet.to_string())
            .collect()
    }

    #[test]
    fn first_subnets_of_a_range() {
        let cases = [
            (
                "192.168.0.0/16",
                24,
                ["192.168.0.0/24", "192.168.1.0/24", "192.168.2.0/24"],
            ),
            (
                "192.168.0.0/16",
                26,
                ["192.168.0.0/26", "192.168.1.0/26", "192.168.2.0/26"],
            ),
            (
                "10.100.0.0/16",
                20,
                ["10.100.0.0/20", "10.100.16.0/20", "10.100.32.0/20"],
            ),
            (
                "172.16.0.0/12",
                20,
                ["172.16.0.0/20", "172.17.0.0/20", "172.18.0.0/20"],
            ),
            (
                "fd01::/112",
                120,
                ["fd01::/120", "fd01::100/120", "fd01::200/120"],
            ),
            (
                "fd01::/64",
                96,
                ["fd01::1:0:0/96", "fd01::2:0:0/96", "fd01::3:0:0/96"],
            ),
            (
                "192.168.1.0/24",
                31,
                ["192.168.1.0/31", "192.168.1.2/31", "192.168.1.4/31"],
            ),
            (
                "192.168.0.0/20",
                31,
                ["192.168.0.0/31", "192.168.1.0/31", "192.168.2.0/31"],
            ),
            (
                "fd01:0:0:1::/64",
                127,
                [
                    "fd01:0:0:1::2/127",
                    "fd01:0:0:1::4/127",
                    "fd01:0:0:1::6/127",
                ],
            ),
        ];
        for (range, prefix, expected) in cases {
            assert_eq!(
                take(&mut pool(range, prefix), 3),
                expected,
                "{range} {prefix}"
            );
        }
        let rotated = take(&mut pool("192.168.0.0/16", 26), 257);
        assert_eq!(rotated[255..], ["192.168.255.0/26", "192.168.0.64/26"]);
        let rotated = take(&mut pool("192.168.0.0/20", 31), 17);
        assert_eq!(rotated[15..], ["192.168.15.0/31", "192.168.0.2/31"]);
    }

    #[test]
    fn subnets_given_back_wait_for_the_pool_to_go_round() {
        let mut pool = pool("192.168.0.0/22", 24);
        let first = pool.allocate().unwrap();
        assert!(pool.allocate().is_some());
        assert!(pool.release(first));
        assert_eq!(
            take(&mut pool, 9),
            ["192.168.2.0/24", "192.168.3.0/24", "192.168.0.0/24"]
        );
        // A failure starts the pool from its beginning.
        assert!(pool.release("192.168.1.0/24".parse().unwrap()));
        assert!(pool.release(first));
        assert_eq!(take(&mut pool, 1), ["192.168.0.0/24"]);
    }

    #[test]
    fn only_subnets_of_the_pool_can_be_reserved_once() {
        let mut pool = pool("192.168.0.0/22", 24);
        let mut reserve = |subnet: &str| pool.reserve(subnet.parse().unwrap());
        assert!(reserve("192.168.0.0/24"));
        assert!(!reserve("192.168.0.0/24"));
        assert!(!reserve("192.168.4.0/24"));
        assert!(!reserve("192.168.1.0/25"));
        assert!(!reserve("fd00::/24"));
        assert_eq!(take(&mut pool, 1), ["192.168.1.0/24"]);
    }

    #[test]
    fn a_limited_pool_has_the_first_subnets_of_its_range() {
        let mut pool = SubnetPool::new("172.16.0.0/12".parse().unwrap(), 20, 16);
        assert_eq!(take(&mut pool, 2), ["172.16.0.0/20", "172.16.16.0/20"]);
        assert_eq!(pool.len(), 16);
        let beside = SubnetPool::with_count("fd01::/64".parse().unwrap(), 96, 7);
        assert_eq!(beside.len(), 7);
    }

    proptest! {
        #[test]
        fn every_subnet_is_handed_out_once(length in 8_u8..24, bits in 1_u8..10) {
            let range: IpNet = format!("10.0.0.0/{length}").parse().unwrap();
            let prefix = (length + bits).min(31);
            let mut pool = SubnetPool::new(range.trunc(), prefix, u32::MAX);
            let mut handed_out: Vec<IpNet> = std::iter::from_fn(|| pool.allocate()).collect();
            prop_assert_eq!(handed_out.len(), 1 << (prefix - length));
            handed_out.sort();
            handed_out.dedup();
            prop_assert_eq!(handed_out.len(), 1 << (prefix - length));
            prop_assert!(handed_out.iter().all(|subnet| range.contains(subnet)));
            for subnet in handed_out {
                prop_assert!(pool.release(subnet));
            }
            prop_assert!(pool.is_unused());
        }
    }
}
