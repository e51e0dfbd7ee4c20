//! The plan of one connect.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{
    AddressSet, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use super::columns::Columns;
use super::holders::HolderChanges;
use super::view::{Owned, RowsById, RowsOf};
use super::{Change, Counts, PlanError, Reconciler, RouterHolding};
use crate::model::external_ids::key;
use crate::zone::desired::{DesiredRows, IsolationRows, NetworkRouterRows, ServiceRows};

/// A row that should be there: a new one, or one that was there before.
#[derive(Clone, Copy)]
struct Settled {
    uuid: Uuid,
    is_new: bool,
}

/// Collects the changes for one connect.
pub(super) struct Work<'r, 'a> {
    reconciler: &'r Reconciler<'a>,
    connect: &'r str,
    owned: Option<&'r Owned<'a>>,
    txn: TxnBuilder,
    /// Existing rows that stay.
    kept: HashSet<Uuid>,
    inserted: usize,
    changed: HashSet<Uuid>,
    deleted: usize,
    routers: HolderChanges<'a, LogicalRouter>,
    switches: HolderChanges<'a, LogicalSwitch>,
}

impl<'r, 'a> Work<'r, 'a> {
    pub(super) fn new(reconciler: &'r Reconciler<'a>, connect: &'r str, txn: TxnBuilder) -> Self {
        Self {
            reconciler,
            connect,
            owned: reconciler.view.owned.get(connect),
            txn,
            kept: HashSet::new(),
            inserted: 0,
            changed: HashSet::new(),
            deleted: 0,
            routers: HolderChanges::new(),
            switches: HolderChanges::new(),
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

    /// Makes one of the candidates the wanted row, or inserts it.
    fn settle<T: TableRow>(
        &mut self,
        columns: &Columns<T>,
        candidates: &[&'a Row],
        wanted: &T,
    ) -> Result<Settled, PlanError> {
        let data = wanted.to_data();
        let free = || {
            candidates
                .iter()
                .filter(|row| !self.kept.contains(&row.uuid))
        };
        // Of several rows with one identity the one that is right already stays.
        let existing = free()
            .find(|row| !columns.differ(row, &data))
            .or_else(|| free().min_by_key(|row| row.uuid));
        let Some(existing) = existing else {
            let uuid = self.txn.insert(wanted)?.uuid;
            self.inserted += 1;
            return Ok(Settled { uuid, is_new: true });
        };
        if columns.update(&mut self.txn, existing, &data)? {
            self.changed.insert(existing.uuid);
        }
        self.kept.insert(existing.uuid);
        Ok(Settled {
            uuid: existing.uuid,
            is_new: false,
        })
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
        self.settle(&self.reconciler.columns.port, candidates, wanted)
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
            routes.push(self.settle(&reconciler.columns.route, candidates, route)?);
        }
        let router = self.router(&rows.router.name);
        let Some(router) = router else {
            self.txn.insert(&LogicalRouter {
                ports: ports.iter().map(|port| Ref::new(port.uuid)).collect(),
                static_routes: routes.iter().map(|route| Ref::new(route.uuid)).collect(),
                ..rows.router.clone()
            })?;
            self.inserted += 1;
            for (holding, children) in [(&reconciler.ports, ports), (&reconciler.routes, routes)] {
                for child in children {
                    self.move_out(None, holding, child);
                }
            }
            return Ok(());
        };
        let data = rows.router.to_data();
        if reconciler
            .columns
            .router
            .update(&mut self.txn, router, &data)?
        {
            self.changed.insert(router.uuid);
        }
        self.kept.insert(router.uuid);
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
            let policy = self.settle(&reconciler.columns.policy, candidates, policy)?;
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
            self.settle(&reconciler.columns.address_set, candidates, set)?;
        }
        let mut acls = Vec::with_capacity(rows.acls.len());
        for acl in &rows.acls {
            let candidates = self.candidates(|owned| &owned.acls, identity(&acl.external_ids));
            acls.push(self.settle(&reconciler.columns.acl, candidates, acl)?);
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
        let group = self.settle(&reconciler.columns.group, candidates, &rows.group)?;
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
            if !self.kept.contains(&router.uuid) {
                self.txn.delete(Ref::<LogicalRouter>::new(router.uuid))?;
                gone.insert(router.uuid);
                self.deleted += 1;
            }
        }
        for (rows, holding) in [
            (&owned.ports, &reconciler.ports),
            (&owned.policies, &reconciler.policies),
            (&owned.routes, &reconciler.routes),
        ] {
            for row in self.stale(rows) {
                self.deleted += 1;
                for router in holding.of(snapshot, row) {
                    // What a router holds goes with it.
                    if !gone.contains(&router.uuid) {
                        self.routers.detach(router, holding.holding, row);
                    }
                }
            }
        }
        for acl in self.stale(&owned.acls) {
            self.deleted += 1;
            for switch in holders(&reconciler.view.acl_switches, acl) {
                self.switches.detach(switch, reconciler.acls, acl);
            }
        }
        for set in self.stale(&owned.address_sets) {
            self.deleted += 1;
            self.txn.delete(Ref::<AddressSet>::new(set))?;
        }
        for group in self.stale(&owned.groups) {
            self.deleted += 1;
            for switch in holders(&reconciler.view.group_switches, group) {
                self.switches.detach(switch, reconciler.groups, group);
            }
            self.txn.delete(Ref::<LoadBalancerGroup>::new(group))?;
        }
        Ok(())
    }

    fn stale(&self, rows: &RowsById<'a>) -> Vec<Uuid> {
        let uuids = rows.values().flatten().map(|row| row.uuid);
        uuids.filter(|uuid| !self.kept.contains(uuid)).collect()
    }

    fn finish(mut self) -> Result<Change, PlanError> {
        self.changed.extend(self.routers.uuids());
        self.changed.extend(self.switches.uuids());
        self.routers
            .build(&mut self.txn, self.reconciler.router_names)?;
        self.switches
            .build(&mut self.txn, self.reconciler.switch_names)?;
        if self.txn.is_empty() {
            return Ok(Change::default());
        }
        self.txn
            .comment(format!("patchbay: ClusterNetworkConnect {}", self.connect));
        Ok(Change {
            transaction: Some(self.txn.finish()),
            counts: Counts {
                inserted: self.inserted,
                changed: self.changed.len(),
                deleted: self.deleted,
            },
        })
    }
}

/// What identifies a row among those of its connect and table.
fn identity(external_ids: &BTreeMap<String, String>) -> &str {
    external_ids.get(key::ID).map_or("", String::as_str)
}

fn holders<'h, 'a>(holders: &'h HashMap<Uuid, Vec<&'a Row>>, held: Uuid) -> &'h [&'a Row] {
    holders.get(&held).map_or(&[], Vec::as_slice)
}
