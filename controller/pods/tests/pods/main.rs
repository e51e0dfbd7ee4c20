//! Addresses and ports of pods through the public API.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop a test")]

mod allocation;
mod attachments;
mod bindings;
mod migration;
mod world;
