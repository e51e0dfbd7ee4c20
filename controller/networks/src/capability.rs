//! Networks on the row engine: which parts there are, and the rows of each.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_model::{Feature, IpFamily, Topology};
use patchbay_rows::{Capability, Change, Engine, Layout, PartRow, PartRows, PlanError, Reader};
use patchbay_schemas::nb::{Acl, AclAction, AddressSet};
use patchbay_schemas::uuids::UuidSource;

use super::advertised::Advertised;
use super::inputs::{NetworkCell, ZoneNetworks};
use super::remotes::Remotes;
use super::tables::{
    DEFAULT_ROUTER, LocalnetPort, OwnNat, PortsOfRouters, RouteRow, Tables, as_row,
};
use super::{
    COPP, Destinations, NatRows, PortGroupRows, RouterRows, SwitchRows, advertised, copp, meters,
};

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
    /// Addresses of the hosts of nodes.
    Hosts,
    /// The rows of the network with this prefix, but for those that lead to other nodes.
    Network(Arc<str>),
    /// The rows of a network that lead to another node.
    Remote { prefix: Arc<str>, node: Arc<str> },
    /// Isolation of advertised networks from each other.
    Advertised,
    /// Rows of any program that lead to a node. They go when the node is gone.
    Departed(Arc<str>),
}

/// Key of a value that many parts read.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum SharedKey {
    /// Names of the routers and switches that the networks have in the zone.
    MadeNames,
    /// Rows of a network that lead to other nodes.
    Links(Arc<str>),
}

/// Value that many parts read.
#[derive(Debug, PartialEq)]
pub(super) enum Shared {
    MadeNames(HashSet<String>),
    Links(Links),
}

/// Rows of a network that lead to other nodes.
#[derive(Debug, PartialEq)]
pub(super) struct Links {
    /// `true` if rows stay that are not wanted.
    keeps_rest: bool,
    rows: LinkRows,
}

