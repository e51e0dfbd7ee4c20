//! Schemas, conditions and updates, compared with those of other programs and with models.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod generated_nb;
mod known;
mod long_conditions;
mod monitor_updates;
mod ovn_schema;
mod streamed_rows;
