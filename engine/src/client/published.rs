//! State that the task behind a client publishes for its handles.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use uuid::Uuid;

use crate::db::Snapshot;

use super::embedded::EmbeddedDatabase;
use super::progress::ReplicaProgress;
use super::subscription::Subscribers;

/// Source of the snapshots that handles read.
#[derive(Debug)]
pub(super) enum SnapshotSource {
    /// The last snapshot of the task's replica.
    Replica(PublishedReplica),
    /// The database itself: an embedded client has neither task nor replica.
    Embedded(Box<dyn EmbeddedDatabase>),
}

/// The published snapshot and the subscriptions to changes.
#[derive(Debug)]
pub(super) struct PublishedReplica {
    pub(super) snapshot: ArcSwap<Snapshot>,
    pub(super) subscribers: Subscribers,
}

impl PublishedReplica {
    /// `last`: id of the last transaction that the snapshot shows.
    pub(super) fn new(snapshot: Snapshot, last: Option<Uuid>) -> Self {
        Self { snapshot: ArcSwap::from_pointee(snapshot), subscribers: Subscribers::new(last) }
    }
}

impl SnapshotSource {
    pub(super) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Replica(published) => Snapshot::clone(&published.snapshot.load()),
            Self::Embedded(database) => database.snapshot(),
        }
    }
}

/// Closes the client for its handles and subscriptions when the task drops it: after the last
/// handle was dropped, or when the runtime shuts down. Subscriptions may still wait at that time.
pub(super) struct ClosedOnDrop {
    shared: Arc<SnapshotSource>,
    progress: watch::Sender<ReplicaProgress>,
}

impl ClosedOnDrop {
    pub(super) fn new(
        shared: Arc<SnapshotSource>,
        progress: watch::Sender<ReplicaProgress>,
    ) -> Self {
        Self { shared, progress }
    }

    pub(super) fn shared(&self) -> &SnapshotSource {
        &self.shared
    }
}

impl Drop for ClosedOnDrop {
    fn drop(&mut self) {
        self.progress.send_modify(|progress| progress.live = false);
        if let SnapshotSource::Replica(published) = &*self.shared {
            published.subscribers.close();
        }
    }
}
