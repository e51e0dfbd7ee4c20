//! Output queue of a session.

mod collected;
mod queue;
mod shared;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::budget::Charge;
use crate::chunk::Chunk;

use queue::{Item, Queue, SessionEnd};

pub(crate) use collected::CollectedChanges;
pub(crate) use queue::Batch;
pub(crate) use shared::SharedUpdates;

/// Unwritten bytes from which a client is a slow reader, whose changes are collected.
const SLOW_READER_BYTES: usize = 1 << 18;
/// Unwritten bytes at which the writer ends the delay of updates: they fill a system call.
const END_DELAY_BYTES: usize = 1 << 16;

/// Output queue of one session. Any task may add to it, and only the session's writer takes from
/// it.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// Notified when something is added and when the session ends.
    filled: Notify,
    /// Notified when everything is written and when the session ends.
    drained: Notify,
    /// Notified when the session ends.
    ended: Notify,
    /// Notified when what is unwritten becomes long.
    grown: Notify,
    /// Unwritten bytes beyond which the session ends.
    limit: usize,
}

impl Outbox {
    /// Makes an empty queue. Beyond `limit` unwritten bytes the session ends, and beyond `long` when
    /// they stay for [some time](Self::wait_until_stuck).
    pub(crate) fn new(limit: usize, long: usize, charge: Charge) -> Self {
        let queue = Queue {
            items: VecDeque::new(),
            collected: 0,
            bytes: 0,
            charge,
            long,
            long_since: None,
            end: None,
            is_closing: false,
            urgent: false,
            update_delay: Duration::ZERO,
            delaying: false,
        };
        Self {
            queue: Mutex::new(queue),
            filled: Notify::new(),
            drained: Notify::new(),
            ended: Notify::new(),
            grown: Notify::new(),
            limit,
        }
    }

    /// Adds a message in chunks. It is written without delay, after everything that was added
    /// before. A client with too many unwritten bytes is cut off, because it can get the content
    /// again with new monitors.
    pub(crate) fn push(&self, message: impl IntoIterator<Item = Chunk>) {
        self.add(message, None);
    }

    /// Adds a message like [`push`](Self::push). It may wait for others while the writer [delays
    /// updates](Self::delay_updates), and those after it may wait for `delay`.
    pub(crate) fn push_update(&self, message: impl IntoIterator<Item = Chunk>, delay: Duration) {
        self.add(message, Some(delay));
    }

    /// Adds updates like [`push_update`](Self::push_update). More can be added to them until they
    /// are sealed.
    pub(crate) fn push_shared(&self, updates: &Arc<SharedUpdates>, delay: Duration) {
        let item = Item::Shared { updates: updates.clone(), counted_bytes: updates.len() };
        self.add_items([item], Some(delay));
    }

    /// Adds a message. `None`: it is urgent.
    fn add(&self, message: impl IntoIterator<Item = Chunk>, delay: Option<Duration>) {
        self.add_items(message.into_iter().map(Item::Chunk), delay);
    }

    fn add_items(&self, items: impl IntoIterator<Item = Item>, delay: Option<Duration>) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        queue.seal();
        for item in items {
            queue.bytes += match &item {
                Item::Chunk(chunk) => chunk.bytes().len(),
                Item::Shared { counted_bytes, .. } => *counted_bytes,
                Item::Collected { .. } => 0,
            };
            queue.items.push_back(item);
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
        let Some(mut queue) = self.keep_within_budget(queue) else {
            return;
        };
        queue.urgent |= delay.is_none() || queue.bytes > END_DELAY_BYTES;
        queue.update_delay = delay.unwrap_or(queue.update_delay);
        let wakes_writer = queue.urgent || !queue.delaying;
        drop(queue);
        if wakes_writer {
            self.filled.notify_one();
        }
    }

    /// `true` if the client is a slow reader, whose changes are collected until it has read what
    /// was sent before.
    pub(crate) fn is_behind(&self) -> bool {
        let mut queue = self.lock();
        queue.seal_shared();
        queue.collected > 0 || queue.bytes > SLOW_READER_BYTES
    }

