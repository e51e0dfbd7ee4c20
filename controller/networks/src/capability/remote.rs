//! Rows of networks that lead to other nodes.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{Feature, Topology};
use patchbay_rows::{PartRow, Reader};

use super::{LinkRows, Links, Rows, Shared, SharedKey, Topologies, read_network};
use crate::RemoteRows;
use crate::inputs::NetworkCell;
use crate::remotes::TUNNEL_KEY;
use crate::tables::{PortRow, RouteRow};

impl Topologies {
    /// Inputs of the rows of a network that lead to other nodes.
    pub(super) fn links(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>) -> Links {
        let inputs = read_network(reader, prefix);
        let is_unread =
            !inputs.has_prefix(prefix) && reader.read(&NetworkCell::Unread).is_unread(prefix);
        if is_unread || inputs.lacks_place(prefix) {
            return Links {
                keeps_rest: true,
                rows: LinkRows::None,
            };
        }
        let rows = match (inputs.topology(prefix), inputs.remotes(prefix)) {
            (Some(Topology::Layer2), _) => LinkRows::OfEachNode,
            (_, Some(remotes)) => LinkRows::Common(remotes),
            (_, None) => LinkRows::None,
        };
        Links {
            keeps_rest: self.is_shared_database(reader),
            rows,
        }
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
        let inputs = reader.read(&NetworkCell::Node(node.clone()));
        let made = match &links.rows {
            LinkRows::None => None,
            LinkRows::OfEachNode => read_network(reader, prefix).remote_layer2_rows(prefix, node),
            LinkRows::Common(remotes) => inputs.node(node).and_then(|node| remotes.rows(node)),
        };
        let Some(mut made) = made else {
            // As in OVN-Kubernetes, what leads to a node stays while its annotations are
            // incomplete.
            if let (LinkRows::Common(remotes), Some(node)) = (&links.rows, inputs.node(node))
                && remotes.leads_to(node)
            {
                rows.keep_rest();
            }
            return;
        };
        if let LinkRows::Common(_) = &links.rows
            && inputs
                .node(node)
                .is_some_and(|node| node.chassis.is_changed())
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
            rows.put(tables.routes, route)
                .held_by(tables.routes_of_router, made.router.clone());
        }
    }

    /// Leaves the port to a node bound to the chassis that it has, if nothing else of the rows to
    /// the node differs. As in OVN-Kubernetes, a chassis id that changes while the controller runs
    /// follows with the next other change, or when the controller starts.
    fn keep_chassis(&self, made: &mut RemoteRows, reader: &Reader<'_, Self>) {
        for port in &mut made.switch_ports {
            let known = reader.row(self.tables.switch_ports, &port.name);
            let known = known.and_then(|row| reader.typed::<PortRow>(row).ok());
            let Some(known) = known.filter(|known| known.options != port.options) else {
                continue;
            };
            let is_same = |key| known.options.get_str(key) == port.options.get_str(key);
            let kept = PortRow {
                options: known.options.clone(),
                ..port.clone()
            };
            let has_routes = || {
                let own = reader.owned().filter(|row| row.is_of(self.tables.routes));
                let own = own.filter_map(|row| reader.typed::<RouteRow>(row.view()).ok());
                let own: Vec<RouteRow> = own.collect();
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
        let inputs = read_network(reader, prefix);
        reader.read(&NetworkCell::Node(node.clone()));
        !routers.all(|router| router.name().starts_with(&**prefix))
            || route_prefix(reader, row)
                .is_some_and(|route| inputs.retains_route(prefix, node, route))
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
        if reader.read(&NetworkCell::Node(node.clone())).has_node(node) {
            let settings = reader.read(&NetworkCell::Zone).settings();
            if !settings.has_feature(Feature::DynamicUdnAllocation) {
                return true;
            }
            let inputs = reader.read(&NetworkCell::Networks);
            let left = inputs.transit_switches_without(node);
            let mut switches = reader.holders(tables.ports_of_switch, row);
            return !switches.any(|switch| left.contains(switch.name()));
        }
        let shared = reader.shared(&SharedKey::MadeNames);
        let Shared::MadeNames(names) = &*shared else {
            return true;
        };
        let holdings = [
            tables.ports_of_router,
            tables.routes_of_router,
            tables.ports_of_switch,
        ];
        let mut holders = holdings
            .into_iter()
            .flat_map(|holding| reader.holders(holding, row));
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
    let inputs = reader.read(&NetworkCell::Networks);
    let networks = inputs.networks();
    let made = networks.filter_map(|network| inputs.network_rows(network)?.ok());
    let mut names = HashSet::new();
    for network in made {
        names.extend(network.routers.into_iter().map(|made| made.router.name));
        names.extend(network.switches.into_iter().map(|made| made.switch.name));
    }
    names
}
