//! Load balancers of services in a database: what recordings do not show.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop a test")]

mod endpoints;
mod load_balancers;
mod nodes;
mod world;
