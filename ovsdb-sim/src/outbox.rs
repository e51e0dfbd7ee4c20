//! What is still to be written to a client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::monitor::{PendingUpdates, UpdateText};

/// A reader is behind while more than this waits to be written to it.
const KEEPING_PACE: usize = 1 << 18;
/// What a row among collected changes counts among the bytes that wait, when nothing can be merged into them any more.
const ROW_WEIGHT: usize = 256;

/// A piece of output.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    Own(Vec<u8>),
    /// What an update says, which is shared between the clients that get the same.
    Update(Arc<UpdateText>),
    /// Nothing to write, but when to go on.
    NotBefore(Instant),
}

impl Chunk {
    /// The bytes, or their first piece.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Update(text) => text.piece(),
            Self::NotBefore(_) => &[],
        }
    }

    /// Whether the first piece is all of it.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Update(text) => text.is_whole(),
            Self::Own(_) | Self::NotBefore(_) => true,
        }
    }
}

/// When more than this waits, the writer does not go on resting.
const WORTH_WRITING: usize = 1 << 16;

/// The output queue of one session. Anybody may add, one writer takes.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// Something was added, or the session ends.
    filled: Notify,
    /// The writer caught up, or the session ends.
    drained: Notify,
    /// The session ends.
    ended: Notify,
    /// More than this many bytes waiting end the session.
    limit: usize,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// How many of them are collected changes.
    collected: usize,
    /// Added and not yet written.
    bytes: usize,
    end: Option<End>,
    /// Something that was added should be written at once.
    urgent: bool,
    /// The writer lets updates gather.
    resting: bool,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    WhenWritten,
    /// What waits is not worth waiting for.
    AtOnce,
}

#[derive(Debug)]
enum Item {
    Chunk(Chunk),
    /// Changes that may grow as long as they are the last item.
    Collected {
        updates: PendingUpdates,
        /// What they count among the bytes that wait, once they cannot grow any more.
        weight: Option<usize>,
    },
}

/// What the writer writes next.
#[derive(Debug)]
pub(crate) enum Batch {
    Chunks(Vec<Chunk>),
    /// To be encoded.
    Collected(PendingUpdates),
}

impl Queue {
    /// Lets nothing be added to the last item.
    fn seal(&mut self) {
        if let Some(Item::Collected { updates, weight }) = self.items.back_mut()
            && weight.is_none()
        {
            let rows = updates.rows() * ROW_WEIGHT;
            *weight = Some(rows);
            self.bytes += rows;
        }
    }

