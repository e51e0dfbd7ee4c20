//! Addresses of switch ports, and networks of router ports.

use std::collections::HashMap;
use std::net::IpAddr;

use patchbay_reach::{Mac, Prefix, RowRef};
use patchbay_schemas::nb::LogicalSwitchPort;

use super::index::Index;
use super::report::RowReport;

/// Addresses of a port: MAC addresses and IP addresses.
#[derive(Default)]
struct Addresses {
    macs: Vec<Mac>,
    ips: Vec<IpAddr>,
}

impl Addresses {
    fn of(index: &Index<'_>, port: &LogicalSwitchPort) -> Self {
        let mut found = Self::default();
        for text in &port.addresses {
            match text.split_ascii_whitespace().next() {
                Some("router") => {
                    let Some((_, behind)) = index.behind(port) else { continue };
                    found.macs.extend(Mac::parse(&behind.mac));
                    let networks = behind.networks.iter().filter_map(|text| Prefix::parse(text));
                    found.ips.extend(networks.map(|network| network.address));
                }
                Some("dynamic") => found.add(port.dynamic_addresses.as_deref().unwrap_or_default()),
                Some("unknown") | None => {}
                Some(_) => found.add(text),
            }
        }
        found
    }

    fn add(&mut self, text: &str) {
        let mut words = text.split_ascii_whitespace();
        if let Some(mac) = words.next().and_then(Mac::parse) {
            self.macs.push(mac);
            self.ips.extend(words.map_while(|word| Some(Prefix::parse(word)?.address)));
        }
    }
}

pub(super) fn unreadable(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (row, port) in index.switch_ports.iter() {
        for text in &port.addresses {
            let mut words = text.split_ascii_whitespace();
            let first = words.next();
            let bad = match first {
                Some("router" | "unknown") => continue,
                Some("dynamic") => words.find(|word| word.parse::<IpAddr>().is_err()),
                Some(mac) if Mac::parse(mac).is_none() => Some(mac),
                Some(_) => words.find(|word| *word != "dynamic" && Prefix::parse(word).is_none()),
                None => Some(""),
            };
            if let Some(bad) = bad {
                report.found(
                    row,
                    &[],
                    format!(
                        "OVN cannot read `{bad}` in the address `{text}`: it has no flows for the \
                         address."
                    ),
                    "Write a MAC address and IP addresses behind it, separated by spaces.",
                );
            }
        }
    }
}

pub(super) fn repeated_ip(index: &Index<'_>, report: &mut RowReport<'_>) {
    each_switch(index, |ports| {
        let mut first: HashMap<IpAddr, RowRef> = HashMap::new();
        for (row, _, addresses) in ports {
            for ip in &addresses.ips {
                let other = *first.entry(*ip).or_insert(*row);
                if other.uuid != row.uuid {
                    report.found(
                        *row,
                        &[other],
                        format!(
                            "Two ports of the switch have the address {ip}: OVN leaves open which \
                             MAC address it answers requests with."
                        ),
                        "Give one of the ports another address.",
                    );
                }
            }
        }
    });
}

pub(super) fn repeated_mac(index: &Index<'_>, report: &mut RowReport<'_>) {
    each_switch(index, |ports| {
        let mut first: HashMap<Mac, RowRef> = HashMap::new();
        // Nested ports have the MAC address of their parent.
        for (row, port, addresses) in ports.iter().filter(|(_, port, _)| port.parent_name.is_none())
        {
            for mac in &addresses.macs {
                let other = *first.entry(*mac).or_insert(*row);
                if other.uuid != row.uuid && port.r#type != "virtual" {
                    report.found(
                        *row,
                        &[other],
                        format!(
                            "Two ports of the switch have the MAC address {mac}: OVN leaves open \
                             which of them gets the packets."
                        ),
                        "Give one of the ports another MAC address.",
                    );
                }
            }
        }
    });
}

