//! Addresses of ports: MAC addresses and point-to-point pairs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// MAC address of a port whose first address (IPv4 if it has one) is `address`.
///
/// The prefix is `0a:58`, which is locally administered. The four octets of the IPv4 address
/// follow, or the first four octets of the SHA-256 of the IPv6 address's canonical text.
pub fn mac_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => private_mac(address.octets()),
        IpAddr::V6(address) => mac_of_name(&address.to_string()),
    }
}

/// MAC address of a router's port towards pods, which has these addresses: that of the first IPv4
/// address, if there is one.
pub fn gateway_mac(addresses: impl IntoIterator<Item = IpAddr>) -> Option<String> {
    let mut addresses = addresses.into_iter();
    let first = addresses.next()?;
    let all = [first].into_iter().chain(addresses);
    Some(mac_address(all.fold(first, |chosen, address| {
        if chosen.is_ipv6() && address.is_ipv4() { address } else { chosen }
    })))
}

/// MAC address of a port without addresses, made from a name: `0a:58` and the first four octets of
/// its SHA-256.
pub fn mac_of_name(name: &str) -> String {
    let digest = Sha256::digest(name);
    private_mac([digest[0], digest[1], digest[2], digest[3]])
}

fn private_mac(octets: [u8; 4]) -> String {
    let mut text = String::with_capacity(17);
    text.push_str("0a:58");
    for octet in octets {
        text.push(':');
        for digit in [octet >> 4, octet & 15] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    text
}

/// The address of a MAC address in `fe80::/64` (RFC 4291, appendix A). `None`: it is no MAC
/// address.
pub fn link_local_address(mac: &str) -> Option<Ipv6Addr> {
    let octets = mac.split(':').map(|octet| u8::from_str_radix(octet, 16));
    let octets: Vec<u8> = octets.collect::<Result<_, _>>().ok()?;
    let (vendor, device) = octets.split_at_checked(3)?;
    let interface = [vendor, &[0xff, 0xfe], device].concat();
    let mut address = [0; 16];
    address[..2].copy_from_slice(&[0xfe, 0x80]);
    address.get_mut(16 - interface.len()..)?.copy_from_slice(&interface);
    // The bit that distinguishes universal from local addresses is inverted.
    address[8] ^= 2;
    Some(address.into())
}

/// Formats an address as [`Display`](std::fmt::Display) does, but faster for IPv4.
///
/// A zone has several addresses for each node and network.
pub fn format_address(address: IpAddr) -> String {
    let IpAddr::V4(address) = address else {
        return address.to_string();
    };
    let mut text = String::with_capacity("255.255.255.255/32".len());
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            text.push('.');
        }
        text.push_str(itoa::Buffer::new().format(octet));
    }
    text
}

/// Formats an address or a subnet with its prefix length; see [`format_address`].
pub fn format_net(net: IpNet) -> String {
    let mut text = format_address(net.addr());
    text.push('/');
    text.push_str(itoa::Buffer::new().format(net.prefix_len()));
    text
}

/// Addresses of the link between a connect router and a network router, with `/31` or `/127`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PointToPoint {
    /// The even address, on the connect router.
    pub connect_side: IpNet,
    /// The odd address, on the network router.
    pub network_side: IpNet,
}

/// Error of a connect subnet that is too small for an attachment.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("generated ip {address} from the idx {index} is out of range in the network {subnet}")]
pub struct PointToPointError {
    /// The address outside of the subnet.
    pub address: IpAddr,
    /// Number of the requested pair.
    pub index: u16,
    /// The connect subnet.
    pub subnet: IpNet,
}

/// Pair number `index` of a connect subnet: `base + 2·index` and the address after it.
///
/// # Errors
/// The pair is outside of the subnet. A subnet with `h` host bits has pairs 0 to 2^(h−1) − 1.
pub fn point_to_point(subnet: IpNet, index: u16) -> Result<PointToPoint, PointToPointError> {
    let offset = 2 * u32::from(index);
    // A pair starts at an even address, so only a subnet at the end of the address space can wrap,
    // and the wrapped address is outside of it.
    let (connect_side, network_side, host_prefix): (IpAddr, IpAddr, u8) = match subnet.network() {
        IpAddr::V4(base) => {
            let even = u32::from(base).wrapping_add(offset);
            let odd = even.wrapping_add(1);
            (Ipv4Addr::from(even).into(), Ipv4Addr::from(odd).into(), 31)
        }
        IpAddr::V6(base) => {
            let even = u128::from(base).wrapping_add(offset.into());
            let odd = even.wrapping_add(1);
            (Ipv6Addr::from(even).into(), Ipv6Addr::from(odd).into(), 127)
        }
    };
    for address in [connect_side, network_side] {
        if !subnet.contains(&address) {
            return Err(PointToPointError { address, index, subnet });
        }
    }
    let link = |address: IpAddr| match address {
        IpAddr::V4(address) => Ipv4Net::new_assert(address, host_prefix).into(),
        IpAddr::V6(address) => Ipv6Net::new_assert(address, host_prefix).into(),
    };
    Ok(PointToPoint { connect_side: link(connect_side), network_side: link(network_side) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn mac_addresses_follow_from_ip_addresses() {
        let cases = [
            ("192.168.0.4", "0a:58:c0:a8:00:04"),
            ("fd01::4", "0a:58:93:09:c3:40"),
            ("fd01::5", "0a:58:17:c7:32:f6"),
        ];
        for (address, mac) in cases {
            assert_eq!(mac_address(address.parse().unwrap()), mac);
        }
    }

    #[test]
    fn a_gateway_has_the_mac_address_of_its_first_ipv4_address() {
        let mac = |addresses: &[&str]| {
            gateway_mac(addresses.iter().map(|address| address.parse().unwrap()))
        };
        let of = |address: &str| Some(mac_address(address.parse().unwrap()));
        assert_eq!(mac(&[]), None);
        assert_eq!(mac(&["fd01::4", "fd01::5"]), of("fd01::4"));
        assert_eq!(mac(&["fd01::4", "192.168.0.4", "192.168.0.5"]), of("192.168.0.4"));
    }

    #[test]
    fn formatted_texts_equal_those_of_display() {
        let nets = ["0.0.0.0/0", "10.0.9.100/31", "255.255.255.255/32", "fd01::104/127", "::/0"];
        for net in nets {
            let address = self::net(net).addr();
            assert_eq!(format_net(self::net(net)), net);
            assert_eq!(format_address(address), address.to_string());
        }
    }

    #[test]
    fn pairs_start_at_the_even_address() {
        let pair = point_to_point(net("192.168.0.0/24"), 2).unwrap();
        assert_eq!(pair.connect_side, net("192.168.0.4/31"));
        assert_eq!(pair.network_side, net("192.168.0.5/31"));
        let pair = point_to_point(net("fd01::100/120"), 2).unwrap();
        assert_eq!(pair.connect_side, net("fd01::104/127"));
        let pair = point_to_point(net("192.168.1.2/31"), 0).unwrap();
        assert_eq!(pair.network_side, net("192.168.1.3/31"));
    }

    #[test]
    fn pairs_outside_of_the_subnet_are_errors() {
        assert!(point_to_point(net("192.168.0.0/26"), 31).is_ok());
        assert_eq!(
            point_to_point(net("192.168.0.0/26"), 32).unwrap_err().to_string(),
            "generated ip 192.168.0.64 from the idx 32 is out of range in the network 192.168.0.0/26"
        );
        assert!(point_to_point(net("255.255.255.0/24"), 128).is_err());
        assert!(point_to_point(net("10.0.0.0/32"), 0).is_err());
    }
}