    /// The next items of one kind.
    fn take(&mut self) -> Option<Batch> {
        if let Some(Item::Collected { .. }) = self.items.front()
            && let Some(Item::Collected { updates, weight }) = self.items.pop_front()
        {
            self.collected -= 1;
            self.bytes = self.bytes.saturating_sub(weight.unwrap_or(0));
            return Some(Batch::Collected(updates));
        }
        let is_chunk = |item: &Item| matches!(item, Item::Chunk(_));
        let count = self.items.iter().take_while(|item| is_chunk(item)).count();
        let chunks = self.items.drain(..count).filter_map(|item| match item {
            Item::Chunk(chunk) => Some(chunk),
            Item::Collected { .. } => None,
        });
        let chunks: Vec<_> = chunks.collect();
        (!chunks.is_empty()).then_some(Batch::Chunks(chunks))
    }
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            queue: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            ended: Notify::new(),
            limit,
        }
    }

    /// Adds a message in pieces, which is written at once with all that was added before. A client that is too far
    /// behind is cut off: what it misses it gets by monitoring anew.
    pub(crate) fn push(&self, message: impl IntoIterator<Item = Chunk>) {
        self.add(message, true);
    }

    /// As [`push`](Self::push), but the message may wait for others while the writer [rests](Self::rest).
    pub(crate) fn push_update(&self, message: impl IntoIterator<Item = Chunk>) {
        self.add(message, false);
    }

    fn add(&self, message: impl IntoIterator<Item = Chunk>, urgent: bool) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        queue.seal();
        for chunk in message {
            queue.bytes += chunk.bytes().len();
            queue.items.push_back(Item::Chunk(chunk));
        }
        if queue.bytes > self.limit {
            tracing::warn!(
                bytes = queue.bytes,
                limit = self.limit,
                "client reads too slowly: closing its connection"
            );
            drop(queue);
            self.cut_off();
            return;
        }
        queue.urgent |= urgent || queue.bytes > WORTH_WRITING;
        let is_waited_for = queue.urgent || !queue.resting;
        drop(queue);
        if is_waited_for {
            self.filled.notify_one();
        }
    }

    /// Whether the client reads so slowly that changes should be collected until it has read what waits.
    pub(crate) fn is_behind(&self) -> bool {
        let queue = self.lock();
        queue.collected > 0 || queue.bytes > KEEPING_PACE
    }

    /// Adds changes to those that are the last of what waits. They are encoded when it is their turn.
    pub(crate) fn collect(&self, add: impl FnOnce(&mut PendingUpdates)) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        if let Some(Item::Collected {
            updates,
            weight: None,
        }) = queue.items.back_mut()
        {
            add(updates);
            return;
        }
        let mut updates = PendingUpdates::default();
        add(&mut updates);
        queue.items.push_back(Item::Collected {
            updates,
            weight: None,
        });
        queue.collected += 1;
        drop(queue);
        self.filled.notify_one();
    }

    /// Lets no more changes be added to those that wait: the monitors change.
    pub(crate) fn seal(&self) {
        self.lock().seal();
    }

    /// How long a message may be at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Ends the session after what was added is written.
    pub(crate) fn close(&self) {
        self.lock().end.get_or_insert(End::WhenWritten);
        self.wake_all();
    }

    /// Ends the session at once.
    pub(crate) fn cut_off(&self) {
        let mut queue = self.lock();
        queue.end = Some(End::AtOnce);
        queue.items = VecDeque::new();
        queue.collected = 0;
        drop(queue);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.filled.notify_one();
        self.drained.notify_one();
        self.ended.notify_one();
    }

    /// Waits until the session ends; whether what was added is still to be written.
    pub(crate) async fn ended(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if let Some(end) = queue.end {
                    return end == End::WhenWritten;
                }
            }
            self.ended.notified().await;
        }
    }

    /// Lets updates gather for so long, so that a client that follows many changes gets them in few pieces; ends early
    /// when something urgent is added.
    pub(crate) async fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            {
                let mut queue = self.lock();
                queue.resting = !queue.urgent && queue.end.is_none();
                if !queue.resting {
                    return;
                }
            }
            if timeout_at(end, self.filled.notified()).await.is_err() {
                self.lock().resting = false;
                return;
            }
        }
    }

    /// Waits for something to write and takes it, and tells whether some of it, or of what follows, is urgent; none when
    /// the session ends.
    pub(crate) async fn take(&self) -> Option<(Batch, bool)> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(batch) = queue.take() {
                    if !queue.items.is_empty() {
                        return Some((batch, true));
                    }
                    let urgent = std::mem::take(&mut queue.urgent);
                    return Some((batch, urgent));
                }
                if queue.end.is_some() {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Collected changes, or what follows the first piece of a chunk, have become this many bytes.
    pub(crate) fn encoded(&self, bytes: usize) {
        self.lock().bytes += bytes;
        // Those who wait for less to wait count what was collected, too.
        self.written(0);
    }

    /// The writer has written this many bytes.
    pub(crate) fn written(&self, bytes: usize) {
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        if queue.bytes == 0 {
            self.drained.notify_one();
        }
    }

    /// Waits until less than `bytes` wait to be written, and no collected changes; false when the session ends.
    pub(crate) async fn wait_below(&self, bytes: usize) -> bool {
        loop {
            {
                let queue = self.lock();
                let is_little = queue.bytes < bytes && queue.collected == 0;
                if is_little || queue.end.is_some() {
                    return queue.end.is_none();
                }
            }
            self.drained.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between statements, so a panic elsewhere does not spoil it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> [Chunk; 1] {
        [Chunk::Own(text.as_bytes().to_vec())]
    }

    async fn taken(outbox: &Outbox) -> (String, bool) {
        let (Batch::Chunks(chunks), urgent) = outbox.take().await.unwrap() else {
            panic!("nothing was collected")
        };
        let bytes = chunks.iter().flat_map(Chunk::bytes).copied();
        (String::from_utf8(bytes.collect()).unwrap(), urgent)
    }

    /// Nobody waits for the end of such a rest.
    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn updates_gather_while_the_writer_rests_and_a_reply_takes_them_along() {
        let outbox = Outbox::new(usize::MAX);
        outbox.push_update(text("a"));
        assert_eq!(taken(&outbox).await, ("a".into(), false));

        tokio::join!(outbox.rest(Duration::from_millis(1)), async {
            outbox.push_update(text("b"));
            outbox.push_update(text("c"));
        });
        assert_eq!(taken(&outbox).await, ("bc".into(), false));

        tokio::join!(outbox.rest(LONG), async {
            outbox.push_update(text("d"));
            outbox.push(text("e"));
        });
        assert_eq!(taken(&outbox).await, ("de".into(), true));
    }

    #[tokio::test]
    async fn much_to_write_and_the_end_of_the_session_end_a_rest() {
        let outbox = Outbox::new(usize::MAX);
        tokio::join!(outbox.rest(LONG), async {
            outbox.push_update([Chunk::Own(vec![b'x'; WORTH_WRITING + 1])]);
        });
        outbox.take().await.unwrap();
        tokio::join!(outbox.rest(LONG), async { outbox.close() });
        assert!(outbox.take().await.is_none());
    }
}
