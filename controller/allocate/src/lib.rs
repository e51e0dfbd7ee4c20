//! Cluster manager: everything that is allocated once for the whole cluster.
//!
//! ```text
//! networks    attachment definitions, network ids, node ids, node subnets, transit addresses
//! connects    tunnel keys of connect routers, connect subnets, the condition `Accepted`
//! vpcs        addresses of ports and external addresses in VPCs, their status
//! ```
//!
//! All are pure functions of objects: what was allocated is in the objects, so a restart changes
//! nothing. Networks and connects share the position from which routers get tunnel keys,
//! [`RouterKeyCursor`].

pub mod connects;
mod cursor;
pub mod networks;
mod router_key_cursor;
pub mod vpcs;

pub use router_key_cursor::RouterKeyCursor;
