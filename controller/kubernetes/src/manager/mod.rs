//! The cluster manager.

pub(crate) mod manager_connects;
pub(crate) mod manager_task;
