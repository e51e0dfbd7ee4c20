//! The definitions that `patchbay crds` prints, against the rules that the types keep in Rust, and against the rules
//! that API servers keep for definitions.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod agreement;
mod command;
mod corpus;
mod cost;
mod definition;
mod generate;
mod policies;
mod refused;
mod rules;
mod schema;
mod server;
mod structure;
