//! Rows of AdminNetworkPolicies and of the BaselineAdminNetworkPolicy.
//!
//! ```text
//! policy   port group of the subject's ports on the default network: an ACL for each rule,
//!          protocol and kind of ports
//! rule     address sets of its peers: pods, nodes and subnets
//! ```
//!
//! The rows are about the default network, as in OVN-Kubernetes: ports and addresses in
//! user-defined networks are not looked at.

mod applied;
mod capability;
mod rows;

pub use capability::AdminPolicies;
