//! Publication of events, several at a time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use patchbay_model::abbreviation::truncate_text;
use patchbay_resources::manifests::ObjectKey;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::api::api_error;
use crate::config::Timing;
use crate::debounce::ChangeSource as _;
use crate::events::queue::{EVENT_QUEUE_DEPTH, EventReason, EventSender, QueuedEvent};
use crate::metrics::controllers::QueueMetrics;
use crate::write::request_pool::{Progress, RequestPool};

/// Time-out of an event, from its queueing to the last attempt. Later events about the same object
/// wait meanwhile.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest `reportingInstance` that the API server accepts, in bytes.
const MAX_REPORTER_BYTES: usize = 128;
/// Bytes of the object's name in the names of its events. The rest of 253 bytes is for a time
/// stamp.
const MAX_OBJECT_NAME_BYTES: usize = 200;
/// `reportingController` of all events.
const REPORTING_CONTROLLER: &str = "patchbay";
/// Time within which a repeated event is counted in a series instead of created again.
const SERIES_WINDOW: SignedDuration = SignedDuration::from_mins(6);

/// Makes the queue of events and the task that publishes them. The task ends with the last sender.
pub(crate) fn event_channel(
    client: Client,
    identity: String,
    timing: Timing,
) -> (EventSender, impl Future<Output = ()> + Send) {
    let (sender, queue) = mpsc::channel(EVENT_QUEUE_DEPTH);
    let publisher = EventPublisher {
        writer: EventWriter { client, timing },
        identity,
        waiting: VecDeque::new(),
        requests: RequestPool::default(),
        published: HashMap::new(),
    };
    (EventSender(sender), publisher.run(queue))
}

/// Publishes events, and counts repeated ones as a series.
///
/// Events about one object are published one after the other. Those about other objects do not wait
/// for them, so a webhook that does not respond delays only the events that concern it.
struct EventPublisher {
    writer: EventWriter,
    identity: String,
    /// Events that wait for others, in the order of the queue.
    waiting: VecDeque<QueuedEvent>,
    requests: RequestPool<PublishAnswer>,
    /// Events published within [`SERIES_WINDOW`].
    published: HashMap<EventKey, PublishedEvent>,
}

/// Identity of repeated events.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct EventKey {
    /// UID of the object.
    uid: Option<String>,
    reason: EventReason,
    note: String,
}

/// A published event.
#[derive(Clone, Debug)]
struct PublishedEvent {
    namespace: String,
    name: String,
    count: i32,
    last: Timestamp,
}

/// Outcome of the requests about an event.
struct PublishAnswer {
    request_name: (&'static str, ObjectKey),
    key: EventKey,
    /// The event, or the reason why it is dropped.
    result: Result<PublishedEvent, String>,
}

impl EventPublisher {
    async fn run(mut self, mut queue: mpsc::Receiver<QueuedEvent>) {
        let mut is_open = true;
        let metrics = QueueMetrics::new("events");
        while is_open || self.requests.running().next().is_some() {
            let has_room = self.waiting.len() < EVENT_QUEUE_DEPTH;
            tokio::select! {
                event = queue.recv(), if is_open && has_room => match event {
                    Some(event) => {
                        metrics.add();
                        self.waiting.push_back(event);
                    }
                    None => is_open = false,
                },
                answers = next_answers(&mut self.requests) => {
                    for answer in answers {
                        self.settle(answer);
                    }
                }
            }
            self.begin_waiting();
            metrics.set_depth(queue.len() + self.waiting.len() + self.requests.running().count());
        }
    }

    /// Begins the requests about the waiting events that may begin, and drops those that are too
    /// old.
    fn begin_waiting(&mut self) {
        self.waiting.retain(|event| {
            let is_recent = event.queued_at.elapsed() < PUBLISH_TIMEOUT;
            if !is_recent {
                let (error, reason) = ("earlier events have no answer", event.reason);
                tracing::warn!(error, ?reason, "dropped an event");
            }
            is_recent
        });
        while self.requests.has_room() {
            let mut waiting = self.waiting.iter();
            let free = waiting.position(|event| !self.requests.is_busy(&event.request_name()));
            let Some(event) = free.and_then(|position| self.waiting.remove(position)) else {
                return;
            };
            self.begin(event);
        }
    }

