//! List-and-watch: keeps a store equal to the API server's objects of one kind.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use patchbay_engine::backoff::{Backoff, with_jitter};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Object;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::api::Api;
use super::api_error;
use super::config::Timing;
use super::store::StoreWriter;

/// Objects per page of a list. A page of nodes, each with the subnets of 1,000 networks in its
/// annotations, is up to 12 MB of JSON.
const LIST_PAGE_OBJECTS: u32 = 250;

/// A watch that ends earlier than this without any event counts as failed, and the next one is
/// delayed. Otherwise a proxy that ends each watch at once would get thousands of requests a
/// second.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1);

/// Shortest and longest delay before a list or watch is retried: those of client-go's reflector.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// Shortest delay before a list or watch is retried after another one of this process has succeeded
/// again. With jitter, so that not all processes retry at the same time.
const RECOVERY_DELAY: Duration = Duration::from_millis(500);

/// Time without a relist after which the delay before the next relist is the shortest one again.
const RELIST_RESET_INTERVAL: Duration = Duration::from_secs(120);

/// Keeps a store equal to the API server's objects of one kind that have the given labels.
///
/// Lists come in pages. A watch that ends continues at the last known resource version. After
/// 410 Gone, everything is listed again; readers keep the previous objects until the new list is
/// complete. Failures are retried after delays of up to half a minute, forever.
///
/// # Why not `kube::runtime::watcher`
///
/// * Its idle limit of about 300 s covers open watches only. Here every wait is limited, so that a
///   half-dead API server does not leave readers with outdated objects.
/// * It has no optional kinds. Here a kind that the cluster lacks is an empty store, and readers do
///   not wait for its definition ([`optional`](Self::optional)).
/// * It ignores `Retry-After`. Here the requested time is added to the back-off.
/// * An object that cannot be decoded fails its whole list, forever. Here it is kept as an
///   [`UndecodableObject`](super::tolerant_object::UndecodableObject).
pub(super) struct ListWatch<K, F, V: Clone> {
    api: Api<K>,
    /// Label selector; empty: all objects.
    labels: &'static str,
    timing: Timing,
    /// Reduces an object to the fields that are kept.
    project: F,
    store: StoreWriter<V>,
    backoff: WatchBackoff,
    recovery: Recovery,
    /// `true` after a failure, until a request succeeds.
    has_failed: bool,
    /// `true` if the cluster may lack the kind, and has no objects of it then.
    is_optional: bool,
    /// `true` if it has been logged that the cluster lacks the kind.
    is_missing_logged: bool,
}

/// Success after failures of any watch of this process, which ends the back-off of the others. So
/// all watches resume together when an API server comes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery(watch::Sender<()>);

impl Recovery {
    fn announce(&self) {
        self.0.send_replace(());
    }

