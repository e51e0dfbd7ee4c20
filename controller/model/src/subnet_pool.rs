//! Allocation of subnets of one prefix length from a range, in the order of OVN-Kubernetes.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::network::IpFamily;
use super::subnetting::Subnetting;

/// Allocator of subnets of one prefix length from a range.
///
/// The next subnet is the first free one after the last one that was allocated, and the first one
/// of the range after the last one. A released subnet is thus allocated again as late as possible.
#[derive(Clone, Debug)]
pub struct SubnetPool {
    subnetting: Subnetting,
    /// Allocatable numbers, in order. `None`: all numbers of the range.
    numbers: Option<Vec<u64>>,
    /// Places of the allocated subnets.
    allocated: BTreeSet<u64>,
    /// Number at which the next search starts.
    next: u64,
}

impl SubnetPool {
    /// Makes a pool of all subnets of a range. `prefix` is their prefix length, at least that of
    /// the range.
    pub fn new(range: IpNet, prefix: u8) -> Self {
        Self {
            subnetting: Subnetting::new(range, prefix),
            numbers: None,
            allocated: BTreeSet::new(),
            next: 0,
        }
    }

    /// Makes a pool of the subnets at the first places of a range. A range with fewer places is
    /// used whole.
    pub fn with_first_places(range: IpNet, prefix: u8, places: u64) -> Self {
        let pool = Self::new(range, prefix);
        let places = places.min(pool.subnetting.places());
        let mut numbers: Vec<u64> =
            (0..places).filter_map(|place| pool.subnetting.number(place)).collect();
        numbers.sort_unstable();
        Self { numbers: Some(numbers), ..pool }
    }

    /// Makes a pool of the first `count` subnets of a range, for use with a pool of `count` subnets
    /// of the other family.
    pub fn with_count(range: IpNet, prefix: u8, count: u64) -> Self {
        // One more place, because IPv6 ranges skip one of their first 2^16 subnets.
        let mut pool = Self::with_first_places(range, prefix, count.saturating_add(1));
        if let Some(numbers) = &mut pool.numbers {
            numbers.truncate(count as usize);
        }
        pool
    }

    /// The range.
    pub const fn range(&self) -> IpNet {
        self.subnetting.range()
    }

    /// Number at which the next search starts.
    pub const fn position(&self) -> u64 {
        self.next
    }

    /// Starts the next search at a number, as [`position`](Self::position) returned it.
    pub const fn set_position(&mut self, number: u64) {
        self.next = number;
    }

    /// Family of the range.
    pub fn family(&self) -> IpFamily {
        IpFamily::of_net(self.subnetting.range())
    }

    /// Allocates the next free subnet. `None`: all subnets are allocated.
    pub fn allocate(&mut self) -> Option<IpNet> {
        let is_full = self.allocated.len() as u64 >= self.count();
        let (subnetting, allocated) = (&self.subnetting, &self.allocated);
        let free = |number| {
            let place = subnetting.place(number)?;
            (!allocated.contains(&place)).then_some((number, place))
        };
        let found = match &self.numbers {
            // Full blocks are asked often, so this avoids the search.
            _ if is_full => None,
            Some(numbers) => {
                let (before, after) = numbers.split_at(numbers.partition_point(|n| *n < self.next));
                after.iter().chain(before).copied().find_map(free)
            }
            None => (self.next..subnetting.count()).chain(0..self.next).find_map(free),
        };
        let Some((number, place)) = found else {
            self.next = 0;
            return None;
        };
        self.allocated.insert(place);
        self.next = number + 1;
        Some(self.subnetting.subnet(place))
    }

    /// `true` if the subnet is one of the pool's subnets.
    pub fn contains(&self, subnet: IpNet) -> bool {
        self.place_of(subnet).is_some()
    }

    /// Number of a subnet in the order of allocation. `None`: it is never allocated.
    pub fn number_of(&self, subnet: IpNet) -> Option<u64> {
        self.subnetting.number(self.place_of(subnet)?)
    }

    /// Allocates this subnet. Returns `false` if it is allocated already or not one of the pool's.
    pub fn reserve(&mut self, subnet: IpNet) -> bool {
        self.place_of(subnet).is_some_and(|place| self.allocated.insert(place))
    }

    /// Releases a subnet. Returns `false` if it was not allocated.
    pub fn release(&mut self, subnet: IpNet) -> bool {
        self.place_of(subnet).is_some_and(|place| self.allocated.remove(&place))
    }

    /// `true` if no subnet is allocated.
    pub fn is_unused(&self) -> bool {
        self.allocated.is_empty()
    }

    /// Number of allocatable subnets, allocated subnets included.
    pub fn count(&self) -> u64 {
        let count = self.subnetting.count();
        self.numbers.as_ref().map_or(count, |numbers| numbers.len() as u64)
    }

