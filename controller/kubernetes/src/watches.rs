//! One watch for each kind of objects.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use patchbay_resources::object::Object;

use super::api::Api;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::{Instant, timeout};

use super::config::Timing;
use super::failure;
use super::store::Writer;
use patchbay_resources::manifests::ObjectKey;

/// How many objects are listed at once: up to 12 MB of JSON, if each has 1,000 networks in its annotations.
const PAGE: u32 = 250;

/// A watch that has ended before was of no use, unless something has happened on it.
const BRIEF: Duration = Duration::from_secs(1);

/// Keeps a store like the API server's objects, those with these labels: `keep` takes from an object what is needed of it.
///
/// The list comes in pages. A watch that is lost goes on where it ended. When the API server does not know that place any
/// more (410 Gone), everything is listed again; readers see what was there before until the new list is complete. Errors
/// are waited out, for longer and longer, up to half a minute.
///
/// Nothing is waited for without end: a server that accepts requests and does not answer them would otherwise leave us with
/// what we knew, for ever and without a word.
pub(super) struct Watch<K, F, V: Clone> {
    api: Api<K>,
    labels: &'static str,
    timing: Timing,
    keep: F,
    store: Writer<V>,
    waits: Waits,
    /// Whether the cluster may not have the kind, and there are no objects then.
    is_optional: bool,
    /// Whether it was told that the cluster does not have it.
    is_missing: bool,
}

/// Why a list or a watch has failed.
#[derive(Debug, Error)]
enum WatchError {
    #[error("{}", failure::told(.0))]
    Request(#[source] kube::Error),
    #[error("{} ({})", .0.message, .0.code)]
    Told(Box<Status>),
    #[error("{}", failure::NO_ANSWER)]
    NoAnswer,
    #[error("the list has no resource version")]
    NoVersion,
    #[error("it ended as soon as it had begun")]
    Brief,
}

/// How a watch has ended that did not fail.
#[derive(Debug)]
enum Ended {
    /// The API server has ended it, as it does every few minutes.
    ByServer,
    /// Nothing was heard of it for too long.
    Silent,
}

impl<K, F, V> Watch<K, F, V>
where
    K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
    F: Fn(K) -> V,
    V: Clone + PartialEq,
{
    pub(super) fn new(
        api: Api<K>,
        labels: &'static str,
        timing: Timing,
        keep: F,
        store: Writer<V>,
    ) -> Self {
        Self {
            api,
            labels,
            timing,
            keep,
            store,
            waits: Waits::default(),
            is_optional: false,
            is_missing: false,
        }
    }

    /// The same for a kind that the cluster may not have, until somebody defines it.
    pub(super) fn if_any(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    /// Works, for ever.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let version = self.list().await;
            self.follow(version).await;
            tokio::time::sleep(self.waits.before_list()).await;
        }
    }

    /// Lists all objects, however long it takes until that is possible. Returns the version that the list has.
    async fn list(&mut self) -> String {
        loop {
            match self.try_list().await {
                Ok(version) => {
                    self.waits.answered();
                    self.is_missing = false;
                    return version;
                }
                Err(error) if self.is_optional && error.code() == Some(404) => {
                    self.miss().await;
                }
                Err(error) => self.wait_out(&error, "cannot list").await,
            }
        }
    }

    /// There are no objects of a kind that the cluster does not have. It may be defined at any time.
    async fn miss(&mut self) {
        self.store.begin();
        self.store.complete();
        if !self.is_missing {
            let kind = K::KIND;
            tracing::warn!(%kind, "the cluster does not have this kind of objects");
            self.is_missing = true;
        }
        tokio::time::sleep(self.waits.after_failure()).await;
    }

