//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Addresses of one family from a first to a last one, both inclusive.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Range {
    pub(crate) first: IpAddr,
    pub(crate) last: IpAddr,
}

impl Range {
    /// Reads an address, a CIDR, or two addresses with a separator between them. `None`: another
    /// text.
    pub(crate) fn parse(text: &str, separator: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(net) = read_net(text) {
            return Some(net.into());
        }
        let (first, last) = text.split_once(separator)?;
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let range = Self { first, last };
        (is_ipv4(&first) == is_ipv4(&last) && first <= last).then_some(range)
    }

    pub(crate) fn contains(&self, address: &IpAddr) -> bool {
        is_ipv4(&self.first) == is_ipv4(address) && self.first <= *address && *address <= self.last
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        is_ipv4(&self.first) == is_ipv4(&other.first)
            && self.first <= other.last
            && other.first <= self.last
    }
}

impl From<IpNet> for Range {
    fn from(net: IpNet) -> Self {
        Self { first: net.network(), last: net.broadcast() }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// `true` for addresses of IPv4.
pub(crate) fn is_ipv4(address: &IpAddr) -> bool {
    address.is_ipv4()
}

/// `true` for networks of IPv4.
pub(crate) fn is_ipv4_net(net: &IpNet) -> bool {
    is_ipv4(&net.addr())
}

/// Reads an address or a CIDR, without host bits. `None`: another text.
pub(crate) fn read_net(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let net = text.parse::<IpNet>().ok();
    net.or_else(|| text.parse().ok().map(|address: IpAddr| address.into())).map(|net| net.trunc())
}

/// Reads a list of CIDRs with commas between them. Texts that are none are left out.
pub(crate) fn read_nets(text: &str) -> Vec<IpNet> {
    text.split(',').filter_map(read_net).collect()
}

/// Reads a list of addresses with commas between them. Texts that are none are left out.
pub(crate) fn read_addresses(text: &str) -> Vec<IpAddr> {
    let addresses = text.split(',').filter_map(|text| text.trim().parse().ok());
    addresses.collect()
}

/// `true` if networks have a common address.
pub(crate) fn nets_overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// The address behind this one. `None`: it is the last one.
pub(crate) fn next_address(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(one) => Some(Ipv4Addr::from(u32::from(one).checked_add(1)?).into()),
        IpAddr::V6(one) => Some(Ipv6Addr::from(u128::from(one).checked_add(1)?).into()),
    }
}

/// Reason why Kube-OVN allocates an address of a network to no machine. `None`: it may be allocated.
pub(crate) fn unusable(address: &IpAddr, net: &IpNet, gateways: &[IpAddr]) -> Option<&'static str> {
    let is_small = net.max_prefix_len() - net.prefix_len() <= 1;
    if !net.contains(address) {
        Some("it is outside of the range")
    } else if gateways.contains(address) {
        Some("it is the gateway")
    } else if is_small {
        None
    } else if net.network() == *address {
        Some("it is the address of the network")
    } else if is_ipv4(address) && net.broadcast() == *address {
        Some("it is the broadcast address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Option<String> {
        Range::parse(text, "-").map(|range| range.to_string())
    }

    #[test]
    fn ranges_are_addresses_cidrs_and_pairs() {
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(range("10.0.0.1"), found("10.0.0.1-10.0.0.1"));
        assert_eq!(range("10.0.0.9/29"), found("10.0.0.8-10.0.0.15"));
        assert_eq!(range("10.0.0.1 - 10.0.0.3"), found("10.0.0.1-10.0.0.3"));
        assert_eq!(range("fd00::/127"), found("fd00::-fd00::1"));
        for text in ["", "x", "10.0.0.3-10.0.0.1", "10.0.0.1-fd00::1"] {
            assert_eq!(range(text), None, "{text}");
        }
    }

    #[test]
    fn families_do_not_overlap() {
        let range = |text| Range::parse(text, "-").unwrap();
        assert!(range("10.0.0.0/24").overlaps(&range("10.0.0.255-10.0.1.3")));
        assert!(!range("10.0.0.0/24").overlaps(&range("10.0.1.0/24")));
        assert!(!range("0.0.0.0/0").overlaps(&range("::/0")));
        assert!(!range("0.0.0.0/0").contains(&"::1".parse().unwrap()));
    }

    #[test]
    fn network_broadcast_and_gateway_are_not_allocated() {
        let net: IpNet = "10.0.0.0/30".parse().unwrap();
        let reason =
            |text: &str| unusable(&text.parse().unwrap(), &net, &["10.0.0.1".parse().unwrap()]);
        assert_eq!(reason("10.0.0.2"), None);
        for text in ["10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.4"] {
            assert!(reason(text).is_some(), "{text}");
        }
        let small: IpNet = "10.0.0.0/31".parse().unwrap();
        assert_eq!(unusable(&"10.0.0.1".parse().unwrap(), &small, &[]), None);
        let long: IpNet = "fd00::/64".parse().unwrap();
        assert_eq!(unusable(&long.broadcast(), &long, &[]), None);
    }
}
