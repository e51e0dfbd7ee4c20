//! Rows that let packets flow where no OVN-Kubernetes writes them.
//!
//! - A route by source on each network's router, as in local gateway mode. Without a route OVN
//!   drops packets before it asks the policies of connects.
//! - A switch port for each pod; in layer2 networks also one of type `remote` in the other zones.
//!
//! A row that exists already is left alone: OVN-Kubernetes, or a capability of Patchbay, wrote it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use patchbay_app::Cluster;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_model::names::network_prefix;
use patchbay_model::{Network, Role, Topology};
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterStaticRoute, LogicalRouterStaticRoutePolicy, LogicalSwitch,
    LogicalSwitchPort,
};
use patchbay_schemas::typed::Ref;

use super::databases::{DatabaseError, NodeDatabase};
use super::pods::Pod;

/// External id of the rows of this module.
const MARK: &str = "patchbay-lab";
/// External id of rows of a network.
const NETWORK: &str = "k8s.ovn.org/network";

/// `true` if the row is one of this module.
pub(crate) fn is_own(external_ids: &BTreeMap<String, String>) -> bool {
    external_ids.contains_key(MARK)
}

/// Makes the rows of this module in a zone those of the networks and pods.
pub(crate) fn write(
    database: &NodeDatabase,
    zone: &str,
    cluster: &Cluster,
    pods: &[Pod],
    chassis: &BTreeMap<String, String>,
) -> Result<(), DatabaseError> {
    let networks = cluster.networks();
    database.change(|txn| {
        let snapshot = txn.snapshot().clone();
        let primary = networks.iter().filter(|n| n.role == Role::Primary);
        write_routes(txn, &snapshot, zone, primary)?;
        let mut ports = BTreeMap::new();
        for pod in pods {
            let Some(network) = networks.by_name(&pod.network) else {
                continue;
            };
            let is_local = pod.node == zone;
            if is_local || network.topology == Topology::Layer2 {
                let port = switch_port(pod, network, is_local, chassis.get(&pod.node));
                ports.insert(port.name.clone(), (network.switch(zone), port));
            }
        }
        write_ports(txn, &snapshot, ports)
    })
}

fn own_ids(network: &str) -> BTreeMap<String, String> {
    [(NETWORK, network), (MARK, "true")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn switch_port(
    pod: &Pod,
    network: &Network,
    is_local: bool,
    chassis: Option<&String>,
) -> LogicalSwitchPort {
    let mut external_ids = own_ids(&pod.network);
    let topology = match network.topology {
        Topology::Layer2 => "layer2",
        Topology::Layer3 => "layer3",
    };
    external_ids.extend(
        [
            ("namespace", pod.name.namespace.as_str()),
            ("pod", "true"),
            ("k8s.ovn.org/nad", &pod.nad_key),
            ("k8s.ovn.org/topology", topology),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let key = pod.tunnel_key.map(|key| key.to_string());
    let options = [
        ("requested-chassis", chassis),
        ("requested-tnl-key", key.as_ref()),
    ];
    let options = options
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())));
    LogicalSwitchPort {
        name: pod.port.clone(),
        addresses: [pod.addresses_text()].into(),
        port_security: [pod.addresses_text()].into(),
        r#type: if is_local {
            String::new()
        } else {
            "remote".to_owned()
        },
        options: options.collect(),
        external_ids,
        ..LogicalSwitchPort::default()
    }
}

/// Inserts, changes and removes ports. `wanted`: ports by name, each with the name of its switch.
fn write_ports(
    txn: &mut TxnBuilder,
    snapshot: &Snapshot,
    mut wanted: BTreeMap<String, (String, LogicalSwitchPort)>,
) -> Result<(), BuildError> {
    let mut switches = BTreeMap::new();
    for (switch, row) in snapshot.typed::<LogicalSwitch>().iter().flatten() {
        for port in &row.ports {
            let Ok(Some(current)) = snapshot.get(*port) else {
                continue;
            };
            let kept = wanted.get(&current.name);
            if !is_own(&current.external_ids) {
                // Another controller has the port.
                wanted.remove(&current.name);
            } else if kept
                .is_some_and(|(holder, port)| *holder == row.name && is_same_port(port, &current))
            {
                wanted.remove(&current.name);
            } else {
                txn.remove(switch, LogicalSwitch::PORTS, [*port])?;
            }
        }
        switches.insert(row.name, switch);
    }
    for (switch, port) in wanted.into_values() {
        if let Some(switch) = switches.get(&switch) {
            let port = txn.insert(&port)?;
            txn.add(*switch, LogicalSwitch::PORTS, [port])?;
        }
    }
    Ok(())
}

