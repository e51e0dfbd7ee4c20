//! Routes of a router in the order in which OVN looks them up.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use patchbay_schemas::nb::{
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalRouterStaticRoutePolicy,
};
use uuid::Uuid;

use super::id::RouterPortId;
use super::note::{Notes, RowRef};
use super::router::RouterPort;
use super::rows::Tables;
use crate::address::{Prefix, bits, mask_bits, width};
use crate::packet::IpPacket;

/// Weight of a bit of the prefix in the priority of a route.
const LENGTH_WEIGHT: u16 = 8;
/// Part of the priority of a connected route.
const CONNECTED_RANK: u16 = 6;
/// Priority of a connected route to an IPv4 address.
const CONNECTED_HOST_PRIORITY: u16 = 32 * LENGTH_WEIGHT + CONNECTED_RANK;
/// Part of the priority of a static route by destination.
const STATIC_RANK: u16 = 4;
/// Priority that Kube-OVN's ovn-northd gives routes by source: below all routes by destination.
const LOW_SOURCE_PRIORITY: u16 = 1;
/// Priority that Kube-OVN's ovn-northd gives routes by one source address: above the default route.
const LOW_SOURCE_HOST_PRIORITY: u16 = STATIC_RANK + 1;

/// The ovn-northd that reads a database, as far as routes depend on it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Northd {
    /// OVN's own: the rank of a route by source follows from the length of its prefix.
    #[default]
    Stock,
    /// Kube-OVN's: a route by source counts if no route by destination does. One for a single
    /// address also counts before a default route.
    KubeOvn,
}

/// Routes of a router.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Routes of one kind and prefix length, by falling priority.
    levels: Vec<Level>,
    tables: HashMap<String, u32, RandomState>,
    /// `true` if a route by source leads to an address of the router, as Kube-OVN writes it for its
    /// own ovn-northd.
    pub(crate) has_source_fallback: bool,
}

/// Routes with the same prefix length that are compared with the same address.
#[derive(Debug)]
struct Level {
    kind: LevelKind,
    routes: HashMap<(Table, u128), Vec<Route>, RandomState>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LevelKind {
    priority: u16,
    length: u8,
    is_ipv4: bool,
    is_source: bool,
}

/// Route table: the main one is 0. Connected routes are in all tables.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Table {
    All,
    Number(u32),
}

/// Route that OVN has.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) row: RowRef,
    pub(crate) prefix: Prefix,
    pub(crate) kind: RouteKind,
    /// `None`: the route drops its packets.
    pub(crate) output: Option<RouterPortId>,
    /// `None`: the destination of the packet.
    pub(crate) next_hop: Option<IpAddr>,
    /// `true` if several ports have a network with the next hop. OVN takes any of them.
    pub(crate) has_other_outputs: bool,
    /// Port by which packets have to come in, for link-local networks. `None`: any.
    input: Option<RouterPortId>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RouteKind {
    Connected,
    Destination,
    Source,
}

impl Routes {
    /// Reads the routes of a router from its rows and ports.
    pub(super) fn new<'a>(
        rows: impl IntoIterator<Item = (Uuid, &'a LogicalRouterStaticRoute)>,
        ports: &[(RouterPortId, &RouterPort)],
        tables: &Tables,
        notes: &mut Notes,
    ) -> Self {
        let mut routes = Self::default();
        for row in rows {
            routes.add_static(row, ports, tables, notes);
        }
        for (id, port) in ports {
            for network in &port.networks {
                routes.add_connected(*id, port, *network);
            }
        }
        routes
    }

    /// Adds a static route. `ports`: those by which it may lead.
    pub(super) fn add_static(
        &mut self,
        (uuid, row): (Uuid, &LogicalRouterStaticRoute),
        ports: &[(RouterPortId, &RouterPort)],
        tables: &Tables,
        notes: &mut Notes,
    ) {
        let reference = RowRef::new::<LogicalRouterStaticRoute>(uuid);
        let mut route = match static_route(row, reference, ports, tables) {
            Ok(route) => route,
            Err(reason) => return notes.add(reference, reason),
        };
        let is_own = |next_hop| ports.iter().any(|(_, port)| port.has_address(next_hop));
        self.has_source_fallback |=
            route.kind == RouteKind::Source && route.next_hop.is_some_and(is_own);
        let table = self.table_number(&row.route_table);
        let is_connected = row.options.get("origin").is_some_and(|origin| origin == "connected");
        let rank = if is_connected { CONNECTED_RANK } else { STATIC_RANK };
        if is_connected && route.kind == RouteKind::Destination {
            route.kind = RouteKind::Connected;
        }
        let table = if is_connected && table == 0 { Table::All } else { Table::Number(table) };
        self.add(table, rank, route);
    }

