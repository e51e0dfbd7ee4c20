//! Networks on the row engine: which parts there are, and the rows of each.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_rows::{Capability, Change, Engine, Layout, PartRow, PartRows, PlanError, Reader};
use patchbay_schemas::nb::{Acl, LogicalRouterStaticRoute};
use patchbay_schemas::uuids::UuidSource;

use super::inputs::{NetworkCell, ZoneNetworks};
use super::tables::{DEFAULT_ROUTER, LocalnetPort, Tables};
use super::{COPP, PortGroupRows, RouterRows, SwitchRows, copp, meters};

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

    /// Plans what makes the networks' rows right in the database. What others have added to them
    /// stays. In a database with OVN-Kubernetes' default network, rows are made and completed, and
    /// none of a network goes.
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
    /// Address sets of services of the default network.
    Services,
    /// Isolation of pods from the default network.
    Isolation,
    /// The rows of the network with this prefix, but for those that lead to other nodes.
    Network(Arc<str>),
    /// The rows of a network that lead to another node.
    Remote { prefix: Arc<str>, node: Arc<str> },
    /// Rows of any program that lead to a node. They go when the node is gone.
    Departed(Arc<str>),
}

/// Key of the names of the routers and switches that the networks have in the zone.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct MadeNames;

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
    type SharedKey = MadeNames;
    type Shared = HashSet<String>;

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
        let remote = |prefix: &Arc<str>, node: &Arc<str>| Part::Remote {
            prefix: prefix.clone(),
            node: node.clone(),
        };
        match cell {
            NetworkCell::Zone => {
                part(Part::Shared);
                part(Part::Isolation);
            }
            NetworkCell::Services => part(Part::Services),
            NetworkCell::Network(prefix) => {
                part(Part::Network(prefix.clone()));
                inputs.nodes().for_each(|node| part(remote(prefix, node)));
            }
            NetworkCell::Node(node) => {
                inputs
                    .prefixes()
                    .for_each(|prefix| part(remote(prefix, node)));
            }
            NetworkCell::Networks | NetworkCell::Unread => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneNetworks) -> bool {
        match part {
            Part::Shared | Part::Services | Part::Isolation => true,
            Part::Network(prefix) => inputs.has_prefix(prefix),
            Part::Remote { prefix, node } => inputs.has_prefix(prefix) && inputs.has_node(node),
            // It is about rows that are there, and nothing else.
            Part::Departed(_) => false,
        }
    }

    fn shared(&self, _: &MadeNames, reader: &Reader<'_, Self>) -> HashSet<String> {
        made_names(reader)
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        match part {
            Part::Shared => self.shared(rows),
            Part::Services => self.services(reader, rows),
            Part::Isolation => self.isolation(reader, rows),
            Part::Network(prefix) => self.network(prefix, reader, rows),
            Part::Remote { prefix, node } => self.remote(prefix, node, reader, rows),
            // It is about rows that are there, and wants none.
            Part::Departed(_) => {}
        }
    }

    fn keeps(&self, part: &Part, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool {
        match part {
            Part::Remote { prefix, node } => self.keeps_remote((prefix, node), row, reader),
            Part::Departed(node) => self.keeps_departed(node, row, reader),
            Part::Shared | Part::Services | Part::Isolation | Part::Network(_) => false,
        }
    }
}

/// The inputs, of which the part reads a network and the zone's node.
fn read_network<'a>(reader: &Reader<'a, Topologies>, prefix: &Arc<str>) -> &'a ZoneNetworks {
    let inputs = reader.read(&NetworkCell::Zone);
    reader.read(&NetworkCell::Node(inputs.zone().clone()));
    reader.read(&NetworkCell::Services);
    reader.read(&NetworkCell::Network(prefix.clone()))
}

impl Topologies {
    /// `true` if OVN-Kubernetes writes the rows of networks into the database, too.
    fn is_shared_database(&self, reader: &Reader<'_, Self>) -> bool {
        reader.row(self.tables.routers, DEFAULT_ROUTER).is_some()
    }

    fn shared(&self, rows: &mut Rows) {
        let tables = &self.tables;
        let meters = meters();
        for made in &meters {
            rows.put(tables.meters, &made.meter);
        }
        for of_one_rate in meters.chunk_by(|one, next| one.band == next.band) {
            let mut band = rows.put(tables.bands, &of_one_rate[0].band);
            for made in of_one_rate {
                band.held_by(tables.meter_bands, made.meter.name.as_str());
            }
        }
        rows.put(tables.copps, &copp());
    }

    fn services(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        reader.read(&NetworkCell::Zone);
        let inputs = reader.read(&NetworkCell::Services);
        for set in inputs.service_address_sets() {
            rows.put(self.tables.address_sets, &set);
        }
    }

