//! Responses of watches: one JSON object for each change.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::{once, unfold};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::requests::{Failure, metadata_of};
use super::resources::Resource;
use super::selector::Selector;
use super::storage::Change;
use super::{BOOKMARK_INTERVAL, Shared, WatchEnd};

/// The parameters of a watch.
pub(super) struct Subscription {
    pub(super) resource: &'static Resource,
    pub(super) selector: Selector,
    /// Return changes after this version. `None`: all existing objects first.
    pub(super) version: Option<u64>,
    pub(super) bookmarks: bool,
    pub(super) metadata_only: bool,
    pub(super) seconds: Option<u64>,
}

/// A watch in progress.
struct Running {
    shared: Arc<Shared>,
    subscription: Subscription,
    ticks: tokio::sync::watch::Receiver<u64>,
    /// All changes up to this version have been sent.
    sent: u64,
    /// The version of the last bookmark.
    marked: u64,
    /// Number of orders to drop watches at its start.
    born: u64,
    end: Instant,
    has_begun: bool,
    is_over: bool,
}

/// The lines of a watch. An error in between closes the connection.
pub(super) fn lines(
    shared: Arc<Shared>,
    subscription: Subscription,
) -> impl Stream<Item = Result<Vec<u8>, std::io::Error>> + Send {
    let seconds = subscription.seconds.unwrap_or(3600);
    let born = shared.lock().dropped;
    let running = Running {
        ticks: shared.ticks.subscribe(),
        sent: subscription.version.unwrap_or(0),
        marked: 0,
        born,
        end: Instant::now() + Duration::from_secs(seconds),
        has_begun: false,
        is_over: false,
        shared,
        subscription,
    };
    unfold(running, |mut running| async move {
        let line = running.next().await?;
        Some((line, running))
    })
}

/// The content of a watch that sends nothing until it is dropped.
pub(super) fn silence(
    shared: Arc<Shared>,
) -> impl Stream<Item = Result<Vec<u8>, std::io::Error>> + Send {
    let born = shared.lock().dropped;
    let mut ticks = shared.ticks.subscribe();
    once(async move {
        while shared.lock().dropped == born && ticks.changed().await.is_ok() {}
        Err(std::io::Error::other("the watch is dropped"))
    })
}

impl Running {
    async fn next(&mut self) -> Option<Result<Vec<u8>, std::io::Error>> {
        loop {
            if self.is_over {
                return None;
            }
            match self.news() {
                Ok(text) if !text.is_empty() => return Some(Ok(text)),
                Ok(_) => {}
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
            let pause = (Instant::now() + BOOKMARK_INTERVAL).min(self.end);
            let tick = timeout_at(pause, self.ticks.changed()).await;
            self.is_over |= Instant::now() >= self.end || matches!(tick, Ok(Err(_)));
        }
    }

    /// The lines that have not been sent.
    fn news(&mut self) -> Result<Vec<u8>, std::io::Error> {
        let shared = self.shared.clone();
        let state = shared.lock();
        if state.dropped != self.born {
            self.is_over = true;
            return match state.watch_end {
                WatchEnd::Cut => Err(std::io::Error::other("the watch is dropped")),
                WatchEnd::Clean => Ok(Vec::new()),
            };
        }
        let storage = &state.storage;
        let mut text = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            if self.subscription.version.is_none() {
                for (_, object) in storage.list(self.subscription.resource) {
                    if self.subscription.selector.matches(object) {
                        self.line("ADDED", object, &mut text);
                    }
                }
                self.sent = storage.version();
            }
        }
        if self.sent < storage.forgotten() {
            let failure = Failure::gone(self.sent, storage.forgotten());
            self.is_over = true;
            append("ERROR", &failure.status(), &mut text);
            return Ok(text);
        }
        for change in storage.since(self.subscription.resource, self.sent) {
            if let Some((type_, object)) = self.seen(change) {
                self.line(type_, &object, &mut text);
            }
        }
        // A version of the time before a restore is in the future.
        self.sent = self.sent.max(storage.version());
        let is_present = self.sent == storage.version();
        if self.subscription.bookmarks && text.is_empty() && is_present && self.marked < self.sent {
            self.marked = self.sent;
            let resource = self.subscription.resource;
            let bookmark = json!({
                "apiVersion": resource.api_version(), "kind": resource.kind,
                "metadata": {"resourceVersion": self.sent.to_string()},
            });
            append("BOOKMARK", &bookmark, &mut text);
        }
        Ok(text)
    }

    /// A change as seen through the watch's selector.
    fn seen(&self, change: &Change) -> Option<(&'static str, Value)> {
        let selects = |object: &Value| self.subscription.selector.matches(object);
        let was = change.before.as_ref().is_some_and(selects);
        let is = !change.deleted && selects(&change.after);
        let type_ = match (was, is) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some((type_, change.after.clone()))
    }

    fn line(&self, type_: &str, object: &Value, text: &mut Vec<u8>) {
        if self.subscription.metadata_only {
            append(type_, &metadata_of(object), text);
        } else {
            append(type_, object, text);
        }
    }
}

fn append(type_: &str, object: &Value, text: &mut Vec<u8>) {
    text.extend(json!({"type": type_, "object": object}).to_string().into_bytes());
    text.push(b'\n');
}