    /// Place of a subnet of the pool. A pool of a whole range includes the subnets whose numbers
    /// are skipped, so that they can be reserved.
    fn place_of(&self, subnet: IpNet) -> Option<u64> {
        let place = self.subnetting.place_of(subnet)?;
        let is_in_pool = self.numbers.as_ref().is_none_or(|numbers| {
            let number = self.subnetting.number(place);
            number.is_some_and(|number| numbers.binary_search(&number).is_ok())
        });
        (is_in_pool && subnet == subnet.trunc()).then_some(place)
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
    fn subnets_are_allocated_in_the_order_of_ovn_kubernetes() {
        for (range, prefix, expected) in [
            ("192.168.0.0/16", 24, ["192.168.0.0/24", "192.168.1.0/24", "192.168.2.0/24"]),
            ("192.168.0.0/16", 26, ["192.168.0.0/26", "192.168.1.0/26", "192.168.2.0/26"]),
            ("10.100.0.0/16", 20, ["10.100.0.0/20", "10.100.16.0/20", "10.100.32.0/20"]),
            ("172.16.0.0/12", 20, ["172.16.0.0/20", "172.17.0.0/20", "172.18.0.0/20"]),
            ("10.0.0.0/24", 26, ["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"]),
            ("fd01::/112", 120, ["fd01::/120", "fd01::100/120", "fd01::200/120"]),
            ("fd01::/64", 96, ["fd01::1:0:0/96", "fd01::2:0:0/96", "fd01::3:0:0/96"]),
            ("fd10::/48", 64, ["fd10:0:0:1::/64", "fd10:0:0:2::/64", "fd10:0:0:3::/64"]),
            ("192.168.1.0/24", 31, ["192.168.1.0/31", "192.168.1.2/31", "192.168.1.4/31"]),
            ("192.168.0.0/20", 31, ["192.168.0.0/31", "192.168.1.0/31", "192.168.2.0/31"]),
            (
                "fd01:0:0:1::/64",
                127,
                ["fd01:0:0:1::2/127", "fd01:0:0:1::4/127", "fd01:0:0:1::6/127"],
            ),
        ] {
            assert_eq!(take(&mut pool(range, prefix), 3), expected, "{range} {prefix}");
            let mut first =
                SubnetPool::with_first_places(range.parse().unwrap(), prefix, u16::MAX.into());
            assert_eq!(take(&mut first, 3), expected, "{range} {prefix}");
        }
        let rotated = take(&mut pool("192.168.0.0/16", 26), 257);
        assert_eq!(rotated[255..], ["192.168.255.0/26", "192.168.0.64/26"]);
        let rotated = take(&mut pool("192.168.0.0/20", 31), 17);
        assert_eq!(rotated[15..], ["192.168.15.0/31", "192.168.0.2/31"]);
        assert_eq!(take(&mut pool("10.0.0.0/24", 24), 2), ["10.0.0.0/24"]);
    }

    #[test]
    fn released_subnets_are_allocated_again_after_all_others() {
        let mut pool = pool("192.168.0.0/22", 24);
        let first = pool.allocate().unwrap();
        assert!(pool.allocate().is_some());
        assert!(pool.release(first));
        assert_eq!(take(&mut pool, 9), ["192.168.2.0/24", "192.168.3.0/24", "192.168.0.0/24"]);
        // After a failure the search starts at the first subnet.
        assert!(pool.release("192.168.1.0/24".parse().unwrap()));
        assert!(pool.release(first));
        assert_eq!(take(&mut pool, 1), ["192.168.0.0/24"]);
    }

    #[test]
    fn only_subnets_of_the_pool_can_be_reserved_once() {
        let mut pool = pool("192.168.0.0/22", 24);
        let mut reserve = |subnet: &str| pool.reserve(subnet.parse().unwrap());
        assert!(reserve("192.168.0.0/24"));
        for other in ["192.168.0.0/24", "192.168.4.0/24", "192.168.1.0/25", "fd00::/24"] {
            assert!(!reserve(other), "{other}");
        }
        assert_eq!(take(&mut pool, 1), ["192.168.1.0/24"]);
        assert!(!pool.contains("192.168.1.7/24".parse().unwrap()));
    }

    #[test]
    fn skipped_subnets_of_a_whole_range_can_be_reserved() {
        let first = "fd01::/96".parse().unwrap();
        let mut whole = pool("fd01::/64", 96);
        assert!(whole.reserve(first) && whole.number_of(first).is_none());
        assert_eq!(take(&mut whole, 1), ["fd01::1:0:0/96"]);
        let range = "fd01::/64".parse().unwrap();
        assert!(!SubnetPool::with_first_places(range, 96, 8).reserve(first));
    }

    #[test]
    fn a_limited_pool_has_the_first_subnets_of_its_range() {
        let mut pool = SubnetPool::with_first_places("172.16.0.0/12".parse().unwrap(), 20, 16);
        assert_eq!(take(&mut pool, 2), ["172.16.0.0/20", "172.16.16.0/20"]);
        assert_eq!(pool.count(), 16);
        assert!(!pool.contains("172.17.0.0/20".parse().unwrap()));
        let beside = SubnetPool::with_count("fd01::/64".parse().unwrap(), 96, 7);
        assert_eq!(beside.count(), 7);
    }

    proptest! {
        #[test]
        fn every_subnet_is_allocated_once(length in 8_u8..24, bits in 1_u8..10) {
            let range: IpNet = format!("10.0.0.0/{length}").parse().unwrap();
            let prefix = (length + bits).min(31);
            let mut pool = SubnetPool::new(range, prefix);
            let mut all: Vec<IpNet> = std::iter::from_fn(|| pool.allocate()).collect();
            prop_assert_eq!(all.len(), 1 << (prefix - length));
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), 1 << (prefix - length));
            prop_assert!(all.iter().all(|subnet| range.contains(subnet)));
            for subnet in all {
                prop_assert!(pool.release(subnet));
            }
            prop_assert!(pool.is_unused());
        }
    }
}
