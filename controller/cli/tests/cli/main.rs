//! The `patchbay` command as users run it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod ages;
mod archives;
mod collected;
mod command;
mod completions;
mod connected;
mod demo;
mod diff;
mod differences;
mod dumps;
mod errors;
mod examples;
mod explain;
mod explain_objects;
mod explain_rows;
mod gateways;
mod graph;
mod help;
mod history;
mod hostile;
mod killed;
mod lint;
mod manifests;
mod networks;
mod output;
mod plan;
mod prune;
mod reach;
mod refused;
mod report;
mod server;
mod server_failures;
mod snapshot;
mod state;
mod tls;
mod ui;
mod unreadable;
mod views;
mod vpcs;
mod watch;
mod watching;
