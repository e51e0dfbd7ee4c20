//! What the task behind a client tells its handles.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::db::Snapshot;

use super::embedded::EmbeddedDatabase;
use super::subscription::Followers;

/// How far the replica has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The number of the connection that the replica follows or followed last.
    pub(super) session: u64,
    /// Whether it follows it still.
    pub(super) live: bool,
    /// Whether the server is done with all former connections.
    pub(super) fenced: bool,
    /// How often a new snapshot was published.
    pub(super) changes: u64,
}

/// Where handles read.
#[derive(Debug)]
pub(super) enum Shared {
    /// What the task has published last.
    Replica(Published),
    /// There is no task and no copy.
    Embedded(Box<dyn EmbeddedDatabase>),
}

/// What the task tells handles.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) snapshot: ArcSwap<Snapshot>,
    pub(super) followers: Followers,
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            followers: Followers::default(),
        }
    }
}

impl Shared {
    pub(super) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Replica(published) => Snapshot::clone(&published.snapshot.load()),
            Self::Embedded(database) => database.snapshot(),
        }
    }
}

/// Belongs to the task: when it is dropped, those who wait hear that nothing comes any more. The task ends with the last
/// handle, though somebody may wait for changes still, or with the runtime that it runs on.
pub(super) struct Ending {
    shared: Arc<Shared>,
    progress: watch::Sender<Progress>,
}

impl Ending {
    pub(super) fn new(shared: Arc<Shared>, progress: watch::Sender<Progress>) -> Self {
        Self { shared, progress }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.progress.send_modify(|progress| progress.live = false);
        if let Shared::Replica(published) = &*self.shared {
            published.followers.end();
        }
    }
}
