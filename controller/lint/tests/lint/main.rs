//! Findings about manifests.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod docs;
mod golden;
mod northbound;
mod rows;
mod sarif;
mod set;
mod silence;
mod table;
