//! Packets between pods on real OVN: what rows promise, and what spoiled rows break.
//!
//! The tests need OVN 25.03 or newer, which is unpacked into the target folder once. Where it
//! cannot be had they are skipped, with a line on standard error.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod connection_states;
mod connects;
mod ends;
mod faults;
mod older_releases;
mod own_rows;
mod own_topologies;
mod port_security;
mod random_graphs;
mod random_rows;
mod scenarios;
mod spoiled_rows;
mod support;
mod vpcs;
