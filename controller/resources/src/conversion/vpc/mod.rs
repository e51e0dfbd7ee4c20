//! Conversion of objects, as virtual private clouds need them.

mod balancers;
mod expression;
mod groups;
mod ip_pools;
mod node;
mod ports;
mod rules;
mod scene;
mod subnet;
mod virtual_ips;

pub use node::vpc_node;
pub use ports::{machine_name, port_requests};
pub use scene::{read_addresses, vpc, vpc_scene};
