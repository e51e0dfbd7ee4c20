//! Manifests of files, and the rows that follow in the databases of zones.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod admin_policies;
mod bad_input;
mod claims;
mod dynamic_allocation;
mod egress;
mod firewall;
mod namespace_groups;
mod new_ports;
mod services;
