//! What is still to be written to a client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// A piece of output; update bodies are shared between the clients that get the same.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    Own(Vec<u8>),
    Shared(Arc<Vec<u8>>),
    /// Nothing to write, but when to go on.
    NotBefore(Instant),
}

impl Chunk {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::NotBefore(_) => &[],
        }
    }
}

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
    chunks: VecDeque<Chunk>,
    /// Added and not yet written.
    bytes: usize,
    closed: bool,
    /// What waits is not worth waiting for.
    cut_off: bool,
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

    /// Adds a message in pieces. A client that is too far behind is cut off: what it misses it gets by
    /// monitoring anew.
    pub(crate) fn push(&self, message: impl IntoIterator<Item = Chunk>) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        for chunk in message {
            queue.bytes += chunk.bytes().len();
            queue.chunks.push_back(chunk);
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
        drop(queue);
        self.filled.notify_one();
    }

    /// How long a message may be at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Ends the session after what was added is written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }

    /// Ends the session at once.
    pub(crate) fn cut_off(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.cut_off = true;
        queue.chunks = VecDeque::new();
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
                if queue.closed {
                    return !queue.cut_off;
                }
            }
            self.ended.notified().await;
        }
    }

    /// Waits for chunks and takes them all; none when the session ends.
    pub(crate) async fn take(&self) -> Option<Vec<Chunk>> {
        loop {
            {
                let mut queue = self.lock();
                if !queue.chunks.is_empty() {
                    return Some(queue.chunks.drain(..).collect());
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// The writer has written this many bytes.
    pub(crate) fn written(&self, bytes: usize) {
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        if queue.bytes == 0 {
            self.drained.notify_one();
        }
    }

    /// Waits until less than `bytes` wait to be written; false when the session ends.
    pub(crate) async fn wait_below(&self, bytes: usize) -> bool {
        loop {
            {
                let queue = self.lock();
                if queue.bytes < bytes || queue.closed {
                    return !queue.closed;
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
