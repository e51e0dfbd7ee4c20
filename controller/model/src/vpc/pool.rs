//! Addresses of subnets as Kube-OVN allocates them: the lowest free one first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use thiserror::Error;

/// Addresses from the first to the last one, which are of one IP family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressRange {
    /// First address.
    pub first: IpAddr,
    /// Last address.
    pub last: IpAddr,
}

impl AddressRange {
    /// Reads an address, or a range `a..b`. `None`: the text is neither, or the range is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let first: IpAddr = first.trim().parse().ok()?;
        let last: IpAddr = last.trim().parse().ok()?;
        let is_range = first.is_ipv4() == last.is_ipv4() && first <= last;
        is_range.then_some(Self { first, last })
    }

    fn numbers(self) -> RangeInclusive<u128> {
        number(self.first)..=number(self.last)
    }
}

/// Number of an address in its family.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Reason why an address cannot be taken.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PoolError {
    /// The address is not in the range, or it is its network or broadcast address.
    #[error("{address} is not an address of a machine in {net}")]
    OutOfRange {
        /// The address.
        address: IpAddr,
        /// The range.
        net: IpNet,
    },
    /// The address is the gateway.
    #[error("{0} is the gateway")]
    Gateway(IpAddr),
    /// Another object has the address.
    #[error("{address} is used by {other}")]
    Taken {
        /// The address.
        address: IpAddr,
        /// The other object.
        other: String,
    },
    /// All addresses are used.
    #[error("no address is free in {0}")]
    Exhausted(IpNet),
}

/// Use of the addresses of one family.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AddressUse {
    /// Number of free addresses.
    pub available: u128,
    /// Free addresses: ranges, with commas between them.
    pub available_ranges: String,
    /// Number of used addresses.
    pub used: u128,
    /// Used addresses: ranges, with commas between them.
    pub used_ranges: String,
}

/// Addresses of one range of a subnet. Its size in memory follows the used addresses, not the
/// range.
#[derive(Clone, Debug)]
pub struct VpcAddressPool {
    net: IpNet,
    gateway: IpAddr,
    /// Addresses of machines.
    usable: RangeInclusive<u128>,
    /// Disjoint excluded ranges inside of the usable one, by their first number.
    excluded: BTreeMap<u128, u128>,
    /// Used addresses, each with the object that has it.
    used: BTreeMap<u128, String>,
    /// No address below is free.
    lowest: u128,
}

impl VpcAddressPool {
    /// A pool of a range. The gateway is excluded, too.
    pub fn new(net: IpNet, gateway: IpAddr, excluded: &[AddressRange]) -> Self {
        let usable = usable(net);
        let is_of_family = |range: &&AddressRange| range.first.is_ipv4() == gateway.is_ipv4();
        let own = AddressRange { first: gateway, last: gateway };
        let excluded =
            excluded.iter().filter(is_of_family).chain([&own]).map(|range| range.numbers());
        Self {
            net,
            gateway,
            lowest: *usable.start(),
            excluded: merge(excluded, &usable),
            usable,
            used: BTreeMap::new(),
        }
    }

    /// The range.
    pub fn net(&self) -> IpNet {
        self.net
    }

    /// Takes the lowest free address for an object.
    ///
    /// # Errors
    /// No address is free.
    pub fn allocate(&mut self, owner: &str) -> Result<IpAddr, PoolError> {
        let exhausted = PoolError::Exhausted(self.net);
        let mut next = self.lowest;
        loop {
            if !self.usable.contains(&next) {
                return Err(exhausted);
            }
            let last = if self.used.contains_key(&next) {
                next
            } else if let Some(last) = self.excluding(next) {
                last
            } else {
                break;
            };
            let Some(following) = last.checked_add(1) else {
                return Err(exhausted);
            };
            next = following;
        }
        self.used.insert(next, owner.to_owned());
        self.lowest = next;
        Ok(self.address(next))
    }

    /// Takes an address for an object. An excluded address can be taken, but not the gateway.
    ///
    /// # Errors
    /// The address is not one of a machine, or another object has it.
    pub fn take(&mut self, address: IpAddr, owner: &str) -> Result<(), PoolError> {
        let is_of_family = address.is_ipv4() == self.gateway.is_ipv4();
        let value = number(address);
        if address == self.gateway {
            return Err(PoolError::Gateway(address));
        }
        if !is_of_family || !self.usable.contains(&value) {
            let net = self.net;
            return Err(PoolError::OutOfRange { address, net });
        }
        match self.used.get(&value) {
            Some(other) if other != owner => {
                let other = other.clone();
                Err(PoolError::Taken { address, other })
            }
            Some(_) => Ok(()),
            None => {
                self.used.insert(value, owner.to_owned());
                Ok(())
            }
        }
    }

