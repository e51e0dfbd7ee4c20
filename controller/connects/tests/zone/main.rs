//! Tests of the public interface with a database, the objects of a cluster, and plans of the
//! controller.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod connecting;
mod convergence;
mod graphs;
mod inactive;
mod incremental;
mod inputs;
mod limits;
mod ownership;
mod service_only;
mod splitting;
mod unknown;
mod unreadable;
mod world;
