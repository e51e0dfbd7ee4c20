//! Rows and answers compared with OVN's own programs.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod expressions;
mod features;
mod flood;
mod health_checks;
mod linked;
mod lint_rows;
mod nat_rules;
mod neighbors;
mod northd;
mod notations;
mod outside;
mod provider_networks;
mod questions;
mod routers;
mod scenarios;
mod spoiled;
mod stateless;
mod templates;
mod vpcs;
