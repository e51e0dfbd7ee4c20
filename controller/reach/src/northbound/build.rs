//! Building the index from rows.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{self, NatType, StaticMacBinding};
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::Northbound;
use super::build_switches::build_switches;
use super::check_source::read_check_sources;
use super::id::{PortId, RouterId, RouterPortId, SwitchId};
use super::load_balancer_index::LoadBalancers;
use super::nat::read_rules;
use super::note::{Notes, RowRef};
use super::policy::Policies;
use super::ports::Ports;
use super::routable::Announcements;
use super::route::Routes;
use super::router::{CommitAll, ForcedSnat, Router, RouterKind};
use super::rows::{Tables, option};
use super::switch::SwitchPortKind;
use super::tunnel::tunnel_key;
use crate::address::Mac;
use crate::expression::Names;

impl Northbound {
    /// Builds the index of a snapshot.
    ///
    /// `chassis` names the chassis whose variables templates get, none if it has none. `None`: the
    /// chassis of a gateway router with variables, or the first one by name.
    ///
    /// Rows that OVN ignores are left out and noted.
    pub fn new(snapshot: &Snapshot, chassis: Option<&str>) -> Self {
        let mut notes = Notes::default();
        let tables = Tables::read(snapshot, &mut notes);
        let mut ports = Ports::default();
        let switch_rows: Vec<_> = tables.switches.iter().collect();
        let router_rows: Vec<_> =
            tables.routers.iter().filter(|(_, row)| row.enabled != Some(false)).collect();
        for (number, (_, row)) in switch_rows.iter().enumerate() {
            ports.add_switch(SwitchId(number as u32), row, &tables, &mut notes);
        }
        for (number, (_, row)) in router_rows.iter().enumerate() {
            ports.add_router(RouterId(number as u32), row, &tables, &mut notes);
        }
        ports.connect(&tables);
        let kinds: Vec<_> = router_rows
            .iter()
            .enumerate()
            .map(|(number, (_, row))| router_kind(row, &ports.of_routers[number], &ports, &tables))
            .collect();
        ports.set_router_tracking(&kinds, &tables);
        ports.limit_network_functions(&tables);
        let gateway_chassis = kinds.iter().find_map(|kind| match kind {
            RouterKind::Gateway { chassis } => Some(chassis.as_str()),
            RouterKind::Distributed { .. } => None,
        });
        let is_guess = chassis.is_none() && tables.has_different_variables();
        let variables = match chassis {
            Some(chassis) => tables.variables_of(chassis),
            None => tables.guess_variables(gateway_chassis),
        };
        let mut names = read_names(&tables, &ports, &kinds);
        names.set_variables(variables.cloned().unwrap_or_default(), is_guess);
        let has_enabled_port = |name: &str| {
            matches!(ports.by_name.get(name), Some(PortId::Switch(port))
                if ports.switch_ports[port.0 as usize].is_enabled)
        };
        let load_balancers = LoadBalancers::new(&tables, &names, &has_enabled_port, &mut notes);
        let routers = build_routers(
            &router_rows,
            kinds,
            &ports,
            &tables,
            &names,
            &load_balancers,
            &mut notes,
        );
        let mut switches =
            build_switches(&switch_rows, &ports, &tables, &names, &load_balancers, &mut notes);
        if tables.global_option("install_ls_lb_from_router") {
            for switch in &mut switches {
                for (_, port) in &switch.router_ports {
                    let router = ports.router_ports[port.0 as usize].router;
                    switch.load_balancers.extend(&routers[router.0 as usize].load_balancers);
                }
            }
        }
        for (switch, source) in read_check_sources(&tables, &ports) {
            switches[switch.0 as usize].check_sources.insert(source);
        }
        let static_macs = read_static_macs(&tables, &ports, &mut notes);
        let mut northbound = Self {
            switches,
            routers,
            switch_ports: ports.switch_ports,
            router_ports: ports.router_ports,
            names,
            load_balancers,
            static_macs,
            acl_translation: tables.global_row("acl_ct_translation"),
            drops_by_default: tables.global_option("default_acl_drop"),
            monitor_mac: tables.monitor_mac(),
            has_common_zone: tables.global_option("use_common_zone"),
            northd: None,
            node_names: HashMap::default(),
            notes: notes.0,
        };
        northbound.find_announcers();
        northbound
    }
}

