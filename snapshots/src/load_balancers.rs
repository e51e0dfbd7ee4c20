//! Texts of `ovn-nbctl lb-list`, `lr-lb-list` and `ls-lb-list`. All releases print the same.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LoadBalancer, LoadBalancerGroup, LoadBalancerProtocol};
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use crate::lookup::{RenderError, find_router, find_switch, rows_in_hash_order};
use crate::output::{Output, sorted_pairs};

/// Renders all load balancers, or the load balancers of a name. Equal names have the order of
/// `ovn-nbctl`'s hash table.
///
/// # Errors
/// A row holds a value that OVN does not define.
pub fn lb_list(snapshot: &Snapshot, name: Option<&str>) -> Result<String, RenderError> {
    let mut rows = rows_in_hash_order::<LoadBalancer>(snapshot)?;
    rows.retain(|(_, row)| name.is_none_or(|name| row.name == name));
    Ok(print(&rows))
}

/// Renders the load balancers of a router and of its groups.
///
/// `id` is a name or UUID.
///
/// # Errors
/// No router or several routers have the name, or a row holds a value that OVN does not define.
pub fn lr_lb_list(snapshot: &Snapshot, id: &str) -> Result<String, RenderError> {
    let router = find_router(snapshot, id)?;
    used(snapshot, &router.load_balancer, &router.load_balancer_group)
}

/// Renders the load balancers of a switch and of its groups.
///
/// `id` is a name or UUID.
///
/// # Errors
/// No switch or several switches have the name, or a row holds a value that OVN does not define.
pub fn ls_lb_list(snapshot: &Snapshot, id: &str) -> Result<String, RenderError> {
    let switch = find_switch(snapshot, id)?;
    used(snapshot, &switch.load_balancer, &switch.load_balancer_group)
}

/// The load balancers of a router or switch, then those of its groups.
fn used(
    snapshot: &Snapshot,
    own: &BTreeSet<Ref<LoadBalancer>>,
    groups: &BTreeSet<Ref<LoadBalancerGroup>>,
) -> Result<String, RenderError> {
    let table = snapshot.typed::<LoadBalancer>();
    let group_table = snapshot.typed::<LoadBalancerGroup>();
    let mut all: Vec<Uuid> = own.iter().map(|row| row.uuid).collect();
    for group in groups {
        if let Some(group) = group_table.get(group.uuid)? {
            all.extend(group.load_balancer.iter().map(|row| row.uuid));
        }
    }
    let mut rows = Vec::new();
    for uuid in all {
        rows.extend(table.get(uuid)?.map(|row| (uuid, row)));
    }
    Ok(print(&rows))
}

fn print(rows: &[(Uuid, LoadBalancer)]) -> String {
    let vips = rows.iter().flat_map(|(_, row)| row.vips.keys());
    let width = vips.map(String::len).max().unwrap_or_default();
    let with_vips = rows.iter().filter(|(_, row)| !row.vips.is_empty());
    let pairs: Vec<(String, String)> =
        with_vips.map(|(uuid, row)| (column(&row.name, 20, 16), text(*uuid, row, width))).collect();
    let mut output = Output::default();
    if pairs.is_empty() {
        return output.finish();
    }
    output.put_left(40, 36, "UUID");
    output.put_left(20, 16, "LB");
    output.put_left(11, 7, "PROTO");
    output.put_left(width + 4, width, "VIP");
    output.line(format_args!("IPs"));
    for (_, text) in sorted_pairs(pairs) {
        output.line(format_args!("{text}"));
    }
    output.finish()
}

fn column(text: &str, width: usize, length: usize) -> String {
    let mut output = Output::default();
    output.put_left(width, length, text);
    output.finish()
}

/// The lines of a load balancer, without the last newline. A virtual address that cannot be parsed
/// has no line; the first one has the load balancer's name.
fn text(uuid: Uuid, row: &LoadBalancer, width: usize) -> String {
    let is_template =
        row.options.get("template").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut output = Output::default();
    for (place, (vip, backends)) in row.vips.iter().enumerate() {
        let protocol = row.protocol.map(LoadBalancerProtocol::as_str);
        let protocol = match (is_template, parse_port(vip)) {
            (true, _) => match protocol {
                Some(protocol) => protocol,
                None => continue,
            },
            (false, None) => continue,
            (false, Some(0)) => "",
            // The C library's text for a missing string.
            (false, Some(_)) => protocol.unwrap_or("(null)"),
        };
        if place == 0 {
            output.put(format_args!("{uuid}    "));
            output.put_left(20, 16, &row.name);
        } else {
            output.line(format_args!(""));
            output.put_left(60, 0, "");
        }
        output.put_left(11, 7, protocol);
        output.put_left(width + 4, width, vip);
        output.put(format_args!("{backends}"));
    }
    output.finish()
}

/// Port of an address, parsed as Open vSwitch parses that of a server. `None`: it is no address.
/// `Some(0)`: it has no port.
fn parse_port(vip: &str) -> Option<u16> {
    let (host, port) = match vip.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            None => (rest, ""),
            Some((host, "")) => (host, ""),
            Some((host, port)) => (host, port.strip_prefix(':')?),
        },
        None if vip.matches(':').count() > 1 => (vip, ""),
        None => vip.split_once(':').unwrap_or((vip, "")),
    };
    if host.contains(':') {
        // A scope follows an IPv6 address.
        let address = host.split_once('%').map_or(host, |(address, _)| address);
        address.parse::<Ipv6Addr>().ok()?;
    } else {
        host.parse::<Ipv4Addr>().ok()?;
    }
    if port.is_empty() {
        return Some(0);
    }
    let port = port.trim_start_matches([' ', '\t']);
    port.strip_prefix('+').unwrap_or(port).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_port;

    #[test]
    fn ports_are_those_that_open_vswitch_reads() {
        let cases = [
            ("10.0.0.1:80", Some(80)),
            ("10.0.0.1", Some(0)),
            ("10.0.0.1:", Some(0)),
            ("[fd00::1]:80", Some(80)),
            ("[fd00::1", Some(0)),
            ("fd00::1", Some(0)),
            ("::1:9", Some(0)),
            ("[fe80::1%lo]:5", Some(5)),
            ("10.0.0.1: +9", Some(9)),
            ("10.0.0.1:70000", None),
            ("10.0.0.1:9x", None),
            ("[fd00::1]9", None),
            (":80", None),
            ("name:80", None),
            ("10.0.0.256", None),
            ("10.0.0.01:80", None),
        ];
        for (vip, port) in cases {
            assert_eq!(parse_port(vip), port, "{vip}");
        }
    }
}
