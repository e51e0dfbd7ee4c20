//! One range of a layer3 network, cut into subnets for nodes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::model::IpFamily;

/// Most subnets that a range is looked at for: more than there can be nodes.
const MAX_SUBNET_BITS: u32 = 24;

/// Hands out the subnets of a range: the first free one behind the last one handed out, in the order of
/// [`block`](Self::block).
#[derive(Clone, Debug)]
pub(super) struct HostSubnets {
    range: IpNet,
    length: u8,
    taken: BTreeSet<IpNet>,
    next: u64,
}

impl HostSubnets {
    /// Nothing handed out yet. `length` is the prefix length of the subnets, not shorter than that of the range.
    pub(super) fn new(range: IpNet, length: u8) -> Self {
        Self {
            range: range.trunc(),
            length,
            taken: BTreeSet::new(),
            next: 0,
        }
    }

    /// Family of the range.
    pub(super) fn family(&self) -> IpFamily {
        IpFamily::of_net(self.range)
    }

    /// Whether this is one of the subnets that the range is cut into.
    pub(super) fn is_one(&self, subnet: IpNet) -> bool {
        self.range.contains(&subnet)
            && subnet.prefix_len() == self.length
            && subnet.trunc() == subnet
    }

    /// Takes this very subnet. False if it is taken already.
    pub(super) fn reserve(&mut self, subnet: IpNet) -> bool {
        self.taken.insert(subnet)
    }

    /// Takes the next free subnet.
    pub(super) fn allocate(&mut self) -> Option<IpNet> {
        let count = 1_u64 << self.subnet_bits().min(MAX_SUBNET_BITS);
        for step in 0..count {
            let number = (self.next + step) % count;
            let free = self
                .block(number)
                .filter(|subnet| !self.taken.contains(subnet));
            if let Some(subnet) = free {
                self.taken.insert(subnet);
                self.next = (number + 1) % count;
                return Some(subnet);
            }
        }
        self.next = 0;
        None
    }

    fn subnet_bits(&self) -> u32 {
        u32::from(self.length.saturating_sub(self.range.prefix_len()))
    }

    /// The subnet of this number.
    ///
    /// In an IPv4 range whose subnets do not end at an octet border while the range reaches over the next one, the
    /// higher octet moves first: 10.0.0.0/26, 10.0.1.0/26 and so on. In IPv6 ranges with 2^16 subnets and more, those
    /// whose lower 16 bits are zero are left out.
    fn block(&self, number: u64) -> Option<IpNet> {
        let bits = self.subnet_bits();
        let host_bits = u32::from(self.range.max_prefix_len() - self.length);
        let block = match self.range {
            IpNet::V4(_) => {
                let last_bit = (host_bits + bits).saturating_sub(1);
                let crosses = bits > 0 && host_bits % 8 != 0 && (host_bits - 1) / 8 != last_bit / 8;
                if crosses {
                    rotate(number, 8 - host_bits % 8, bits)
                } else {
                    number
                }
            }
            IpNet::V6(_) if bits >= 16 && number.trailing_zeros() >= 16 => return None,
            IpNet::V6(_) => number,
        };
        let offset = u128::from(block) << host_bits;
        let address = match self.range.network() {
            IpAddr::V4(base) => IpAddr::from(Ipv4Addr::from(
                u32::from(base) | u32::try_from(offset).ok()?,
            )),
            IpAddr::V6(base) => IpAddr::from(Ipv6Addr::from(u128::from(base) | offset)),
        };
        IpNet::new(address, self.length).ok()
    }
}

/// Rotates the lower `bits` of a number to the left.
fn rotate(number: u64, by: u32, bits: u32) -> u64 {
    let mask = (1_u64 << bits) - 1;
    ((number << by) & mask) | (number >> (bits - by))
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
