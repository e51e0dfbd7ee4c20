//! Model of a database, and its role in a cluster.

use serde::{Deserialize, Serialize};

/// Model of a database, which clients read in the column `model` of `_Server`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Standalone databases without a history. A returning client gets the full content.
    #[default]
    Standalone,
    /// Databases of a RAFT cluster with this server as its only member and leader. Transactions
    /// have ids. A client that returns with the last id that it knows gets the changes since then,
    /// as far as the history reaches.
    Clustered,
}

impl Model {
    /// The name in `_Server` and in configuration files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Clustered => "clustered",
        }
    }
}

/// Role of a server in the cluster of a database, which clients read in the columns `leader` and
/// `connected` of `_Server`.
///
/// In the control API's JSON: `"leader"`, `"follower"`, `"disconnected"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The server is the leader.
    Leader,
    /// Another server is the leader. Transactions are forwarded to it, so that for clients only
    /// `leader` differs.
    Follower,
    /// There is no leader. Clients can read everything, but transactions that change something wait
    /// for a leader.
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
