//! The plan of one connect.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{
    AddressSet, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
};
use patchbay_schemas::row::Row;
use uuid::Uuid;

use super::holders::HolderChanges;
use super::rows::{RowChanges, Settled};
use super::view::{Owned, RowsById, RowsOf};
use super::{Change, PlanError, Reconciler, RouterHolding};
use crate::model::external_ids::key;
use crate::zone::desired::{DesiredRows, IsolationRows, NetworkRouterRows, ServiceRows};

/// Collects the changes for one connect.
pub(super) struct Work<'r, 'a> {
    reconciler: &'r Reconciler<'a>,
    connect: &'r str,
    owned: Option<&'r Owned<'a>>,
    rows: RowChanges,
    routers: HolderChanges<'a, LogicalRouter>,
    switches: HolderChanges<'a, LogicalSwitch>,
}

impl<'r, 'a> Work<'r, 'a> {
    pub(super) fn new(reconciler: &'r Reconciler<'a>, connect: &'r str, txn: TxnBuilder) -> Self {
        let snapshot = reconciler.view.snapshot;
        Self {
            reconciler,
            connect,
            owned: reconciler.view.owned.get(connect),
            rows: RowChanges::new(txn),
            routers: HolderChanges::new(snapshot),
            switches: HolderChanges::new(snapshot),
        }
    }

    pub(super) fn run(mut self, desired: Option<&DesiredRows>) -> Result<Change, PlanError> {
        if let Some(rows) = desired {
            if let Some(isolation) = &rows.isolation {
                self.isolation(isolation)?;
            }
            self.connect_router(rows)?;
            for router in &rows.network_routers {
                self.network_router(router)?;
            }
            if let Some(services) = &rows.services {
                self.services(services)?;
            }
        }
        self.remove_stale()?;
        self.finish()
    }

    /// The connect's rows with this key.
    fn candidates(&self, rows: RowsOf<'a>, key: &str) -> &'r [&'a Row] {
        let found = self.owned.and_then(|owned| rows(owned).get(key));
        found.map_or(&[], Vec::as_slice)
    }

    fn port(&mut self, wanted: &LogicalRouterPort) -> Result<Settled, PlanError> {
        let view = &self.reconciler.view;
        let owned = self.candidates(|owned| &owned.ports, &wanted.name);
        let unowned = view.unowned.get(&*wanted.name).filter(|_| owned.is_empty());
        let candidates = unowned.map_or(owned, std::slice::from_ref);
        self.rows
            .settle(&self.reconciler.columns.port, candidates, wanted)
    }

    fn connect_router(&mut self, rows: &DesiredRows) -> Result<(), PlanError> {
        let reconciler = self.reconciler;
        let mut ports = Vec::with_capacity(rows.ports.len());
        for port in &rows.ports {
            ports.push(self.port(port)?);
        }
        let mut routes = Vec::with_capacity(rows.routes.len());
        for route in &rows.routes {
            let candidates = self.candidates(|owned| &owned.routes, identity(&route.external_ids));
            routes.push(
                self.rows
                    .settle(&reconciler.columns.route, candidates, route)?,
            );
        }
        let router = self.router(&rows.router.name);
        let Some(router) = router else {
            self.rows.insert(&LogicalRouter {
                ports: ports.iter().map(|port| port.to()).collect(),
                static_routes: routes.iter().map(|route| route.to()).collect(),
                ..rows.router.clone()
            })?;
            for (holding, children) in [(&reconciler.ports, ports), (&reconciler.routes, routes)] {
                for child in children {
                    self.move_out(None, holding, child);
                }
            }
            return Ok(());
        };
        self.rows
            .settle(&reconciler.columns.router, &[router], &rows.router)?;
        for (holding, children) in [(&reconciler.ports, ports), (&reconciler.routes, routes)] {
            for child in children {
                self.move_in(router, holding, child);
            }
        }
        Ok(())
    }

    /// The connect router, if there is one.
    fn router(&self, name: &str) -> Option<&'a Row> {
        let owned = self.owned.map(|owned| owned.routers.iter());
        let owned = owned.into_iter().flatten().min_by_key(|row| row.uuid);
        owned
            .or_else(|| self.reconciler.view.unowned.get(name))
            .copied()
    }

    fn network_router(&mut self, rows: &NetworkRouterRows) -> Result<(), PlanError> {
        let reconciler = self.reconciler;
        // Members without a router have no desired rows.
        let Some(router) = reconciler.view.routers.get(&*rows.router).copied() else {
            return Ok(());
        };
        let port = self.port(&rows.port)?;
        self.move_in(router, &reconciler.ports, port);
        for policy in &rows.policies {
            let identity = identity(&policy.external_ids);
            let candidates = self.candidates(|owned| &owned.policies, identity);
            let policy = self
                .rows
                .settle(&reconciler.columns.policy, candidates, policy)?;
            self.move_in(router, &reconciler.policies, policy);
        }
        Ok(())
    }

    /// Lets the router hold a row, and no other router.
    fn move_in(&mut self, router: &'a Row, holding: &RouterHolding<'a>, row: Settled) {
        if holding.holding.holds(router, row.uuid) {
            return;
        }
        self.routers.attach(router, holding.holding, row.uuid);
        self.move_out(Some(router), holding, row);
    }