    async fn try_list(&mut self) -> Result<String, WatchError> {
        let mut page = ListParams::default().limit(PAGE).labels(self.labels);
        self.store.begin();
        loop {
            let listed = in_time(self.timing.request, self.api.list(&page)).await?;
            for object in listed.items {
                let key = ObjectKey::of(object.meta());
                self.store.list(key, (self.keep)(object));
            }
            let metadata = listed.metadata;
            page.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                let version = metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let version = version.ok_or(WatchError::NoVersion)?;
                self.store.complete();
                return Ok(version);
            }
        }
    }

    /// Follows what happens after this version, until that is not possible any more.
    async fn follow(&mut self, mut version: String) {
        loop {
            match self.try_follow(&mut version).await {
                Ok(Ended::ByServer) => {}
                Ok(Ended::Silent) => {
                    let kind = K::KIND;
                    tracing::debug!(%kind, "nothing is heard of a watch: it is begun anew");
                }
                Err(error) if error.is_gone() => {
                    let kind = K::KIND;
                    tracing::info!(%kind, %error, "all objects are listed again");
                    return;
                }
                Err(error) => self.wait_out(&error, "cannot watch").await,
            }
        }
    }

    /// Follows what happens after the version, and moves it along.
    async fn try_follow(&mut self, version: &mut String) -> Result<Ended, WatchError> {
        let params = WatchParams::default().labels(self.labels);
        let events = in_time(self.timing.request, self.api.watch(&params, version)).await?;
        let mut events = pin!(events);
        let begun = Instant::now();
        let mut is_useful = false;
        loop {
            let event = match timeout(self.timing.idle, events.next()).await {
                Ok(Some(event)) => event,
                // What ends each watch at once (a proxy, say) would be asked again thousands of times in a second.
                Ok(None) if !is_useful && begun.elapsed() < BRIEF => {
                    return Err(WatchError::Brief);
                }
                Ok(None) => {
                    self.waits.answered();
                    return Ok(Ended::ByServer);
                }
                Err(_) => return Ok(Ended::Silent),
            };
            let (seen, object) = match event {
                Ok(WatchEvent::Bookmark(mark)) => (mark.metadata.resource_version, None),
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    let key = ObjectKey::of(object.meta());
                    let version = object.meta().resource_version.clone();
                    let value = (self.keep)(object);
                    (version.unwrap_or_default(), Some((key, Some(value))))
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let key = ObjectKey::of(object.meta());
                    let version = object.meta().resource_version.clone();
                    (version.unwrap_or_default(), Some((key, None)))
                }
                Ok(WatchEvent::Error(status)) => return Err(WatchError::Told(status.boxed())),
                // Asked for once more, it would come once more: it is left out.
                Err(error @ kube::Error::SerdeError(_)) => {
                    let kind = K::KIND;
                    tracing::warn!(%kind, %error, "cannot read an object");
                    continue;
                }
                Err(error) => return Err(WatchError::Request(error)),
            };
            if !seen.is_empty() {
                *version = seen;
            }
            if let Some((key, value)) = object {
                self.waits.answered();
                is_useful = true;
                self.store.put(key, value);
            }
        }
    }

    async fn wait_out(&mut self, error: &WatchError, what: &str) {
        let kind = K::KIND;
        tracing::warn!(%kind, %error, "{what}");
        // All processes are asked to wait as long: they should not come back in the same moment.
        let asked = error.asked_wait().unwrap_or_default();
        tokio::time::sleep(asked + self.waits.after_failure()).await;
    }
}

async fn in_time<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, WatchError> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(WatchError::Request),
        Err(_) => Err(WatchError::NoAnswer),
    }
}

impl WatchError {
    fn asked_wait(&self) -> Option<Duration> {
        match self {
            Self::Request(error) => failure::asked_wait(error),
            _ => None,
        }
    }

    /// The code of the API server's answer.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::Told(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether a watch cannot go on where it ended, as after each restart of the API server, or when the kind is not defined any
    /// more. The API server is there, so the wait that has grown while it was not is over. Whoever asks once more for that
    /// place would be refused for ever.
    fn is_gone(&self) -> bool {
        matches!(self.code(), Some(404 | 410))
    }
}

/// How long to wait before something is tried again: longer from time to time, and not all processes as long.
#[derive(Default)]
struct Waits {
    failures: DefaultBackoff,
    lists: DefaultBackoff,
}

impl Waits {
    /// The API server does what it is asked for.
    fn answered(&mut self) {
        self.failures.reset();
    }

    fn after_failure(&mut self) -> Duration {
        self.failures.next().unwrap_or_default()
    }

    /// Before everything is listed again. It was possible to watch in between, so only time makes this wait short again.
    fn before_list(&mut self) -> Duration {
        self.lists.next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_grow_until_the_server_answers() {
        let mut waits = Waits::default();
        for shortest in [800, 1600, 3200] {
            let wait = waits.after_failure();
            assert!(wait >= Duration::from_millis(shortest), "{wait:?}");
        }
        waits.answered();
        assert!(waits.after_failure() <= Duration::from_millis(1600));
    }

    #[test]
    fn forgotten_places_are_told_from_other_failures() {
        for (code, gone) in [(410, true), (404, true), (500, false)] {
            let status = json!({"status": "Failure", "code": code, "message": "no", "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            let refused = kube::Error::Api(status.clone().boxed());
            assert_eq!(WatchError::Request(refused).is_gone(), gone);
            assert_eq!(WatchError::Told(status.boxed()).is_gone(), gone);
        }
        assert!(!WatchError::NoVersion.is_gone());
    }
}
