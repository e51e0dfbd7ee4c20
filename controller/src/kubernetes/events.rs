//! Events on connects: what people see who ask Kubernetes about one.

use std::fmt::Display;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::api::cnc::ClusterNetworkConnect;

/// How many events may wait. Some for each of 100 connects; what is more is not worth waiting for.
const QUEUE: usize = 512;
/// The longest note that Kubernetes takes, in bytes.
const NOTE: usize = 1024;
/// Who reports.
const CONTROLLER: &str = "patchbay";

/// What is told about a connect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told {
    /// Networks are selected and have subnets.
    Accepted,
    /// Something about the connect is wrong.
    Refused,
    /// A zone has connected the networks.
    Connected,
    /// A zone lacks something.
    NotConnected,
}

impl Told {
    const fn parts(self) -> (EventType, &'static str, &'static str) {
        match self {
            Self::Accepted => (EventType::Normal, "Accepted", "Allocate"),
            Self::Refused => (EventType::Warning, "Refused", "Allocate"),
            Self::Connected => (EventType::Normal, "Connected", "Connect"),
            Self::NotConnected => (EventType::Warning, "NotConnected", "Connect"),
        }
    }
}

/// Where events are put. Nobody waits for them: when too many wait already, or the API server does not take one, it is lost.
#[derive(Clone, Debug)]
pub(super) struct Events(mpsc::Sender<(ObjectReference, Event)>);

impl Events {
    /// Tells about a connect.
    pub(super) fn tell(&self, connect: &ClusterNetworkConnect, told: Told, note: &dyn Display) {
        let (type_, reason, action) = told.parts();
        let mut note = note.to_string();
        note.truncate(note.floor_char_boundary(NOTE));
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        // The version says nothing to readers, and would make each event one of its own.
        let mut reference = connect.object_ref(&());
        reference.resource_version = None;
        if self.0.try_send((reference, event)).is_err() {
            tracing::debug!(reason, "too many events wait: one is lost");
        }
    }
}

/// A queue of events, and the task that publishes what is put in. The task ends when nobody can put in any more.
pub(super) fn events(
    client: Client,
    identity: String,
) -> (Events, impl Future<Output = ()> + Send) {
    let (sender, mut queue) = mpsc::channel(QUEUE);
    let reporter = Reporter {
        controller: CONTROLLER.to_owned(),
        instance: Some(identity),
    };
    let recorder = Recorder::new(client, reporter);
    let task = async move {
        while let Some((reference, event)) = queue.recv().await {
            if let Err(error) = recorder.publish(&event, &reference).await {
                tracing::debug!(%error, reason = event.reason, "an event is lost");
            }
        }
    };
    (Events(sender), task)
}
