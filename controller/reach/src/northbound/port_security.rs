//! Port security: addresses that a switch port may use.
//!
//! The rules are those of ovn-controller. ovn-trace compares with single addresses only.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::address::{Interface, Mac, Prefix, bits};
use crate::packet::{Packet, Payload};

/// Elements of the column `port_security`, at least one.
#[derive(Debug)]
pub(crate) struct PortSecurity(Vec<Interface>);

impl PortSecurity {
    /// Reads the column. `None`: it has no valid element, and the port may use all addresses.
    pub(super) fn new(column: &BTreeSet<String>) -> Option<Self> {
        let elements = column.iter().filter_map(|text| Interface::parse(text));
        let elements: Vec<_> = elements.collect();
        (!elements.is_empty()).then_some(Self(elements))
    }

    /// `true` if the port may send a packet.
    pub(super) fn may_send(&self, packet: &Packet) -> bool {
        let (address, mac) = match &packet.payload {
            Payload::Arp(arp) => (arp.source.into(), arp.source_mac),
            Payload::Ip(ip) => (ip.source, packet.eth_source),
        };
        mac == packet.eth_source && self.may_answer(mac, address)
    }

    /// `true` if the port may send packets from a MAC address and an IP address, such as an answer for
    /// the latter.
    pub(super) fn may_answer(&self, mac: Mac, address: IpAddr) -> bool {
        let mut elements = self.0.iter().filter(|own| own.mac == mac);
        elements.any(|own| own.addresses.is_empty() || has(own, address))
    }

    /// `true` if the port may receive a packet.
    pub(super) fn may_receive(&self, packet: &Packet) -> bool {
        let of_mac = || {
            self.0
                .iter()
                .filter(|own| own.mac == packet.eth_destination)
        };
        let Payload::Ip(ip) = &packet.payload else {
            return of_mac().next().is_some();
        };
        let mut with_addresses = of_mac().filter(|own| !own.addresses.is_empty()).peekable();
        if with_addresses.peek().is_none() {
            return of_mac().next().is_some();
        }
        with_addresses.any(|own| has(own, ip.destination) || is_for_many(own, ip.destination))
    }
}

/// `true` if an element names an address, its network, or its link-local address.
fn has(own: &Interface, address: IpAddr) -> bool {
    let is_ipv6 = |allowed: &Prefix| allowed.address.is_ipv6();
    own.addresses.iter().any(|allowed| allows(allowed, address))
        || address == IpAddr::from(own.mac.link_local()) && own.addresses.iter().any(is_ipv6)
}

/// `true` if a prefix allows an address. A prefix without host bits allows its network.
fn allows(allowed: &Prefix, address: IpAddr) -> bool {
    allowed.address == address
        || allowed.network_bits() == bits(allowed.address) && allowed.contains(address)
}

/// `true` if an address is for many machines, those of an element included.
fn is_for_many(own: &Interface, address: IpAddr) -> bool {
    let is_family = |own: &&Prefix| own.address.is_ipv4() == address.is_ipv4();
    let mut family = own.addresses.iter().filter(is_family);
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    family.any(|own| address.is_multicast() || is_broadcast || own.broadcast() == Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_allows_its_network_only_without_host_bits() {
        let allowed = |text: &str, address: &str| {
            allows(&Prefix::parse(text).unwrap(), address.parse().unwrap())
        };
        assert!(allowed("10.0.0.0/24", "10.0.0.7"));
        assert!(!allowed("10.0.0.1/24", "10.0.0.7"));
        assert!(allowed("10.0.0.1/24", "10.0.0.1"));
        assert!(allowed("fd00::/64", "fd00::7"));
        assert!(!allowed("fd00::1/64", "fd00::7"));
    }
}
