//! Data sets, clients, server processes, tables and charts that the benchmarks share.

pub mod client;
pub mod connect;
pub mod networks;
pub mod northbound;
pub mod parts;
pub mod process;
pub mod stopwatch;
pub mod text;
pub mod vpcs;
