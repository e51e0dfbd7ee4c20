//! Questions about recorded and written databases, through the public API.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod arrivals;
mod choices;
mod differences;
mod hostile;
mod limits;
mod recorded;
mod support;
mod virtual_routers;
mod vpcs;
mod zones;
