//! Items of an outbox.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::{BudgetExceeded, Charge};
use crate::chunk::Chunk;

use super::collected::CollectedChanges;
use super::shared::SharedUpdates;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) items: VecDeque<Item>,
    /// Number of [`Item::Collected`] among the items.
    pub(super) collected: usize,
    /// Bytes that were added and are not written yet. Changes that are still being collected do
    /// not count.
    pub(super) bytes: usize,
    /// Those bytes and what the collected changes hold, in the server's budget.
    pub(super) charge: Charge,
    /// Bytes beyond which what is unwritten is long.
    pub(super) long: usize,
    /// Time since when it is long. `None`: it is not.
    pub(super) long_since: Option<Instant>,
    /// `None`: the session goes on.
    pub(super) end: Option<SessionEnd>,
    /// `true` if the session is about to end, so that no more requests are executed.
    pub(super) is_closing: bool,
    /// `true` if an item should be written without delay.
    pub(super) urgent: bool,
    /// Delay of the update that was added last.
    pub(super) update_delay: Duration,
    /// `true` while the writer delays updates.
    pub(super) delaying: bool,
}

/// End of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// After everything in the queue is written.
    WhenWritten,
    /// At once. The queue is dropped.
    AtOnce,
}

#[derive(Debug)]
pub(super) enum Item {
    Chunk(Chunk),
    /// Updates that other outboxes have, too. More can be added while they are the last item.
    Shared {
        updates: Arc<SharedUpdates>,
        /// Bytes of the queue that are the updates'. They lag behind until the updates are sealed.
        counted_bytes: usize,
    },
    /// Changes to which more can be added while they are the last item.
    Collected {
        changes: CollectedChanges,
        /// Bytes charged to the queue. `None`: the changes are not sealed.
        charged_bytes: Option<usize>,
    },
}

/// Items that the writer takes from the queue at once.
#[derive(Debug)]
pub(crate) enum Batch {
    Chunks(Vec<Chunk>),
    /// Changes that the writer has to encode.
    Collected(CollectedChanges),
}

impl Queue {
    /// Seals the last item: no more changes are added to it.
    pub(super) fn seal(&mut self) {
        if let Some(Item::Collected { changes, charged_bytes }) = self.items.back_mut()
            && charged_bytes.is_none()
        {
            let bytes = changes.sealed_bytes();
            *charged_bytes = Some(bytes);
            self.bytes += bytes;
        }
        self.seal_shared();
    }

    /// Seals shared updates at the end of the queue, and counts all their bytes.
    pub(super) fn seal_shared(&mut self) {
        if let Some(Item::Shared { updates, counted_bytes }) = self.items.back_mut() {
            let bytes = updates.seal().piece().len();
            self.bytes += bytes - *counted_bytes;
            *counted_bytes = bytes;
        }
    }

    /// Resizes the charge to what the queue holds, and notes when that becomes long.
    pub(super) fn charge_held_bytes(&mut self) -> Result<(), BudgetExceeded> {
        if self.bytes <= self.long {
            self.long_since = None;
        } else if self.long_since.is_none() {
            self.long_since = Some(Instant::now());
        }
        let collecting = match self.items.back() {
            Some(Item::Collected { changes, charged_bytes: None }) => changes.held_bytes(),
            Some(_) | None => 0,
        };
        self.charge.resize(self.bytes + collecting)
    }

    /// Takes the next items of one kind. `None`: the queue is empty.
    pub(super) fn take(&mut self) -> Option<Batch> {
        if let Some(Item::Collected { .. }) = self.items.front()
            && let Some(Item::Collected { changes, charged_bytes }) = self.items.pop_front()
        {
            self.collected -= 1;
            self.bytes = self.bytes.saturating_sub(charged_bytes.unwrap_or(0));
            return Some(Batch::Collected(changes));
        }
        self.seal_shared();
        let count =
            self.items.iter().take_while(|item| !matches!(item, Item::Collected { .. })).count();
        let chunks: Vec<_> = self
            .items
            .drain(..count)
            .filter_map(|item| match item {
                Item::Chunk(chunk) => Some(chunk),
                Item::Shared { updates, .. } => Some(Chunk::Update(updates.seal())),
                Item::Collected { .. } => None,
            })
            .collect();
        (!chunks.is_empty()).then_some(Batch::Chunks(chunks))
    }
}
