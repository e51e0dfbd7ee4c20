//! The simulator in the process that uses it. It is one program, because each one that links the
//! simulator takes seconds to compile.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../limits/client.rs"]
mod client;
mod cluster;
mod control_access;
mod conversions;
mod databases;
mod description;
mod embedded;
mod following;
mod reference;
mod reset;
mod rows;
mod seed;
mod time;