    fn table_number(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let next = self.tables.len() as u32 + 1;
        *self.tables.entry(name.to_owned()).or_insert(next)
    }

    fn add(&mut self, table: Table, rank: u16, route: Route) {
        let is_source = route.kind == RouteKind::Source;
        let length = route.prefix.length;
        let kind = LevelKind {
            priority: u16::from(length) * LENGTH_WEIGHT + if is_source { 0 } else { rank },
            length,
            is_ipv4: route.prefix.address.is_ipv4(),
            is_source,
        };
        let place = self
            .levels
            .iter()
            .position(|level| level.kind.priority <= kind.priority)
            .unwrap_or(self.levels.len());
        let same = self.levels[place..]
            .iter()
            .take_while(|level| level.kind.priority == kind.priority)
            .position(|level| level.kind == kind);
        let place = place + same.unwrap_or(0);
        if same.is_none() {
            let routes = HashMap::default();
            self.levels.insert(place, Level { kind, routes });
        }
        let key = (table, route.prefix.network_bits());
        self.levels[place].routes.entry(key).or_default().push(route);
    }

    /// Adds the route to a network of a port.
    fn add_connected(&mut self, id: RouterPortId, port: &RouterPort, network: Prefix) {
        let route = Route::connected(id, port, network);
        self.add(Table::All, CONNECTED_RANK, route);
    }

    /// The routes that a packet may take: any of them if there are several. `announced`: routes to
    /// the destination that other routers announce.
    pub(crate) fn find<'a>(
        &'a self,
        packet: &IpPacket,
        input: RouterPortId,
        table: Option<&str>,
        announced: &'a [Route],
        northd: Northd,
    ) -> Vec<&'a Route> {
        let number = match table {
            None | Some("") => 0,
            // A table without routes has no number; only connected routes are in it.
            Some(name) => self.tables.get(name).copied().unwrap_or(u32::MAX),
        };
        let is_ipv4 = packet.destination.is_ipv4();
        let all_bits = width(packet.destination);
        let mut levels: Vec<_> = self
            .levels
            .iter()
            .filter(|level| level.kind.is_ipv4 == is_ipv4)
            .map(|level| (level.kind.priority_for(northd), level))
            .collect();
        if northd == Northd::KubeOvn {
            levels.sort_by_key(|(priority, _)| Reverse(*priority));
        }
        let mut found: Vec<&Route> = Vec::new();
        let mut last = u16::MAX;
        for (priority, level) in levels {
            let is_next = priority < last && !found.is_empty();
            if is_next || priority < CONNECTED_HOST_PRIORITY && !announced.is_empty() {
                break;
            }
            last = priority;
            let address = if level.kind.is_source { packet.source } else { packet.destination };
            let network = bits(address) & mask_bits(level.kind.length, all_bits);
            let of_tables = [Table::All, Table::Number(number)]
                .into_iter()
                .filter_map(|table| level.routes.get(&(table, network)))
                .flatten()
                .chain(announced.iter().filter(|_| priority == CONNECTED_HOST_PRIORITY))
                .filter(|route| route.input.is_none_or(|port| port == input));
            found.extend(of_tables);
        }
        if found.is_empty() {
            found.extend(announced);
        }
        found
    }
}

impl LevelKind {
    /// Priority of the routes with an ovn-northd.
    fn priority_for(self, northd: Northd) -> u16 {
        let host = if self.is_ipv4 { 32 } else { 128 };
        match northd {
            Northd::KubeOvn if self.is_source && self.length == host => LOW_SOURCE_HOST_PRIORITY,
            Northd::KubeOvn if self.is_source => LOW_SOURCE_PRIORITY,
            Northd::KubeOvn | Northd::Stock => self.priority,
        }
    }
}

