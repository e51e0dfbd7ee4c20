//! The subnets of one length of a range, handed out in the order of their numbers.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::network::IpFamily;
use super::subnetting::Subnetting;

/// Hands out subnets of one length of a range.
///
/// The next one is the first free one after the last one handed out. A subnet that was given back is thus used again
/// only when the pool has gone round.
#[derive(Clone, Debug)]
pub struct SubnetPool {
    subnetting: Subnetting,
    /// The numbers that are handed out, in order; none if it is all that there are.
    numbers: Option<Vec<u64>>,
    /// The places that are taken.
    taken: BTreeSet<u64>,
    /// The number to begin with.
    next: u64,
}

impl SubnetPool {
    /// A pool of all subnets of a range. `prefix` is their length, not shorter than that of the range.
    pub fn new(range: IpNet, prefix: u8) -> Self {
        Self {
            subnetting: Subnetting::new(range, prefix),
            numbers: None,
            taken: BTreeSet::new(),
            next: 0,
        }
    }

    /// A pool of the subnets at the first places of a range, as far as there are that many.
    pub fn of_first(range: IpNet, prefix: u8, places: u64) -> Self {
        let pool = Self::new(range, prefix);
        let places = places.min(pool.subnetting.places());
        let numbers = (0..places).filter_map(|place| pool.subnetting.number(place));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Self {
            numbers: Some(numbers),
            ..pool
        }
    }

    /// A pool of as many subnets as are needed beside another pool of `count` subnets.
    pub fn of_count(range: IpNet, prefix: u8, count: u64) -> Self {
        // One more, because IPv6 ranges leave out one of their first 2^16 subnets.
        let mut pool = Self::of_first(range, prefix, count.saturating_add(1));
        if let Some(numbers) = &mut pool.numbers {
            numbers.truncate(count as usize);
        }
        pool
    }

    /// Family of the range.
    pub fn family(&self) -> IpFamily {
        IpFamily::of_net(self.subnetting.range())
    }

    /// Takes the next free subnet.
    pub fn allocate(&mut self) -> Option<IpNet> {
        let is_full = self.taken.len() as u64 >= self.count();
        let (subnetting, taken) = (&self.subnetting, &self.taken);
        let free = |number| {
            let place = subnetting.place(number)?;
            (!taken.contains(&place)).then_some((number, place))
        };
        let found = match &self.numbers {
            // Shared blocks that are full are asked again and again.
            _ if is_full => None,
            Some(numbers) => {
                let (before, after) = numbers.split_at(numbers.partition_point(|n| *n < self.next));
                after.iter().chain(before).copied().find_map(free)
            }
            None => (self.next..subnetting.count())
                .chain(0..self.next)
                .find_map(free),
        };
        let Some((number, place)) = found else {
            self.next = 0;
            return None;
        };
        self.taken.insert(place);
        self.next = number + 1;
        Some(self.subnetting.subnet(place))
    }

    /// Whether this is one of the pool's subnets.
    pub fn contains(&self, subnet: IpNet) -> bool {
        self.place_of(subnet).is_some()
    }

    /// The place of a subnet in the order of handing out.
    pub fn number_of(&self, subnet: IpNet) -> Option<u64> {
        self.subnetting.number(self.place_of(subnet)?)
    }

    /// Takes this very subnet. False if it is taken already or is none of the pool's.
    pub fn reserve(&mut self, subnet: IpNet) -> bool {
        self.place_of(subnet)
            .is_some_and(|place| self.taken.insert(place))
    }

    /// Gives a subnet back. False if it was not taken.
    pub fn release(&mut self, subnet: IpNet) -> bool {
        self.place_of(subnet)
            .is_some_and(|place| self.taken.remove(&place))
    }

    /// Whether no subnet is taken.
    pub fn is_unused(&self) -> bool {
        self.taken.is_empty()
    }

