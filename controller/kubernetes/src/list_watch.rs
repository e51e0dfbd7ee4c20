//! List-and-watch: keeps a store equal to the API server's objects of one kind.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use patchbay_resources::Violation;
use patchbay_resources::manifests::ObjectKey;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::api::Api;
use super::config::Timing;
use super::watch_backoff::{Recovery, WatchBackoff};
use super::watch_error::{WatchError, with_timeout};

/// Objects per page of a list. A page of nodes, each with the subnets of 1,000 networks in its
/// annotations, is up to 12 MB of JSON.
pub(super) const LIST_PAGE_OBJECTS: u32 = 250;

/// A watch that ends earlier than this without any event counts as failed, and the next one is
/// delayed. Otherwise a proxy that ends each watch at once would get thousands of requests a
/// second.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1);

/// Keeps a store equal to the API server's objects of one kind that have the given labels.
///
/// Lists come in pages. A watch that ends continues at the last known resource version. After
/// 410 Gone, everything is listed again; readers keep the previous objects until the new list is
/// complete. Failures are retried after delays of up to 30 s, forever.
///
/// # Why not `kube::runtime::watcher`
///
/// * Its idle limit of about 300 s covers open watches only. Here every wait is limited, so that an
///   API server that no longer answers does not leave readers with outdated objects.
/// * It has no optional kinds. Here a kind that the cluster lacks is an empty store, and readers do
///   not wait for its definition ([`KindPresence::Optional`]).
/// * It ignores `Retry-After`. Here the requested time is added to the back-off.
/// * An object that cannot be decoded fails its whole list, forever. Here its former version stays,
///   and the others are read. An object of a
///   [`TolerantObject`](super::tolerant_object::TolerantObject) kind is kept as an
///   [`UndecodableObject`](super::tolerant_object::UndecodableObject).
pub(super) struct ListWatch {
    api: Api,
    kind: &'static str,
    /// Label selector; empty: all objects.
    labels: &'static str,
    timing: Timing,
    sink: Box<dyn ObjectSink>,
    backoff: WatchBackoff,
    recovery: Recovery,
    /// `true` after a failure, until a request succeeds.
    has_failed: bool,
    /// Objects that cannot be decoded, with the logged reason.
    undecodable: BTreeMap<ObjectKey, Violation>,
    presence: KindPresence,
    /// Time since which the cluster lacks the kind. `None`: it has the kind.
    missing_since: Option<Instant>,
}

/// Presence of a kind in clusters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum KindPresence {
    /// Each cluster has the kind.
    Required,
    /// A cluster may lack the kind. It has no objects of it until the kind is defined.
    Optional,
}

/// Receiver of the objects of one kind, which decodes them.
pub(super) trait ObjectSink: Send {
    /// Starts a list. Readers see the previous objects until it is complete.
    fn begin_list(&mut self);

    /// Adds an object to the list in progress.
    ///
    /// # Errors
    /// The object cannot be decoded. Its former version is listed instead.
    fn add_listed(&mut self, key: ObjectKey, object: Value) -> Result<(), Violation>;

    /// Completes the list: objects that it lacks are removed.
    fn complete_list(&mut self);

    /// Sets an object to its current value.
    ///
    /// # Errors
    /// The object cannot be decoded. Its former version stays.
    fn put(&mut self, key: ObjectKey, object: Value) -> Result<(), Violation>;

    /// Removes an object.
    fn remove(&mut self, key: &ObjectKey);

    /// `true` if no objects are known.
    fn is_empty(&self) -> bool;
}

/// End of a watch that did not fail.
#[derive(Debug)]
enum WatchEnd {
    /// The API server ended the watch, as it does every few minutes.
    ByServer,
    /// Nothing arrived for `Timing::watch_idle_timeout`.
    Idle,
    /// Nothing arrived at all for `Timing::watch_idle_timeout`, not even a bookmark.
    Silent,
}

