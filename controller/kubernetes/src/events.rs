//! Kubernetes events about `ClusterNetworkConnect`s, and about objects with problems.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use patchbay_model::abbreviation::truncate_text;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::object::Object;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::api_error;
use super::config::Timing;

/// Time-out of an event, from its queueing to the last attempt. Later events wait meanwhile.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(60);
/// Queued events: a few for each of about 100 `ClusterNetworkConnect`s. Events beyond that are
/// dropped, because an event is of use only soon.
const EVENT_QUEUE_DEPTH: usize = 512;
/// Limit of an event's note in bytes; the API server requires a shorter note.
const NOTE_LIMIT_BYTES: usize = 1024;
/// Longest `reportingInstance` that the API server accepts, in bytes.
const MAX_REPORTER_BYTES: usize = 128;
/// Bytes of the object's name in the names of its events. The rest of 253 bytes is for a time
/// stamp.
const MAX_OBJECT_NAME_BYTES: usize = 200;
/// `reportingController` of all events.
const REPORTING_CONTROLLER: &str = "patchbay";
/// Namespace of events about objects without a namespace.
const EVENT_NAMESPACE: &str = "default";
/// Time within which a repeated event is counted in a series instead of created again.
const SERIES_WINDOW: SignedDuration = SignedDuration::from_mins(6);

/// The `reason` of an event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum EventReason {
    /// The networks are selected and have subnets.
    Accepted,
    /// A validation or an allocation failed.
    Refused,
    /// All zones have connected the networks.
    Connected,
    /// At least one zone has an obstacle.
    NotConnected,
    /// An object of user-defined networks has a problem; the text is the `reason` of the event.
    Problem(&'static str),
}

impl EventReason {
    /// The `type`, `reason` and `action` of the event.
    const fn type_reason_action(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Accepted => ("Normal", "Accepted", "Allocate"),
            Self::Refused => ("Warning", "Refused", "Allocate"),
            Self::Connected => ("Normal", "Connected", "Connect"),
            Self::NotConnected => ("Warning", "NotConnected", "Connect"),
            Self::Problem(reason) => ("Warning", reason, "Reconcile"),
        }
    }
}

/// An event in the queue.
#[derive(Debug)]
struct QueuedEvent {
    regarding: ObjectReference,
    reason: EventReason,
    note: String,
    queued_at: Instant,
}

/// The queue of events.
///
/// Senders never wait. An event is dropped if the queue is full, or if it cannot be published
/// within [`PUBLISH_TIMEOUT`].
#[derive(Clone, Debug)]
pub(super) struct EventSender(mpsc::Sender<QueuedEvent>);

impl EventSender {
    /// Queues an event about a ClusterNetworkConnect.
    pub(super) fn emit(
        &self,
        connect: &ClusterNetworkConnect,
        reason: EventReason,
        note: &dyn Display,
    ) {
        if !self.emit_about(reference(connect), reason, &note.to_string()) {
            tracing::debug!(?reason, "dropped an event because the queue is full");
        }
    }

    /// Queues an event about an object. Returns `false` if the queue is full.
    pub(super) fn emit_about(
        &self,
        regarding: ObjectReference,
        reason: EventReason,
        note: &str,
    ) -> bool {
        let event = QueuedEvent {
            regarding,
            reason,
            note: truncate_text(note, NOTE_LIMIT_BYTES - 1).to_owned(),
            queued_at: Instant::now(),
        };
        self.0.try_send(event).is_ok()
    }
}

