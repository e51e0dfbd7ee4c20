//! The routers and switches of the networks themselves.
//!
//! Where a whole cluster runs, another controller makes these rows, and makes more of them. So they are only made and
//! completed here: what others have added to a row, and the rows of networks that are not wanted any more, stay. What goes
//! is what a network's router and switches hold for nodes that are gone.

use std::collections::{BTreeSet, HashMap};

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{
    Acl, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, PortGroup,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;

use super::columns::Columns;
use super::departed::departed;
use super::holders::{HolderChanges, Holding};
use super::rows::{RowChanges, Settled};
use super::scan::Scan;
use super::{Change, PlanError};
use patchbay_model::external_ids::key;
use patchbay_networks::{
    MeterRows, NetworkRows, PortGroupRows, RouterPortRows, RouterRows, SwitchRows, ZoneRows,
};

/// What makes the networks of a zone present in its database.
pub(crate) fn topology(
    rows: &ZoneRows,
    snapshot: &Snapshot,
    uuids: UuidSource,
) -> Result<Change, PlanError> {
    let mut work = Topology::new(snapshot, uuids, &rows.nodes);
    for meter in &rows.meters {
        work.meter(meter)?;
    }
    let copp = work
        .copps
        .settle(&mut work.rows, &rows.copp.name, &rows.copp)?;
    for network in &rows.networks {
        work.network(network, copp.to())?;
    }
    work.finish()
}

/// One table, by name.
struct Named<'a, T> {
    columns: Columns<T>,
    rows: HashMap<&'a str, &'a Row>,
}

impl<'a, T: TableRow> Named<'a, T> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self::by(snapshot, Scan::name)
    }

    fn by(snapshot: &'a Snapshot, name: impl Fn(&Scan<'a>, &'a Row) -> &'a str) -> Self {
        let scan = Scan::new::<T>(snapshot);
        Self {
            columns: Columns::of_shared_rows(snapshot.schema()),
            rows: scan
                .rows
                .iter()
                .map(|row| (name(&scan, row), *row))
                .collect(),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Row> {
        self.rows.get(name).copied()
    }

    fn settle(&self, rows: &mut RowChanges, name: &str, wanted: &T) -> Result<Settled, PlanError> {
        let candidates = self.rows.get(name).map_or(&[][..], std::slice::from_ref);
        rows.settle(&self.columns, candidates, wanted)
    }
}

struct Topology<'a> {
    snapshot: &'a Snapshot,
    nodes: &'a BTreeSet<String>,
    rows: RowChanges,
    meters: Named<'a, Meter>,
    copps: Named<'a, Copp>,
    groups: Named<'a, LoadBalancerGroup>,
    routers: Named<'a, LogicalRouter>,
    router_ports: Named<'a, LogicalRouterPort>,
    chassis: Named<'a, GatewayChassis>,
    switches: Named<'a, LogicalSwitch>,
    switch_ports: Named<'a, LogicalSwitchPort>,
    acls: Named<'a, Acl>,
    port_groups: Named<'a, PortGroup>,
    routes: Columns<LogicalRouterStaticRoute>,
    router_sets: HolderChanges<'a, LogicalRouter>,
    router_port_sets: HolderChanges<'a, LogicalRouterPort>,
    switch_sets: HolderChanges<'a, LogicalSwitch>,
    port_group_sets: HolderChanges<'a, PortGroup>,
    /// Switch ports so far, by name, for the groups that they belong to.
    settled_ports: HashMap<String, Settled>,
}

impl<'a> Topology<'a> {
    fn new(snapshot: &'a Snapshot, uuids: UuidSource, nodes: &'a BTreeSet<String>) -> Self {
        Self {
            snapshot,
            nodes,
            rows: RowChanges::new(TxnBuilder::with_uuids(snapshot, uuids)),
            meters: Named::new(snapshot),
            copps: Named::new(snapshot),
            groups: Named::new(snapshot),
            routers: Named::new(snapshot),
            router_ports: Named::new(snapshot),
            chassis: Named::new(snapshot),
            switches: Named::new(snapshot),
            switch_ports: Named::new(snapshot),
            acls: Named::by(snapshot, Scan::id),
            port_groups: Named::new(snapshot),
            routes: Columns::of_shared_rows(snapshot.schema()),
            router_sets: HolderChanges::new(snapshot),
            router_port_sets: HolderChanges::new(snapshot),
            switch_sets: HolderChanges::new(snapshot),
            port_group_sets: HolderChanges::new(snapshot),
            settled_ports: HashMap::new(),
        }
    }

