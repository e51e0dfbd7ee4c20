//! State of a replica relative to its server.

/// State of the replica relative to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplicaProgress {
    /// Number of the connection that the replica follows, or followed last. The first is 1.
    pub(super) session: u64,
    /// `true` while the replica follows that connection.
    pub(super) live: bool,
    /// `true` once the server has finished with all earlier connections of this client.
    pub(super) fenced: bool,
    /// Number of snapshots published so far.
    pub(super) changes: u64,
}
