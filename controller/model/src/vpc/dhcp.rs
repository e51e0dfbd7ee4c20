//! DHCP options and router advertisements of subnets.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::{FieldProblem, IpFamily, mac_address, mac_of_name};

use super::subnet::SubnetNet;

/// Address of the DHCP server that OVN plays, as in Kube-OVN.
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 254);
/// Time after which a machine renews its address, in seconds, as in Kube-OVN.
const LEASE_SECONDS: &str = "3600";
/// Options of `DHCPv4` that OVN knows, and `server_mac`, which ovn-northd reads.
const OPTIONS_V4: [(&str, ValueKind); 38] = [
    ("T1", ValueKind::Number(u32::MAX)),
    ("T2", ValueKind::Number(u32::MAX)),
    ("arp_cache_timeout", ValueKind::Number(u32::MAX)),
    ("bootfile_name", ValueKind::Text),
    ("bootfile_name_alt", ValueKind::Text),
    ("broadcast_address", ValueKind::Addresses),
    ("classless_static_route", ValueKind::Routes),
    ("default_ttl", ValueKind::Number(255)),
    ("dns_server", ValueKind::Addresses),
    ("domain_name", ValueKind::Text),
    ("domain_search_list", ValueKind::Text),
    ("ethernet_encap", ValueKind::Number(1)),
    ("hostname", ValueKind::Text),
    ("ip_forward_enable", ValueKind::Number(1)),
    ("lease_time", ValueKind::Number(u32::MAX)),
    ("log_server", ValueKind::Addresses),
    ("lpr_server", ValueKind::Addresses),
    ("ms_classless_static_route", ValueKind::Routes),
    ("mtu", ValueKind::Number(65_535)),
    ("netbios_name_server", ValueKind::Addresses),
    ("netbios_node_type", ValueKind::Number(255)),
    ("netmask", ValueKind::Addresses),
    ("next_server", ValueKind::Addresses),
    ("nis_server", ValueKind::Addresses),
    ("ntp_server", ValueKind::Addresses),
    ("path_prefix", ValueKind::Text),
    ("policy_filter", ValueKind::Addresses),
    ("router", ValueKind::Addresses),
    ("router_discovery", ValueKind::Number(1)),
    ("router_solicitation", ValueKind::Addresses),
    ("server_id", ValueKind::Addresses),
    ("server_mac", ValueKind::Mac),
    ("swap_server", ValueKind::Addresses),
    ("tcp_keepalive_interval", ValueKind::Number(u32::MAX)),
    ("tcp_ttl", ValueKind::Number(255)),
    ("tftp_server", ValueKind::Host),
    ("tftp_server_address", ValueKind::Addresses),
    ("wpad", ValueKind::Text),
];
/// Options of `DHCPv6` that OVN knows, and `dhcpv6_stateless`, which ovn-northd reads.
const OPTIONS_V6: [(&str, ValueKind); 7] = [
    ("bootfile_name", ValueKind::Text),
    ("bootfile_name_alt", ValueKind::Text),
    ("dhcpv6_stateless", ValueKind::Words(&["true", "false"])),
    ("dns_server", ValueKind::Addresses),
    ("domain_search", ValueKind::Text),
    ("fqdn", ValueKind::Text),
    ("server_id", ValueKind::Mac),
];
/// Keys of router advertisements that ovn-northd reads.
const ADVERTISED: [(&str, ValueKind); 7] = [
    ("address_mode", ValueKind::Words(&["slaac", "dhcpv6_stateful", "dhcpv6_stateless"])),
    ("max_interval", ValueKind::Number(1800)),
    ("min_interval", ValueKind::Number(1350)),
    ("mtu", ValueKind::Number(65_535)),
    ("rdnss", ValueKind::Addresses),
    ("router_preference", ValueKind::Words(&["HIGH", "MEDIUM", "LOW"])),
    ("send_periodic", ValueKind::Words(&["true", "false"])),
];
/// Router advertisements of subnets that configure none, as in Kube-OVN.
const DEFAULT_ADVERTISED: [(&str, &str); 4] = [
    ("address_mode", "dhcpv6_stateful"),
    ("max_interval", "30"),
    ("min_interval", "5"),
    ("send_periodic", "true"),
];

