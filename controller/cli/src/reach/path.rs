//! The networks on the way of a packet.

use std::collections::BTreeSet;

use patchbay_reach::{Course, HopKind};

/// Prefix of the networks of cluster-wide custom resources.
const CLUSTER_PREFIX: &str = "cluster_udn_";
/// Prefix of connect routers.
const CONNECT_PREFIX: &str = "connect_router_";
/// Ends of the names of routers that OVN-Kubernetes makes for a network.
const ROUTER_SUFFIXES: [&str; 2] = ["_ovn_cluster_router", "_transit_router"];
/// Ends of the names of switches that OVN-Kubernetes makes for a network.
const SWITCH_SUFFIXES: [&str; 2] = ["_ovn_layer2_switch", "_ovn_localnet_switch"];

/// Names of what a packet meets: the sender, networks and connects, and the `end` that it reaches.
/// Switches and routers of other makers have their own names.
pub(super) fn nodes(from: &str, end: Option<&str>, course: &Course) -> Vec<String> {
    let behind = course.behind().map(|behind| &behind.answer);
    let answers = [&course.answer].into_iter().chain(behind);
    let datapaths: Vec<_> =
        answers.flat_map(|answer| &answer.hops).map(|hop| (hop.kind, &*hop.name)).collect();
    let networks: BTreeSet<&str> =
        datapaths.iter().filter_map(|&(kind, name)| network(kind, name)).collect();
    let mut nodes = vec![from.to_owned()];
    for (kind, name) in datapaths {
        let label = match name.strip_prefix(CONNECT_PREFIX) {
            Some(connect) if kind == HopKind::Router => format!("[connect {connect}]"),
            _ => {
                let network = network(kind, name).or_else(|| own(&networks, name));
                short(network.unwrap_or(name)).to_owned()
            }
        };
        if nodes.last() != Some(&label) {
            nodes.push(label);
        }
    }
    nodes.extend(end.map(str::to_owned));
    nodes
}

/// The network of a switch or router whose name ends with its role.
fn network(kind: HopKind, name: &str) -> Option<&str> {
    let suffixes = match kind {
        HopKind::Router => ROUTER_SUFFIXES,
        HopKind::Switch => SWITCH_SUFFIXES,
    };
    suffixes.into_iter().find_map(|suffix| name.strip_suffix(suffix))
}

/// The network on the way whose name is followed by that of a node: the longest name.
fn own<'n>(networks: &BTreeSet<&'n str>, name: &str) -> Option<&'n str> {
    let is_own =
        |network: &&&str| name.strip_prefix(**network).is_some_and(|rest| rest.starts_with('_'));
    networks.iter().filter(is_own).max_by_key(|network| network.len()).copied()
}

/// Name of a network without the prefix of cluster-wide networks.
pub(super) fn short(network: &str) -> &str {
    network.strip_prefix(CLUSTER_PREFIX).unwrap_or(network)
}
