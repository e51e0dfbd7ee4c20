//! Manifests of files, and the rows that follow in the databases of zones.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod egress;
mod firewall;
mod new_ports;
mod services;