/// Values of an option. A value that OVN's parser refuses keeps OVN from answering at all.
#[derive(Clone, Copy, Debug)]
enum ValueKind {
    /// Addresses of the option's family. Several are in braces.
    Addresses,
    /// Number up to this one.
    Number(u32),
    /// Pairs of a range and a next hop, in braces.
    Routes,
    /// Text in quotation marks.
    Text,
    /// Address, or text in quotation marks.
    Host,
    /// MAC address.
    Mac,
    /// One of these words.
    Words(&'static [&'static str]),
}

impl ValueKind {
    /// Value as OVN reads it. `None`: OVN would refuse it.
    fn read(self, text: &str, family: IpFamily) -> Option<String> {
        let is_address =
            |text: &str| text.parse().is_ok_and(|address: IpAddr| IpFamily::of(address) == family);
        match self {
            Self::Addresses | Self::Routes => {
                let list = text.trim_matches(['{', '}']);
                let items: Vec<&str> = list.split(';').collect();
                let is_item = |item: &&str| match (self, item.parse::<IpNet>()) {
                    (Self::Routes, Ok(net)) => IpFamily::of_net(net) == family,
                    _ => is_address(item),
                };
                if !items.iter().all(is_item) {
                    return None;
                }
                let is_one = items.len() == 1 && matches!(self, Self::Addresses);
                let list = items.join(",");
                Some(if is_one { list } else { format!("{{{list}}}") })
            }
            Self::Number(limit) => {
                let number = text.parse::<u32>().ok()?;
                (number <= limit).then(|| number.to_string())
            }
            Self::Host if is_address(text) => Some(text.to_owned()),
            Self::Text | Self::Host => {
                let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let bare = bare.unwrap_or(text);
                let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
                bare.chars().all(is_plain).then(|| format!("\"{bare}\""))
            }
            Self::Mac => {
                let is_octet =
                    |octet: &str| octet.len() == 2 && u8::from_str_radix(octet, 16).is_ok();
                let is_mac = text.split(':').count() == 6 && text.split(':').all(is_octet);
                is_mac.then(|| text.to_ascii_lowercase())
            }
            Self::Words(words) => words.contains(&text).then(|| text.to_owned()),
        }
    }
}

/// Options of one IP family, by their names. A user's ones, until they are completed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DhcpOptions(pub BTreeMap<String, String>);

impl DhcpOptions {
    /// Reads options of users: `name=value`, with commas between them. A list in a value has
    /// semicolons. Entries that OVN would refuse are problems, because one of them keeps OVN from
    /// answering at all. `field`: path of the options.
    pub fn read(
        field: &str,
        text: &str,
        family: IpFamily,
        problems: &mut Vec<FieldProblem>,
    ) -> Self {
        let known: &[_] = match family {
            IpFamily::V4 => &OPTIONS_V4,
            IpFamily::V6 => &OPTIONS_V6,
        };
        Self(read_pairs((field, text), known, family, problems))
    }

