//! The number of a session.

use serde::{Deserialize, Serialize};

/// Number of a session. The sessions of one server are numbered in the order of their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SessionId(pub(crate) u64);
