//! Events about conditions of ClusterNetworkConnects that have changed.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::CONNECTED;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::Objects;
use patchbay_resources::object::Condition;
use tokio::time::Instant;

use crate::events::event_throttle::EventThrottle;
use crate::events::queue::{EventReason, EventSender};

/// Emits events about the conditions that the API server stores, during one term of the leader.
/// Those of the first pass are a former leader's.
#[derive(Debug)]
pub(crate) struct ConditionEvents {
    events: EventSender,
    throttle: EventThrottle,
    /// The condition `Accepted` of the last pass, by name.
    accepted: BTreeMap<String, StoredCondition>,
}

/// A condition of an object, as far as another one is worth an event.
#[derive(Debug)]
struct StoredCondition {
    /// UID, which distinguishes the object from a later one of the same name.
    uid: Option<String>,
    /// Status and message. `None`: the object does not have the condition.
    texts: Option<(String, String)>,
}

impl ConditionEvents {
    pub(crate) fn new(events: EventSender) -> Self {
        Self { events, throttle: EventThrottle::default(), accepted: BTreeMap::new() }
    }

    /// Time at which a suppressed event is to be reconsidered. `None`: there is none.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.throttle.next_due()
    }

    /// Forgets the suppressed events that are due. The next update reconsiders them.
    pub(crate) fn clear_due(&mut self) {
        self.throttle.clear_due(Instant::now());
    }

    /// Emits events about conditions that are stored since the last update. The condition
    /// `Connected` counts once it is as `desired`. `obstacles`: those that the zones report, by
    /// connect; without an entry they are not known.
    pub(crate) fn update(
        &mut self,
        stored: &Objects<ClusterNetworkConnect>,
        desired: &Objects<ClusterNetworkConnect>,
        obstacles: &BTreeMap<String, BTreeSet<String>>,
    ) {
        self.throttle.retain(|name| stored.named(name).is_some());
        self.accepted.retain(|name, _| stored.named(name).is_some());
        for (key, connect) in stored.iter() {
            let connect = &connect.object;
            self.update_accepted(&key.name, connect);
            let condition = condition(connect, CONNECTED);
            self.throttle.track(&connect.metadata, condition);
            let desired = desired.named(&key.name);
            let desired = desired.and_then(|desired| self::condition(desired, CONNECTED));
            if let (Some(now), Some(obstacles)) = (condition, obstacles.get(&key.name))
                && desired == Some(now)
            {
                let obstacles = obstacles.iter().map(String::as_str).collect();
                let at = Instant::now();
                if (self.throttle).admit(&connect.metadata, now, &obstacles, at) {
                    let reasons = (EventReason::Connected, EventReason::NotConnected);
                    self.emit(connect, now, reasons);
                }
            }
        }
    }

    /// Emits an event when `Accepted` has another status or message.
    fn update_accepted(&mut self, name: &str, connect: &ClusterNetworkConnect) {
        let condition = condition(connect, ACCEPTED);
        let current = StoredCondition {
            uid: connect.metadata.uid.clone(),
            texts: condition.map(|one| (one.status.clone(), one.message.clone())),
        };
        let former = self.accepted.get(name);
        let is_other = former.is_some_and(|it| it.uid == current.uid && it.texts != current.texts);
        self.accepted.insert(name.to_owned(), current);
        if let Some(now) = condition.filter(|_| is_other) {
            let reasons = (EventReason::Accepted, EventReason::Refused);
            self.emit(connect, now, reasons);
        }
    }

    fn emit(
        &self,
        connect: &ClusterNetworkConnect,
        now: &Condition,
        (good, bad): (EventReason, EventReason),
    ) {
        let reason = match &*now.status {
            "True" => good,
            "False" => bad,
            // `Unknown` is no news.
            _ => return,
        };
        let (name, message) = (connect.metadata.name.as_deref(), &now.message);
        tracing::info!(connect = name, ?reason, message, "condition changed");
        self.events.emit(connect, reason, message);
    }
}

/// A condition in the status of a ClusterNetworkConnect.
pub(crate) fn condition<'a>(
    connect: &'a ClusterNetworkConnect,
    type_: &str,
) -> Option<&'a Condition> {
    let mut conditions = connect.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == type_)
}
