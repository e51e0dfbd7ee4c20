//! Addresses of nodes on the wire between them.

use std::net::Ipv4Addr;

use crate::wire::packet::Mac;

/// Prefix of the network between the nodes.
pub(crate) const NETWORK: &str = "10.255.0.0/16";
/// Length of that prefix.
pub(crate) const PREFIX_LENGTH: u8 = 16;

/// Tunnel address of the node with this number, which counts from 1.
pub(crate) fn address(number: usize) -> Ipv4Addr {
    let [.., high, low] = (number as u32).to_be_bytes();
    Ipv4Addr::new(10, 255, high, low)
}

/// Ethernet address of the node with this number.
pub(crate) fn mac(number: usize) -> Mac {
    let [a, b, c, d] = (number as u32).to_be_bytes();
    [0x02, 0, a, b, c, d]
}

/// Number of the node with this Ethernet address. `None`: no node has it.
pub(crate) fn node_of(mac: Mac) -> Option<usize> {
    let [0x02, 0, a, b, c, d] = mac else {
        return None;
    };
    Some(u32::from_be_bytes([a, b, c, d]) as usize)
}

/// Text of an Ethernet address.
pub(crate) fn format_mac(mac: Mac) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}
