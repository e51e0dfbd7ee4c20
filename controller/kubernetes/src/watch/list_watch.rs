//! List-and-watch: keeps a store equal to the API server's objects of one kind.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use metrics::counter;
use patchbay_model::FieldProblem;
use patchbay_resources::manifests::ObjectKey;
use tokio::time::{Instant, timeout};

use crate::api::requests::{Api, key_of, version_of};
use crate::config::Timing;
use crate::metrics::names;
use crate::watch::etcd_restores::EtcdRestores;
use crate::watch::list_pages::{ListProgress, first_page, next_page, shrink_page};
use crate::watch::read_failure::{
    ReadFailure, ReadFailureCause, ReadRequest, cause_of, describe_undefined, is_lasting,
};
use crate::watch::store::StoreWriter;
use crate::watch::watch_backoff::{Recovery, WatchBackoff};
use crate::watch::watch_error::{WatchEnd, WatchError, with_timeout};
use crate::watch::watch_position::{Replay, SeenChange, WatchPosition, is_earlier};

/// A watch that ends earlier than this without any event counts as failed, and the next one is
/// delayed. Otherwise a proxy that ends each watch at once would get thousands of requests a
/// second.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1);

/// Code of an answer that limits the requests of this process.
const THROTTLED: u16 = 429;

/// Time after which the API server ends a watch, as it is asked to: kube's default.
const WATCH_SECONDS: u32 = 290;

/// Keeps a store equal to the API server's objects of one kind that have the given labels.
///
/// Lists come in pages. A watch that ends continues at the last known resource version. Everything
/// is listed again after 410 Gone, after a restore of etcd, and when a reader requests it; readers
/// keep the previous objects until the new list is complete. Failures are retried after delays of
/// up to 30 s, forever.
///
/// # Restores of etcd
///
/// A restore of etcd makes the known resource version one of the future. A watch from there would
/// miss what differs between the two histories, and all changes up to that version. So the present
/// version is read before a watch continues that was lost. A present version that is lower than the
/// known one is a sign of a restore.
///
/// Versions may have passed the known one again. So a watch that was lost continues before the last
/// change that it has seen ([`WatchPosition`]). Another first change is a sign of a restore, too.
/// After either sign, all watches of this process list their objects again.
///
/// `docs/design/watches.md` compares it with `kube::runtime::watcher`. An object of a
/// [`TolerantObject`](crate::api::tolerant_object::TolerantObject) kind that cannot be decoded is kept as an
/// [`UndecodableObject`](crate::api::tolerant_object::UndecodableObject).
pub(crate) struct ListWatch<V: Clone> {
    api: Api,
    kind: &'static str,
    /// Label selector; empty: all objects.
    labels: &'static str,
    timing: Timing,
    store: StoreWriter<V>,
    backoff: WatchBackoff,
    recovery: Recovery,
    restores: EtcdRestores,
    /// Time of the first failure since a list or watch has succeeded. `None`: there is none.
    failed_since: Option<Instant>,
    /// Objects that cannot be decoded, with the logged reason.
    undecodable: BTreeMap<ObjectKey, FieldProblem>,
    presence: KindPresence,
    /// Time since which the cluster lacks the kind. `None`: it has the kind.
    missing_since: Option<Instant>,
}

/// Presence of a kind in clusters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KindPresence {
    /// Each cluster has the kind.
    Required,
    /// A cluster may lack the kind. It has no objects of it until the kind is defined.
    Optional,
}

impl<V: Clone + PartialEq> ListWatch<V> {
    pub(crate) fn new(
        api: Api,
        kind: &'static str,
        timing: Timing,
        store: StoreWriter<V>,
        recovery: Recovery,
    ) -> Self {
        Self {
            api,
            kind,
            labels: "",
            timing,
            store,
            backoff: WatchBackoff::default(),
            recovery,
            restores: EtcdRestores::default(),
            failed_since: None,
            undecodable: BTreeMap::new(),
            presence: KindPresence::Required,
            missing_since: None,
        }
    }

    /// Watches only the objects with these labels.
    pub(crate) fn labelled(self, labels: &'static str) -> Self {
        Self { labels, ..self }
    }

    /// Shares what watches notice of restores of etcd.
    pub(crate) fn with_restores(self, restores: EtcdRestores) -> Self {
        Self { restores, ..self }
    }

    /// Watches a kind with this presence.
    pub(crate) fn with_presence(self, presence: KindPresence) -> Self {
        Self { presence, ..self }
    }

