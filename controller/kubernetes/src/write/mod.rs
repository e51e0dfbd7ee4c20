//! Writes of objects.

pub(crate) mod applied_parts;
pub(crate) mod difference;
pub(crate) mod object_change;
pub(crate) mod object_writes;
pub(crate) mod request_pool;
pub(crate) mod write_error;
pub(crate) mod write_outcome;
pub(crate) mod write_retries;
pub(crate) mod writer;
pub(crate) mod written_object;
