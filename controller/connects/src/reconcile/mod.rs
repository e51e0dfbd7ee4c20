//! Makes rows what they should be.
//!
//! What should be there is inserted or updated, everything else that a connect owns is removed. Rows are found in
//! the database, not in memory: by name or by identity (`k8s.ovn.org/id`). So a start, a missed event and somebody else's
//! edit are all the same case.
//!
//! # Invariants
//!
//! - All changes of a connect are in one transaction, or in several with safe states between them (see [`steps`]): no
//!   reader sees traffic let through that is to be dropped.
//! - A row that names another owner is never changed. Its sets (ports, policies, routes, ACLs, groups) only gain and lose
//!   rows of the connect.
//! - A row that is held by another row that is gone by the time of the commit makes the transaction fail.

mod columns;
mod departed;
mod holders;
mod rows;
mod scan;
mod steps;
mod topology;
mod writer;

use std::ops::AddAssign;

use patchbay_engine::txn::{BuildError, Transaction};
use patchbay_schemas::nb::{Acl, AddressSet, LoadBalancerGroup, LogicalRouterPolicy};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::TypeError;
use thiserror::Error;

use super::desired::{PortRow, RouteRow, RouterRow};
pub(super) use columns::Columns;
pub(super) use holders::Holding;
pub(super) use steps::{Action, At, Child, Phase, Put, Step};
pub(super) use topology::topology;
pub(super) use writer::Writer;

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

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.changed += other.changed;
        self.deleted += other.deleted;
    }
}

/// What is to be done for one connect.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The transaction; none if there is nothing to do.
    pub transaction: Option<Transaction>,
    /// How much it changes.
    pub counts: Counts,
    /// Whether there is more to do than one transaction should do. What, a new plan tells once this one is committed.
    pub more: bool,
}

/// The columns that connects decide about.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) router: Columns<RouterRow>,
    pub(super) port: Columns<PortRow>,
    pub(super) policy: Columns<LogicalRouterPolicy>,
    pub(super) route: Columns<RouteRow>,
    pub(super) acl: Columns<Acl>,
    pub(super) address_set: Columns<AddressSet>,
    pub(super) group: Columns<LoadBalancerGroup>,
}

impl Decided {
    pub(super) fn new(schema: &DatabaseSchema) -> Self {
        Self {
            router: Columns::of_our_rows(schema, &["name", "external_ids", "options", "copp"]),
            port: Columns::of_whole_rows(schema),
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
            route: Columns::of_whole_rows(schema),
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
        }
    }
}