    /// Lets no router but this one hold a row.
    fn move_out(&mut self, router: Option<&Row>, holding: &RouterHolding<'a>, row: Settled) {
        if row.is_new {
            return;
        }
        for other in holding.of(self.reconciler.view.snapshot, row.uuid) {
            if router.is_none_or(|router| router.uuid != other.uuid) {
                self.routers.detach(other, holding.holding, row.uuid);
            }
        }
    }

    fn isolation(&mut self, rows: &IsolationRows) -> Result<(), PlanError> {
        let reconciler = self.reconciler;
        for set in &rows.address_sets {
            let candidates = self.candidates(|owned| &owned.address_sets, &set.name);
            self.rows
                .settle(&reconciler.columns.address_set, candidates, set)?;
        }
        let mut acls = Vec::with_capacity(rows.acls.len());
        for acl in &rows.acls {
            let candidates = self.candidates(|owned| &owned.acls, identity(&acl.external_ids));
            acls.push(self.rows.settle(&reconciler.columns.acl, candidates, acl)?);
        }
        let mut wanted = HashSet::new();
        for (name, places) in &rows.switches {
            let Some(switch) = reconciler.view.switches.get(&**name).copied() else {
                continue;
            };
            for acl in places.iter().map(|place| acls[*place]) {
                wanted.insert((switch.uuid, acl.uuid));
                self.switches.attach(switch, reconciler.acls, acl.uuid);
            }
        }
        for acl in acls.iter().filter(|acl| !acl.is_new) {
            for switch in holders(&reconciler.view.acl_switches, acl.uuid) {
                if !wanted.contains(&(switch.uuid, acl.uuid)) {
                    self.switches.detach(switch, reconciler.acls, acl.uuid);
                }
            }
        }
        Ok(())
    }

    fn services(&mut self, rows: &ServiceRows) -> Result<(), PlanError> {
        let reconciler = self.reconciler;
        let candidates = self.candidates(|owned| &owned.groups, &rows.group.name);
        let group = self
            .rows
            .settle(&reconciler.columns.group, candidates, &rows.group)?;
        let switches: BTreeSet<&str> = rows.switches.iter().map(String::as_str).collect();
        let mut wanted = HashSet::new();
        for name in switches {
            if let Some(switch) = reconciler.view.switches.get(name).copied() {
                wanted.insert(switch.uuid);
                self.switches.attach(switch, reconciler.groups, group.uuid);
            }
        }
        for switch in holders(&reconciler.view.group_switches, group.uuid) {
            if !wanted.contains(&switch.uuid) {
                self.switches.detach(switch, reconciler.groups, group.uuid);
            }
        }
        Ok(())
    }

    /// Removes the connect's rows that should not be there.
    fn remove_stale(&mut self) -> Result<(), PlanError> {
        let Some(owned) = self.owned else {
            return Ok(());
        };
        let reconciler = self.reconciler;
        let snapshot = reconciler.view.snapshot;
        let mut gone = HashSet::new();
        for router in &owned.routers {
            if !self.rows.is_kept(router.uuid) {
                self.rows.delete::<LogicalRouter>(router.uuid)?;
                gone.insert(router.uuid);
            }
        }
        for (rows, holding) in [
            (&owned.ports, &reconciler.ports),
            (&owned.policies, &reconciler.policies),
            (&owned.routes, &reconciler.routes),
        ] {
            for row in self.stale(rows) {
                self.rows.count_deleted();
                for router in holding.of(snapshot, row) {
                    // What a router holds goes with it.
                    if !gone.contains(&router.uuid) {
                        self.routers.detach(router, holding.holding, row);
                    }
                }
            }
        }
        for acl in self.stale(&owned.acls) {
            self.rows.count_deleted();
            for switch in holders(&reconciler.view.acl_switches, acl) {
                self.switches.detach(switch, reconciler.acls, acl);
            }
        }
        for set in self.stale(&owned.address_sets) {
            self.rows.delete::<AddressSet>(set)?;
        }
        for group in self.stale(&owned.groups) {
            for switch in holders(&reconciler.view.group_switches, group) {
                self.switches.detach(switch, reconciler.groups, group);
            }
            self.rows.delete::<LoadBalancerGroup>(group)?;
        }
        Ok(())
    }

    fn stale(&self, rows: &RowsById<'a>) -> Vec<Uuid> {
        let uuids = rows.values().flatten().map(|row| row.uuid);
        uuids.filter(|uuid| !self.rows.is_kept(*uuid)).collect()
    }

    fn finish(mut self) -> Result<Change, PlanError> {
        self.rows.hold(self.routers)?;
        self.rows.hold(self.switches)?;
        let comment = format!("patchbay: ClusterNetworkConnect {}", self.connect);
        Ok(self.rows.finish(comment))
    }
}

/// What identifies a row among those of its connect and table.
fn identity(external_ids: &BTreeMap<String, String>) -> &str {
    external_ids.get(key::ID).map_or("", String::as_str)
}

fn holders<'h, 'a>(holders: &'h HashMap<Uuid, Vec<&'a Row>>, held: Uuid) -> &'h [&'a Row] {
    holders.get(&held).map_or(&[], Vec::as_slice)
}
