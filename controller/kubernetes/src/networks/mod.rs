//! The objects that controllers read and write.

mod applied_parts;
mod difference;
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

pub(super) use object_problems::{
    ERROR_ALLOCATING_POD, ObjectProblem, ProblemEvents, lease_reference,
};
pub(super) use object_writes::ObjectWrites;
pub(super) use passing_problems::PassingProblems;
pub(super) use problem_log::ProblemLog;
pub(super) use sources::{KindSource, ObjectSources};
pub(super) use watched::{Decoding, Watched, WatchedObject, project};
pub(super) use write_outcome::WriteOutcome;
pub(super) use writer::ObjectWriter;
