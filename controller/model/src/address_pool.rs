//! Allocation of the addresses of a subnet, in the order of OVN-Kubernetes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use thiserror::Error;

use super::arithmetic::nth_address;

/// Maximum number of addresses of an IPv6 subnet that are allocated.
const IPV6_ADDRESSES: u128 = 1 << 16;

/// Allocator of numbers. The next number is the first free number after the last allocated one. The
/// first number of the range follows the last number of the range.
#[derive(Clone, Debug)]
struct NumberPool {
    range: RangeInclusive<u64>,
    /// Numbers that are given on request only.
    skipped: Vec<RangeInclusive<u64>>,
    /// Holders of each number.
    taken: BTreeMap<u64, u32>,
    next: u64,
}

impl NumberPool {
    /// Makes a pool of all numbers of a range.
    fn new(range: RangeInclusive<u64>) -> Self {
        Self { next: *range.start(), range, skipped: Vec::new(), taken: BTreeMap::new() }
    }

    /// Allocates the next free number. `None`: there is none.
    fn allocate(&mut self) -> Option<u64> {
        let (first, last) = (*self.range.start(), *self.range.end());
        let found = self
            .first_free(self.next..=last)
            .or_else(|| self.first_free(first..=self.next.saturating_sub(1)))?;
        self.taken.insert(found, 1);
        self.next = found + 1;
        Some(found)
    }

    fn first_free(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let (mut number, last) = range.into_inner();
        while number <= last {
            let skipped = self.skipped.iter().find(|range| range.contains(&number));
            number = match skipped {
                Some(range) => *range.end() + 1,
                None if self.taken.contains_key(&number) => number + 1,
                None => return Some(number),
            };
        }
        None
    }

    /// Allocates this number. Returns `false` if it has a holder already, or is not in the range;
    /// it has one more holder then.
    fn hold(&mut self, number: u64) -> bool {
        if !self.range.contains(&number) {
            return false;
        }
        let holders = self.taken.entry(number).or_default();
        *holders += 1;
        *holders == 1
    }

    /// Removes a holder of a number.
    fn release(&mut self, number: u64) {
        if let Some(holders) = self.taken.get_mut(&number) {
            *holders -= 1;
            if *holders == 0 {
                self.taken.remove(&number);
            }
        }
    }

    /// Number at which the next search starts.
    fn position(&self) -> u64 {
        self.next
    }

    /// Lets the next search start at a number.
    fn set_position(&mut self, number: u64) {
        self.next = number.max(*self.range.start());
    }

    /// `true` if a number has a holder.
    fn is_taken(&self, number: u64) -> bool {
        self.taken.contains_key(&number)
    }
}

/// Address that cannot be allocated.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum AddressError {
    /// The address is not one of the subnet's addresses for pods.
    #[error("address {0} is not in the network's range for pods")]
    Outside(IpAddr),
    /// The address has another holder, or is excluded.
    #[error("address {0} is taken")]
    Taken(IpAddr),
}

/// Allocator of the addresses of a subnet. The network address is not allocated, nor, of IPv4, the
/// broadcast address. Of IPv6, the first 65,535 addresses are.
///
/// ```
/// use patchbay_model::AddressPool;
///
/// let mut pool = AddressPool::new("10.10.0.0/29".parse().unwrap());
/// pool.exclude("10.10.0.1/32".parse().unwrap());
/// let next = pool.allocate().unwrap();
/// assert_eq!(next.to_string(), "10.10.0.2");
/// // A released address is allocated again as late as possible.
/// pool.release(next);
/// assert_eq!(pool.allocate().unwrap().to_string(), "10.10.0.3");
/// ```
#[derive(Clone, Debug)]
pub struct AddressPool {
    subnet: IpNet,
    numbers: NumberPool,
    excluded: Vec<RangeInclusive<u64>>,
}

impl AddressPool {
    /// Makes a pool of the addresses of a subnet.
    pub fn new(subnet: IpNet) -> Self {
        let host_bits = u32::from(subnet.max_prefix_len() - subnet.prefix_len());
        let size = 1_u128.checked_shl(host_bits).unwrap_or(IPV6_ADDRESSES);
        let last = match subnet {
            IpNet::V4(_) => size.saturating_sub(2),
            IpNet::V6(_) => size.min(IPV6_ADDRESSES) - 1,
        };
        Self {
            subnet: subnet.trunc(),
            numbers: NumberPool::new(1..=u64::try_from(last).unwrap_or(u64::MAX)),
            excluded: Vec::new(),
        }
    }

    /// The subnet.
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// Excludes the addresses of a range from allocation, also on request.
    pub fn exclude(&mut self, range: IpNet) {
        if let Some(numbers) = self.numbers_of(range) {
            self.excluded.push(numbers.clone());
            self.numbers.skipped.push(numbers);
        }
    }

    /// Keeps the addresses of a range for requests.
    pub fn keep_for_requests(&mut self, range: IpNet) {
        let numbers = self.numbers_of(range);
        self.numbers.skipped.extend(numbers);
    }

    /// Allocates the next free address. `None`: all are allocated.
    pub fn allocate(&mut self) -> Option<IpAddr> {
        let number = self.numbers.allocate()?;
        nth_address(self.subnet, number.into())
    }

