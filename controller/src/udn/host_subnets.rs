//! One range of a layer3 network, cut into subnets for nodes.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::model::{IpFamily, Subnetting};

/// Hands out the subnets of a range: the first free one behind the last one handed out, in the order of their numbers.
#[derive(Clone, Debug)]
pub(super) struct HostSubnets {
    subnetting: Subnetting,
    taken: BTreeSet<IpNet>,
    next: u64,
}

impl HostSubnets {
    /// Nothing handed out yet. `length` is the prefix length of the subnets, not shorter than that of the range.
    pub(super) fn new(range: IpNet, length: u8) -> Self {
        Self {
            subnetting: Subnetting::new(range, length),
            taken: BTreeSet::new(),
            next: 0,
        }
    }

    /// Family of the range.
    pub(super) fn family(&self) -> IpFamily {
        IpFamily::of_net(self.subnetting.range())
    }

    /// Whether this is one of the subnets that the range is cut into.
    pub(super) fn is_one(&self, subnet: IpNet) -> bool {
        subnet == subnet.trunc() && self.subnetting.place_of(subnet).is_some()
    }

    /// Takes this very subnet. False if it is taken already.
    pub(super) fn reserve(&mut self, subnet: IpNet) -> bool {
        self.taken.insert(subnet)
    }

    /// Takes the next free subnet.
    pub(super) fn allocate(&mut self) -> Option<IpNet> {
        let count = self.subnetting.count();
        for step in 0..count {
            let number = (self.next + step) % count;
            let place = self.subnetting.place(number);
            let subnet = place.map(|place| self.subnetting.subnet(place));
            if let Some(subnet) = subnet.filter(|subnet| !self.taken.contains(subnet)) {
                self.taken.insert(subnet);
                self.next = (number + 1) % count;
                return Some(subnet);
            }
        }
        self.next = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(range: &str, length: u8, count: usize) -> Vec<String> {
        let mut subnets = HostSubnets::new(range.parse().unwrap(), length);
        (0..count)
            .map_while(|_| subnets.allocate())
            .map(|subnet| subnet.to_string())
            .collect()
    }

    #[test]
    fn the_order_is_that_of_the_cluster_manager() {
        assert_eq!(
            first("10.10.0.0/16", 24, 3),
            ["10.10.0.0/24", "10.10.1.0/24", "10.10.2.0/24"]
        );
        assert_eq!(
            first("10.10.0.0/16", 26, 2),
            ["10.10.0.0/26", "10.10.1.0/26"]
        );
        assert_eq!(
            first("10.10.0.0/16", 26, 257)[255..],
            ["10.10.255.0/26", "10.10.0.64/26"]
        );
        assert_eq!(
            first("10.100.0.0/16", 20, 2),
            ["10.100.0.0/20", "10.100.16.0/20"]
        );
        assert_eq!(
            first("172.16.0.0/12", 20, 3),
            ["172.16.0.0/20", "172.17.0.0/20", "172.18.0.0/20"]
        );
        assert_eq!(
            first("10.0.0.0/24", 26, 9),
            [
                "10.0.0.0/26",
                "10.0.0.64/26",
                "10.0.0.128/26",
                "10.0.0.192/26"
            ]
        );
        assert_eq!(first("fd01::/112", 120, 2), ["fd01::/120", "fd01::100/120"]);
        assert_eq!(
            first("fd10::/48", 64, 2),
            ["fd10:0:0:1::/64", "fd10:0:0:2::/64"]
        );
        assert_eq!(first("10.0.0.0/24", 24, 2), ["10.0.0.0/24"]);
    }

    #[test]
    fn every_subnet_comes_once() {
        for (range, length, count) in [
            ("172.16.0.0/12", 22, 1024),
            ("10.0.0.0/20", 27, 128),
            ("fd00::/48", 64, 65535),
        ] {
            let all = first(range, length, 1 << 17);
            assert_eq!(all.len(), count, "{range}");
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), count, "{range}");
        }
    }

    #[test]
    fn what_is_reserved_is_not_handed_out() {
        let mut subnets = HostSubnets::new("10.0.0.0/22".parse().unwrap(), 24);
        let subnet: IpNet = "10.0.0.0/24".parse().unwrap();
        assert!(subnets.is_one(subnet) && subnets.reserve(subnet) && !subnets.reserve(subnet));
        assert!(!subnets.is_one("10.0.0.0/25".parse().unwrap()));
        assert!(!subnets.is_one("10.1.0.0/24".parse().unwrap()));
        assert_eq!(subnets.allocate().unwrap().to_string(), "10.0.1.0/24");
    }
}
