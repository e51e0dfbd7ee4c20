//! The cluster-wide half of ClusterNetworkConnect: which networks a connect joins, and with which subnets and keys.
//!
//! ```text
//! attachment definitions, namespaces, connects
//!     -> selection    what the selectors choose
//!     -> validation   may these networks be connected through these ranges
//!     -> allocation   a tunnel key for the connect router, a connect subnet for every network
//!     -> outcome      two annotations and a status condition
//! ```
//!
//! [`ClusterController`] holds what has been handed out and nothing else: no task, no clock, no input or output. It
//! is level-triggered: given all objects it brings every connect to where it should be, whatever happened since
//! the last time. What it holds is in the annotations too, and is taken from there when a connect is seen for the
//! first time; so a restart, or a run of the command on files, changes nothing that was handed out before.
//!
//! # Invariants
//!
//! - A subnet belongs to at most one network of a connect, and a tunnel key to at most one
//!   connect. Who hands out the keys of networks does not know those of connects: a network that comes with the key of one
//!   is told, and the connect keeps it.
//! - What a network has is its own for as long as it is selected, and while it is unclear whether it is. A layer2 network
//!   gathers with others when one comes or goes, see the allocator; a layer3 network never moves.
//! - No block is handed out in which no port could have a tunnel key.
//! - A connect that fails validation, or whose annotations cannot be read, keeps what it has.

mod allocator;
mod controller;
mod error;
mod held;
mod label_selector;
mod objects;
mod report;
mod router_keys;
mod selection;
mod status;
mod validation;

pub use controller::ClusterController;
pub use objects::Objects;
pub use report::{CncOutcome, Report, Warning};
pub use status::{ACCEPTED, with_verdict};