/// A reference to an object.
pub(super) fn reference<K: Object>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::api_version()),
        kind: Some(K::KIND.to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        resource_version: meta.resource_version.clone(),
        uid: meta.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Makes the queue of events and the task that publishes them. The task ends with the last sender.
pub(super) fn event_channel(
    client: Client,
    identity: String,
    timing: Timing,
) -> (EventSender, impl Future<Output = ()> + Send) {
    let (sender, mut queue) = mpsc::channel::<QueuedEvent>(EVENT_QUEUE_DEPTH);
    let mut publisher = EventPublisher {
        client,
        identity,
        timing,
        published: HashMap::new(),
    };
    let task = async move {
        while let Some(event) = queue.recv().await {
            let reason = event.reason;
            if let Err(error) = publisher.publish(event).await {
                tracing::warn!(error, ?reason, "dropped an event");
            }
        }
    };
    (EventSender(sender), task)
}

/// Publishes events, and counts repeated ones as a series.
struct EventPublisher {
    client: Client,
    identity: String,
    timing: Timing,
    /// Events published within [`SERIES_WINDOW`], by UID of the object, reason and note.
    published: HashMap<(Option<String>, EventReason, String), PublishedEvent>,
}

/// A published event.
struct PublishedEvent {
    namespace: String,
    name: String,
    count: i32,
    last: Timestamp,
}

impl EventPublisher {
    async fn publish(&mut self, event: QueuedEvent) -> Result<(), String> {
        let (now, queued_at) = (Timestamp::now(), event.queued_at);
        self.published
            .retain(|_, event| now.duration_since(event.last) < SERIES_WINDOW);
        let key = (
            event.regarding.uid.clone(),
            event.reason,
            event.note.clone(),
        );
        if let Some(event) = self.published.get_mut(&key) {
            event.count += 1;
            event.last = now;
            let series = EventSeries {
                count: event.count,
                last_observed_time: MicroTime(now),
            };
            let patch = Patch::Merge(json!({"series": series}));
            let (params, name) = (PatchParams::default(), event.name.clone());
            let api = Api::<Event>::namespaced(self.client.clone(), &event.namespace);
            self.retry_until_done(queued_at, || api.patch(&name, &params, &patch))
                .await?;
        } else {
            let event = self.event_object(event, now);
            let params = PostParams::default();
            let namespace = event.namespace().unwrap_or_default();
            let api = Api::namespaced(self.client.clone(), &namespace);
            self.retry_until_done(queued_at, || api.create(&params, &event))
                .await?;
            let published = PublishedEvent {
                namespace,
                name: event.name_any(),
                count: 1,
                last: now,
            };
            self.published.insert(key, published);
        }
        Ok(())
    }

    /// Repeats a request until it succeeds, fails for good, or [`PUBLISH_TIMEOUT`] has passed.
    ///
    /// Each attempt has a time-out, because a request without a response would block all later
    /// events.
    async fn retry_until_done<R>(
        &self,
        queued_at: Instant,
        attempt: impl Fn() -> R,
    ) -> Result<(), String>
    where
        R: Future<Output = kube::Result<Event>>,
    {
        let mut backoff = self.timing.retry_backoff();
        let mut is_first = true;
        loop {
            let limit = self.timing.write_timeout;
            let (error, retry_after) = match timeout(limit, attempt()).await {
                Ok(Ok(_)) => return Ok(()),
                // An earlier attempt has created the event although it failed: names of events are
                // unique.
                Ok(Err(kube::Error::Api(status))) if status.code == 409 && !is_first => {
                    return Ok(());
                }
                Ok(Err(error)) if api_error::is_retryable(&error) => {
                    (api_error::describe(&error), api_error::retry_after(&error))
                }
                // Events end with their namespace.
                Ok(Err(error)) if api_error::is_namespace_terminating(&error) => return Ok(()),
                Ok(Err(error)) => return Err(api_error::describe(&error)),
                Err(_) => (api_error::describe_unanswered(limit), None),
            };
            is_first = false;
            let wait = backoff.next_delay().max(retry_after.unwrap_or_default());
            if queued_at.elapsed() + wait > PUBLISH_TIMEOUT {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn event_object(&self, event: QueuedEvent, now: Timestamp) -> Event {
        let (type_, reason, action) = event.reason.type_reason_action();
        let name = event.regarding.name.as_deref().unwrap_or_default();
        // The part before the dot must end with an alphanumeric character.
        let name = truncate_text(name, MAX_OBJECT_NAME_BYTES).trim_end_matches(['-', '.']);
        let namespace = event.regarding.namespace.as_deref();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace.unwrap_or(EVENT_NAMESPACE).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(event.note),
            reason: Some(reason.to_owned()),
            regarding: Some(event.regarding),
            reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
            reporting_instance: Some(truncate_text(&self.identity, MAX_REPORTER_BYTES).to_owned()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }
}
