//! Conversion of objects, as virtual private clouds need them.

mod balancers;
mod expression;
mod groups;
mod node;
mod ports;
mod rules;
mod scene;
mod subnet;

pub use node::vpc_node;
pub use ports::port_requests;
pub use scene::{vpc, vpc_scene};