    /// Lists and watches, forever.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            let version = self.list().await;
            self.watch_from(version).await;
            tokio::select! {
                () = tokio::time::sleep(self.backoff.before_relist()) => {}
                () = self.store.requests.wait() => {}
            }
        }
    }

    /// Lists all objects, and retries until that succeeds. Returns the list's resource version.
    async fn list(&mut self) -> String {
        loop {
            self.restores.mark_seen();
            let request = self.store.requests.last();
            let listed = self.try_list().await;
            let is_missing = matches!(&listed, Err(error) if error.code() == Some(404));
            if listed.is_ok() || (is_missing && self.store.is_empty()) {
                self.store.requests.answer(request);
            }
            match listed {
                Ok(version) => {
                    counter!(names::LISTS, "kind" => self.kind).increment(1);
                    self.backoff.reset();
                    self.announce_recovery();
                    self.store.note_success(ReadRequest::List);
                    self.missing_since = None;
                    return version;
                }
                Err(_) if self.presence == KindPresence::Optional && is_missing => {
                    self.note_missing_kind().await;
                }
                Err(_) if is_missing => self.await_definition().await,
                Err(error) => {
                    self.wait_after_error(&error, ReadRequest::List).await;
                }
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
        let has_objects = !self.store.is_empty();
        if !has_objects || absence >= self.timing.missing_kind_grace_period {
            if has_objects {
                tracing::warn!(%kind, ?absence, "the kind is still missing; its objects count as deleted");
            }
            self.store.begin_list();
            self.store.complete_list();
            self.store.note_success(ReadRequest::List);
        }
        tokio::time::sleep(self.backoff.after_failure()).await;
    }

    /// Notes that a kind is not defined that each cluster has, and waits before the next list. Known
    /// objects stay, and readers wait for the first ones.
    async fn await_definition(&mut self) {
        let (kind, reason) = (self.kind, describe_undefined(self.kind));
        if self.missing_since.is_none() {
            tracing::warn!(%kind, "cannot list objects: {reason}");
        }
        self.missing_since.get_or_insert_with(Instant::now);
        self.store.note_failure(ReadFailure {
            request: ReadRequest::List,
            reason: reason.into(),
            cause: ReadFailureCause::Undefined,
        });
        self.recovery.wait(self.backoff.after_failure()).await;
    }

    async fn try_list(&mut self) -> Result<String, WatchError> {
        let mut page = first_page(self.labels);
        let (mut undecodable, mut progress) = (BTreeSet::new(), ListProgress::default());
        self.store.begin_list();
        loop {
            let listed = with_timeout(self.timing.request_timeout, self.api.list(&page)).await;
            let (listed, bytes) = match listed {
                Err(error) if shrink_page(&mut page, &error) => continue,
                listed => listed?,
            };
            progress.note(&listed)?;
            let size = (listed.items.len(), bytes);
            for object in listed.items {
                let key = key_of(&object);
                let added = self.store.add_listed(key.clone(), object);
                if added.is_err() {
                    undecodable.insert(key.clone());
                }
                self.note_decoding(key, added);
            }
            if !next_page(&mut page, &listed.metadata, size)? {
                let version = listed.metadata.resource_version;
                let version = version
                    .filter(|version| !version.is_empty())
                    .ok_or(WatchError::NoResourceVersion)?;
                self.store.complete_list();
                self.undecodable.retain(|key, _| undecodable.contains(key));
                return Ok(version);
            }
        }
    }

    /// Watches from a resource version on, until no watch can continue there.
    ///
    /// A new watch that is as silent as the last one may never have an event, because an API server
    /// whose etcd has gone backwards leaves out everything up to the version.
    async fn watch_from(&mut self, version: String) {
        let mut position = WatchPosition::listed(version);
        let (mut was_lost, mut was_idle) = (false, false);
        loop {
            if was_lost && !self.can_continue(position.version()).await {
                return;
            }
            let watched = self.watch_once(&mut position, was_lost).await;
            let is_silent = matches!(watched, Ok(WatchEnd::Silent));
            if is_silent && was_idle {
                let kind = self.kind;
                tracing::info!(%kind, "the watch stays silent; listing all objects again");
                return;
            }
            was_lost = !matches!(watched, Ok(WatchEnd::InTime));
            was_idle = matches!(watched, Ok(WatchEnd::Idle | WatchEnd::Silent));
            match watched {
                Ok(WatchEnd::InTime | WatchEnd::Early) => {}
                Ok(WatchEnd::ListRequested) => return,
                Ok(WatchEnd::OtherHistory) => {
                    let (kind, known) = (self.kind, position.version());
                    tracing::warn!(%kind, known,
                        "the last known change is missing from the API server's history; listing all objects again");
                    self.restores.announce();
                    return;
                }
                Ok(WatchEnd::Idle | WatchEnd::Silent) => {
                    let kind = self.kind;
                    tracing::debug!(%kind, "the watch is idle; opening it again");
                }
                Err(error) if error.requires_relist() => {
                    let kind = self.kind;
                    tracing::info!(%kind, %error, "the watch cannot continue; listing all objects again");
                    return;
                }
                Err(error) => self.wait_after_error(&error, ReadRequest::Watch).await,
            }
        }
    }

    /// `true` if a watch that was lost misses nothing when it continues at a resource version.
    async fn can_continue(&mut self, version: &str) -> bool {
        let (kind, limit) = (self.kind, self.timing.watch_gap_limit);
        loop {
            if self.failed_since.is_some_and(|since| since.elapsed() >= limit) {
                tracing::info!(%kind, "the watch was lost for too long; listing all objects again");
                return false;
            }
            let present = self.api.present_version();
            match with_timeout(self.timing.request_timeout, present).await {
                Ok(Some(present)) if is_earlier(&present, version) => {
                    tracing::warn!(%kind, known = version, present,
                        "resource versions have gone backwards; listing all objects again");
                    self.restores.announce();
                    return false;
                }
                Ok(_) => {
                    self.store.note_success(ReadRequest::List);
                    return true;
                }
                Err(error) if error.requires_relist() => return false,
                Err(error) => self.wait_after_error(&error, ReadRequest::List).await,
            }
        }
    }

    /// Opens one watch at `position`, applies its events to the store, and advances `position`.
    ///
    /// After a lost watch, the last known change has to come first.
    async fn watch_once(
        &mut self,
        position: &mut WatchPosition,
        was_lost: bool,
    ) -> Result<WatchEnd, WatchError> {
        let mut expected = position.last_change().filter(|_| was_lost);
        let begun = Instant::now();
        let params = WatchParams::default().labels(self.labels).timeout(WATCH_SECONDS);
        let version = expected.as_ref().map(SeenChange::before);
        let version = version.unwrap_or(position.version());
        let watched = self.api.watch(&params, version);
        let events = with_timeout(self.timing.request_timeout, watched).await?;
        self.announce_recovery();
        self.store.note_success(ReadRequest::Watch);
        let mut events = pin!(events);
        let opened = Instant::now();
        let (mut is_silent, mut has_event) = (true, false);
        loop {
            let event = tokio::select! {
                event = timeout(self.timing.watch_idle_timeout, events.next()) => event,
                () = self.store.requests.wait() => return Ok(WatchEnd::ListRequested),
                () = self.restores.wait() => return Ok(WatchEnd::ListRequested),
            };
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) if !has_event && opened.elapsed() < MIN_WATCH_DURATION => {
                    return Err(WatchError::EndedAtOnce);
                }
                Ok(None) => {
                    self.backoff.reset();
                    let is_early = begun.elapsed() < Duration::from_secs(WATCH_SECONDS.into());
                    return Ok(if is_early { WatchEnd::Early } else { WatchEnd::InTime });
                }
                Err(_) if is_silent => return Ok(WatchEnd::Silent),
                Err(_) => return Ok(WatchEnd::Idle),
            };
            is_silent = false;
            let (object, is_deleted) = match event {
                Ok(WatchEvent::Bookmark(mark)) => {
                    let version = mark.metadata.resource_version;
                    match expected.as_ref().map(|one| one.compare_bookmark(&version)) {
                        Some(Replay::OtherHistory) => return Ok(WatchEnd::OtherHistory),
                        Some(_) => {}
                        None => position.record_bookmark(version),
                    }
                    continue;
                }
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
                Ok(WatchEvent::Deleted(object)) => (object, true),
                Ok(WatchEvent::Error(status)) => {
                    return Err(WatchError::ErrorEvent(status.boxed()));
                }
                Err(error) => return Err(WatchError::Request(error)),
            };
            let (key, version) = (key_of(&object), version_of(&object));
            if let Some(expected) = expected.take() {
                match expected.compare_change(&key, &version) {
                    Replay::Confirmed => continue,
                    _ => return Ok(WatchEnd::OtherHistory),
                }
            }
            has_event = true;
            if is_deleted {
                self.store.remove(&key);
                self.undecodable.remove(&key);
            } else {
                let put = self.store.put(key.clone(), object);
                self.note_decoding(key.clone(), put);
            }
            position.record_change(key, version);
            self.backoff.reset();
        }
    }

    /// Logs an object that cannot be decoded, once for each reason.
    fn note_decoding(&mut self, key: ObjectKey, decoded: Result<(), FieldProblem>) {
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

    async fn wait_after_error(&mut self, error: &WatchError, request: ReadRequest) {
        let (kind, failure) = (self.kind, request.failure_text());
        counter!(names::WATCH_ERRORS, "kind" => kind).increment(1);
        let retry_after = error.retry_after();
        let retry_after_s = retry_after.map(|wait| wait.as_secs());
        tracing::warn!(%kind, %error, retry_after_s, "{failure}");
        let failed_since = *self.failed_since.get_or_insert_with(Instant::now);
        if !self.store.is_listed() || is_lasting(error, failed_since.elapsed()) {
            let reason = error.to_string().into();
            self.store.note_failure(ReadFailure { request, reason, cause: cause_of(error) });
        }
        // The back-off is added because the server asks all processes to wait for the same time.
        let (retry_after, delay) = (retry_after.unwrap_or_default(), self.backoff.after_failure());
        if error.code() == Some(THROTTLED) {
            tokio::time::sleep(retry_after).await;
            self.recovery.wait(delay).await;
        } else {
            // A server that was away is back once it answers another watch.
            self.recovery.wait(retry_after + delay).await;
        }
    }

    fn announce_recovery(&mut self) {
        if self.failed_since.take().is_some() {
            self.recovery.announce();
        }
    }
}