/// How the rows that lead to a node follow from the network.
#[derive(Debug, PartialEq)]
enum LinkRows {
    /// There are none.
    None,
    /// They are computed for each node.
    OfEachNode,
    /// They have this in common.
    Common(Remotes),
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
    type SharedKey = SharedKey;
    type Shared = Shared;

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
                part(Part::Hosts);
                part(Part::Advertised);
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
            NetworkCell::Networks
            | NetworkCell::Hosts
            | NetworkCell::OlderLayout
            | NetworkCell::Unread => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneNetworks) -> bool {
        match part {
            Part::Shared | Part::Services | Part::Isolation | Part::Hosts | Part::Advertised => {
                true
            }
            Part::Network(prefix) => inputs.has_prefix(prefix),
            Part::Remote { prefix, node } => inputs.has_prefix(prefix) && inputs.has_node(node),
            // It is about rows that are there, and nothing else.
            Part::Departed(_) => false,
        }
    }

    fn shared(&self, key: &SharedKey, reader: &Reader<'_, Self>) -> Shared {
        match key {
            SharedKey::MadeNames => Shared::MadeNames(made_names(reader)),
            SharedKey::Links(prefix) => Shared::Links(self.links(prefix, reader)),
        }
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        match part {
            Part::Shared => self.shared(rows),
            Part::Services => self.services(reader, rows),
            Part::Isolation => self.isolation(reader, rows),
            Part::Hosts => self.hosts(reader, rows),
            Part::Advertised => self.advertised(reader, rows),
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
            Part::Shared
            | Part::Services
            | Part::Isolation
            | Part::Hosts
            | Part::Advertised
            | Part::Network(_) => false,
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

    /// `true` if a network is advertised on the node, or was and may be still.
    fn is_advertised(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>) -> bool {
        let inputs = read_network(reader, prefix);
        match inputs.advertised(prefix) {
            Advertised::No => false,
            Advertised::Yes => true,
            Advertised::AsBefore => inputs
                .pass_acl_id(prefix)
                .is_some_and(|id| reader.row(self.tables.acls, &id).is_some()),
        }
    }

    /// Prefixes of the advertised networks.
    fn advertised_networks<'a>(
        &self,
        inputs: &'a ZoneNetworks,
        reader: &Reader<'a, Self>,
    ) -> Vec<&'a Arc<str>> {
        let is_on = inputs.settings().has_feature(Feature::RouteAdvertisements);
        let prefixes = inputs.prefixes().filter(|_| is_on);
        prefixes
            .filter(|prefix| self.is_advertised(prefix, reader))
            .collect()
    }

    /// Address sets of nodes. Once they are there, they stay.
    fn hosts(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&NetworkCell::Networks);
        let has = |feature| inputs.settings().has_feature(feature);
        let is_on = has(Feature::RouteAdvertisements) || has(Feature::EgressIp);
        if self.is_shared_database(reader) || !is_on {
            rows.keep_rest();
            return;
        }
        let is_used = has(Feature::EgressIp) && inputs.has_primary()
            || !self.advertised_networks(inputs, reader).is_empty();
        if !is_used && reader.owned().next().is_none() {
            return;
        }
        let addresses = reader.read(&NetworkCell::Hosts).host_addresses();
        for family in families(inputs) {
            let set = advertised::node_addresses_set(family, &addresses);
            rows.put(self.tables.address_sets, &set);
        }
    }

    /// Subnets of networks that are not known any more stay, as in OVN-Kubernetes.
    fn advertised(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let inputs = reader.read(&NetworkCell::Networks);
        let is_on = inputs.settings().has_feature(Feature::RouteAdvertisements);
        if self.is_shared_database(reader) {
            rows.keep_rest();
            return;
        }
        if !is_on || !reader.has_column(tables.acls, "tier") {
            return;
        }
        let prefixes = self.advertised_networks(inputs, reader);
        let known: BTreeSet<String> = subnets(inputs, inputs.prefixes());
        let advertised: BTreeSet<String> = subnets(inputs, prefixes.iter().copied());
        for family in families(inputs) {
            let name = advertised::subnets_name(family);
            let former = reader.row(tables.address_sets, &name);
            let former = former.and_then(|row| reader.typed::<AddressSet>(row).ok());
            let former = former.map(|set| set.addresses).unwrap_or_default();
            let left = former.into_iter().filter(|subnet| !known.contains(subnet));
            let of_family = advertised.iter().filter(|subnet| {
                let subnet = subnet.parse::<IpNet>();
                subnet.is_ok_and(|subnet| IpFamily::of_net(subnet) == family)
            });
            let addresses = of_family.cloned().chain(left).collect();
            let set = advertised::subnets_set(family, addresses);
            rows.put(tables.address_sets, &set);
        }
        let ports = prefixes.iter().filter_map(|prefix| {
            let name = inputs.router_side_port(prefix)?;
            Some(reader.row(tables.switch_ports, &name)?.uuid())
        });
        let group = advertised::port_group();
        rows.put(
            tables.router_ports_groups,
            &PortsOfRouters {
                name: group.name.clone(),
                ports: ports.collect(),
                external_ids: group.external_ids,
            },
        );
        rows.put(tables.acls, &advertised::drop_acl(inputs.settings()))
            .held_by(tables.acls_of_router_ports, group.name.as_str());
    }

    fn network(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>, rows: &mut Rows) {
        if self.is_shared_database(reader) {
            rows.keep_rest();
        }
        reader.read(&NetworkCell::OlderLayout);
        // Its rows refer to address sets, which come first.
        let is_advertised = self.is_advertised(prefix, reader)
            && families(reader.read(&NetworkCell::Zone)).all(|family| {
                let nodes = advertised::node_addresses_name(family);
                reader.row(self.tables.address_sets, &nodes).is_some()
            });
        let made = match read_network(reader, prefix).rows_of_prefix(prefix, is_advertised) {
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
        for set in &made.address_sets {
            rows.put(self.tables.address_sets, set);
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
            rows.put(tables.routes, &as_row(route))
                .held_by(tables.routes_of_router, name);
        }
        for policy in &made.policies {
            rows.put(tables.policies, policy)
                .held_by(tables.router_policies, name);
        }
        // A database from before NAT had matches cannot select packets for the host.
        let has_match = reader.has_column(tables.nats, "match");
        let is_shared = self.is_shared_database(reader);
        let nats = made.nats.iter();
        for made in nats.filter(|made| has_match || made.nat.r#match.is_empty()) {
            if !is_shared {
                if let Some(nat) = self.own_nat(made, reader) {
                    rows.put(tables.own_nats, &nat)
                        .held_by(tables.own_nats_of_router, name);
                }
            } else if made.destinations == Destinations::All {
                rows.put(tables.nats, &made.nat)
                    .held_by(tables.router_nats, name);
            }
        }
    }

    /// A NAT row in a database that no other program writes. `None`: it waits for its address set.
    fn own_nat(&self, made: &NatRows, reader: &Reader<'_, Self>) -> Option<OwnNat> {
        let set = |name: &String| Some(reader.row(self.tables.address_sets, name)?.uuid());
        let (allowed, exempted) = match &made.destinations {
            Destinations::All => (None, None),
            Destinations::Of(name) => (Some(set(name)?), None),
            Destinations::AllBut(name) => (None, Some(set(name)?)),
        };
        let nat = made.nat.clone();
        Some(OwnNat {
            r#type: nat.r#type,
            logical_ip: nat.logical_ip,
            external_ip: nat.external_ip,
            external_port_range: nat.external_port_range,
            logical_port: nat.logical_port,
            r#match: nat.r#match,
            options: nat.options,
            external_ids: nat.external_ids,
            allowed_ext_ips: allowed,
            exempted_ext_ips: exempted,
        })
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
                rows.put(tables.switch_ports, &as_row(port))
                    .held_by(tables.ports_of_switch, name);
            }
        }
        // A database from before there were tiers has no such action.
        let has_pass = reader.has_column(tables.acls, "tier");
        let acls = made.acls.iter();
        for acl in acls.filter(|acl| has_pass || acl.action != AclAction::Pass) {
            rows.put(tables.acls, &self.known_columns(acl, reader))
                .held_by(tables.switch_acls, name);
        }
    }

    /// What the rows of a network that lead to other nodes follow from.
    fn links(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>) -> Links {
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

    fn remote(
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
        let Some(made) = made else {
            return;
        };
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

    /// What leads to a node stays while the node is there and has the network, and on routers and
    /// switches that are not the networks'.
    fn keeps_departed(&self, node: &Arc<str>, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool {
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

/// Families of the cluster, IPv4 first.
fn families(inputs: &ZoneNetworks) -> impl Iterator<Item = IpFamily> {
    let settings = inputs.settings();
    let families = IpFamily::BOTH.into_iter();
    families.filter(|family| settings.has_family(*family))
}

/// Subnets of the pods of networks.
fn subnets<'a>(
    inputs: &ZoneNetworks,
    prefixes: impl Iterator<Item = &'a Arc<str>>,
) -> BTreeSet<String> {
    let subnets = prefixes.flat_map(|prefix| inputs.pod_subnets(prefix));
    subnets.map(|subnet| subnet.to_string()).collect()
}

/// Prefix of a route. `None`: it is no subnet.
fn route_prefix(reader: &Reader<'_, Topologies>, row: PartRow<'_>) -> Option<IpNet> {
    let route: RouteRow = reader.typed(row.view()).ok()?;
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
