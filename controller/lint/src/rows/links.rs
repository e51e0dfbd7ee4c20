//! Links between switches and routers.

use std::collections::{HashMap, HashSet};

use patchbay_reach::RowRef;

use super::index::Index;
use super::report::RowReport;

/// Types of switch ports (ovn-nb(5), `Logical_Switch_Port`, column `type`).
const PORT_TYPES: [&str; 11] = [
    "",
    "router",
    "switch",
    "localnet",
    "localport",
    "l2gateway",
    "vtep",
    "external",
    "virtual",
    "remote",
    "l3gateway",
];

pub(super) fn peer(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (row, port) in index.router_ports.iter() {
        let Some(peer) = port.peer.as_deref().filter(|peer| !peer.is_empty()) else { continue };
        let found = index.router_ports_by_name.get(peer);
        let back = found.and_then(|found| index.router_ports.get(found.uuid)?.peer.as_deref());
        let message = match (found, back) {
            (None, _) => {
                format!("The peer {peer} is not a router port: nothing leaves by the port.")
            }
            (Some(_), Some(back)) if back == port.name => continue,
            (Some(_), Some(back)) => {
                format!("The peer {peer} has the peer {back}: the two ports are not connected.")
            }
            (Some(_), None) => format!(
                "The peer {peer} names no peer: OVN connects the ports only if each names the \
                 other, and OVN 23.03 connects this direction only."
            ),
        };
        let others: Vec<RowRef> = found.into_iter().copied().collect();
        report.found(row, &others, message, "Let both ports name each other as peer.");
    }
}

pub(super) fn to_nowhere(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (row, port) in index.switch_ports.iter() {
        if port.r#type != "router" {
            continue;
        }
        let name = port.options.get("router-port").map(String::as_str).unwrap_or_default();
        let message = match index.behind(port) {
            None if name.is_empty() => {
                "The port of type router has no options:router-port: the switch is connected with no \
                 router by it."
                    .to_owned()
            }
            None => format!("There is no router port {name}: the switch is connected with no router by it."),
            Some((_, behind)) if behind.peer.as_ref().is_some_and(|peer| !peer.is_empty()) => format!(
                "The router port {name} has a peer, so that OVN does not connect it with a switch."
            ),
            Some(_) => continue,
        };
        report.found(row, &[], message, "Set options:router-port to a router port without peer.");
    }
}

pub(super) fn unreached(index: &Index<'_>, report: &mut RowReport<'_>) {
    let targets = index.switch_ports.iter().filter_map(|(_, port)| index.behind(port));
    let mut reached: HashSet<_> = targets.map(|(row, _)| row.uuid).collect();
    for (_, port) in index.router_ports.iter() {
        let peer = port.peer.as_deref().and_then(|peer| index.router_ports_by_name.get(peer));
        reached.extend(peer.map(|row| row.uuid));
    }
    for (row, port) in index.router_ports.iter() {
        // A port of another zone is bound on a chassis there, as those of transit routers.
        let is_remote = port.options.contains_key("requested-chassis");
        let has_peer = port.peer.as_ref().is_some_and(|peer| !peer.is_empty());
        if !reached.contains(&row.uuid) && !has_peer && !is_remote {
            report.found(
                row,
                &[],
                "No switch port and no other router leads to the port: nothing comes in, and packets \
                 that leave by it are lost.",
                "Add a switch port of type router with options:router-port, or delete the port.",
            );
        }
    }
}

pub(super) fn shared(index: &Index<'_>, report: &mut RowReport<'_>) {
    let mut first: HashMap<_, RowRef> = HashMap::new();
    for (row, port) in index.switch_ports.iter() {
        let Some((behind, router_port)) = index.behind(port) else { continue };
        if let Some(other) = first.get(&behind.uuid) {
            report.found(
                row,
                &[*other],
                format!(
                    "Two switch ports lead to router port {}: the router answers by the last of \
                     them only, and ovn-northd leaves open which that is.",
                    router_port.name
                ),
                "Give each switch port a router port of its own.",
            );
        } else {
            first.insert(behind.uuid, row);
        }
    }
}

pub(super) fn unknown_type(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (row, port) in index.switch_ports.iter() {
        let kind = port.r#type.as_str();
        if !PORT_TYPES.contains(&kind) {
            report.found(
                row,
                &[],
                format!("OVN knows no port type {kind}: ovn-northd logs it and takes the port for that of a machine."),
                format!("Use one of: {}.", PORT_TYPES[1..10].join(", ")),
            );
        }
    }
}

pub(super) fn no_network_name(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (row, port) in index.switch_ports.iter() {
        let name = port.options.get("network_name").map(String::as_str).unwrap_or_default();
        if port.r#type == "localnet" && name.is_empty() {
            report.found(
                row,
                &[],
                "The localnet port names no network: no node connects it with a bridge.",
                "Set options:network_name to a name of ovn-bridge-mappings.",
            );
        }
    }
}

pub(super) fn no_parent(index: &Index<'_>, report: &mut RowReport<'_>) {
    let names: HashSet<&str> =
        index.switch_ports.iter().map(|(_, port)| port.name.as_str()).collect();
    for (row, port) in index.switch_ports.iter() {
        let Some(parent) = port.parent_name.as_deref().filter(|name| !name.is_empty()) else {
            continue;
        };
        if !names.contains(parent) {
            report.found(
                row,
                &[],
                format!("The parent port {parent} does not exist: no node claims the port."),
                "Correct parent_name, or delete the port.",
            );
        }
    }
}
