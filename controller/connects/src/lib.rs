//! Northbound rows of ClusterNetworkConnects (CNCs) in one zone.
//!
//! ```text
//! inputs (CNCs with their annotations, nodes, networks, services) and a database snapshot
//!     -> plan_cache   compares them with the last pass and marks the parts to evaluate again
//!     -> connect      evaluates each marked part:
//!          desired      the rows that the part needs
//!          index        the rows that the database has
//!          reconcile    the difference: at most one transaction for each CNC and pass
//!          report       connected networks, skipped networks and nodes, and the reasons
//! ```
//!
//! [`ZoneController`] is a function of inputs and snapshot. It has no task and no clock, and it
//! does no input or output. See `docs/design/zone.md`.

mod changes;
mod condition;
mod connect;
mod controller;
mod desired;
mod index;
mod inputs;
mod nodes;
mod part;
mod plan_cache;
mod reconcile;
mod report;
mod shared_networks;
mod zone_summary;

pub use condition::{CONNECTED, ZoneReports};
pub use controller::{ConnectPlan, TRANSACTION_ROWS, ZoneController, ZonePlan};
pub use inputs::{Activity, Inputs};
pub use patchbay_rows::{Change, Counts, PlanError};
pub use report::{
    ConnectReport, ConnectedNetwork, HeldReason, NetworkSkip, NodeSkip, Notice, SkippedNetwork,
    SkippedNode,
};
pub use zone_summary::ZoneSummary;