/// `true` if the columns that this module writes are equal.
fn is_same_port(one: &LogicalSwitchPort, other: &LogicalSwitchPort) -> bool {
    one.addresses == other.addresses
        && one.port_security == other.port_security
        && one.r#type == other.r#type
        && one.options == other.options
        && one.external_ids == other.external_ids
}

/// Inserts and removes the routes by source.
fn write_routes<'a>(
    txn: &mut TxnBuilder,
    snapshot: &Snapshot,
    zone: &str,
    networks: impl Iterator<Item = &'a Network>,
) -> Result<(), BuildError> {
    let mut wanted = BTreeMap::new();
    for network in networks {
        wanted.insert(network.router(), source_routes(snapshot, zone, network));
    }
    for (router, row) in snapshot.typed::<LogicalRouter>().iter().flatten() {
        let mut missing = wanted.remove(&row.name).unwrap_or_default();
        for route in &row.static_routes {
            let Ok(Some(current)) = snapshot.get(*route) else {
                continue;
            };
            if current.policy != Some(LogicalRouterStaticRoutePolicy::SrcIp) {
                continue;
            }
            let same = missing
                .iter()
                .position(|route| route.ip_prefix == current.ip_prefix);
            match same {
                Some(place) if !is_own(&current.external_ids) => {
                    missing.remove(place);
                }
                Some(place) if missing[place].nexthop == current.nexthop => {
                    missing.remove(place);
                }
                _ if is_own(&current.external_ids) => {
                    txn.remove(router, LogicalRouter::STATIC_ROUTES, [*route])?;
                }
                _ => {}
            }
        }
        let inserted: Vec<Ref<LogicalRouterStaticRoute>> = missing
            .iter()
            .map(|route| txn.insert(route))
            .collect::<Result<_, _>>()?;
        if !inserted.is_empty() {
            txn.add(router, LogicalRouter::STATIC_ROUTES, inserted)?;
        }
    }
    Ok(())
}

/// A route for each subnet on the zone's node, to the node itself.
fn source_routes(
    snapshot: &Snapshot,
    zone: &str,
    network: &Network,
) -> Vec<LogicalRouterStaticRoute> {
    let management = format!("k8s-{}{zone}", network_prefix(&network.name));
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let Some((_, port)) = ports
        .iter()
        .flatten()
        .find(|(_, port)| port.name == management)
    else {
        return Vec::new();
    };
    let words = port.addresses.iter().flat_map(|text| text.split(' '));
    let nexthops: Vec<IpAddr> = words.filter_map(|word| word.parse().ok()).collect();
    subnets(snapshot, &network.inport(zone))
        .into_iter()
        .filter_map(|subnet| {
            let nexthop = nexthops.iter().find(|hop| subnet.contains(*hop))?;
            Some(LogicalRouterStaticRoute {
                ip_prefix: subnet.to_string(),
                nexthop: nexthop.to_string(),
                policy: Some(LogicalRouterStaticRoutePolicy::SrcIp),
                external_ids: own_ids(&network.name),
                ..LogicalRouterStaticRoute::default()
            })
        })
        .collect()
}

/// The subnets of a router port.
fn subnets(snapshot: &Snapshot, port: &str) -> Vec<ipnet::IpNet> {
    let ports = snapshot.typed::<patchbay_schemas::nb::LogicalRouterPort>();
    let found = ports.iter().flatten().find(|(_, row)| row.name == port);
    let networks = found.map(|(_, row)| row.networks).unwrap_or_default();
    let networks = networks
        .iter()
        .filter_map(|text| text.parse::<ipnet::IpNet>().ok());
    networks.map(|network| network.trunc()).collect()
}
