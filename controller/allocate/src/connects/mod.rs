//! Cluster manager's part of ClusterNetworkConnect: selection of networks, and allocation of
//! connect subnets and tunnel keys.
//!
//! ```text
//! attachment definitions, namespaces, connects
//!     -> selection    networks that the selectors select
//!     -> validation   overlaps and IP families of networks and ranges
//!     -> allocation   a tunnel key for the connect router, a connect subnet for every network
//!     -> outcome      two annotations and a status condition
//! ```
//!
//! [`ClusterController`] contains the allocations and nothing else: no task, no clock, no input or
//! output. It is level-triggered: from all objects it computes the desired state of every connect,
//! independent of earlier events. The allocations are also in annotations, from which they are
//! restored when a connect is seen for the first time. A restart, or a run of the command on files,
//! therefore changes no allocation.
//!
//! # Invariants
//!
//! - A subnet belongs to at most one network of a connect, and a tunnel key to at most one connect.
//!   Keys of networks come from the same position ([`RouterKeyCursor`](crate::RouterKeyCursor)). If
//!   an annotation gives a network the key of a connect, the connect keeps it and its status
//!   reports the conflict.
//! - A network keeps its subnets while it is selected, and while it is unknown if it is selected. A
//!   layer2 network may move when another one comes or goes, see the allocator; a layer3 network
//!   never moves.
//! - Every allocated block has at least one port tunnel key.
//! - A connect that fails validation, or whose annotations cannot be read, keeps its allocations,
//!   but for those of networks that are gone or not selected any more.

mod allocation;
mod allocator;
mod controller;
mod error;
mod objects;
mod owner_ranges;
mod refusals;
mod report;
mod router_keys;
mod selection;
mod status;
mod unconnected;
mod validation;
mod vpc_members;

pub use controller::ClusterController;
pub use objects::ClusterObjects;
pub use refusals::refusals;
pub use report::{AllocationReport, AllocationWarning, CncOutcome};
pub use status::{ACCEPTED, with_condition};
pub use unconnected::{Unconnected, reasons_without_networks};
pub(crate) use vpc_members::vpc_ids;
pub use vpc_members::{VpcMembers, assign_vpc_ids};
