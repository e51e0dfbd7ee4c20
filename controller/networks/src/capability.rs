//! Networks on the row engine: which parts there are, and the rows of each.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_rows::{Capability, Change, Engine, Layout, PartRows, PlanError, Reader};
use patchbay_schemas::nb::Acl;
use patchbay_schemas::uuids::UuidSource;

use super::inputs::{NetworkCell, ZoneNetworks};
use super::tables::Tables;
use super::{COPP, NetworkRows, PortGroupRows, RouterRows, SwitchRows, copp, meters};

/// Keeps the networks' own rows of one zone as they should be. See `patchbay_rows`.
#[derive(Debug)]
pub struct NetworkController {
    engine: Engine<Topologies>,
}

impl Default for NetworkController {
    fn default() -> Self {
        Self::new(UuidSource::random())
    }
}

impl NetworkController {
    /// A controller that takes the placeholders of new rows from `uuids`.
    pub fn new(uuids: UuidSource) -> Self {
        Self {
            engine: Engine::new(uuids),
        }
    }

    /// Plans what makes the networks' rows present in the database. Rows are made and completed;
    /// what others have added to them stays.
    ///
    /// # Errors
    /// The database's schema cannot express the rows.
    pub fn plan(
        &mut self,
        networks: &ZoneNetworks,
        snapshot: &Snapshot,
    ) -> Result<Change, PlanError> {
        self.engine.plan(networks, snapshot).into_change()
    }
}

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Part {
    /// Control plane protection and its meters.
    Shared,
    /// The rows of a network, but for those that lead to other nodes.
    Network(Arc<str>),
    /// The rows of a network that lead to another node.
    Remote { network: Arc<str>, node: Arc<str> },
    /// Rows of any program that lead to a node. They go when the node is gone.
    Departed(Arc<str>),
}

/// The networks of a zone, as a capability of the row engine.
#[derive(Debug)]
pub(super) struct Topologies {
    tables: Tables,
}

type Rows = PartRows<()>;

impl Capability for Topologies {
    type Part = Part;
    type Inputs = ZoneNetworks;
    type Group = ();
    type Report = ();
    type SharedKey = Infallible;
    type Shared = ();

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self {
            tables: Tables::declare(layout),
        }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: networks".to_owned()
    }

    fn parts(&self, cell: &NetworkCell, inputs: &ZoneNetworks, part: &mut dyn FnMut(Part)) {
        let remote = |network: &Arc<str>, node: &Arc<str>| Part::Remote {
            network: network.clone(),
            node: node.clone(),
        };
        match cell {
            NetworkCell::Zone => part(Part::Shared),
            NetworkCell::Network(network) => {
                part(Part::Network(network.clone()));
                inputs.nodes().for_each(|node| part(remote(network, node)));
            }
            NetworkCell::Node(node) => {
                inputs
                    .networks()
                    .for_each(|network| part(remote(network, node)));
            }
            NetworkCell::Networks => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneNetworks) -> bool {
        match part {
            Part::Shared => true,
            Part::Network(network) => inputs.has_network(network),
            Part::Remote { network, node } => inputs.has_network(network) && inputs.has_node(node),
            // It is about rows that are there, and nothing else.
            Part::Departed(_) => false,
        }
    }

    fn shared(&self, key: &Infallible, _: &Reader<'_, Self>) {
        match *key {}
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        match part {
            Part::Shared => self.shared(rows),
            Part::Network(network) => {
                let inputs = read_network(reader, network);
                if let Some(Ok(made)) = inputs.network_rows(network) {
                    self.network(&made, reader, rows);
                }
            }
            Part::Remote { network, node } => self.remote(network, node, reader, rows),
            Part::Departed(node) => self.departed(node, reader, rows),
        }
    }
}

/// The inputs, of which the part reads a network and the zone's node.
fn read_network<'a>(reader: &Reader<'a, Topologies>, network: &Arc<str>) -> &'a ZoneNetworks {
    let inputs = reader.read(&NetworkCell::Zone);
    reader.read(&NetworkCell::Node(inputs.zone().clone()));
    reader.read(&NetworkCell::Network(network.clone()))
}

