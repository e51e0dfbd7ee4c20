//! The user-defined networks themselves, which a process writes only if it is configured so.
//!
//! [`NetworkManagerTask`] is the cluster manager's part: definitions, ids, subnets and addresses in
//! objects. [`NetworkZoneTask`] is the zone controller's part: rows of networks, pods, policies and
//! services. Both read complete objects, and so they have watches of their own.

mod difference;
mod manager_task;
mod object_change;
mod object_problems;
mod object_writes;
mod passing_problems;
mod problem_log;
mod sources;
mod watched;
mod write_outcome;
mod writer;
mod written_object;
mod zone_task;

pub(super) use manager_task::NetworkManagerTask;
pub(super) use object_problems::{ObjectProblem, ProblemEvents, lease_reference};
pub(super) use passing_problems::PassingProblems;
pub(super) use sources::{KindSource, ObjectSources};
pub(super) use watched::{Decoding, keep_all, project, without_containers, without_node_details};
pub(super) use writer::ObjectWriter;
pub(super) use zone_task::NetworkZoneTask;