fn router_kind(
    row: &nb::LogicalRouter,
    ids: &[RouterPortId],
    ports: &Ports,
    tables: &Tables,
) -> RouterKind {
    if let Some(chassis) = row.options.get("chassis") {
        return RouterKind::Gateway { chassis: chassis.clone() };
    }
    let has_chassis = |id: &&RouterPortId| {
        let uuid = ports.router_ports[id.0 as usize].uuid;
        tables.router_ports.get(Ref::new(uuid)).is_some_and(|port| {
            port.ha_chassis_group.is_some()
                || tables.gateway_chassis.of(&port.gateway_chassis).next().is_some()
        })
    };
    RouterKind::Distributed { gateways: ids.iter().filter(has_chassis).copied().collect() }
}

fn read_names(tables: &Tables, ports: &Ports, kinds: &[RouterKind]) -> Names {
    let mut names = Names::default();
    for (name, port) in &ports.by_name {
        names.add_port(name, *port);
        match port {
            PortId::Switch(_) => names.add_resident(name.clone()),
            PortId::Router(port) => {
                let router = ports.router_ports[port.0 as usize].router;
                if kinds[router.0 as usize].is_gateway_port(*port) {
                    names.add_resident(format!("cr-{name}"));
                }
            }
        }
    }
    for (_, set) in tables.address_sets.iter() {
        names.add_address_set(&set.name, set.addresses.iter().map(String::as_str));
    }
    for (_, group) in tables.port_groups.iter() {
        let members: Vec<_> = group
            .ports
            .iter()
            .filter_map(|port| ports.by_uuid.get(&port.uuid))
            .map(|id| (PortId::from(*id), ports.switch_ports[id.0 as usize].switch))
            .collect();
        names.add_group(&group.name, &members);
        let addresses: Vec<_> = members
            .iter()
            .filter_map(|(id, _)| match id {
                PortId::Switch(id) => Some(&ports.switch_ports[id.0 as usize]),
                PortId::Router(_) => None,
            })
            .filter(|port| port.kind != SwitchPortKind::Router)
            .flat_map(|port| &port.interfaces)
            .flat_map(|interface| &interface.addresses)
            .map(|address| address.address)
            .collect();
        for (suffix, is_ipv4) in [("_ip4", true), ("_ip6", false)] {
            let texts: Vec<_> = addresses
                .iter()
                .filter(|address| address.is_ipv4() == is_ipv4)
                .map(IpAddr::to_string)
                .collect();
            let name = format!("{}{suffix}", group.name);
            names.add_address_set(&name, texts.iter().map(String::as_str));
        }
    }
    names
}

fn build_routers(
    rows: &[&(Uuid, nb::LogicalRouter)],
    kinds: Vec<RouterKind>,
    ports: &Ports,
    tables: &Tables,
    names: &Names,
    load_balancers: &LoadBalancers,
    notes: &mut Notes,
) -> Vec<Router> {
    let mut routers = Vec::with_capacity(rows.len());
    for (((uuid, row), kind), ids) in rows.iter().zip(kinds).zip(&ports.of_routers) {
        let id = RouterId(routers.len() as u32);
        let own = ports.router_ports_of(ids);
        let networks =
            || own.iter().flat_map(|(id, port)| port.networks.iter().map(move |own| (*id, own)));
        let nats = read_rules(tables.nats.of(&row.nat), &kind, &own, tables, names, notes);
        let forced = ForcedSnat::new(&row.options);
        let attached = load_balancers.attached(&row.load_balancer, &row.load_balancer_group);
        let snat_addresses = nats
            .iter()
            .filter(|nat| nat.kind == NatType::Snat)
            .map(|nat| nat.external)
            .chain(forced.load_balanced.iter().copied())
            .chain(forced.translated.iter().copied())
            .collect();
        let is_stateful =
            nats.iter().any(|nat| !nat.is_stateless) || attached.has_vip || !forced.is_empty();
        routers.push(Router {
            row: RowRef::new::<nb::LogicalRouter>(*uuid),
            commit: match option(&row.options, "ct-commit-all") {
                false => CommitAll::Off,
                true if is_stateful => CommitAll::On,
                true => CommitAll::Useless,
            },
            learns_neighbors: option(&row.options, "dynamic_neigh_routers"),
            learns_routes: kind.is_centralized() && option(&row.options, "dynamic-routing"),
            name: row.name.clone(),
            tunnel_key: tunnel_key(&row.options),
            ports: ids.clone(),
            own_addresses: networks().map(|(id, own)| (own.address, id)).collect(),
            broadcasts: networks().filter_map(|(_, own)| own.broadcast()).collect(),
            routes: Routes::new(
                tables
                    .static_routes
                    .of(&row.static_routes)
                    .filter(|(_, route)| foreign_output(route, id, ports).is_none()),
                &own,
                tables,
                notes,
            ),
            announcements: Announcements::default(),
            policies: Policies::new(
                tables.policies.of(&row.policies),
                (&own, ports),
                tables,
                names,
                notes,
            ),
            nats,
            snat_addresses,
            load_balancers: attached,
            forced,
            kind,
        });
    }
    for (number, (_, row)) in rows.iter().enumerate() {
        let id = RouterId(number as u32);
        add_foreign_routes(row, id, ports, tables, &mut routers, notes);
    }
    routers
}