    /// Adds changes to the collected changes at the end of the queue. The writer encodes them when
    /// it reaches them.
    pub(crate) fn collect(&self, add: impl FnOnce(&mut CollectedChanges)) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        if let Some(Item::Collected { changes, charged_bytes: None }) = queue.items.back_mut() {
            add(changes);
            // The writer knows of them.
            self.keep_within_budget(queue);
            return;
        }
        queue.seal();
        let mut changes = CollectedChanges::default();
        add(&mut changes);
        queue.items.push_back(Item::Collected { changes, charged_bytes: None });
        queue.collected += 1;
        if self.keep_within_budget(queue).is_some() {
            self.filled.notify_one();
        }
    }

    /// Charges what the queue holds to the budget. `None`: it is too much, and the session ends.
    fn keep_within_budget<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue>,
    ) -> Option<MutexGuard<'a, Queue>> {
        let was_long = queue.long_since.is_some();
        let charged = queue.charge_held_bytes();
        if !was_long && queue.long_since.is_some() {
            self.grown.notify_one();
        }
        let Err(error) = charged else {
            return Some(queue);
        };
        tracing::warn!(%error, "closing the connection of a client that reads too slowly");
        drop(queue);
        self.cut_off();
        None
    }

    /// Seals the last item, because the session's monitors change.
    pub(crate) fn seal(&self) {
        self.lock().seal();
    }

    /// The number of unwritten bytes beyond which the session ends, also for one message.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Ends the execution of requests. [`close`](Self::close) follows, and until then
    /// notifications are still added.
    pub(crate) fn announce_close(&self) {
        self.lock().is_closing = true;
    }

    /// Returns `true` if the session is about to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Ends the session after everything in the queue is written.
    pub(crate) fn close(&self) {
        self.lock().end.get_or_insert(SessionEnd::WhenWritten);
        self.wake_all();
    }

    /// Ends the session at once and drops the queue.
    pub(crate) fn cut_off(&self) {
        let mut queue = self.lock();
        queue.end = Some(SessionEnd::AtOnce);
        queue.items = VecDeque::new();
        queue.collected = 0;
        // Nothing of it is held any more.
        queue.charge.resize(0).unwrap_or_default();
        drop(queue);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.filled.notify_one();
        self.drained.notify_one();
        self.ended.notify_one();
    }

    /// Waits until the session ends. Returns `true` if the queue is still to be written.
    pub(crate) async fn wait_for_end(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if let Some(end) = queue.end {
                    return end == SessionEnd::WhenWritten;
                }
            }
            self.ended.notified().await;
        }
    }

    /// Waits until what is unwritten has been long for `time`: the client does not read it.
    pub(crate) async fn wait_until_stuck(&self, time: Duration) {
        loop {
            let long_since = self.lock().long_since;
            let Some(since) = long_since else {
                self.grown.notified().await;
                continue;
            };
            sleep_until(since + time).await;
            if self.lock().long_since == long_since {
                return;
            }
        }
    }

    /// Delays the writer for at most `delay`, so that a client that follows many changes gets them
    /// in few pieces. Ends early when something urgent is added.
    pub(crate) async fn delay_updates(&self, delay: Duration) {
        let end = next_beat(delay);
        loop {
            {
                let mut queue = self.lock();
                queue.delaying = !queue.urgent && queue.end.is_none();
                if !queue.delaying {
                    return;
                }
            }
            if timeout_at(end, self.filled.notified()).await.is_err() {
                self.lock().delaying = false;
                return;
            }
        }
    }

    /// Waits for a batch and takes it, with the delay of the updates after it. `None` as the delay:
    /// the batch or a later item is urgent. `None`: the session ends.
    pub(crate) async fn take(&self) -> Option<(Batch, Option<Duration>)> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(batch) = queue.take() {
                    if !queue.items.is_empty() {
                        return Some((batch, None));
                    }
                    let urgent = std::mem::take(&mut queue.urgent);
                    let delay = (!urgent).then_some(queue.update_delay);
                    return Some((batch, delay));
                }
                if queue.end.is_some() {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Counts bytes that the writer encoded: collected changes, or further pieces of an update.
    pub(crate) fn add_encoded_bytes(&self, bytes: usize) {
        self.lock().bytes += bytes;
        // `wait_below` counts collected changes, too, which may be gone now.
        self.remove_written_bytes(0);
    }

    /// Subtracts bytes that the writer has written.
    pub(crate) fn remove_written_bytes(&self, bytes: usize) {
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        // Fewer bytes always fit; more were encoded from what is in memory anyway.
        queue.charge_held_bytes().unwrap_or_default();
        if queue.bytes == 0 {
            self.drained.notify_one();
        }
    }

    /// Waits until there are fewer than `bytes` unwritten bytes and no collected changes. Returns
    /// false when the session ends.
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
        // The queue is consistent between statements, whatever panics.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a delay. All writers with equal delays end them together, because shared updates are
/// sealed when the first of them reads its outbox.
fn next_beat(delay: Duration) -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let now = Instant::now();
    let since_start = nanoseconds(now.saturating_duration_since(*START));
    let left = nanoseconds(delay) - since_start % nanoseconds(delay).max(1);
    now + Duration::from_nanos(left)
}