/// Calls a function with the enabled ports of each switch and their addresses.
fn each_switch(
    index: &Index<'_>,
    mut check: impl FnMut(&[(RowRef, &LogicalSwitchPort, Addresses)]),
) {
    for (_, switch) in index.switches.iter() {
        let ports = index.switch_ports.of(&switch.ports);
        let enabled = ports.filter(|(_, port)| port.enabled != Some(false));
        let ports: Vec<_> =
            enabled.map(|(row, port)| (row, port, Addresses::of(index, port))).collect();
        check(&ports);
    }
}

pub(super) fn refused_by_security(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (row, port) in index.switch_ports.iter() {
        let allowed: Vec<_> = port
            .port_security
            .iter()
            .filter_map(|text| {
                let mut words = text.split_ascii_whitespace();
                let mac = Mac::parse(words.next()?)?;
                Some((mac, words.filter_map(Prefix::parse).collect::<Vec<_>>()))
            })
            .collect();
        if allowed.is_empty() || !port.r#type.is_empty() {
            continue;
        }
        let own = Addresses::of(index, port);
        let refused_mac = own.macs.iter().find(|mac| !allowed.iter().any(|(one, _)| one == *mac));
        let is_allowed = |ip: &IpAddr| {
            allowed.iter().any(|(_, networks)| {
                let mut same = networks.iter().filter(|one| one.address.is_ipv4() == ip.is_ipv4());
                networks.is_empty() || same.any(|network| network.contains(*ip))
            })
        };
        let refused = match (refused_mac, own.ips.iter().find(|ip| !is_allowed(ip))) {
            (Some(mac), _) => mac.to_string(),
            (None, Some(ip)) => ip.to_string(),
            (None, None) => continue,
        };
        report.found(
            row,
            &[],
            format!("The port has the address {refused}, which its port_security does not allow: its packets are dropped."),
            "Add the address to port_security, or correct it.",
        );
    }
}

/// Network of a router port.
type Network = (Prefix, RowRef);

pub(super) fn repeated_network(index: &Index<'_>, report: &mut RowReport<'_>) {
    each_overlap(index, |inner, outer| {
        if inner.0.length == outer.0.length {
            report.found(
                inner.1,
                &[outer.1],
                format!(
                    "The network of {}/{} is that of another port of the router, too: OVN leaves \
                     open by which of them packets leave.",
                    inner.0.address, inner.0.length
                ),
                "Give each port of the router networks of its own.",
            );
        }
    });
}

pub(super) fn nested_network(index: &Index<'_>, report: &mut RowReport<'_>) {
    each_overlap(index, |inner, outer| {
        // A single address is that of the router only.
        if inner.0.length != outer.0.length && !inner.0.is_host() {
            report.found(
                inner.1,
                &[outer.1],
                format!(
                    "The network of {}/{} is inside of that of {}/{} at another port: machines \
                     there with these addresses are not reached.",
                    inner.0.address, inner.0.length, outer.0.address, outer.0.length
                ),
                "Give the ports networks without common addresses.",
            );
        }
    });
}

/// Calls a function with each network of a router's port and the next wider or equal one of another
/// port.
fn each_overlap(index: &Index<'_>, mut check: impl FnMut(Network, Network)) {
    for (_, router) in index.routers.iter() {
        let ports = index.router_ports.of(&router.ports);
        let mut networks: Vec<Network> = ports
            .flat_map(|(row, port)| {
                let networks = port.networks.iter().filter_map(|text| Prefix::parse(text));
                networks.map(move |network| (network, row))
            })
            .filter(|(network, _)| {
                !matches!(network.address, IpAddr::V6(address) if address.is_unicast_link_local())
            })
            .collect();
        networks.sort_by_key(|(network, row)| {
            (network.address.is_ipv4(), network.network_bits(), network.length, row.uuid)
        });
        let mut around: Vec<Network> = Vec::new();
        for inner in networks {
            while around.last().is_some_and(|(outer, _)| !outer.contains(inner.0.address)) {
                around.pop();
            }
            if let Some(outer) = around.iter().rev().find(|(_, row)| row.uuid != inner.1.uuid) {
                check(inner, *outer);
            }
            around.push(inner);
        }
    }
}
