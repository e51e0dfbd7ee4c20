//! Events on connects: what people see who ask Kubernetes about one.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use patchbay_resources::object::Object;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::config::Timing;
use super::failure;
use super::pace::Backoff;
use patchbay_model::abbreviation::truncate_text;
use patchbay_resources::cnc::ClusterNetworkConnect;

/// How many events may wait. Some for each of 100 connects; what is more is not worth waiting for.
const QUEUE: usize = 512;
/// The longest note that Kubernetes takes is shorter than this, in bytes.
const NOTE: usize = 1024;
/// The longest name of a reporter that Kubernetes takes, in bytes.
const INSTANCE: usize = 128;
/// How much of a connect's name is in the names of its events, in bytes.
const NAME: usize = 200;
/// Who reports.
const CONTROLLER: &str = "patchbay";
/// Where events on objects without a namespace are kept.
const NAMESPACE: &str = "default";
/// The same, told again within this time, is one event that is counted.
const SERIES: SignedDuration = SignedDuration::from_mins(6);

/// What is told about a connect.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Told {
    /// Networks are selected and have subnets.
    Accepted,
    /// Something about the connect is wrong.
    Refused,
    /// All zones have connected the networks.
    Connected,
    /// A zone lacks something.
    NotConnected,
}

impl Told {
    /// Type, reason and action.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Accepted => ("Normal", "Accepted", "Allocate"),
            Self::Refused => ("Warning", "Refused", "Allocate"),
            Self::Connected => ("Normal", "Connected", "Connect"),
            Self::NotConnected => ("Warning", "NotConnected", "Connect"),
        }
    }
}

/// For how long it is tried to publish an event: what follows it waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is told, about which object, and how.
#[derive(Debug)]
struct Message {
    regarding: ObjectReference,
    told: Told,
    note: String,
    since: Instant,
}

/// Where events are put. Nobody waits for them: when too many wait already, or the API server does not take one for a minute,
/// it is lost.
#[derive(Clone, Debug)]
pub(super) struct Events(mpsc::Sender<Message>);

impl Events {
    /// Tells about a connect.
    pub(super) fn tell(&self, connect: &ClusterNetworkConnect, told: Told, note: &dyn Display) {
        let note = note.to_string();
        let message = Message {
            regarding: reference(connect),
            told,
            note: truncate_text(&note, NOTE - 1).to_owned(),
            since: Instant::now(),
        };
        if self.0.try_send(message).is_err() {
            tracing::debug!(?told, "too many events wait: one is lost");
        }
    }
}

fn reference(connect: &ClusterNetworkConnect) -> ObjectReference {
    ObjectReference {
        api_version: Some(ClusterNetworkConnect::api_version()),
        kind: Some(ClusterNetworkConnect::KIND.to_owned()),
        name: connect.metadata.name.clone(),
        resource_version: connect.metadata.resource_version.clone(),
        uid: connect.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A queue of events, and the task that publishes what is put in. The task ends when nobody can put in any more.
pub(super) fn events(
    client: Client,
    identity: String,
    timing: Timing,
) -> (Events, impl Future<Output = ()> + Send) {
    let (sender, mut queue) = mpsc::channel::<Message>(QUEUE);
    let mut publisher = Publisher {
        api: Api::namespaced(client, NAMESPACE),
        identity,
        timing,
        published: HashMap::new(),
    };
    let task = async move {
        while let Some(message) = queue.recv().await {
            let told = message.told;
            if let Err(error) = publisher.publish(message).await {
                tracing::warn!(error, ?told, "an event is lost");
            }
        }
    };
    (Events(sender), task)
}

/// Publishes events, and counts those that repeat.
struct Publisher {
    api: Api<Event>,
    identity: String,
    timing: Timing,
    /// What was published lately, by UID of the object, kind and note.
    published: HashMap<(Option<String>, Told, String), Published>,
}

/// An event that was published.
struct Published {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Publisher {
    async fn publish(&mut self, message: Message) -> Result<(), String> {
        let (now, since) = (Timestamp::now(), message.since);
        self.published
            .retain(|_, event| now.duration_since(event.last) < SERIES);
        let key = (
            message.regarding.uid.clone(),
            message.told,
            message.note.clone(),
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
            self.insist(since, || self.api.patch(&name, &params, &patch))
                .await?;
        } else {
            let event = self.event(message, now);
            let params = PostParams::default();
            self.insist(since, || self.api.create(&params, &event))
                .await?;
            let published = Published {
                name: event.name_any(),
                count: 1,
                last: now,
            };
            self.published.insert(key, published);
        }
        Ok(())
    }

    /// Tries until it is done or known to be in vain. Without a limit for each attempt, one that is not answered would keep all
    /// events that follow from being told.
    async fn insist<R>(&self, since: Instant, attempt: impl Fn() -> R) -> Result<(), String>
    where
        R: Future<Output = kube::Result<Event>>,
    {
        let mut backoff = Backoff::new(&self.timing);
        let mut is_first = true;
        loop {
            let (error, asked) = match timeout(self.timing.request, attempt()).await {
                Ok(Ok(_)) => return Ok(()),
                // An attempt that has failed has done it all the same: names of events are unique.
                Ok(Err(kube::Error::Api(status))) if status.code == 409 && !is_first => {
                    return Ok(());
                }
                Ok(Err(error)) if failure::is_passing(&error) => {
                    (failure::told(&error), failure::asked_wait(&error))
                }
                Ok(Err(error)) => return Err(failure::told(&error)),
                Err(_) => (failure::NO_ANSWER.to_owned(), None),
            };
            is_first = false;
            let wait = backoff.failed().max(asked.unwrap_or_default());
            if since.elapsed() + wait > PATIENCE {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn event(&self, message: Message, now: Timestamp) -> Event {
        let (type_, reason, action) = message.told.words();
        let connect = message.regarding.name.as_deref().unwrap_or_default();
        // What is before the dot must end like a name.
        let connect = truncate_text(connect, NAME).trim_end_matches(['-', '.']);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{connect}.{:x}", now.as_nanosecond())),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(message.note),
            reason: Some(reason.to_owned()),
            regarding: Some(message.regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(truncate_text(&self.identity, INSTANCE).to_owned()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }
}
