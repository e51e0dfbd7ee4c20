//! Kubernetes objects that the controller reads and writes.

mod address;
pub mod cnc;
mod condition;
pub mod ipam_claim;
pub mod manifests;
pub mod nad;
pub mod object;
pub mod read;
pub mod selector;
pub mod state;
pub mod udn;
mod violation;

pub use condition::set_condition;
pub use violation::Violation;
