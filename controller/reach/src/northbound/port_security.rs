//! Port security: addresses that a switch port may use.
//!
//! The rules are those of ovn-controller. ovn-trace compares with single addresses only, and does
//! not know virtual routers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::virtual_router::VirtualMacs;
use crate::address::{Mac, Prefix, bits};
use crate::packet::{Packet, Payload};

/// Word before the elements of virtual routers.
const VIRTUAL_ROUTER: &str = "VRRPv3";

/// Elements of the column `port_security`, at least one.
#[derive(Debug)]
pub(crate) struct PortSecurity(Vec<Element>);

/// Element of the column: `MAC [ADDRESS[/LENGTH]...]`, or
/// `VRRPv3 MAC [VIRTUAL_MAC[/LENGTH]...] [ADDRESS[/LENGTH]...]`.
#[derive(Debug)]
struct Element {
    mac: Mac,
    /// MAC addresses of virtual routers, which the machine uses in place of its own. Empty: the
    /// element is for the machine itself.
    virtual_macs: Vec<VirtualMacs>,
    /// Empty: all addresses.
    addresses: Vec<Prefix>,
}

impl PortSecurity {
    /// Reads the column. `None`: it has no valid element, and the port may use all addresses.
    pub(super) fn new(column: &BTreeSet<String>) -> Option<Self> {
        let elements: Vec<_> = column.iter().filter_map(|text| Element::parse(text)).collect();
        (!elements.is_empty()).then_some(Self(elements))
    }

    /// `true` if the port may send a packet.
    pub(super) fn may_send(&self, packet: &Packet) -> bool {
        match &packet.payload {
            Payload::Ip(ip) => self.may_answer(packet.eth_source, ip.source),
            Payload::Arp(arp) => self.0.iter().any(|own| {
                own.mac == packet.eth_source
                    && own.has_mac(arp.source_mac, Some(true))
                    && own.has_pair(arp.source_mac, arp.source.into())
            }),
        }
    }

    /// `true` if the port may send packets from a MAC address and an IP address, such as an answer
    /// for the latter.
    pub(super) fn may_answer(&self, mac: Mac, address: IpAddr) -> bool {
        self.0.iter().any(|own| own.has_pair(mac, address))
    }

    /// `true` if the port may receive a packet.
    pub(super) fn may_receive(&self, packet: &Packet) -> bool {
        let mac = packet.eth_destination;
        let is_own = || self.0.iter().any(|own| own.has_mac(mac, None));
        let Payload::Ip(ip) = &packet.payload else {
            return is_own();
        };
        let destination = ip.destination;
        let of_mac = self.0.iter().filter(|own| own.has_mac(mac, Some(destination.is_ipv4())));
        let mut with_addresses = of_mac.filter(|own| !own.addresses.is_empty()).peekable();
        if with_addresses.peek().is_none() {
            return is_own();
        }
        with_addresses.any(|own| own.has(mac, destination) || own.is_for_many(destination))
    }

    /// The source MAC address of the frames in which a machine asks or answers with a MAC address:
    /// its own where the MAC address is that of a virtual router.
    pub(super) fn frame_mac(&self, mac: Mac) -> Mac {
        let is_own = self.0.iter().any(|own| own.mac == mac);
        let mut elements = self.0.iter().filter(|_| !is_own);
        let router = elements.find(|own| own.has_mac(mac, None));
        router.map_or(mac, |router| router.mac)
    }
}

impl Element {
    /// Parses an element. `None`: OVN ignores it, because one of its words is bad.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(VIRTUAL_ROUTER);
        let mut words = rest.unwrap_or(text).split(' ').filter(|word| !word.is_empty());
        let mac = Mac::parse(words.next()?)?;
        let mut virtual_macs = Vec::new();
        let mut addresses = Vec::new();
        for word in words {
            match Prefix::parse(word) {
                Some(address) => addresses.push(address),
                None => virtual_macs.push(VirtualMacs::parse(word).filter(|_| rest.is_some())?),
            }
        }
        if rest.is_some() && virtual_macs.is_empty() {
            virtual_macs.extend(VirtualMacs::ALL);
        }
        Some(Self { mac, virtual_macs, addresses })
    }

    /// `true` if the element is for a MAC address. `family`: for packets of IPv4, or of IPv6.
    /// `None`: for any.
    fn has_mac(&self, mac: Mac, family: Option<bool>) -> bool {
        if self.virtual_macs.is_empty() {
            return self.mac == mac;
        }
        let mut macs = self.virtual_macs.iter();
        macs.any(|own| own.contains(mac) && family.is_none_or(|family| family == own.is_ipv4()))
    }

    /// `true` if packets from an IP address may come from a MAC address.
    fn has_pair(&self, mac: Mac, address: IpAddr) -> bool {
        if self.addresses.is_empty() {
            return self.has_mac(mac, None);
        }
        self.has_mac(mac, Some(address.is_ipv4())) && self.has(mac, address)
    }

    /// `true` if the element names an address, its network, or the link-local address of a MAC
    /// address.
    fn has(&self, mac: Mac, address: IpAddr) -> bool {
        let is_ipv6 = |allowed: &Prefix| allowed.address.is_ipv6();
        self.addresses.iter().any(|allowed| allows(allowed, address))
            || address == IpAddr::from(mac.link_local()) && self.addresses.iter().any(is_ipv6)
    }

    /// `true` if an address is for many machines, those of the element included.
    fn is_for_many(&self, address: IpAddr) -> bool {
        let is_family = |own: &&Prefix| own.address.is_ipv4() == address.is_ipv4();
        let mut family = self.addresses.iter().filter(is_family);
        let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        family.any(|own| address.is_multicast() || is_broadcast || own.broadcast() == Some(address))
    }
}