impl Topologies {
    fn shared(&self, rows: &mut Rows) {
        let tables = &self.tables;
        for made in meters() {
            rows.put(tables.meters, &made.meter);
            rows.put(tables.bands, &made.band)
                .held_by(tables.meter_bands, made.meter.name);
        }
        rows.put(tables.copps, &copp());
    }

    fn network(&self, made: &NetworkRows, reader: &Reader<'_, Self>, rows: &mut Rows) {
        for group in &made.load_balancer_groups {
            rows.put(self.tables.groups, group);
        }
        if let Some(router) = &made.router {
            self.router(router, rows);
        }
        for switch in &made.switches {
            self.switch(switch, reader, rows);
        }
        for PortGroupRows { group, ports } in &made.port_groups {
            let mut added = rows.put(self.tables.port_groups, group);
            for port in ports {
                added.holds(self.tables.ports_of_group, port.as_str());
            }
        }
    }

    fn router(&self, made: &RouterRows, rows: &mut Rows) {
        let tables = &self.tables;
        let name = made.router.name.as_str();
        rows.put(tables.routers, &made.router)
            .holds(tables.router_copp, COPP);
        for port in &made.ports {
            rows.put(tables.router_ports, &port.port)
                .held_by(tables.ports_of_router, name);
            if let Some(chassis) = &port.gateway_chassis {
                rows.put(tables.chassis, chassis)
                    .held_by(tables.port_chassis, port.port.name.as_str());
            }
        }
        for route in &made.static_routes {
            rows.put(tables.routes, route)
                .held_by(tables.routes_of_router, name);
        }
    }

    fn switch(&self, made: &SwitchRows, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let name = made.switch.name.as_str();
        let mut added = rows.put(tables.switches, &made.switch);
        for group in &made.load_balancer_groups {
            added.holds(tables.switch_groups, group.as_str());
        }
        for port in &made.ports {
            rows.put(tables.switch_ports, port)
                .held_by(tables.ports_of_switch, name);
        }
        // A database from before there were tiers has only one.
        let has_tiers = reader.has_column(tables.acls, "tier");
        for acl in &made.acls {
            let acl = Acl {
                tier: if has_tiers { acl.tier } else { 0 },
                ..acl.clone()
            };
            rows.put(tables.acls, &acl)
                .held_by(tables.switch_acls, name);
        }
    }

    fn remote(
        &self,
        network: &Arc<str>,
        node: &Arc<str>,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let tables = &self.tables;
        read_network(reader, network);
        let inputs = reader.read(&NetworkCell::Node(node.clone()));
        let Some(made) = inputs.remote_rows(network, node) else {
            return;
        };
        if let Some(port) = &made.port {
            rows.put(tables.switch_ports, port)
                .held_by(tables.ports_of_switch, made.transit_switch);
        }
        for route in &made.static_routes {
            rows.put(tables.routes, route)
                .held_by(tables.routes_of_router, made.router.as_str());
        }
    }

    /// What leads to a node stays while the node is there, and on routers and switches that are not
    /// the networks'.
    fn departed(&self, node: &Arc<str>, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let is_there = reader.read(&NetworkCell::Node(node.clone())).has_node(node);
        let names = if is_there {
            HashSet::new()
        } else {
            made_names(reader)
        };
        for row in reader.owned() {
            let holdings = [
                tables.ports_of_router,
                tables.routes_of_router,
                tables.ports_of_switch,
            ];
            let mut holders = holdings
                .into_iter()
                .flat_map(|holding| reader.holders(holding, row));
            if is_there || !holders.all(|holder| names.contains(holder.name())) {
                rows.keep(row);
            }
        }
    }
}

/// Names of the routers and switches that the networks have in the zone.
fn made_names(reader: &Reader<'_, Topologies>) -> HashSet<String> {
    let inputs = reader.read(&NetworkCell::Networks);
    let networks = inputs.networks();
    let made = networks.filter_map(|network| inputs.network_rows(network)?.ok());
    let mut names = HashSet::new();
    for network in made {
        names.extend(network.router.map(|made| made.router.name));
        names.extend(network.switches.into_iter().map(|made| made.switch.name));
    }
    names
}
