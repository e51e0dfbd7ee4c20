//! Election of the leader among cluster managers.

pub(crate) mod leader_election;
pub(crate) mod other_managers;