    /// Number of subnets of the pool, the taken ones included.
    pub fn count(&self) -> u64 {
        let of_all = self.subnetting.count();
        self.numbers.as_ref().map_or(of_all, |n| n.len() as u64)
    }

    /// A subnet that is never handed out, because of its number, is one of a whole range all the same.
    fn place_of(&self, subnet: IpNet) -> Option<u64> {
        let place = self.subnetting.place_of(subnet)?;
        let is_ours = self.numbers.as_ref().is_none_or(|numbers| {
            let number = self.subnetting.number(place);
            number.is_some_and(|number| numbers.binary_search(&number).is_ok())
        });
        (is_ours && subnet == subnet.trunc()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(range: &str, prefix: u8) -> SubnetPool {
        SubnetPool::new(range.parse().unwrap(), prefix)
    }

    fn take(pool: &mut SubnetPool, count: usize) -> Vec<String> {
        std::iter::from_fn(|| pool.allocate())
            .take(count)
            .map(|subnet| subnet.to_string())
            .collect()
    }

    #[test]
    fn the_order_is_that_of_the_cluster_manager() {
        for (range, prefix, expected) in [
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
                "10.0.0.0/24",
                26,
                ["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"],
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
                "fd10::/48",
                64,
                ["fd10:0:0:1::/64", "fd10:0:0:2::/64", "fd10:0:0:3::/64"],
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
        ] {
            assert_eq!(
                take(&mut pool(range, prefix), 3),
                expected,
                "{range} {prefix}"
            );
            let mut first = SubnetPool::of_first(range.parse().unwrap(), prefix, u16::MAX.into());
            assert_eq!(take(&mut first, 3), expected, "{range} {prefix}");
        }
        let rotated = take(&mut pool("192.168.0.0/16", 26), 257);
        assert_eq!(rotated[255..], ["192.168.255.0/26", "192.168.0.64/26"]);
        let rotated = take(&mut pool("192.168.0.0/20", 31), 17);
        assert_eq!(rotated[15..], ["192.168.15.0/31", "192.168.0.2/31"]);
        assert_eq!(take(&mut pool("10.0.0.0/24", 24), 2), ["10.0.0.0/24"]);
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
        for other in [
            "192.168.0.0/24",
            "192.168.4.0/24",
            "192.168.1.0/25",
            "fd00::/24",
        ] {
            assert!(!reserve(other), "{other}");
        }
        assert_eq!(take(&mut pool, 1), ["192.168.1.0/24"]);
        assert!(!pool.contains("192.168.1.7/24".parse().unwrap()));
    }

    #[test]
    fn what_is_left_out_of_a_whole_range_can_be_reserved() {
        let first = "fd01::/96".parse().unwrap();
        let mut whole = pool("fd01::/64", 96);
        assert!(whole.reserve(first) && whole.number_of(first).is_none());
        assert_eq!(take(&mut whole, 1), ["fd01::1:0:0/96"]);
        let range = "fd01::/64".parse().unwrap();
        assert!(!SubnetPool::of_first(range, 96, 8).reserve(first));
    }

    #[test]
    fn a_limited_pool_has_the_first_subnets_of_its_range() {
        let mut pool = SubnetPool::of_first("172.16.0.0/12".parse().unwrap(), 20, 16);
        assert_eq!(take(&mut pool, 2), ["172.16.0.0/20", "172.16.16.0/20"]);
        assert_eq!(pool.count(), 16);
        assert!(!pool.contains("172.17.0.0/20".parse().unwrap()));
        let beside = SubnetPool::of_count("fd01::/64".parse().unwrap(), 96, 7);
        assert_eq!(beside.count(), 7);
    }

    proptest! {
        #[test]
        fn every_subnet_is_handed_out_once(length in 8_u8..24, bits in 1_u8..10) {
            let range: IpNet = format!("10.0.0.0/{length}").parse().unwrap();
            let prefix = (length + bits).min(31);
            let mut pool = SubnetPool::new(range, prefix);
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
