//! Addresses of subnets as Kube-OVN allocates them: the lowest free one first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use thiserror::Error;

use crate::format_net;

/// Addresses from the first to the last one, which are of one IP family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressRange {
    /// First address.
    pub first: IpAddr,
    /// Last address.
    pub last: IpAddr,
}

impl AddressRange {
    /// The range of one address.
    pub fn of(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }

    /// Reads an address, or a range `a..b`. `None`: the text is neither, or the range is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let first: IpAddr = first.trim().parse().ok()?;
        let last: IpAddr = last.trim().parse().ok()?;
        let is_range = first.is_ipv4() == last.is_ipv4() && first <= last;
        is_range.then_some(Self { first, last })
    }

    /// Reads an address, a range `a..b`, or a CIDR. `None`: the text is none of them.
    pub fn parse_any(text: &str) -> Option<Self> {
        let net = text.trim().parse::<IpNet>().ok();
        let of_net = net.map(|net| Self { first: net.network(), last: net.broadcast() });
        of_net.or_else(|| Self::parse(text))
    }

    /// `true` if the ranges have a common address.
    pub fn overlaps(self, other: Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.first <= other.last
            && other.first <= self.last
    }

    /// The fewest CIDRs with exactly the addresses. Those of one address have no length.
    pub fn to_cidrs(self) -> Vec<String> {
        let nets: Vec<IpNet> = match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Ipv4Subnets::new(first, last, 0).map(IpNet::from).collect()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Ipv6Subnets::new(first, last, 0).map(IpNet::from).collect()
            }
            _ => Vec::new(),
        };
        let text = |net: IpNet| {
            let is_host = net.prefix_len() == net.max_prefix_len();
            if is_host { net.addr().to_string() } else { format_net(net) }
        };
        nets.into_iter().map(text).collect()
    }

    fn numbers(self) -> RangeInclusive<u128> {
        number(self.first)..=number(self.last)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}..{}", self.first, self.last)
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
    /// All addresses that the object may have are used.
    #[error("none of its addresses in {0} is free")]
    NoneListed(IpNet),
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
    /// Disjoint ranges that only certain objects get, inside of the usable one.
    reserved: BTreeMap<u128, u128>,
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
            reserved: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    /// Reserves ranges for [`allocate_of`](Self::allocate_of).
    pub fn reserve(&mut self, ranges: &[AddressRange]) {
        let former = self.reserved.iter().map(|(first, last)| *first..=*last);
        let numbers = self.of_family(ranges);
        self.reserved = merge(former.chain(numbers), &self.usable);
    }

    /// Numbers of the ranges of the pool's family.
    fn of_family(&self, ranges: &[AddressRange]) -> Vec<RangeInclusive<u128>> {
        let is_ipv4 = self.gateway.is_ipv4();
        let own = ranges.iter().filter(|range| range.first.is_ipv4() == is_ipv4);
        own.map(|range| range.numbers()).collect()
    }

    /// Takes the first free address of ranges for an object, excluded and reserved ones, too.
    ///
    /// # Errors
    /// No address is free.
    pub fn allocate_of(
        &mut self,
        ranges: &[AddressRange],
        owner: &str,
    ) -> Result<IpAddr, PoolError> {
        let gateway = number(self.gateway);
        for range in self.of_family(ranges) {
            let mut next = Some(*range.start().max(self.usable.start()));
            let end = *range.end().min(self.usable.end());
            while let Some(value) = next.filter(|value| *value <= end) {
                if value != gateway && !self.used.contains_key(&value) {
                    self.used.insert(value, owner.to_owned());
                    return Ok(self.address(value));
                }
                next = value.checked_add(1);
            }
        }
        Err(PoolError::NoneListed(self.net))
    }

    /// Numbers and ranges of the used and the free addresses of ranges.
    pub fn usage_of(&self, ranges: &[AddressRange]) -> AddressUse {
        let mut usage = AddressUse::default();
        for (first, last) in merge(self.of_family(ranges).into_iter(), &self.usable) {
            let mut next = Some(first);
            let mut taken: Option<(u128, u128)> = None;
            for value in self.used.range(first..=last).map(|(value, _)| *value) {
                usage.used += 1;
                taken = match taken {
                    Some((from, to)) if value == to + 1 => Some((from, value)),
                    former => {
                        if let Some((from, to)) = former {
                            self.add_range(&mut usage.used_ranges, from, to);
                        }
                        Some((value, value))
                    }
                };
                if let Some(from) = next.filter(|from| *from < value) {
                    usage.available += value - from;
                    self.add_range(&mut usage.available_ranges, from, value - 1);
                }
                next = value.checked_add(1);
            }
            if let Some((from, to)) = taken {
                self.add_range(&mut usage.used_ranges, from, to);
            }
            if let Some(from) = next.filter(|from| *from <= last) {
                usage.available += last - from + 1;
                self.add_range(&mut usage.available_ranges, from, last);
            }
        }
        usage
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
            } else if let Some(last) = holding(&self.reserved, next) {
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

    /// Gives an address of an object back.
    pub fn release(&mut self, address: IpAddr, owner: &str) {
        let value = number(address);
        let is_own = self.used.get(&value).is_some_and(|other| other == owner);
        if is_own && address.is_ipv4() == self.gateway.is_ipv4() {
            self.used.remove(&value);
            self.lowest = self.lowest.min(value);
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
        holding(&self.excluded, value)
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

/// Last number of the range that has a number.
fn holding(ranges: &BTreeMap<u128, u128>, value: u128) -> Option<u128> {
    let (_, last) = ranges.range(..=value).next_back()?;
    (*last >= value).then_some(*last)
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
    fn reserved_addresses_are_for_objects_that_name_them() {
        let mut pool = pool("10.0.0.0/24", "10.0.0.1", &["10.0.0.9"]);
        let ranges = ["10.0.0.0..10.0.0.3", "10.0.0.8/31", "fd00::1"];
        let ranges = ranges.map(|text| AddressRange::parse_any(text).unwrap());
        pool.reserve(&ranges);
        assert_eq!(pool.allocate("other").unwrap(), address("10.0.0.4"));
        for expected in ["10.0.0.2", "10.0.0.3", "10.0.0.8", "10.0.0.9"] {
            assert_eq!(pool.allocate_of(&ranges, "own").unwrap(), address(expected));
        }
        let refused = pool.allocate_of(&ranges, "own").unwrap_err();
        assert_eq!(refused, PoolError::NoneListed("10.0.0.0/24".parse().unwrap()));
        pool.release(address("10.0.0.3"), "other");
        pool.release(address("10.0.0.8"), "own");
        let usage = pool.usage_of(&ranges);
        assert_eq!((usage.used, &*usage.used_ranges), (3, "10.0.0.2-10.0.0.3,10.0.0.9"));
        assert_eq!((usage.available, &*usage.available_ranges), (2, "10.0.0.1,10.0.0.8"));
        assert_eq!(pool.allocate_of(&ranges, "own").unwrap(), address("10.0.0.8"));
    }

    #[test]
    fn ranges_have_the_fewest_cidrs() {
        let cidrs = |text| AddressRange::parse_any(text).unwrap().to_cidrs();
        assert_eq!(cidrs("10.0.0.2..10.0.0.6"), ["10.0.0.2/31", "10.0.0.4/31", "10.0.0.6"]);
        assert_eq!(cidrs("fd00::/127"), ["fd00::/127"]);
        assert_eq!(cidrs("0.0.0.0..255.255.255.255"), ["0.0.0.0/0"]);
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
