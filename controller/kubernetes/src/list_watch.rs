//! List-and-watch: keeps a store equal to the API server's objects of one kind.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use patchbay_resources::manifests::ObjectKey;
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, timeout};

use super::api::Api;
use super::api_error;
use super::config::Timing;
use super::watch_backoff::{Recovery, WatchBackoff};

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
///   not wait for its definition ([`optional`](Self::optional)).
/// * It ignores `Retry-After`. Here the requested time is added to the back-off.
/// * An object that cannot be decoded fails its whole list, forever. Here an object of a
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
    /// `true` if the cluster may lack the kind, and has no objects of it then.
    is_optional: bool,
    /// `true` if it has been logged that the cluster lacks the kind.
    is_missing_logged: bool,
}

/// Receiver of the objects of one kind, which decodes them.
pub(super) trait ObjectSink: Send {
    /// Starts a list. Readers see the previous objects until it is complete.
    fn begin_list(&mut self);

    /// Adds an object to the list in progress.
    fn add_listed(&mut self, key: ObjectKey, object: Value) -> serde_json::Result<()>;

    /// Completes the list: objects that it lacks are removed.
    fn complete_list(&mut self);

    /// Sets an object to its current value.
    fn put(&mut self, key: ObjectKey, object: Value) -> serde_json::Result<()>;

    /// Removes an object.
    fn remove(&mut self, key: &ObjectKey);
}

/// Failure of a list or a watch.
#[derive(Debug, Error)]
enum WatchError {
    #[error("{}", api_error::describe(.0))]
    Request(#[source] kube::Error),
    /// An event of type `ERROR` on a watch.
    #[error("{} ({})", .0.message, .0.code)]
    ErrorEvent(Box<Status>),
    #[error("{}", api_error::NO_ANSWER)]
    NoAnswer,
    #[error("the list has no resource version")]
    NoResourceVersion,
    #[error("the watch ended at once")]
    EndedAtOnce,
}

/// End of a watch that did not fail.
#[derive(Debug)]
enum WatchEnd {
    /// The API server ended the watch, as it does every few minutes.
    ByServer,
    /// Nothing arrived for `Timing::watch_idle_timeout`.
    Idle,
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
            is_optional: false,
            is_missing_logged: false,
        }
    }

    /// Watches only the objects with these labels.
    pub(super) fn labelled(self, labels: &'static str) -> Self {
        Self { labels, ..self }
    }

    /// Treats a kind that the cluster lacks as a kind without objects, until it is defined.
    pub(super) fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
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
                    self.is_missing_logged = false;
                    return version;
                }
                Err(error) if self.is_optional && error.code() == Some(404) => {
                    self.note_missing_kind().await;
                }
                Err(error) => self.wait_after_error(&error, "cannot list objects").await,
            }
        }
    }

    /// Empties the store of a kind that the cluster lacks, and waits before the next list.
    ///
    /// The kind may be defined at any time.
    async fn note_missing_kind(&mut self) {
        self.sink.begin_list();
        self.sink.complete_list();
        if !self.is_missing_logged {
            let kind = self.kind;
            tracing::warn!(%kind, "the cluster does not have this kind; waiting for its definition");
            self.is_missing_logged = true;
        }
        tokio::time::sleep(self.backoff.after_failure()).await;
    }

    async fn try_list(&mut self) -> Result<String, WatchError> {
        let mut page = ListParams::default()
            .limit(LIST_PAGE_OBJECTS)
            .labels(self.labels);
        self.sink.begin_list();
        loop {
            let listed = with_timeout(self.timing.request_timeout, self.api.list(&page)).await?;
            for object in listed.items {
                let key = key_of(&object);
                let added = self.sink.add_listed(key, object);
                added.map_err(|error| WatchError::Request(kube::Error::SerdeError(error)))?;
            }
            let metadata = listed.metadata;
            page.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                let version = metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let version = version.ok_or(WatchError::NoResourceVersion)?;
                self.sink.complete_list();
                return Ok(version);
            }
        }
    }

    /// Watches from a resource version on, until the API server has forgotten that version.
    async fn watch_from(&mut self, mut version: String) {
        loop {
            match self.watch_once(&mut version).await {
                Ok(WatchEnd::ByServer) => {}
                Ok(WatchEnd::Idle) => {
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
        let mut has_event = false;
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
                Err(_) => return Ok(WatchEnd::Idle),
            };
            let seen_version = match event {
                Ok(WatchEvent::Bookmark(mark)) => mark.metadata.resource_version,
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    has_event = true;
                    let (key, version) = (key_of(&object), version_of(&object));
                    if let Err(error) = self.sink.put(key, object) {
                        self.skip_event(&error);
                    }
                    version
                }
                Ok(WatchEvent::Deleted(object)) => {
                    has_event = true;
                    self.sink.remove(&key_of(&object));
                    version_of(&object)
                }
                Ok(WatchEvent::Error(status)) => {
                    return Err(WatchError::ErrorEvent(status.boxed()));
                }
                Err(kube::Error::SerdeError(error)) => {
                    self.skip_event(&error);
                    continue;
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

    /// Notes an event that cannot be decoded. A retry would only meet the same object again.
    fn skip_event(&self, error: &serde_json::Error) {
        let kind = self.kind;
        tracing::warn!(%kind, %error, "skipping an object that cannot be decoded");
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

async fn with_timeout<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, WatchError> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(WatchError::Request),
        Err(_) => Err(WatchError::NoAnswer),
    }
}

impl WatchError {
    /// The time that the API server asks to wait.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(error) => api_error::retry_after(error),
            _ => None,
        }
    }

    /// The HTTP status code of the API server's response or of its `ERROR` event.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::ErrorEvent(status) => Some(status.code),
            _ => None,
        }
    }

    /// `true` if no watch can continue at the last known resource version.
    ///
    /// 410: the API server has forgotten it, as after each restart. 404: the kind is not defined
    /// any more. A watch from that version would fail forever.
    fn requires_relist(&self) -> bool {
        matches!(self.code(), Some(404 | 410))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_forgotten_versions_and_missing_kinds_require_a_relist() {
        for (code, expected) in [(410, true), (404, true), (500, false)] {
            let status = json!({"status": "Failure", "code": code, "message": "no", "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            let error = kube::Error::Api(status.clone().boxed());
            assert_eq!(WatchError::Request(error).requires_relist(), expected);
            assert_eq!(
                WatchError::ErrorEvent(status.boxed()).requires_relist(),
                expected
            );
        }
        assert!(!WatchError::NoResourceVersion.requires_relist());
    }
}
