//! The subnets of one size of a range, and the order in which they are handed out.

use ipnet::IpNet;

use crate::model::Subnetting;

/// A subnet of the pool.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Place in the order of handing out.
    number: u64,
    /// Place in the range.
    place: u64,
    taken: bool,
}

/// Hands out subnets of one size of a range.
///
/// The next one is the first free one after the last one handed out. A subnet that was given back is thus used again
/// only when the pool has gone round.
#[derive(Clone, Debug)]
pub(super) struct SubnetPool {
    subnetting: Subnetting,
    slots: Vec<Slot>,
    next: usize,
}

impl SubnetPool {
    /// A pool of the first `blocks` subnets of a range, as far as there are that many.
    pub(super) fn new(range: IpNet, prefix: u8, blocks: u32) -> Self {
        let subnetting = Subnetting::new(range, prefix);
        let places = u64::from(blocks).min(subnetting.places());
        let mut slots: Vec<Slot> = (0..places)
            .filter_map(|place| {
                let number = subnetting.number(place)?;
                Some(Slot {
                    number,
                    place,
                    taken: false,
                })
            })
            .collect();
        slots.sort_unstable_by_key(|slot| slot.number);
        Self {
            subnetting,
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
        let Slot { number, place, .. } = *slot;
        self.next = self.slots.partition_point(|slot| slot.number <= number);
        Some(self.subnetting.subnet(place))
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
        let number = self.subnetting.number(self.subnetting.place_of(subnet)?)?;
        let slots = &self.slots;
        let index = slots.binary_search_by_key(&number, |slot| slot.number);
        self.slots.get_mut(index.ok()?)
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
