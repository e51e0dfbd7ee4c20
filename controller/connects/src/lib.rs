//! The zone half of ClusterNetworkConnect: the rows of one zone's Northbound database.
//!
//! ```text
//! inputs (connects with their annotations, nodes, networks, services) and a snapshot of the database
//!     -> memory       what is different since the last pass, and so which parts of which connects to look at
//!     -> connect      part by part:
//!          desired      the rows that should be there
//!          index        the rows that are there
//!          reconcile    the difference: one transaction for each connect, or none
//!          report       what is connected, what is not, and why
//! ```
//!
//! [`ZoneController`] is a function of inputs and snapshot: it has no task, no clock and does no input or output. See
//! `docs/design/zone.md`.

mod changes;
mod connect;
mod controller;
mod desired;
mod index;
mod inputs;
mod memory;
mod nodes;
mod reconcile;
mod report;
mod summary;
mod unit;
mod verdict;

pub use controller::{ConnectPlan, TRANSACTION_ROWS, ZoneController, ZonePlan};
pub use inputs::{Activity, Inputs};
pub use patchbay_rows::{Change, Counts, PlanError};
pub use report::{
    ConnectReport, ConnectedNetwork, HeldReason, NetworkSkip, NodeSkip, Notice, SkippedNetwork,
    SkippedNode,
};
pub use summary::ZoneSummary;
pub use verdict::{CONNECTED, ZoneReports};
