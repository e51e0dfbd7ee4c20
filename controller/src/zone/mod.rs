//! The zone half of ClusterNetworkConnect: the rows of one zone's Northbound database.
//!
//! ```text
//! inputs (connects with their annotations, nodes, networks, services)
//!     -> desired      the rows that should be there, connect by connect
//!     -> reconcile    compared with a snapshot: one transaction for each connect, or none
//!     -> report       what is connected, what is not, and why
//! ```
//!
//! [`ZoneController`] is a function of inputs and snapshot: it has no task, no clock and does no input or output.

mod controller;
mod desired;
mod inputs;
mod reconcile;
mod report;
mod verdict;

pub use controller::{ConnectPlan, ZoneController, ZonePlan};
pub use inputs::{Activity, ClusterIpService, ConnectInput, Inputs};
pub use reconcile::{Change, Counts, PlanError};
pub use report::{
    ConnectReport, ConnectedNetwork, HeldReason, NetworkSkip, NodeSkip, Notice, SkippedNetwork,
    SkippedNode,
};
pub use verdict::{CONNECTED, ZoneSummary, connected};