    /// Numbers and ranges of used and free addresses. Used addresses that are excluded count
    /// neither way, as in Kube-OVN.
    pub fn usage(&self) -> AddressUse {
        let counted: BTreeSet<u128> = self
            .used
            .keys()
            .copied()
            .filter(|address| self.excluding(*address).is_none())
            .collect();
        let mut usage = AddressUse { used: counted.len() as u128, ..AddressUse::default() };
        let mut blocked: Vec<RangeInclusive<u128>> =
            self.excluded.iter().map(|(from, to)| *from..=*to).collect();
        blocked.extend(counted.iter().map(|address| *address..=*address));
        blocked.sort_unstable_by_key(|range| *range.start());
        let mut next = Some(*self.usable.start());
        for range in blocked {
            if let Some(first) = next.filter(|first| first < range.start()) {
                let last = *range.start() - 1;
                usage.available += last - first + 1;
                self.add_range(&mut usage.available_ranges, first, last);
            }
            next = range.end().checked_add(1);
        }
        let end = *self.usable.end();
        if let Some(first) = next.filter(|first| *first <= end) {
            usage.available += end - first + 1;
            self.add_range(&mut usage.available_ranges, first, end);
        }
        let mut used = counted.into_iter().peekable();
        while let Some(first) = used.next() {
            let mut last = first;
            while let Some(following) = used.next_if(|next| *next - last == 1) {
                last = following;
            }
            self.add_range(&mut usage.used_ranges, first, last);
        }
        usage
    }

    /// Last number of the excluded range that has a number.
    fn excluding(&self, value: u128) -> Option<u128> {
        let (_, last) = self.excluded.range(..=value).next_back()?;
        (*last >= value).then_some(*last)
    }

    fn address(&self, value: u128) -> IpAddr {
        if self.net.addr().is_ipv4() {
            Ipv4Addr::from(u32::try_from(value).unwrap_or(u32::MAX)).into()
        } else {
            Ipv6Addr::from(value).into()
        }
    }

    fn add_range(&self, text: &mut String, first: u128, last: u128) {
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = if first == last {
            write!(text, "{}", self.address(first))
        } else {
            write!(text, "{}-{}", self.address(first), self.address(last))
        };
    }
}

/// Addresses of machines: without the network and the last address, in ranges of more than two.
fn usable(net: IpNet) -> RangeInclusive<u128> {
    let (first, last) = (number(net.network()), number(net.broadcast()));
    if last - first < 2 { first..=last } else { first + 1..=last - 1 }
}

/// Disjoint ranges, clipped to the usable one.
fn merge(
    ranges: impl Iterator<Item = RangeInclusive<u128>>,
    usable: &RangeInclusive<u128>,
) -> BTreeMap<u128, u128> {
    let mut clipped: Vec<(u128, u128)> = ranges
        .filter_map(|range| {
            let first = *range.start().max(usable.start());
            let last = *range.end().min(usable.end());
            (first <= last).then_some((first, last))
        })
        .collect();
    clipped.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::new();
    for (first, last) in clipped {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(net: &str, gateway: &str, excluded: &[&str]) -> VpcAddressPool {
        let excluded: Vec<AddressRange> =
            excluded.iter().map(|text| AddressRange::parse(text).unwrap()).collect();
        VpcAddressPool::new(net.parse().unwrap(), gateway.parse().unwrap(), &excluded)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_lowest_free_address_comes_first() {
        let mut pool = pool("77.220.68.96/27", "77.220.68.97", &["77.220.68.96..77.220.68.98"]);
        pool.take(address("77.220.68.100"), "a").unwrap();
        let next: Vec<String> =
            (0..3).map(|at| pool.allocate(&at.to_string()).unwrap().to_string()).collect();
        assert_eq!(next, ["77.220.68.99", "77.220.68.101", "77.220.68.102"]);
    }

    #[test]
    fn usage_is_that_of_kube_ovn() {
        let excluded = ["77.220.68.96", "77.220.68.97", "77.220.68.127"];
        let mut pool = pool("77.220.68.96/27", "77.220.68.97", &excluded);
        assert_eq!(pool.usage().available, 29);
        pool.allocate("a").unwrap();
        let expected = AddressUse {
            available: 28,
            available_ranges: "77.220.68.99-77.220.68.126".to_owned(),
            used: 1,
            used_ranges: "77.220.68.98".to_owned(),
        };
        assert_eq!(pool.usage(), expected);
    }

    #[test]
    fn a_wish_is_refused_if_it_is_not_an_address_of_a_machine() {
        let mut pool = pool("10.0.0.0/24", "10.0.0.1", &["10.0.0.8..10.0.0.9"]);
        pool.take(address("10.0.0.8"), "a").unwrap();
        pool.take(address("10.0.0.8"), "a").unwrap();
        let refused = |pool: &mut VpcAddressPool, text| {
            pool.take(address(text), "b").unwrap_err().to_string()
        };
        assert_eq!(refused(&mut pool, "10.0.0.8"), "10.0.0.8 is used by a");
        assert_eq!(refused(&mut pool, "10.0.0.1"), "10.0.0.1 is the gateway");
        for text in ["10.0.0.0", "10.0.0.255", "10.0.1.1", "fd00::1"] {
            let expected = format!("{text} is not an address of a machine in 10.0.0.0/24");
            assert_eq!(refused(&mut pool, text), expected);
        }
        assert_eq!(pool.usage().used, 0);
    }

    #[test]
    fn small_and_huge_ranges_cost_their_used_addresses() {
        let mut pair = pool("10.0.0.0/31", "10.0.0.0", &[]);
        assert_eq!(pair.allocate("a").unwrap(), address("10.0.0.1"));
        assert!(matches!(pair.allocate("b"), Err(PoolError::Exhausted(_))));
        let mut huge = pool("fd00::/64", "fd00::1", &["fd00::2..fd00::ffff:ffff"]);
        assert_eq!(huge.allocate("a").unwrap(), address("fd00::1:0:0"));
        assert_eq!(huge.usage().used_ranges, "fd00::1:0:0");
        let mut all = pool("::/0", "::1", &[]);
        assert_eq!(all.allocate("a").unwrap(), address("::2"));
    }
}