    /// Distance from the start of the subnet at which the next search starts.
    pub fn position(&self) -> u64 {
        self.numbers.position()
    }

    /// Lets the next search start at a distance from the start of the subnet.
    pub fn set_position(&mut self, distance: u64) {
        self.numbers.set_position(distance);
    }

    /// Addresses with holders, in ascending order.
    pub fn taken(&self) -> impl Iterator<Item = IpAddr> {
        let numbers = self.numbers.taken.keys();
        numbers.filter_map(|number| nth_address(self.subnet, (*number).into()))
    }

    /// Allocates this address.
    ///
    /// # Errors
    /// The address is outside of the pool, or taken.
    pub fn request(&mut self, address: IpAddr) -> Result<(), AddressError> {
        let number = self.number(address);
        let number = number
            .filter(|number| self.numbers.range.contains(number))
            .ok_or(AddressError::Outside(address))?;
        let is_excluded = self.excluded.iter().any(|range| range.contains(&number));
        if is_excluded || self.numbers.is_taken(number) {
            return Err(AddressError::Taken(address));
        }
        self.numbers.hold(number);
        Ok(())
    }

    /// Adds a holder to an address that was allocated before. Returns `false` if it had one already
    /// or is outside of the pool.
    pub fn hold(&mut self, address: IpAddr) -> bool {
        self.number(address).is_some_and(|number| self.numbers.hold(number))
    }

    /// Removes a holder of an address.
    pub fn release(&mut self, address: IpAddr) {
        if let Some(number) = self.number(address) {
            self.numbers.release(number);
        }
    }

    fn number(&self, address: IpAddr) -> Option<u64> {
        if !self.subnet.contains(&address) {
            return None;
        }
        let number = match (self.subnet.network(), address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                u128::from(u32::from(address) - u32::from(base))
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => u128::from(address) - u128::from(base),
            _ => return None,
        };
        u64::try_from(number).ok()
    }

    fn numbers_of(&self, range: IpNet) -> Option<RangeInclusive<u64>> {
        if range.contains(&self.subnet) {
            return Some(self.numbers.range.clone());
        }
        let last = self.number(range.broadcast()).unwrap_or(u64::MAX - 1);
        Some(self.number(range.network())?..=last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(subnet: &str) -> AddressPool {
        AddressPool::new(subnet.parse().unwrap())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_order_goes_on_after_the_last_address_and_wraps() {
        let mut pool = pool("10.0.0.0/29");
        let all: Vec<String> =
            std::iter::from_fn(|| pool.allocate()).map(|address| address.to_string()).collect();
        assert_eq!(all.len(), 6);
        assert_eq!((&*all[0], &*all[5]), ("10.0.0.1", "10.0.0.6"));
        pool.release(address("10.0.0.2"));
        pool.release(address("10.0.0.4"));
        assert_eq!(pool.allocate(), Some(address("10.0.0.2")));
        pool.release(address("10.0.0.2"));
        assert_eq!(pool.allocate(), Some(address("10.0.0.4")));
    }

    #[test]
    fn a_pool_continues_at_the_position_of_another_one() {
        let mut first = pool("10.0.0.0/29");
        first.allocate();
        first.allocate();
        let mut second = pool("10.0.0.0/29");
        second.set_position(first.position());
        assert!(second.hold(address("10.0.0.3")));
        assert_eq!(second.allocate(), Some(address("10.0.0.4")));
        second.set_position(0);
        assert_eq!(second.allocate(), Some(address("10.0.0.1")));
        let taken: Vec<IpAddr> = second.taken().collect();
        assert_eq!(taken, ["10.0.0.1", "10.0.0.3", "10.0.0.4"].map(address));
    }

    #[test]
    fn an_ipv6_subnet_has_65_535_addresses() {
        let mut pool = pool("fd00::/64");
        assert_eq!(pool.allocate(), Some(address("fd00::1")));
        let outside = address("fd00::1:0");
        assert_eq!(pool.request(outside), Err(AddressError::Outside(outside)));
        assert_eq!(pool.request(address("fd00::ffff")), Ok(()));
    }

    #[test]
    fn excluded_and_reserved_ranges_are_skipped() {
        let mut pool = pool("10.0.0.0/28");
        pool.exclude("10.0.0.0/30".parse().unwrap());
        pool.keep_for_requests("10.0.0.4/30".parse().unwrap());
        assert_eq!(pool.allocate(), Some(address("10.0.0.8")));
        assert_eq!(pool.request(address("10.0.0.5")), Ok(()));
        let taken = address("10.0.0.5");
        assert_eq!(pool.request(taken), Err(AddressError::Taken(taken)));
        let excluded = address("10.0.0.1");
        assert_eq!(pool.request(excluded), Err(AddressError::Taken(excluded)));
        let broadcast = address("10.0.0.15");
        assert_eq!(pool.request(broadcast), Err(AddressError::Outside(broadcast)));
    }

    #[test]
    fn an_address_is_free_when_its_last_holder_is_gone() {
        let mut pool = pool("10.0.0.0/30");
        let shared = address("10.0.0.1");
        assert!(pool.hold(shared));
        assert!(!pool.hold(shared));
        pool.release(shared);
        assert_eq!(pool.request(shared), Err(AddressError::Taken(shared)));
        pool.release(shared);
        assert_eq!(pool.request(shared), Ok(()));
    }
}
