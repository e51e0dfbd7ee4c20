//! Addresses of one subnet.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;

/// Addresses of one subnet that pods may have.
#[derive(Clone, Debug)]
pub(super) struct AddressPool {
    subnet: IpNet,
    /// Subnets whose addresses are given on request only.
    withheld: Vec<IpNet>,
    taken: BTreeSet<IpAddr>,
    /// Distance from the start of the subnet at which the next search starts.
    next: u128,
}

impl AddressPool {
    /// Makes a pool of all addresses but the first, which is that of the network, and in IPv4 the
    /// last, which is the broadcast address.
    pub(super) fn new(subnet: IpNet, withheld: &[IpNet]) -> Self {
        Self {
            subnet,
            withheld: withheld.to_vec(),
            taken: BTreeSet::new(),
            next: 1,
        }
    }

    pub(super) fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// Distance from the start of the subnet at which the next search starts.
    pub(super) fn position(&self) -> u128 {
        self.next
    }

    pub(super) fn set_position(&mut self, distance: u128) {
        self.next = distance.max(1);
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.subnet.contains(&address)
            && self
                .distance(address)
                .is_some_and(|distance| (1..=self.last()).contains(&distance))
    }

    /// Takes an address. Returns `false` if it is taken already.
    pub(super) fn reserve(&mut self, address: IpAddr) -> bool {
        self.taken.insert(address)
    }

    pub(super) fn release(&mut self, address: IpAddr) {
        self.taken.remove(&address);
    }

    pub(super) fn taken(&self) -> impl Iterator<Item = IpAddr> {
        self.taken.iter().copied()
    }

    /// Takes the first free address after the last one, and from the start of the subnet on after
    /// its end. `None`: no address is free.
    pub(super) fn allocate(&mut self) -> Option<IpAddr> {
        let start = self.next;
        let found = self
            .search(start, self.last())
            .or_else(|| self.search(1, start.saturating_sub(1)))?;
        self.next = self.distance(found)? + 1;
        self.taken.insert(found);
        Some(found)
    }

    fn search(&self, first: u128, last: u128) -> Option<IpAddr> {
        let mut distance = first;
        while distance <= last {
            let address = nth_address(self.subnet, distance)?;
            match self.withheld.iter().find(|range| range.contains(&address)) {
                Some(range) => distance = self.distance(range.broadcast())? + 1,
                None if self.taken.contains(&address) => distance += 1,
                None => return Some(address),
            }
        }
        None
    }

    /// Distance of the last address for pods.
    fn last(&self) -> u128 {
        let hosts = self.subnet.max_prefix_len() - self.subnet.prefix_len();
        let broadcast = u128::from(matches!(self.subnet, IpNet::V4(_)));
        let all = 1_u128
            .checked_shl(hosts.into())
            .map_or(u128::MAX, |count| count - 1);
        all.saturating_sub(broadcast)
    }

    fn distance(&self, address: IpAddr) -> Option<u128> {
        let number = |address| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        number(address).checked_sub(number(self.subnet.network()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(subnet: &str, withheld: &[&str]) -> AddressPool {
        let withheld: Vec<IpNet> = withheld.iter().map(|net| net.parse().unwrap()).collect();
        AddressPool::new(subnet.parse().unwrap(), &withheld)
    }

    fn take(pool: &mut AddressPool, count: usize) -> Vec<String> {
        let addresses = std::iter::from_fn(|| pool.allocate());
        addresses
            .take(count)
            .map(|address| address.to_string())
            .collect()
    }

    #[test]
    fn released_addresses_come_after_all_others() {
        let mut pool = pool("10.0.0.0/29", &[]);
        assert_eq!(take(&mut pool, 2), ["10.0.0.1", "10.0.0.2"]);
        pool.release("10.0.0.1".parse().unwrap());
        assert!(pool.reserve("10.0.0.4".parse().unwrap()));
        assert_eq!(
            take(&mut pool, 9),
            ["10.0.0.3", "10.0.0.5", "10.0.0.6", "10.0.0.1"]
        );
    }

    #[test]
    fn withheld_ranges_are_skipped_at_once() {
        let mut v6 = pool("fd00::/64", &["fd00::/80"]);
        assert_eq!(take(&mut v6, 1), ["fd00::1:0:0:0"]);
        assert!(v6.reserve("fd00::7".parse().unwrap()));
        let mut whole = pool("10.0.0.0/24", &["10.0.0.0/25", "10.0.0.128/25"]);
        assert_eq!(whole.allocate(), None);
    }

    #[test]
    fn network_and_broadcast_addresses_are_no_pods() {
        let v4 = pool("10.0.0.0/24", &[]);
        let contains = |text: &str| v4.contains(text.parse().unwrap());
        assert!(contains("10.0.0.1") && contains("10.0.0.254"));
        assert!(!contains("10.0.0.0") && !contains("10.0.0.255") && !contains("10.0.1.1"));
    }
}