    fn isolation(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&NetworkCell::Zone);
        reader.read(&NetworkCell::Node(inputs.zone().clone()));
        let made = inputs.isolated_ports();
        if made.is_none() || self.is_shared_database(reader) {
            rows.keep_rest();
        }
        if let Some(group) = made {
            self.port_group(&group, reader, rows);
        }
    }

    fn network(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>, rows: &mut Rows) {
        if self.is_shared_database(reader) {
            rows.keep_rest();
        }
        let made = match read_network(reader, prefix).rows_of_prefix(prefix) {
            Some(Ok(made)) => made,
            Some(Err(_)) => return rows.keep_rest(),
            None => {
                if reader.read(&NetworkCell::Unread).is_unread(prefix) {
                    rows.keep_rest();
                }
                return;
            }
        };
        for group in &made.load_balancer_groups {
            rows.put(self.tables.groups, group);
        }
        for router in &made.routers {
            self.router(router, reader, rows);
        }
        for switch in &made.switches {
            self.switch(switch, reader, rows);
        }
        for binding in &made.mac_bindings {
            rows.put(self.tables.mac_bindings, binding);
        }
        for group in &made.port_groups {
            self.port_group(group, reader, rows);
        }
    }

    fn port_group(&self, made: &PortGroupRows, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let mut added = rows.put(tables.port_groups, &made.group);
        for port in &made.ports {
            added.holds(tables.ports_of_group, port.as_str());
        }
        for acl in &made.acls {
            rows.put(tables.acls, &self.known_columns(acl, reader))
                .held_by(tables.group_acls, made.group.name.as_str());
        }
    }

    /// An ACL without the columns that the database lacks: one from before there were tiers has
    /// only one.
    fn known_columns(&self, acl: &Acl, reader: &Reader<'_, Self>) -> Acl {
        let has_tiers = reader.has_column(self.tables.acls, "tier");
        Acl {
            tier: if has_tiers { acl.tier } else { 0 },
            ..acl.clone()
        }
    }

    fn router(&self, made: &RouterRows, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let name = made.router.name.as_str();
        let mut added = rows.put(tables.routers, &made.router);
        added.holds(tables.router_copp, COPP);
        for group in &made.load_balancer_groups {
            added.holds(tables.router_groups, group.as_str());
        }
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
        for policy in &made.policies {
            rows.put(tables.policies, policy)
                .held_by(tables.router_policies, name);
        }
        // A database from before NAT had matches cannot select packets for the host.
        let has_match = reader.has_column(tables.nats, "match");
        let nats = made.nats.iter();
        for nat in nats.filter(|nat| has_match || nat.r#match.is_empty()) {
            rows.put(tables.nats, nat).held_by(tables.router_nats, name);
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
            if port.r#type == LocalnetPort::TYPE {
                rows.put(tables.localnet_ports, &port.into())
                    .held_by(tables.localnet_ports_of_switch, name);
            } else {
                rows.put(tables.switch_ports, port)
                    .held_by(tables.ports_of_switch, name);
            }
        }
        for acl in &made.acls {
            rows.put(tables.acls, &self.known_columns(acl, reader))
                .held_by(tables.switch_acls, name);
        }
    }

    fn remote(
        &self,
        prefix: &Arc<str>,
        node: &Arc<str>,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let tables = &self.tables;
        if self.is_shared_database(reader) {
            rows.keep_rest();
        }
        read_network(reader, prefix);
        let inputs = reader.read(&NetworkCell::Node(node.clone()));
        if !inputs.has_prefix(prefix) && reader.read(&NetworkCell::Unread).is_unread(prefix)
            || inputs.lacks_place(prefix)
        {
            return rows.keep_rest();
        }
        let Some(made) = inputs.remote_rows_of_prefix(prefix, node) else {
            return;
        };
        for port in &made.switch_ports {
            rows.put(tables.switch_ports, port)
                .held_by(tables.ports_of_switch, made.switch.as_str());
        }
        for port in &made.router_ports {
            rows.put(tables.router_ports, port)
                .held_by(tables.ports_of_router, made.router.as_str());
        }
        for route in &made.static_routes {
            rows.put(tables.routes, route)
                .held_by(tables.routes_of_router, made.router.as_str());
        }
    }

    /// Routes of other routers stay, and those to subnets of a node that it may have.
    fn keeps_remote(
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

    /// What leads to a node stays while the node is there, and on routers and switches that are not
    /// the networks'.
    fn keeps_departed(&self, node: &Arc<str>, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool {
        let tables = &self.tables;
        if reader.read(&NetworkCell::Node(node.clone())).has_node(node) {
            return true;
        }
        let names = reader.shared(&MadeNames);
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
    let route: LogicalRouterStaticRoute = reader.typed(row.view()).ok()?;
    route.ip_prefix.parse().ok()
}

/// Names of the routers and switches that the networks have in the zone.
fn made_names(reader: &Reader<'_, Topologies>) -> HashSet<String> {
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