    fn finish(mut self) -> Result<Change, PlanError> {
        self.rows.hold(self.router_sets)?;
        self.rows.hold(self.router_port_sets)?;
        self.rows.hold(self.switch_sets)?;
        self.rows.hold(self.port_group_sets)?;
        Ok(self.rows.finish("patchbay: networks"))
    }

    fn meter(&mut self, wanted: &MeterRows) -> Result<(), PlanError> {
        let mut meter = wanted.meter.clone();
        if self.meters.get(&meter.name).is_none() {
            meter.bands = [self.rows.insert(&wanted.band)?.to()].into();
        }
        self.meters.settle(&mut self.rows, &meter.name, &meter)?;
        Ok(())
    }

    fn network(&mut self, wanted: &NetworkRows, copp: Ref<Copp>) -> Result<(), PlanError> {
        let mut groups = HashMap::new();
        for group in &wanted.load_balancer_groups {
            let settled = self.groups.settle(&mut self.rows, &group.name, group)?;
            groups.insert(group.name.as_str(), settled);
        }
        if let Some(router) = &wanted.router {
            self.router(router, copp)?;
        }
        for switch in &wanted.switches {
            self.switch(switch, &groups)?;
        }
        for group in &wanted.port_groups {
            self.port_group(group)?;
        }
        Ok(())
    }

    fn router(&mut self, wanted: &RouterRows, copp: Ref<Copp>) -> Result<(), PlanError> {
        let mut router = LogicalRouter {
            copp: Some(copp),
            ..wanted.router.clone()
        };
        let existing = self.routers.get(&router.name);
        let ports = wanted
            .ports
            .iter()
            .map(|port| self.router_port(port))
            .collect::<Result<Vec<_>, _>>()?;
        let routes = wanted
            .static_routes
            .iter()
            .map(|route| self.route(existing, route))
            .collect::<Result<Vec<_>, _>>()?;
        match existing {
            None => {
                router.ports = ports.iter().map(|port| port.to()).collect();
                router.static_routes = routes.iter().map(|route| route.to()).collect();
            }
            Some(existing) => {
                for (column, rows) in [("ports", ports), ("static_routes", routes)] {
                    let holding = Holding::of::<LogicalRouter>(self.snapshot, column);
                    for row in rows {
                        self.router_sets.attach(existing, holding, row.uuid);
                    }
                }
                self.without_departed(existing);
            }
        }
        self.routers.settle(&mut self.rows, &router.name, &router)?;
        Ok(())
    }

    /// Takes what leads to nodes that are gone from a router.
    fn without_departed(&mut self, router: &'a Row) {
        let (snapshot, nodes) = (self.snapshot, self.nodes);
        let ports = Holding::of::<LogicalRouter>(snapshot, "ports");
        for port in departed::<LogicalRouterPort>(snapshot, router, ports, nodes) {
            self.router_sets.detach(router, ports, port);
            self.rows.count_deleted(port);
        }
        let routes = Holding::of::<LogicalRouter>(snapshot, "static_routes");
        for route in departed::<LogicalRouterStaticRoute>(snapshot, router, routes, nodes) {
            self.router_sets.detach(router, routes, route);
            self.rows.count_deleted(route);
        }
    }

    fn router_port(&mut self, wanted: &RouterPortRows) -> Result<Settled, PlanError> {
        let mut port = wanted.port.clone();
        let existing = self.router_ports.get(&port.name);
        if let Some(chassis) = &wanted.gateway_chassis {
            let chassis = self
                .chassis
                .settle(&mut self.rows, &chassis.name, chassis)?;
            match existing {
                None => port.gateway_chassis = [chassis.to()].into(),
                Some(existing) => {
                    let holding =
                        Holding::of::<LogicalRouterPort>(self.snapshot, "gateway_chassis");
                    self.router_port_sets
                        .attach(existing, holding, chassis.uuid);
                }
            }
        }
        self.router_ports.settle(&mut self.rows, &port.name, &port)
    }

