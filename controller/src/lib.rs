//! Patchbay's controller: connects isolated user-defined networks through OVN's Northbound database.
//!
//! ```text
//! files:          source, state -> udn (networks, ids, subnets) -> cluster -> zone
//! an API server:  kubernetes (watches, writes, reports)         -> cluster -> zone
//!
//! cluster: selection, validation, allocation, status
//! zone:    desired rows, diff against the northbound, one transaction per connect
//! ```

pub mod api;
pub mod cli;
pub mod cluster;
pub mod explain;
pub mod kubernetes;
mod listing;
pub mod model;
pub mod northbound;
pub mod source;
pub mod state;
pub mod udn;
pub mod zone;
