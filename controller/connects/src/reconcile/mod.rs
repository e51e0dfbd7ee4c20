//! Writes the difference between desired and existing rows.
//!
//! Desired rows are inserted or updated; other rows of the connect are removed. Existing rows are
//! found in the database by name or by identity (`k8s.ovn.org/id`). A start, a missed event and an
//! edit by another client are therefore one case.
//!
//! # Invariants
//!
//! - All changes of a connect are in one transaction, or in several with safe states between them
//!   (see [`steps`]). No state permits traffic that must be dropped.
//! - A row of another owner is never changed. Its sets (ports, policies, routes, ACLs, groups) only
//!   gain and lose references to rows of the connect.
//! - The transaction fails if a row that gains a reference is deleted before the commit.

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

/// Managed columns of each table.
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
            router: Columns::of_owned_rows(schema, &["name", "external_ids", "options", "copp"]),
            port: Columns::of_whole_rows(schema),
            policy: Columns::of_owned_rows(
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
            acl: Columns::of_owned_rows(
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
            address_set: Columns::of_owned_rows(schema, &["name", "addresses", "external_ids"]),
            group: Columns::of_owned_rows(schema, &["name", "load_balancer"]),
        }
    }
}
