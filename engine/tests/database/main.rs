//! Transactions, indexes and large commits of a database.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod indexes;
mod parallel_commits;
mod transactions;
