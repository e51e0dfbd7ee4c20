//! What kind of server a simulator passes for.

use serde::{Deserialize, Serialize};

/// How the databases of a server are kept, as the `model` column of `_Server` tells clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// By this server alone. No history is kept: a client that comes back gets everything anew.
    #[default]
    Standalone,
    /// By a RAFT cluster of which this server is the only member and so the leader. Transactions have ids, and a
    /// client that comes back with the last one it heard of gets what it missed, as far as the history reaches.
    Clustered,
}

/// What a server is in the cluster of a database, as the columns `leader` and `connected` of `_Server` tell clients.
///
/// In the control API's JSON: `"leader"`, `"follower"`, `"disconnected"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The leader.
    Leader,
    /// Another server is the leader. Transactions are forwarded to it, so that clients notice nothing but that
    /// `leader` is false.
    Follower,
    /// There is no leader. Everything can be read, but transactions that change something wait until there is one.
    Disconnected,
}

impl Role {
    pub(crate) fn is_leader(self) -> bool {
        self == Self::Leader
    }

    pub(crate) fn is_connected(self) -> bool {
        self != Self::Disconnected
    }
}
