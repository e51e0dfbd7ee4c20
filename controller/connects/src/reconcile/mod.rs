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
mod holders;
mod rows;
mod steps;
mod writer;

use patchbay_schemas::nb::{Acl, AddressSet, LoadBalancerGroup, LogicalRouterPolicy};
use patchbay_schemas::schema::DatabaseSchema;

use super::desired::{PortRow, RouteRow, RouterRow};
pub(super) use columns::Columns;
pub(super) use holders::ReferenceColumn;
pub(super) use steps::{Action, Child, Phase, Step, TargetRouter, Upsert};
pub(super) use writer::Writer;

/// The columns that connects decide about.
#[derive(Debug)]
pub(super) struct ManagedColumns {
    pub(super) router: Columns<RouterRow>,
    pub(super) port: Columns<PortRow>,
    pub(super) policy: Columns<LogicalRouterPolicy>,
    pub(super) route: Columns<RouteRow>,
    pub(super) acl: Columns<Acl>,
    pub(super) address_set: Columns<AddressSet>,
    pub(super) group: Columns<LoadBalancerGroup>,
}

impl ManagedColumns {
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
