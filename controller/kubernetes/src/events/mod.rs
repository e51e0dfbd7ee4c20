//! Kubernetes events and log lines about objects with problems.

pub(crate) mod condition_events;
pub(crate) mod event_throttle;
pub(crate) mod object_problems;
pub(crate) mod passing_problems;
pub(crate) mod problem_log;
pub(crate) mod queue;
pub(crate) mod read_failure_events;
