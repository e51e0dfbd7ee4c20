//! Northbound rows of ClusterNetworkConnects (CNCs) in one zone.
//!
//! ```text
//! objects of the zone (CNCs with their annotations, nodes, networks) and a database snapshot
//!     -> capability   parts of a connect, on the row engine (`patchbay-rows`):
//!          shared       values that many parts read: networks in the zone, retained rows
//!          parts        what each part reads and wants
//!          desired      the rows themselves, as pure functions
//!          tables       how rows are found, who owns them, in which phases they come and go
//!     -> summary      connected networks, skipped networks and nodes, and the reasons
//! ```
//!
//! [`ZoneController`] is a function of inputs and snapshot. It has no task and no clock, and it
//! does no input or output. See `docs/design/zone.md`.

mod capability;
mod condition;
mod controller;
mod desired;
mod differences;
mod entries;
mod link_report;
mod overlapping_networks;
mod part;
mod parts;
mod report;
mod schema_facts;
mod shared;
mod shared_networks;
mod summary;
mod tables;
mod zone_summary;

pub use condition::{CONNECTED, ZoneReports};
pub use controller::{ConnectPlan, TRANSACTION_ROWS, ZoneController, ZonePlan};
pub use differences::RowPurpose;
pub use patchbay_rows::{Change, Counts, DifferenceKind, PlanError, RowDifference};
pub use report::{
    ConnectReport, ConnectedNetwork, HeldReason, NetworkSkip, NodeSkip, Notice, SkippedNetwork,
    SkippedNode,
};
pub use schema_facts::{has_pass_action, version_without_remote_ports};
pub use zone_summary::ZoneSummary;