impl Route {
    /// The route to a network of a port.
    pub(super) fn connected(id: RouterPortId, port: &RouterPort, network: Prefix) -> Self {
        let is_link_local = matches!(
            network.address,
            IpAddr::V6(address) if address.is_unicast_link_local()
        );
        Self {
            row: RowRef::new::<LogicalRouterPort>(port.uuid),
            prefix: network,
            kind: RouteKind::Connected,
            output: Some(id),
            next_hop: None,
            has_other_outputs: false,
            input: is_link_local.then_some(id),
        }
    }
}

/// Reads a static route. The error is the reason why OVN ignores it.
fn static_route(
    row: &LogicalRouterStaticRoute,
    reference: RowRef,
    ports: &[(RouterPortId, &RouterPort)],
    tables: &Tables,
) -> Result<Route, String> {
    let prefix =
        Prefix::parse(&row.ip_prefix).ok_or_else(|| format!("bad ip_prefix {}", row.ip_prefix))?;
    let kind = match row.policy {
        Some(LogicalRouterStaticRoutePolicy::SrcIp) => RouteKind::Source,
        _ => RouteKind::Destination,
    };
    let mut route = Route {
        row: reference,
        prefix,
        kind,
        output: None,
        next_hop: None,
        has_other_outputs: false,
        input: None,
    };
    if row.nexthop == "discard" {
        return Ok(route);
    }
    if !row.nexthop.is_empty() {
        let next_hop = Prefix::parse(&row.nexthop)
            .filter(Prefix::is_host)
            .ok_or_else(|| format!("bad nexthop {}", row.nexthop))?;
        // OVN compares the text with the networks of ports, unless the row names the port.
        if row.output_port.is_none() && row.nexthop.contains('/') {
            return Err(format!("nexthop {} without output_port", row.nexthop));
        }
        route.next_hop = Some(next_hop.address);
    }
    let is_ipv4 = route.next_hop.unwrap_or(prefix.address).is_ipv4();
    let output = output_port(row.output_port.as_deref(), route.next_hop, is_ipv4, ports)
        .ok_or_else(|| format!("no port of the router leads to nexthop {}", row.nexthop))?;
    route.output = Some(output.port);
    route.has_other_outputs = output.has_others;
    let session = row.bfd.and_then(|bfd| tables.bfd.get(bfd));
    if session.is_some_and(|session| session.dst_ip == row.nexthop && is_down(session)) {
        return Err("its BFD session is down".to_owned());
    }
    Ok(route)
}

/// `true` if a BFD session is not known to work. A session without status is new, and counts as
/// down until its monitor reports.
pub(super) fn is_down(session: &patchbay_schemas::nb::Bfd) -> bool {
    use patchbay_schemas::nb::BfdStatus::{AdminDown, Down};
    matches!(session.status, None | Some(AdminDown | Down))
}

/// Port that leads to a next hop.
pub(super) struct OutputPort {
    pub(super) port: RouterPortId,
    /// `true` if other ports have a network with the next hop, too. OVN takes any of them.
    pub(super) has_others: bool,
}

/// The port that leads to a next hop: the named one, or the first with a network that has it.
/// `None`: the route does not exist for OVN.
pub(super) fn output_port(
    name: Option<&str>,
    next_hop: Option<IpAddr>,
    is_ipv4: bool,
    ports: &[(RouterPortId, &RouterPort)],
) -> Option<OutputPort> {
    if let Some(name) = name {
        let (id, port) = ports.iter().find(|(_, port)| port.name == name)?;
        let has_family = port.networks.iter().any(|own| own.address.is_ipv4() == is_ipv4);
        return has_family.then_some(OutputPort { port: *id, has_others: false });
    }
    let next_hop = next_hop?;
    let mut fitting = ports.iter().filter(|(_, port)| port.network_of(next_hop).is_some());
    let (id, _) = fitting.next()?;
    Some(OutputPort { port: *id, has_others: fitting.next().is_some() })
}