#[cfg(test)]
mod tests {
    use crate::budget::ByteBudget;

    use super::*;

    fn text(text: &str) -> [Chunk; 1] {
        [Chunk::Bytes(text.as_bytes().to_vec())]
    }

    async fn take_text(outbox: &Outbox) -> (String, Option<Duration>) {
        let (Batch::Chunks(chunks), delay) = outbox.take().await.unwrap() else {
            panic!("nothing was collected")
        };
        let bytes = chunks.iter().flat_map(Chunk::bytes).copied();
        (String::from_utf8(bytes.collect()).unwrap(), delay)
    }

    /// Delay of updates.
    const DELAY: Duration = Duration::from_millis(1);
    /// Longer than a test runs.
    const LONG_DELAY: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn updates_are_batched_during_the_delay_and_a_reply_ends_it() {
        let outbox = Outbox::new(usize::MAX, usize::MAX, ByteBudget::new(usize::MAX).charge());
        outbox.push_update(text("a"), DELAY);
        assert_eq!(take_text(&outbox).await, ("a".into(), Some(DELAY)));

        tokio::join!(outbox.delay_updates(DELAY), async {
            outbox.push_update(text("b"), DELAY);
            outbox.push_update(text("c"), 2 * DELAY);
        });
        assert_eq!(take_text(&outbox).await, ("bc".into(), Some(2 * DELAY)));

        tokio::join!(outbox.delay_updates(LONG_DELAY), async {
            outbox.push_update(text("d"), DELAY);
            outbox.push(text("e"));
        });
        assert_eq!(take_text(&outbox).await, ("de".into(), None));
    }

    #[tokio::test]
    async fn many_bytes_and_the_end_of_the_session_end_the_delay() {
        let outbox = Outbox::new(usize::MAX, usize::MAX, ByteBudget::new(usize::MAX).charge());
        tokio::join!(outbox.delay_updates(LONG_DELAY), async {
            let text = Chunk::Bytes(vec![b'x'; END_DELAY_BYTES + 1]);
            outbox.push_update([text], LONG_DELAY);
        });
        outbox.take().await.unwrap();
        tokio::join!(outbox.delay_updates(LONG_DELAY), async { outbox.close() });
        assert!(outbox.take().await.is_none());
    }

    #[tokio::test]
    async fn shared_updates_are_sealed_by_the_first_outbox_that_goes_on() {
        let outbox = || Outbox::new(usize::MAX, usize::MAX, ByteBudget::new(usize::MAX).charge());
        let outboxes = [outbox(), outbox(), outbox()];
        let share = |update: &[u8]| {
            let updates = SharedUpdates::new(update.to_vec());
            for outbox in &outboxes {
                outbox.push_shared(&updates, DELAY);
            }
            updates
        };
        let first = share(b"a");
        assert!(first.add(b"b"));
        outboxes[1].push(text("reply"));
        assert!(!first.add(b"c"), "the reply comes before the next update");

        let second = share(b"c");
        assert!(second.add(b"d"));
        assert_eq!(take_text(&outboxes[0]).await.0, "abcd");
        assert!(!second.add(b"e"), "an outbox is read");
        let third = share(b"e");
        assert_eq!(take_text(&outboxes[0]).await.0, "e");
        assert_eq!(take_text(&outboxes[1]).await.0, "abreplycde");
        outboxes[2].seal();
        assert!(!third.add(b"f"), "the monitors change");
        assert_eq!(outboxes[2].lock().bytes, "abcde".len());
        assert_eq!(take_text(&outboxes[2]).await.0, "abcde");
    }

    #[tokio::test]
    async fn bytes_of_shared_updates_make_a_slow_reader() {
        let outbox = Outbox::new(usize::MAX, usize::MAX, ByteBudget::new(usize::MAX).charge());
        for _ in 0..=SLOW_READER_BYTES / END_DELAY_BYTES {
            assert!(!outbox.is_behind());
            let updates = SharedUpdates::new(b"x".to_vec());
            outbox.push_shared(&updates, DELAY);
            assert!(updates.add(&vec![b'x'; END_DELAY_BYTES - 1]));
        }
        assert!(outbox.is_behind());
    }
}