    /// Routes have no name: a router's route to a destination is the one with its prefix and policy.
    fn route(
        &mut self,
        router: Option<&'a Row>,
        wanted: &LogicalRouterStaticRoute,
    ) -> Result<Settled, PlanError> {
        let table = self.snapshot.typed::<LogicalRouterStaticRoute>();
        let holding = Holding::of::<LogicalRouter>(self.snapshot, "static_routes");
        let id = self
            .snapshot
            .schema()
            .table_id(LogicalRouterStaticRoute::TABLE);
        let mut candidates: Vec<&Row> = Vec::new();
        for row in router.into_iter().flat_map(|router| holding.held(router)) {
            let Some(row) = id.and_then(|id| self.snapshot.row(id, row)) else {
                continue;
            };
            let route = table.read(row)?;
            if route.ip_prefix == wanted.ip_prefix && route.policy == wanted.policy {
                candidates.push(row);
            }
        }
        self.rows.settle(&self.routes, &candidates, wanted)
    }

    fn switch(
        &mut self,
        wanted: &SwitchRows,
        groups: &HashMap<&str, Settled>,
    ) -> Result<(), PlanError> {
        let mut switch = wanted.switch.clone();
        let mut ports = Vec::new();
        for port in &wanted.ports {
            let settled = self.switch_ports.settle(&mut self.rows, &port.name, port)?;
            self.settled_ports.insert(port.name.clone(), settled);
            ports.push(settled);
        }
        let mut acls = Vec::new();
        for acl in &wanted.acls {
            let id = acl.external_ids.get(key::ID).map_or("", String::as_str);
            let acl = without_unknown_tier(acl, self.snapshot.schema());
            acls.push(self.acls.settle(&mut self.rows, id, &acl)?);
        }
        let groups: Vec<Settled> = wanted
            .load_balancer_groups
            .iter()
            .filter_map(|name| groups.get(name.as_str()).copied())
            .collect();
        match self.switches.get(&switch.name) {
            None => {
                switch.ports = ports.iter().map(|port| port.to()).collect();
                switch.acls = acls.iter().map(|acl| acl.to()).collect();
                switch.load_balancer_group = groups.iter().map(|group| group.to()).collect();
            }
            Some(existing) => {
                let columns = [
                    ("ports", ports),
                    ("acls", acls),
                    ("load_balancer_group", groups),
                ];
                for (column, rows) in columns {
                    let holding = Holding::of::<LogicalSwitch>(self.snapshot, column);
                    for row in rows {
                        self.switch_sets.attach(existing, holding, row.uuid);
                    }
                }
                let (snapshot, nodes) = (self.snapshot, self.nodes);
                let ports = Holding::of::<LogicalSwitch>(snapshot, "ports");
                for port in departed::<LogicalSwitchPort>(snapshot, existing, ports, nodes) {
                    self.switch_sets.detach(existing, ports, port);
                    self.rows.count_deleted(port);
                }
            }
        }
        self.switches
            .settle(&mut self.rows, &switch.name, &switch)?;
        Ok(())
    }

    fn port_group(&mut self, wanted: &PortGroupRows) -> Result<(), PlanError> {
        let mut group = wanted.group.clone();
        let ports: Vec<Settled> = wanted
            .ports
            .iter()
            .filter_map(|name| self.settled_ports.get(name).copied())
            .collect();
        match self.port_groups.get(&group.name) {
            None => group.ports = ports.iter().map(|port| port.to()).collect(),
            Some(existing) => {
                let holding = Holding::of::<PortGroup>(self.snapshot, "ports");
                for port in ports {
                    self.port_group_sets.attach(existing, holding, port.uuid);
                }
            }
        }
        self.port_groups
            .settle(&mut self.rows, &group.name, &group)?;
        Ok(())
    }
}

/// A database from before there were tiers has only one.
fn without_unknown_tier(acl: &Acl, schema: &DatabaseSchema) -> Acl {
    let table = schema.table_by_name(Acl::TABLE);
    let has_tiers = table.is_some_and(|(_, table)| table.column_id("tier").is_some());
    Acl {
        tier: if has_tiers { acl.tier } else { 0 },
        ..acl.clone()
    }
}
