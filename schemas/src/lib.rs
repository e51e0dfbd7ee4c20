//! OVSDB's schema, value model and notation, and generated types for OVN_Northbound.
//!
//! Everything here is plain data: no sockets, no tasks, no clock. The transaction engine, the client
//! and the simulator all build on these types.

pub mod atom;
pub mod codegen;
pub mod datum;
pub mod delta;
pub mod error;
pub mod hash_order;
pub mod json;
#[cfg(feature = "nb")]
pub mod nb;
pub mod row;
pub mod schema;
pub mod strings;
pub mod typed;
mod utf8;
pub mod uuids;
pub mod wire;
