//! Cluster manager: everything that is allocated once for the whole cluster.
//!
//! ```text
//! networks    attachment definitions, network ids, node ids, node subnets, transit addresses
//! connects    tunnel keys of connect routers, connect subnets, the condition `Accepted`
//! ```
//!
//! Both are pure functions of objects: what was allocated is in the annotations, so a restart
//! changes nothing. They share the position from which routers get tunnel keys,
//! [`RouterKeyCursor`].

pub mod connects;
mod cursor;
pub mod networks;
mod router_key_cursor;

pub use router_key_cursor::RouterKeyCursor;
