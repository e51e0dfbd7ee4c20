//! The definitions that `patchbay crds` prints, compared with the rules of the types in Rust and
//! with the rules of API servers for definitions.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod agreement;
mod command;
#[path = "../support/control_plane.rs"]
mod control_plane;
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