/// `true` if a prefix allows an address. A prefix without host bits allows its network.
fn allows(allowed: &Prefix, address: IpAddr) -> bool {
    allowed.address == address
        || allowed.network_bits() == bits(allowed.address) && allowed.contains(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::northbound::SwitchPortId;
    use crate::packet::{Arp, IpPacket, TIME_TO_LIVE, Transport};

    /// MAC address of a machine with virtual routers.
    const OWN: &str = "0a:00:00:00:00:01";

    fn security(elements: &[&str]) -> Option<PortSecurity> {
        PortSecurity::new(&elements.iter().map(|text| (*text).to_owned()).collect())
    }

    fn mac(text: &str) -> Mac {
        Mac::parse(text).unwrap()
    }

    fn packet(eth_source: &str, eth_destination: &str, payload: Payload) -> Packet {
        Packet {
            eth_source: mac(eth_source),
            eth_destination: mac(eth_destination),
            payload,
            input: SwitchPortId::for_test(0).into(),
            output: None,
            mark: 0,
            time_to_live: TIME_TO_LIVE,
            dscp: 0,
            is_tracked: false,
        }
    }

    fn receives(security: &PortSecurity, mac: &str, destination: &str) -> bool {
        let payload = Payload::Ip(IpPacket {
            source: destination.parse().unwrap(),
            destination: destination.parse().unwrap(),
            transport: Transport::Echo { is_reply: false },
        });
        security.may_receive(&packet(OWN, mac, payload))
    }

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

    #[test]
    fn an_element_with_a_bad_word_is_none() {
        for bad in [
            "0a:00:00:00:00:01 10.0.0.1,10.0.0.2",
            "0a:00:00:00:00:01 10.0.0.1 ?",
            "0a:00:00:00:00:01 00:00:5e:00:01:05",
            "VRRPv3 0a:00:00:00:00:01 00:00:5e:00:03:05",
            "VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:00",
            "VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:05/39",
            "VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:05/44",
            "VRRPv3",
        ] {
            assert!(security(&[bad]).is_none(), "{bad}");
        }
        let security = security(&["0a:00:00:00:00:02", "0a:00:00:00:00:01 ?"]).unwrap();
        assert!(!security.may_answer(mac(OWN), "10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_virtual_router_has_other_mac_addresses_than_its_machine() {
        let security = security(&["VRRPv3 0a:00:00:00:00:01"]).unwrap();
        for (own, is_own) in [
            ("00:00:5e:00:01:05", true),
            ("00:00:5e:00:02:ff", true),
            ("00:00:5e:00:03:05", false),
            (OWN, false),
        ] {
            let is_sent = security.may_answer(mac(own), "10.0.0.1".parse().unwrap());
            assert_eq!(is_sent, is_own, "{own}");
            assert_eq!(receives(&security, own, "10.0.0.1"), is_own, "{own}");
        }
    }

    #[test]
    fn a_virtual_router_of_one_family_has_its_addresses() {
        let element =
            "VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:10/44 00:00:5e:00:02:05 10.0.0.1 fd00::1";
        let security = security(&[element]).unwrap();
        for (own, address, is_sent, is_received) in [
            ("00:00:5e:00:01:1f", "10.0.0.1", true, true),
            ("00:00:5e:00:01:20", "10.0.0.1", false, false),
            ("00:00:5e:00:01:1f", "10.0.0.2", false, false),
            // Only packets of the other family are compared with the addresses.
            ("00:00:5e:00:01:1f", "fd00::2", false, true),
            ("00:00:5e:00:02:05", "fd00::1", true, true),
            ("00:00:5e:00:02:05", "fd00::2", false, false),
            ("00:00:5e:00:02:05", "fe80::200:5eff:fe00:205", true, true),
            ("00:00:5e:00:01:1f", "224.0.0.18", false, true),
        ] {
            let sent = security.may_answer(mac(own), address.parse().unwrap());
            assert_eq!(sent, is_sent, "{own} {address}");
            let received = receives(&security, own, address);
            assert_eq!(received, is_received, "{own} {address}");
        }
    }

    #[test]
    fn requests_of_a_virtual_router_come_from_its_machine() {
        let security = security(&["VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:05 10.0.0.1"]).unwrap();
        let virtual_mac = "00:00:5e:00:01:05";
        let asks = |eth_source: &str, source_mac: &str, source: &str| {
            let arp = Arp {
                is_reply: false,
                source: source.parse().unwrap(),
                source_mac: mac(source_mac),
                target: "10.0.0.9".parse().unwrap(),
                target_mac: Mac::ZERO,
            };
            security.may_send(&packet(eth_source, "ff:ff:ff:ff:ff:ff", Payload::Arp(arp)))
        };
        assert!(asks(OWN, virtual_mac, "10.0.0.1"));
        assert!(!asks(OWN, OWN, "10.0.0.1"));
        assert!(!asks(virtual_mac, virtual_mac, "10.0.0.1"));
        assert!(!asks(OWN, virtual_mac, "10.0.0.2"));
        assert_eq!(security.frame_mac(mac(virtual_mac)), mac(OWN));
        assert_eq!(security.frame_mac(mac("0a:00:00:00:00:07")), mac("0a:00:00:00:00:07"));
    }
}
