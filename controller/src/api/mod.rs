//! Kubernetes objects that the controller reads and writes.

pub mod cnc;
pub mod nad;
pub mod udn;