/// The port of another router that a route of `router` names.
fn foreign_output(
    route: &nb::LogicalRouterStaticRoute,
    router: RouterId,
    ports: &Ports,
) -> Option<RouterPortId> {
    let name = route.output_port.as_ref().filter(|_| route.nexthop != "discard")?;
    match ports.by_name.get(name)? {
        PortId::Router(id) if ports.router_ports[id.0 as usize].router != router => Some(*id),
        _ => None,
    }
}

/// Adds the routes of a router by ports of other routers to those. Routes that have equal ones
/// beside them stay with the router, and lose its packets.
fn add_foreign_routes<'a>(
    row: &'a nb::LogicalRouter,
    id: RouterId,
    ports: &Ports,
    tables: &'a Tables,
    routers: &mut [Router],
    notes: &mut Notes,
) {
    let all = || tables.static_routes.of(&row.static_routes);
    let foreign: Vec<_> = all()
        .filter_map(|(uuid, route)| Some((uuid, route, foreign_output(route, id, ports)?)))
        .collect();
    if foreign.is_empty() {
        return;
    }
    let mut counts: HashMap<(&str, &str, bool), usize, RandomState> = HashMap::default();
    let key = |route: &'a nb::LogicalRouterStaticRoute| {
        let is_source = route.policy == Some(nb::LogicalRouterStaticRoutePolicy::SrcIp);
        (route.ip_prefix.as_str(), route.route_table.as_str(), is_source)
    };
    for (_, route) in all() {
        *counts.entry(key(route)).or_default() += 1;
    }
    for (uuid, route, output) in foreign {
        let is_single = counts.get(&key(route)) == Some(&1);
        let reference = RowRef::new::<nb::LogicalRouterStaticRoute>(uuid);
        if is_single && !route.route_table.is_empty() {
            notes.add(reference, "output_port is a port of another router");
            continue;
        }
        let own = ports.router_ports_of(&[output]);
        let router = if is_single { ports.router_ports[output.0 as usize].router } else { id };
        let routes = &mut routers[router.0 as usize].routes;
        routes.add_static((uuid, route), &own, tables, notes);
    }
}

fn read_static_macs(
    tables: &Tables,
    ports: &Ports,
    notes: &mut Notes,
) -> HashMap<(RouterPortId, IpAddr), Mac, RandomState> {
    let mut macs = HashMap::default();
    for (uuid, row) in tables.static_mac_bindings.iter() {
        let port = ports.by_name.get(&row.logical_port);
        match (port, row.ip.parse(), Mac::parse(&row.mac)) {
            (Some(PortId::Router(port)), Ok(address), Some(mac)) => {
                macs.insert((*port, address), mac);
            }
            _ => notes.add(RowRef::new::<StaticMacBinding>(*uuid), "bad logical_port, ip or mac"),
        }
    }
    macs
}
