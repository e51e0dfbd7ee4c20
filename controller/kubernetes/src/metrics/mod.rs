//! Metrics of a process.
//!
//! What happens is counted and measured by the recorder of the process: `controllers`, `requests` and
//! the watches. What is, such as the state of connects, is read from the last pass at each scrape
//! ([`process_state`]), so that no series outlives its object. `names` lists all of them.

pub(crate) mod controllers;
pub(crate) mod manager_state;
pub(crate) mod names;
pub(crate) mod process_state;
pub(crate) mod recorder;
pub(crate) mod requests;
