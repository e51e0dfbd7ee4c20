//! Tunnel keys of switches, routers and their ports.

use std::collections::{BTreeMap, HashMap};

use patchbay_reach::RowRef;

use super::index::Index;
use super::report::RowReport;

/// Option with the key that a row requests.
const REQUESTED: &str = "requested-tnl-key";
/// Largest key of a switch or router (ovn-sb(5), `Datapath_Binding`).
const MAX_DATAPATH_KEY: u64 = 16_777_215;
/// Largest key of a port (ovn-sb(5), `Port_Binding`).
const MAX_PORT_KEY: u64 = 32_767;
/// Largest key that ovn-northd chooses for a switch or router, unless `max_tunid` says another one.
const MAX_CHOSEN_KEY: u64 = 16_711_680;
/// Part of the keys from which a warning is due, in percent.
const NEARLY_ALL: u64 = 90;

fn requested(options: &BTreeMap<String, String>) -> Option<u64> {
    options.get(REQUESTED)?.trim().parse().ok()
}

/// Switches and routers with the keys that they request.
fn datapaths<'a>(index: &'a Index<'_>) -> impl Iterator<Item = (RowRef, u64)> + 'a {
    let switches =
        index.switches.iter().map(|(row, switch)| (row, requested(&switch.other_config)));
    let routers = index.routers.iter().map(|(row, router)| (row, requested(&router.options)));
    switches.chain(routers).filter_map(|(row, key)| Some((row, key?)))
}

/// Ports with the keys that they request.
fn ports<'a>(index: &'a Index<'_>) -> impl Iterator<Item = (RowRef, u64)> + 'a {
    let switch_ports = index.switch_ports.iter().map(|(row, port)| (row, requested(&port.options)));
    let router_ports = index.router_ports.iter().map(|(row, port)| (row, requested(&port.options)));
    switch_ports.chain(router_ports).filter_map(|(row, key)| Some((row, key?)))
}

pub(super) fn too_large(index: &Index<'_>, report: &mut RowReport<'_>) {
    let datapaths = datapaths(index).map(|(row, key)| (row, key, MAX_DATAPATH_KEY));
    let ports = ports(index).map(|(row, key)| (row, key, MAX_PORT_KEY));
    for (row, key, limit) in datapaths.chain(ports) {
        if key > limit {
            report.found(
                row,
                &[],
                format!(
                    "The row requests the tunnel key {key}, above {limit}: the Southbound database \
                     refuses all of ovn-northd's changes, not only this one, until it is corrected."
                ),
                format!("Set {REQUESTED} to at most {limit}, or remove it."),
            );
        }
    }
}

pub(super) fn repeated(index: &Index<'_>, report: &mut RowReport<'_>) {
    let mut first: HashMap<u64, RowRef> = HashMap::new();
    for (row, key) in datapaths(index) {
        report_repeated(row, key, *first.entry(key).or_insert(row), report);
    }
    let mut first: HashMap<(RowRef, u64), RowRef> = HashMap::new();
    for (row, key) in ports(index) {
        if let Some(parent) = index.parent(row.uuid) {
            report_repeated(row, key, *first.entry((parent, key)).or_insert(row), report);
        }
    }
}

fn report_repeated(row: RowRef, key: u64, other: RowRef, report: &mut RowReport<'_>) {
    if row.uuid != other.uuid {
        report.found(
            row,
            &[other],
            format!(
                "Two rows request the tunnel key {key}: ovn-northd logs it and gives one of them \
                 another key."
            ),
            format!("Change {REQUESTED} of one of the two."),
        );
    }
}

pub(super) fn running_out(index: &Index<'_>, report: &mut RowReport<'_>) {
    let is_nearly_all = |count: usize, limit: u64| count as u64 * 100 >= limit * NEARLY_ALL;
    for (row, switch) in index.switches.iter() {
        let count = switch.ports.len();
        if is_nearly_all(count, MAX_PORT_KEY) {
            report.found(
                row,
                &[],
                format!("The switch has {count} ports, and tunnel keys for {MAX_PORT_KEY}: ports above that get no flows."),
                "Divide the switch.",
            );
        }
    }
    let count = index.switches.len() + index.routers.len();
    for (row, global) in index.globals.iter() {
        let limit = global.options.get("max_tunid").and_then(|text| text.parse().ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(MAX_CHOSEN_KEY);
        if is_nearly_all(count, limit) {
            report.found(
                row,
                &[],
                format!("There are {count} switches and routers, and tunnel keys for {limit}: those above that get no flows."),
                "Use tunnels of type geneve, whose keys are longer than those of vxlan, or fewer networks.",
            );
        }
    }
}
