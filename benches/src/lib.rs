//! Loads for the benchmarks (the data set "32K" and a plain client to send it with), the servers that bear them, and
//! pictures of their figures.

pub mod client;
pub mod connect;
pub mod northbound;
pub mod parts;
pub mod plot;
pub mod process;
