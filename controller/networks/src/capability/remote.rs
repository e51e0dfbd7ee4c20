//! Rows of networks that lead to other nodes.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{Feature, Topology};
use patchbay_rows::{PartRow, Reader};
use patchbay_zone::Cell;

use super::{LinkRows, Links, Rows, Shared, SharedKey, Topologies, read_node, read_rendered};
use crate::RemoteRows;
use crate::remotes::TUNNEL_KEY;
use crate::tables::{PortRow, RouteRow};
use crate::views::{
    lacks_place, network_rows, remote_layer2_rows, remotes, retains_route, topology,
    transit_switches_without,
};

impl Topologies {
    /// Inputs of the rows of a network that lead to other nodes.
    pub(super) fn links(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>) -> Links {
        let inputs = read_rendered(reader, prefix);
        let is_unread =
            inputs.network(prefix).is_none() && reader.read(&Cell::Unread).may_have_prefix(prefix);
        if is_unread || lacks_place(inputs, prefix) {
            return Links { keeps_rest: true, rows: LinkRows::None };
        }
        let rows = match (topology(inputs, prefix), remotes(inputs, prefix)) {
            (Some(Topology::Layer2), _) => LinkRows::OfEachNode,
            (_, Some(remotes)) => LinkRows::Common(remotes),
            (_, None) => LinkRows::None,
        };
        Links { keeps_rest: self.is_shared_database(reader), rows }
    }

    pub(super) fn remote(
        &self,
        prefix: &Arc<str>,
        node: &Arc<str>,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let tables = &self.tables;
        let shared = reader.shared(&SharedKey::Links(prefix.clone()));
        let Shared::Links(links) = &*shared else {
            return;
        };
        if links.keeps_rest {
            rows.keep_rest();
        }
        let shared = reader.shared(&SharedKey::Node(node.clone()));
        let Shared::Node(known) = &*shared else {
            return;
        };
        let made = match (&links.rows, known) {
            (LinkRows::None, _) => None,
            (LinkRows::OfEachNode, _) => {
                remote_layer2_rows(read_rendered(reader, prefix), prefix, node)
            }
            (LinkRows::Common(remotes), known) => {
                known.as_ref().and_then(|known| remotes.rows(&known.node, &known.way))
            }
        };
        let Some(mut made) = made else {
            // As in OVN-Kubernetes, what leads to a node stays while its annotations are
            // incomplete.
            if let (LinkRows::Common(remotes), Some(known)) = (&links.rows, known)
                && remotes.leads_to(&known.node)
            {
                rows.keep_rest();
            }
            return;
        };
        if let (LinkRows::Common(_), Some(known)) = (&links.rows, known)
            && known.node.chassis.is_changed()
        {
            self.keep_chassis(&mut made, reader);
        }
        for port in &made.switch_ports {
            rows.put(tables.switch_ports, port)
                .held_by(tables.ports_of_switch, made.switch.clone());
        }
        for port in &made.router_ports {
            rows.put(tables.router_ports, port)
                .held_by(tables.ports_of_router, made.router.clone());
        }
        for route in &made.static_routes {
            rows.put(tables.routes, route).held_by(tables.routes_of_router, made.router.clone());
        }
    }

    /// Leaves the port to a node bound to the chassis that it has, if nothing else of the rows to
    /// the node differs. As in OVN-Kubernetes, a chassis id that changes while the controller runs
    /// follows with the next other change, or when the controller starts.
    fn keep_chassis(&self, made: &mut RemoteRows, reader: &Reader<'_, Self>) {
        for port in &mut made.switch_ports {
            let known = reader
                .row(self.tables.switch_ports, &port.name)
                .and_then(|row| reader.typed::<PortRow>(row).ok());
            let Some(known) = known.filter(|known| known.options != port.options) else {
                continue;
            };
            let is_same = |key| known.options.get_str(key) == port.options.get_str(key);
            let kept = PortRow { options: known.options.clone(), ..port.clone() };
            let has_routes = || {
                let own: Vec<RouteRow> = reader
                    .owned()
                    .filter(|row| row.is_of(self.tables.routes))
                    .filter_map(|row| reader.typed::<RouteRow>(row.view()).ok())
                    .collect();
                made.static_routes.iter().all(|route| own.contains(route))
            };
            if kept == known && is_same(TUNNEL_KEY) && has_routes() {
                *port = kept;
            }
        }
    }

    /// Routes of other routers stay, and those to subnets that a node has had, or may have.
    pub(super) fn keeps_remote(
        &self,
        (prefix, node): (&Arc<str>, &Arc<str>),
        row: PartRow<'_>,
        reader: &Reader<'_, Self>,
    ) -> bool {
        let mut routers = reader.holders(self.tables.routes_of_router, row);
        let inputs = read_rendered(reader, prefix);
        read_node(reader, node);
        !routers.all(|router| router.name().starts_with(&**prefix))
            || route_prefix(reader, row)
                .is_some_and(|route| retains_route(inputs, prefix, node, route))
    }

    /// Returns `true` if a row that leads to a node stays: the node is there and has the network,
    /// or the router or switch is not the networks'.
    pub(super) fn keeps_departed(
        &self,
        node: &Arc<str>,
        row: PartRow<'_>,
        reader: &Reader<'_, Self>,
    ) -> bool {
        let tables = &self.tables;
        if reader.read(&Cell::Node(node.clone())).node(node).is_some() {
            let settings = reader.read(&Cell::Zone).settings();
            if !settings.has_feature(Feature::DynamicUdnAllocation) {
                return true;
            }
            let left = transit_switches_without(reader.read(&Cell::Networks), node);
            let mut switches = reader.holders(tables.ports_of_switch, row);
            return !switches.any(|switch| left.contains(switch.name()));
        }
        let shared = reader.shared(&SharedKey::MadeNames);
        let Shared::MadeNames(names) = &*shared else {
            return true;
        };
        let holdings = [tables.ports_of_router, tables.routes_of_router, tables.ports_of_switch];
        let mut holders = holdings.into_iter().flat_map(|holding| reader.holders(holding, row));
        !holders.all(|holder| names.contains(holder.name()))
    }
}

/// Prefix of a route. `None`: it is no subnet.
fn route_prefix(reader: &Reader<'_, Topologies>, row: PartRow<'_>) -> Option<IpNet> {
    let route: RouteRow = reader.typed(row.view()).ok()?;
    route.ip_prefix.parse().ok()
}
/// Names of the routers and switches that the networks have in the zone.
pub(super) fn made_names(reader: &Reader<'_, Topologies>) -> HashSet<String> {
    let inputs = reader.read(&Cell::Networks);
    let networks = inputs.networks();
    let made = networks.filter_map(|(_, network)| network_rows(inputs, &network.name)?.ok());
    let mut names = HashSet::new();
    for network in made {
        names.extend(network.routers.into_iter().map(|made| made.router.name));
        names.extend(network.switches.into_iter().map(|made| made.switch.name));
    }
    names
}
