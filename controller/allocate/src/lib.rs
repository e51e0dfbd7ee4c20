//! Cluster manager: everything that is allocated once for the whole cluster.
//!
//! ```text
//! networks    attachment definitions, network ids, node ids, node subnets, transit addresses
//! connects    tunnel keys of connect routers, connect subnets, the condition `Accepted`
//! ```
//!
//! Both are pure functions of objects: what was allocated is in the annotations, so a restart
//! changes nothing.

pub mod connects;
pub mod networks;
