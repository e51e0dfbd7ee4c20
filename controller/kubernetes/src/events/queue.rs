//! Kubernetes events about `ClusterNetworkConnect`s, and about objects with problems.

mod publisher;

use std::fmt::Display;

use k8s_openapi::api::core::v1::ObjectReference;
use metrics::counter;
use patchbay_model::abbreviation::truncate_text;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Object;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use publisher::event_channel;

use crate::metrics::names;

/// Namespace of events about objects without a namespace.
const EVENT_NAMESPACE: &str = "default";
/// Kind of events.
const EVENT_KIND: &str = "Event";
/// Queued events: a few for each of about 100 `ClusterNetworkConnect`s. Events beyond that are
/// dropped, because an event is of use only soon.
const EVENT_QUEUE_DEPTH: usize = 512;
/// Limit of an event's note in bytes; the API server requires a shorter note.
const NOTE_LIMIT_BYTES: usize = 1024;

/// The `reason` of an event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum EventReason {
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

impl QueuedEvent {
    /// Namespace of the event: that of the object.
    fn namespace(&self) -> &str {
        let namespace = self.regarding.namespace.as_deref();
        namespace.unwrap_or(EVENT_NAMESPACE)
    }

    /// Kind of the request, and the object that the event is about.
    fn request_name(&self) -> (&'static str, ObjectKey) {
        let object = self.regarding.name.as_deref().unwrap_or_default();
        (EVENT_KIND, ObjectKey::namespaced(self.namespace(), object))
    }
}

/// The queue of events.
///
/// Senders never wait. An event is dropped if the queue is full, or if it cannot be published in
/// time.
#[derive(Clone, Debug)]
pub(crate) struct EventSender(mpsc::Sender<QueuedEvent>);

impl EventSender {
    /// Queues an event about a ClusterNetworkConnect.
    pub(crate) fn emit(
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
    pub(crate) fn emit_about(
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
        let is_queued = self.0.try_send(event).is_ok();
        if is_queued {
            let (type_, reason, _) = reason.type_reason_action();
            counter!(names::EVENTS, "type" => type_, "reason" => reason).increment(1);
        } else {
            counter!(names::DROPPED_EVENTS).increment(1);
        }
        is_queued
    }
}

/// A reference to an object.
pub(crate) fn reference<K: Object>(object: &K) -> ObjectReference {
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
