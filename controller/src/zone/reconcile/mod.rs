//! Makes the rows of a connect what they should be, with one transaction.
//!
//! Rows are found in the database, not in memory: by name or by identity (`k8s.ovn.org/id`), among those whose external
//! ids name the connect. What should be there is inserted or updated, everything else that the connect owns is
//! removed. So a start, a missed event and somebody else's edit are all the same case, and a second pass finds
//! nothing to do.
//!
//! # Invariants
//!
//! - All changes of a connect are in one transaction: no reader sees traffic let through that is to be dropped.
//! - A row that names another owner is never changed. Its sets (ports, policies, routes, ACLs, groups) only gain and lose
//!   rows of the connect.
//! - A row that is held by another row that is gone by the time of the commit makes the transaction fail.

mod columns;
mod holders;
mod rows;
mod scan;
mod topology;
mod view;
mod work;

use std::cell::OnceCell;
use std::collections::HashMap;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, Transaction, TxnBuilder};
use patchbay_schemas::nb::{
    Acl, AddressSet, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::TypeError;
use patchbay_schemas::uuids::UuidSource;
use thiserror::Error;
use uuid::Uuid;

use super::desired::{DesiredRows, Surroundings};
use columns::Columns;
use holders::Holding;
pub(super) use topology::topology;
use view::View;

/// Why a connect's rows cannot be planned.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// The database's schema cannot express what should be there.
    #[error(transparent)]
    Build(Box<BuildError>),
    /// A row holds what the schema that Patchbay knows does not allow.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl From<BuildError> for PlanError {
    fn from(error: BuildError) -> Self {
        Self::Build(Box::new(error))
    }
}

/// How many rows a transaction changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Rows that are new.
    pub inserted: usize,
    /// Rows that change, rows of others that gain or lose a row of the connect included.
    pub changed: usize,
    /// Rows that go.
    pub deleted: usize,
}

/// What is to be done for one connect.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The transaction; none if there is nothing to do.
    pub transaction: Option<Transaction>,
    /// How much it changes.
    pub counts: Counts,
}

/// One snapshot, prepared for the connects of one pass.
pub(super) struct Reconciler<'a> {
    view: View<'a>,
    columns: AllColumns,
    ports: RouterHolding<'a>,
    policies: RouterHolding<'a>,
    routes: RouterHolding<'a>,
    acls: Holding,
    groups: Holding,
}

/// The columns that connects decide about.
struct AllColumns {
    router: Columns<LogicalRouter>,
    port: Columns<LogicalRouterPort>,
    policy: Columns<LogicalRouterPolicy>,
    route: Columns<LogicalRouterStaticRoute>,
    acl: Columns<Acl>,
    address_set: Columns<AddressSet>,
    group: Columns<LoadBalancerGroup>,
}

/// A set column of routers, and who holds what in it: looked up only when a row leaves its place.
struct RouterHolding<'a> {
    holding: Holding,
    holders: OnceCell<HashMap<Uuid, Vec<&'a Row>>>,
}

impl<'a> RouterHolding<'a> {
    fn new(snapshot: &'a Snapshot, column: &'static str) -> Self {
        Self {
            holding: Holding::of::<LogicalRouter>(snapshot, column),
            holders: OnceCell::new(),
        }
    }

    /// The routers that hold a row.
    fn of(&self, snapshot: &'a Snapshot, held: Uuid) -> &[&'a Row] {
        let holders = self.holders.get_or_init(|| {
            let table = snapshot.typed::<LogicalRouter>();
            let routers = table.rows().map(AsRef::as_ref);
            self.holding.holders(routers, |_| true)
        });
        holders.get(&held).map_or(&[], Vec::as_slice)
    }
}

impl<'a> Reconciler<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let schema = snapshot.schema();
        Self {
            view: View::new(snapshot),
            columns: AllColumns {
                router: Columns::of_our_rows(schema, &["name", "external_ids", "options", "copp"]),
                port: Columns::of_our_rows(
                    schema,
                    &["name", "mac", "networks", "peer", "options", "external_ids"],
                ),
                policy: Columns::of_our_rows(
                    schema,
                    &[
                        "priority",
                        "match",
                        "action",
                        "nexthop",
                        "nexthops",
                        "external_ids",
                    ],
                ),
                route: Columns::of_our_rows(
                    schema,
                    &[
                        "ip_prefix",
                        "nexthop",
                        "policy",
                        "output_port",
                        "route_table",
                        "options",
                        "external_ids",
                    ],
                ),
                acl: Columns::of_our_rows(
                    schema,
                    &[
                        "priority",
                        "direction",
                        "match",
                        "action",
                        "tier",
                        "log",
                        "meter",
                        "name",
                        "severity",
                        "options",
                        "label",
                        "external_ids",
                    ],
                ),
                address_set: Columns::of_our_rows(schema, &["name", "addresses", "external_ids"]),
                group: Columns::of_our_rows(schema, &["name", "load_balancer"]),
            },
            ports: RouterHolding::new(snapshot, "ports"),
            policies: RouterHolding::new(snapshot, "policies"),
            routes: RouterHolding::new(snapshot, "static_routes"),
            acls: Holding::of::<LogicalSwitch>(snapshot, "acls"),
            groups: Holding::of::<LogicalSwitch>(snapshot, "load_balancer_group"),
        }
    }

    /// The rows that connects attach to.
    pub(super) fn surroundings(&self) -> &Surroundings<'a> {
        &self.view.around
    }

    /// The connects that own rows.
    pub(super) fn owners(&self) -> impl Iterator<Item = &'a str> {
        self.view.owned.keys().copied()
    }

    /// What makes the rows of a connect the desired ones; without desired rows, all of them go.
    pub(super) fn plan(
        &self,
        connect: &str,
        desired: Option<&DesiredRows>,
        uuids: UuidSource,
    ) -> Result<Change, PlanError> {
        let txn = TxnBuilder::with_uuids(self.view.snapshot, uuids);
        work::Work::new(self, connect, txn).run(desired)
    }
}