    /// Reads router advertisements of users, as [`read`](Self::read) does options. Without a text
    /// they are the default ones.
    pub fn read_advertised(field: &str, text: &str, problems: &mut Vec<FieldProblem>) -> Self {
        if text.trim().is_empty() {
            let default = DEFAULT_ADVERTISED.into_iter();
            return Self(default.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        }
        Self(read_pairs((field, text), &ADVERTISED, IpFamily::V6, problems))
    }

    /// Adds what machines of a subnet need: gateway, MTU, and identity of the server.
    #[must_use]
    pub fn complete(&self, subnet: &str, net: &SubnetNet, mtu: i64) -> Self {
        let needed = match net.gateway {
            IpAddr::V4(gateway) => vec![
                ("lease_time", LEASE_SECONDS.to_owned()),
                ("router", gateway.to_string()),
                ("server_id", SERVER_ADDRESS.to_string()),
                ("server_mac", mac_address(SERVER_ADDRESS.into())),
                ("mtu", mtu.to_string()),
            ],
            IpAddr::V6(_) => vec![("server_id", mac_of_name(subnet))],
        };
        let mut options = self.0.clone();
        for (key, value) in needed {
            options.entry(key.to_owned()).or_insert(value);
        }
        Self(options)
    }
}

/// Pairs `name=value` with commas between them, without blanks.
fn read_pairs(
    (field, text): (&str, &str),
    known: &[(&str, ValueKind)],
    family: IpFamily,
    problems: &mut Vec<FieldProblem>,
) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    for entry in text.split(',') {
        let entry: String = entry.chars().filter(|c| *c != ' ').collect();
        if entry.is_empty() {
            continue;
        }
        let mut refuse = |text: &str, reason: &str| {
            problems.push(FieldProblem::of_text(field, text, reason));
        };
        let Some((name, value)) = entry.split_once('=') else {
            refuse(&entry, "is not name=value");
            continue;
        };
        match known.iter().find(|(known, _)| *known == name) {
            None => refuse(name, "is an option that OVN does not know"),
            Some((_, kind)) => match kind.read(value, family) {
                Some(value) => {
                    pairs.insert(name.to_owned(), value);
                }
                None => refuse(&entry, "has a value that OVN refuses"),
            },
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_what_is_none_is_named() {
        let mut problems = Vec::new();
        let text = "lease_time = 60, dns_server=8.8.8.8;8.8.4.4,,router, colour=red,mtu=";
        let options = DhcpOptions::read("spec.o", text, IpFamily::V4, &mut problems);
        let expected = [("dns_server", "{8.8.8.8,8.8.4.4}"), ("lease_time", "60")];
        assert_eq!(
            options.0.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(),
            expected
        );
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "spec.o: \"router\" is not name=value",
                "spec.o: \"colour\" is an option that OVN does not know",
                "spec.o: \"mtu=\" has a value that OVN refuses",
            ]
        );
        let mut none = Vec::new();
        let one = DhcpOptions::read("", "dns_server={fd00::1}", IpFamily::V6, &mut none);
        assert_eq!((&*one.0["dns_server"], none.len()), ("fd00::1", 0));
    }

    #[test]
    fn values_are_written_as_ovn_reads_them() {
        let read = |text: &str| {
            let mut problems = Vec::new();
            let options = DhcpOptions::read("", text, IpFamily::V4, &mut problems).0;
            options.into_values().next().ok_or(problems.len())
        };
        let written = |text: &str| Ok(text.to_owned());
        assert_eq!(read("domain_name=alpha"), written("\"alpha\""));
        assert_eq!(read("hostname=\"vm\""), written("\"vm\""));
        assert_eq!(read("tftp_server=10.0.0.9"), written("10.0.0.9"));
        assert_eq!(read("tftp_server=boot"), written("\"boot\""));
        assert_eq!(
            read("classless_static_route=10.9.0.0/16;10.0.0.9"),
            written("{10.9.0.0/16,10.0.0.9}")
        );
        assert_eq!(read("server_mac=0A:58:00:00:00:01"), written("0a:58:00:00:00:01"));
        for text in ["mtu=abc", "mtu=65536", "router=fd00::1", "hostname=\"a\"b\"", "server_mac=1"]
        {
            assert_eq!(read(text), Err(1), "{text}");
        }
    }

    #[test]
    fn options_of_users_come_before_the_needed_ones() {
        let net = &SubnetNet::read("10.0.0.0/24", "").unwrap()[0];
        let own = DhcpOptions([("mtu".to_owned(), "1300".to_owned())].into());
        let complete = own.complete("s", net, 1400).0;
        let expected = [
            ("lease_time", "3600"),
            ("mtu", "1300"),
            ("router", "10.0.0.1"),
            ("server_id", "169.254.0.254"),
            ("server_mac", "0a:58:a9:fe:00:fe"),
        ];
        assert_eq!(
            complete.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(),
            expected
        );
    }
}