    fn begin(&mut self, event: QueuedEvent) {
        let now = Timestamp::now();
        self.published.retain(|_, event| now.duration_since(event.last) < SERIES_WINDOW);
        let (request_name, queued_at) = (event.request_name(), event.queued_at);
        let key = EventKey {
            uid: event.regarding.uid.clone(),
            reason: event.reason,
            note: event.note.clone(),
        };
        let writer = self.writer.clone();
        let former = self.published.get(&key).cloned();
        let written: BoxFuture<'static, _> = if let Some(former) = former {
            Box::pin(async move { writer.count(former, now, queued_at).await })
        } else {
            let event = self.event_object(event, now);
            Box::pin(async move { writer.create(&event, now, queued_at).await })
        };
        let name = request_name.clone();
        let request =
            async move { PublishAnswer { request_name: name, key, result: written.await } };
        self.requests.begin(request_name, false, request);
    }

    fn settle(&mut self, answer: PublishAnswer) {
        self.requests.end(&answer.request_name);
        let reason = answer.key.reason;
        match answer.result {
            Ok(event) => {
                self.published.insert(answer.key, event);
            }
            Err(error) => tracing::warn!(error, ?reason, "dropped an event"),
        }
    }

    fn event_object(&self, event: QueuedEvent, now: Timestamp) -> Event {
        let (type_, reason, action) = event.reason.type_reason_action();
        let name = event.regarding.name.as_deref().unwrap_or_default();
        // The part before the dot must end with an alphanumeric character.
        let name = truncate_text(name, MAX_OBJECT_NAME_BYTES).trim_end_matches(['-', '.']);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(event.namespace().to_owned()),
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

/// Waits for answers, or until another request may begin.
async fn next_answers(requests: &mut RequestPool<PublishAnswer>) -> Vec<PublishAnswer> {
    match requests.progress().await {
        Progress::Answer(answer) => vec![answer],
        Progress::Slow => Vec::new(),
        Progress::Idle => match requests.changed().await {
            Ok(()) => requests.take_answers(),
            Err(never) => match never {},
        },
    }
}

/// Writer of single events.
#[derive(Clone)]
struct EventWriter {
    client: Client,
    timing: Timing,
}

impl EventWriter {
    /// Creates an event.
    async fn create(
        &self,
        event: &Event,
        now: Timestamp,
        queued_at: Instant,
    ) -> Result<PublishedEvent, String> {
        let params = PostParams::default();
        let namespace = event.namespace().unwrap_or_default();
        let api = Api::namespaced(self.client.clone(), &namespace);
        self.retry_until_done(queued_at, || api.create(&params, event)).await?;
        Ok(PublishedEvent { namespace, name: event.name_any(), count: 1, last: now })
    }

    /// Counts a repetition of an event in its series.
    async fn count(
        &self,
        former: PublishedEvent,
        now: Timestamp,
        queued_at: Instant,
    ) -> Result<PublishedEvent, String> {
        let counted = PublishedEvent { count: former.count + 1, last: now, ..former };
        let series = EventSeries { count: counted.count, last_observed_time: MicroTime(now) };
        let patch = Patch::Merge(json!({"series": series}));
        let (params, name) = (PatchParams::default(), &counted.name);
        let api = Api::<Event>::namespaced(self.client.clone(), &counted.namespace);
        self.retry_until_done(queued_at, || api.patch(name, &params, &patch)).await?;
        Ok(counted)
    }

    /// Repeats a request until it succeeds, fails for good, or [`PUBLISH_TIMEOUT`] has passed.
    ///
    /// Each attempt has a time-out, because a request without a response would block all later
    /// events about the object.
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
}

#[cfg(test)]
mod tests;