impl ListWatch {
    pub(super) fn new(
        api: Api,
        kind: &'static str,
        timing: Timing,
        sink: Box<dyn ObjectSink>,
        recovery: Recovery,
    ) -> Self {
        Self {
            api,
            kind,
            labels: "",
            timing,
            sink,
            backoff: WatchBackoff::default(),
            recovery,
            has_failed: false,
            undecodable: BTreeMap::new(),
            presence: KindPresence::Required,
            missing_since: None,
        }
    }

    /// Watches only the objects with these labels.
    pub(super) fn labelled(self, labels: &'static str) -> Self {
        Self { labels, ..self }
    }

    /// Watches a kind with this presence.
    pub(super) fn with_presence(self, presence: KindPresence) -> Self {
        Self { presence, ..self }
    }

    /// Lists and watches, forever.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let version = self.list().await;
            self.watch_from(version).await;
            tokio::time::sleep(self.backoff.before_relist()).await;
        }
    }

    /// Lists all objects, and retries until that succeeds. Returns the list's resource version.
    async fn list(&mut self) -> String {
        loop {
            match self.try_list().await {
                Ok(version) => {
                    self.backoff.reset();
                    self.announce_recovery();
                    self.missing_since = None;
                    return version;
                }
                Err(error)
                    if self.presence == KindPresence::Optional && error.code() == Some(404) =>
                {
                    self.note_missing_kind().await;
                }
                Err(error) => self.wait_after_error(&error, "cannot list objects").await,
            }
        }
    }

    /// Empties the store of a kind that the cluster lacks, and waits before the next list.
    ///
    /// The kind may be defined at any time. Known objects stay for
    /// [`Timing::missing_kind_grace_period`], because a definition that is replaced looks the same
    /// as one that is gone. The objects of a deleted definition are deleted before it, with events,
    /// so its store is empty already.
    async fn note_missing_kind(&mut self) {
        let (kind, now) = (self.kind, Instant::now());
        if self.missing_since.is_none() {
            tracing::warn!(%kind, "the cluster does not have this kind; waiting for its definition");
        }
        let absence = now - *self.missing_since.get_or_insert(now);
        let has_objects = !self.sink.is_empty();
        if !has_objects || absence >= self.timing.missing_kind_grace_period {
            if has_objects {
                tracing::warn!(%kind, ?absence, "the kind is still missing; its objects count as deleted");
            }
            self.sink.begin_list();
            self.sink.complete_list();
        }
        tokio::time::sleep(self.backoff.after_failure()).await;
    }

    async fn try_list(&mut self) -> Result<String, WatchError> {
        let mut page = ListParams::default()
            .limit(LIST_PAGE_OBJECTS)
            .labels(self.labels);
        let mut undecodable = BTreeSet::new();
        self.sink.begin_list();
        loop {
            let listed = with_timeout(self.timing.request_timeout, self.api.list(&page)).await?;
            for object in listed.items {
                let key = key_of(&object);
                let added = self.sink.add_listed(key.clone(), object);
                if added.is_err() {
                    undecodable.insert(key.clone());
                }
                self.note_decoding(key, added);
            }
            let metadata = listed.metadata;
            page.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                let version = metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let version = version.ok_or(WatchError::NoResourceVersion)?;
                self.sink.complete_list();
                self.undecodable.retain(|key, _| undecodable.contains(key));
                return Ok(version);
            }
        }
    }

    /// Watches from a resource version on, until no watch can continue there.
    ///
    /// A new watch that is as silent as the last one may never have an event: after a restore of
    /// etcd the version is in the future, and an API server leaves out everything before it.
    async fn watch_from(&mut self, mut version: String) {
        let mut was_idle = false;
        loop {
            let watched = self.watch_once(&mut version).await;
            let is_silent = matches!(watched, Ok(WatchEnd::Silent));
            if is_silent && was_idle {
                let kind = self.kind;
                tracing::info!(%kind, "the watch stays silent; listing all objects again");
                return;
            }
            was_idle = matches!(watched, Ok(WatchEnd::Idle | WatchEnd::Silent));
            match watched {
                Ok(WatchEnd::ByServer) => {}
                Ok(WatchEnd::Idle | WatchEnd::Silent) => {
                    let kind = self.kind;
                    tracing::debug!(%kind, "the watch is idle; opening it again");
                }
                Err(error) if error.requires_relist() => {
                    let kind = self.kind;
                    tracing::info!(%kind, %error, "the watch cannot continue; listing all objects again");
                    return;
                }
                Err(error) => self.wait_after_error(&error, "cannot watch objects").await,
            }
        }
    }

    /// Opens one watch at `version`, applies its events to the store, and advances `version`.
    async fn watch_once(&mut self, version: &mut String) -> Result<WatchEnd, WatchError> {
        let params = WatchParams::default().labels(self.labels);
        let events = with_timeout(
            self.timing.request_timeout,
            self.api.watch(&params, version),
        )
        .await?;
        self.announce_recovery();
        let mut events = pin!(events);
        let opened = Instant::now();
        let (mut is_silent, mut has_event) = (true, false);
        loop {
            let event = match timeout(self.timing.watch_idle_timeout, events.next()).await {
                Ok(Some(event)) => event,
                Ok(None) if !has_event && opened.elapsed() < MIN_WATCH_DURATION => {
                    return Err(WatchError::EndedAtOnce);
                }
                Ok(None) => {
                    self.backoff.reset();
                    return Ok(WatchEnd::ByServer);
                }
                Err(_) if is_silent => return Ok(WatchEnd::Silent),
                Err(_) => return Ok(WatchEnd::Idle),
            };
            is_silent = false;
            let seen_version = match event {
                Ok(WatchEvent::Bookmark(mark)) => mark.metadata.resource_version,
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    has_event = true;
                    let (key, version) = (key_of(&object), version_of(&object));
                    let put = self.sink.put(key.clone(), object);
                    self.note_decoding(key, put);
                    version
                }
                Ok(WatchEvent::Deleted(object)) => {
                    has_event = true;
                    let key = key_of(&object);
                    self.sink.remove(&key);
                    self.undecodable.remove(&key);
                    version_of(&object)
                }
                Ok(WatchEvent::Error(status)) => {
                    return Err(WatchError::ErrorEvent(status.boxed()));
                }
                Err(error) => return Err(WatchError::Request(error)),
            };
            if !seen_version.is_empty() {
                *version = seen_version;
            }
            if has_event {
                self.backoff.reset();
            }
        }
    }

    /// Logs an object that cannot be decoded, once for each reason.
    fn note_decoding(&mut self, key: ObjectKey, decoded: Result<(), Violation>) {
        let Err(violation) = decoded else {
            self.undecodable.remove(&key);
            return;
        };
        if self.undecodable.get(&key) != Some(&violation) {
            let kind = self.kind;
            tracing::warn!(%kind, object = %key, error = %violation,
                "the object cannot be decoded; its former version is used, if there is one");
            self.undecodable.insert(key, violation);
        }
    }

    async fn wait_after_error(&mut self, error: &WatchError, failure: &str) {
        let kind = self.kind;
        tracing::warn!(%kind, %error, "{failure}");
        // The back-off is added because the server asks all processes to wait for the same time.
        let retry_after = error.retry_after().unwrap_or_default();
        self.has_failed = true;
        tokio::time::sleep(retry_after).await;
        self.recovery.wait(self.backoff.after_failure()).await;
    }

    fn announce_recovery(&mut self) {
        if std::mem::take(&mut self.has_failed) {
            self.recovery.announce();
        }
    }
}

/// Key of an object of an API server.
fn key_of(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    ObjectKey {
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Resource version of an object of an API server; empty: it has none.
fn version_of(object: &Value) -> String {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap_or_default().to_owned()
}
