//! Kubernetes objects that the controller reads and writes.

pub mod cnc;
pub mod nad;
pub mod selector;
pub mod udn;
mod violation;

pub use violation::Violation;