    /// Waits for `delay`, or shortly after another watch has recovered.
    async fn wait(&self, delay: Duration) {
        let mut recovered = self.0.subscribe();
        let early = async {
            // The sender lives as long as `self`.
            if recovered.changed().await.is_ok() {
                tokio::time::sleep(with_jitter(RECOVERY_DELAY)).await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = early => {}
        }
    }
}

/// Why a list or a watch failed.
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

/// How a watch ended that did not fail.
#[derive(Debug)]
enum WatchEnd {
    /// The API server ended the watch, as it does every few minutes.
    ByServer,
    /// Nothing arrived for `Timing::watch_idle_timeout`.
    Idle,
}

impl<K, F, V> ListWatch<K, F, V>
where
    K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
    F: Fn(K) -> V,
    V: Clone + PartialEq,
{
    pub(super) fn new(
        api: Api<K>,
        labels: &'static str,
        timing: Timing,
        project: F,
        store: StoreWriter<V>,
        recovery: Recovery,
    ) -> Self {
        Self {
            api,
            labels,
            timing,
            project,
            store,
            backoff: WatchBackoff::default(),
            recovery,
            has_failed: false,
            is_optional: false,
            is_missing_logged: false,
        }
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
        self.store.begin_list();
        self.store.complete_list();
        if !self.is_missing_logged {
            let kind = K::KIND;
            tracing::warn!(%kind, "the cluster does not have this kind; waiting for its definition");
            self.is_missing_logged = true;
        }
        tokio::time::sleep(self.backoff.after_failure()).await;
    }

    async fn try_list(&mut self) -> Result<String, WatchError> {
        let mut page = ListParams::default()
            .limit(LIST_PAGE_OBJECTS)
            .labels(self.labels);
        self.store.begin_list();
        loop {
            let listed = with_timeout(self.timing.request_timeout, self.api.list(&page)).await?;
            for object in listed.items {
                let key = ObjectKey::of(object.meta());
                self.store.add_listed(key, (self.project)(object));
            }
            let metadata = listed.metadata;
            page.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                let version = metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let version = version.ok_or(WatchError::NoResourceVersion)?;
                self.store.complete_list();
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
                    let kind = K::KIND;
                    tracing::debug!(%kind, "the watch is idle; opening it again");
                }
                Err(error) if error.requires_relist() => {
                    let kind = K::KIND;
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
            let (seen_version, object) = match event {
                Ok(WatchEvent::Bookmark(mark)) => (mark.metadata.resource_version, None),
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    let key = ObjectKey::of(object.meta());
                    let version = object.meta().resource_version.clone();
                    let value = (self.project)(object);
                    (version.unwrap_or_default(), Some((key, Some(value))))
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let key = ObjectKey::of(object.meta());
                    let version = object.meta().resource_version.clone();
                    (version.unwrap_or_default(), Some((key, None)))
                }
                Ok(WatchEvent::Error(status)) => {
                    return Err(WatchError::ErrorEvent(status.boxed()));
                }
                // A retry would only meet the same object again, so the event is skipped.
                Err(error @ kube::Error::SerdeError(_)) => {
                    let kind = K::KIND;
                    tracing::warn!(%kind, %error, "skipping an object that cannot be decoded");
                    continue;
                }
                Err(error) => return Err(WatchError::Request(error)),
            };
            if !seen_version.is_empty() {
                *version = seen_version;
            }
            if let Some((key, value)) = object {
                self.backoff.reset();
                has_event = true;
                self.store.put(key, value);
            }
        }
    }

    async fn wait_after_error(&mut self, error: &WatchError, failure: &str) {
        let kind = K::KIND;
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

/// Delays before a list or watch is retried, with jitter.
#[derive(Debug)]
struct WatchBackoff {
    failures: Backoff,
    relists: Backoff,
    last_relist: Option<Instant>,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        let (min, max) = RETRY_DELAYS;
        Self {
            failures: Backoff::new(min, max),
            relists: Backoff::new(min, max),
            last_relist: None,
        }
    }
}

impl WatchBackoff {
    /// Shortens the delay after the next failure. Call this after a successful request.
    fn reset(&mut self) {
        self.failures.reset();
    }

    /// The delay before a failed list or watch is retried.
    fn after_failure(&mut self) -> Duration {
        self.failures.jittered()
    }

    /// The delay before all objects are listed again.
    ///
    /// A relist follows watches that succeeded, so only time resets this delay.
    fn before_relist(&mut self) -> Duration {
        let now = Instant::now();
        let is_recent = |last: Instant| now.duration_since(last) < RELIST_RESET_INTERVAL;
        if !self.last_relist.replace(now).is_some_and(is_recent) {
            self.relists.reset();
        }
        self.relists.jittered()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn delays_grow_until_the_server_answers() {
        let mut backoff = WatchBackoff::default();
        for shortest in [800, 1600, 3200] {
            let delay = backoff.after_failure();
            assert!(delay >= Duration::from_millis(shortest), "{delay:?}");
        }
        backoff.reset();
        assert!(backoff.after_failure() <= Duration::from_millis(1600));
    }

    #[tokio::test(start_paused = true)]
    async fn delays_of_relists_grow_until_none_was_needed_for_a_while() {
        let mut backoff = WatchBackoff::default();
        let shortest = Duration::from_millis(800);
        assert!(backoff.before_relist() < shortest * 2);
        backoff.reset();
        assert!(backoff.before_relist() >= shortest * 2);
        tokio::time::sleep(RELIST_RESET_INTERVAL).await;
        assert!(backoff.before_relist() < shortest * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovered_watch_ends_the_delays_of_the_others() {
        let recovery = Recovery::default();
        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        let announced = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            recovery.announce();
        };
        let waits = [recovery.clone(), recovery.clone()];
        tokio::join!(waits[0].wait(hour), waits[1].wait(hour), announced);
        assert!(start.elapsed() < Duration::from_secs(7));
        // An earlier recovery is no reason to hurry.
        let start = Instant::now();
        recovery.wait(hour).await;
        assert!(start.elapsed() >= hour);
    }

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
