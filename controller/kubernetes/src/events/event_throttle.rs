//! Limits how many events about the condition `Connected` are emitted.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use patchbay_resources::object::{Condition, ObjectMeta};
use tokio::time::Instant;

/// Events about one object within [`EVENT_WINDOW`]: a failure, another one, and the recovery.
/// Further changes are emitted at the end of the window if they still hold.
const MAX_EVENTS_PER_WINDOW: usize = 3;
/// Time for which emitted events count against [`MAX_EVENTS_PER_WINDOW`].
const EVENT_WINDOW: Duration = Duration::from_secs(600);

/// The events emitted about each ClusterNetworkConnect, by its name.
///
/// Events of former leaders are not known in full. A condition that is already in the status counts
/// as emitted.
#[derive(Debug, Default)]
pub(crate) struct EventThrottle(BTreeMap<String, ConnectEventHistory>);

/// The events emitted about one ClusterNetworkConnect.
#[derive(Debug)]
struct ConnectEventHistory {
    /// UID, which distinguishes the object from a later one of the same name.
    uid: Option<String>,
    /// The state of the last event.
    last: Option<ConditionState>,
    /// Times of the events within the window.
    emitted_at: Vec<Instant>,
    /// Time at which a suppressed event is reconsidered. `None`: nothing is suppressed.
    due: Option<Instant>,
}

/// The part of a condition that is worth an event. Numbers of zones, networks and ports are not,
/// nor are the names of the zones that report an obstacle.
#[derive(Clone, Copy, Debug)]
struct ConditionState {
    holds: bool,
    /// `lastTransitionTime`, in seconds of Unix time.
    since: i64,
    /// Digest of the obstacles. `None`: not known.
    obstacles: Option<u64>,
}

impl ConditionState {
    /// The state of a condition. `None`: its status is `Unknown`.
    fn of(condition: &Condition, obstacles: Option<u64>) -> Option<Self> {
        let holds = match &*condition.status {
            "True" => true,
            "False" => false,
            _ => return None,
        };
        Some(Self { holds, since: condition.last_transition_time.0.as_second(), obstacles })
    }

    /// `true` if both states have the same status and obstacles.
    fn is_alike(&self, other: &Self) -> bool {
        let obstacles = self.obstacles.zip(other.obstacles);
        self.holds == other.holds && obstacles.is_none_or(|(one, other)| one == other)
    }
}

impl EventThrottle {
    /// Begins to follow an object, if that is new. Its condition counts as emitted.
    pub(crate) fn track(&mut self, connect: &ObjectMeta, stored: Option<&Condition>) {
        let name = connect.name.clone().unwrap_or_default();
        let is_known = |history: &ConnectEventHistory| history.uid == connect.uid;
        if !self.0.get(&name).is_some_and(is_known) {
            let history = ConnectEventHistory {
                uid: connect.uid.clone(),
                last: stored.and_then(|condition| ConditionState::of(condition, None)),
                emitted_at: Vec::new(),
                due: None,
            };
            self.0.insert(name, history);
        }
    }

    /// Returns `true` if an event about the condition `now` of a tracked object is to be emitted, and
    /// records it. `obstacles` are those that the zones report; `at` is the current time.
    pub(crate) fn admit(
        &mut self,
        connect: &ObjectMeta,
        now: &Condition,
        obstacles: &BTreeSet<&str>,
        at: Instant,
    ) -> bool {
        let name = connect.name.as_deref().unwrap_or_default();
        let Some(history) = self.0.get_mut(name) else {
            return false;
        };
        history.due = None;
        let Some(state) = ConditionState::of(now, Some(digest(obstacles))) else {
            return false;
        };
        history.emitted_at.retain(|emitted| at < *emitted + EVENT_WINDOW);
        if let Some(last) = &mut history.last
            && last.is_alike(&state)
            // A return through `Unknown` after an edit to the same state is no news, so it does not
            // use up the limit.
            && (last.since == state.since || !history.emitted_at.is_empty())
        {
            *last = state;
            return false;
        }
        if history.emitted_at.len() >= MAX_EVENTS_PER_WINDOW {
            history.due = history.emitted_at.first().map(|emitted| *emitted + EVENT_WINDOW);
            return false;
        }
        history.emitted_at.push(at);
        history.last = Some(state);
        true
    }

    /// The earliest time at which a suppressed event is to be reconsidered.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.0.values().filter_map(|history| history.due).min()
    }

    /// Clears due times up to `now`, even if the update that follows fails.
    pub(crate) fn clear_due(&mut self, now: Instant) {
        for history in self.0.values_mut() {
            history.due = history.due.filter(|due| *due > now);
        }
    }

    /// Forgets objects that do not exist any more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|connect, _| is_there(connect));
    }
}

fn digest(obstacles: &BTreeSet<&str>) -> u64 {
    let kinds: BTreeSet<String> = obstacles.iter().map(|text| without_nodes(text)).collect();
    let mut hasher = DefaultHasher::new();
    kinds.hash(&mut hasher);
    hasher.finish()
}

/// The text without the names of nodes, so that the same obstacle in many zones counts once.
fn without_nodes(text: &str) -> String {
    let mut before = "";
    let words = text.split(' ').filter(|word| {
        let is_name = before == "node";
        before = word;
        !is_name
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use patchbay_resources::object::Time;

    use super::*;

    /// The throttle with one object, and a clock that tests advance.
    struct Fixture {
        throttle: EventThrottle,
        connect: ObjectMeta,
        now: Instant,
        before: Option<Condition>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                throttle: EventThrottle::default(),
                connect: ObjectMeta { name: Some("c".to_owned()), ..ObjectMeta::default() },
                now: Instant::now(),
                before: None,
            }
        }

        fn admit(&mut self, status: &str, since: i64, obstacles: &[&str]) -> bool {
            let condition = Condition {
                type_: "Connected".to_owned(),
                status: status.to_owned(),
                last_transition_time: Time(Timestamp::from_second(since).unwrap()),
                reason: String::new(),
                message: String::new(),
                observed_generation: None,
            };
            let obstacles = obstacles.iter().copied().collect();
            let throttle = &mut self.throttle;
            throttle.track(&self.connect, self.before.as_ref());
            let emitted = throttle.admit(&self.connect, &condition, &obstacles, self.now);
            self.before = Some(condition);
            emitted
        }
    }

    #[test]
    fn an_unchanged_state_is_emitted_once() {
        let mut fixture = Fixture::new();
        assert!(!fixture.admit("Unknown", 1, &[]));
        assert!(fixture.admit("True", 2, &[]));
        assert!(!fixture.admit("True", 2, &[]));
        assert!(fixture.admit("False", 3, &["network red, node n1: no id"]));
        assert!(!fixture.admit("False", 3, &["network red, node n2: no id"]));
        let more = ["network red, node n2: no id", "network red, node n3: no id"];
        assert!(!fixture.admit("False", 3, &more));
        assert!(fixture.admit("False", 3, &["network blue, node n2: no id"]));
    }

    #[test]
    fn a_state_that_a_former_leader_has_written_is_not_emitted_again() {
        let mut fixture = Fixture::new();
        fixture.admit("False", 1, &["no id"]);
        fixture.throttle = EventThrottle::default();
        assert!(!fixture.admit("False", 1, &["no id"]));
        assert!(fixture.admit("False", 1, &["no chassis"]));
        fixture.connect.uid = Some("another".to_owned());
        fixture.before = None;
        assert!(fixture.admit("False", 1, &["no chassis"]));
    }

    #[test]
    fn a_flapping_state_is_emitted_again_after_the_window() {
        let mut fixture = Fixture::new();
        let emitted = (0..20).filter(|second| {
            let status = if second % 2 == 0 { "True" } else { "False" };
            fixture.admit(status, *second, &[])
        });
        assert_eq!(emitted.count(), MAX_EVENTS_PER_WINDOW);
        assert_eq!(fixture.throttle.next_due(), Some(fixture.now + EVENT_WINDOW));
        fixture.now += EVENT_WINDOW;
        fixture.throttle.clear_due(fixture.now);
        assert_eq!(fixture.throttle.next_due(), None);
        assert!(fixture.admit("False", 19, &[]));
        assert_eq!(fixture.throttle.next_due(), None);
        fixture.throttle.retain(|_| false);
        assert!(fixture.throttle.0.is_empty());
    }

    #[test]
    fn a_suppressed_state_that_ends_is_not_emitted() {
        let mut fixture = Fixture::new();
        for (second, status) in (0..).zip(["True", "False", "True", "False"]) {
            fixture.admit(status, second, &[]);
        }
        assert!(fixture.throttle.next_due().is_some());
        // Back to the state that was emitted last.
        assert!(!fixture.admit("True", 5, &[]));
        assert_eq!(fixture.throttle.next_due(), None);
    }

    #[test]
    fn returns_to_the_same_state_do_not_use_up_the_limit() {
        let mut fixture = Fixture::new();
        assert!(fixture.admit("True", 0, &[]));
        for second in 1..10 {
            assert!(!fixture.admit("Unknown", 10 * second, &[]));
            assert!(!fixture.admit("True", 10 * second + 5, &[]));
        }
        assert!(fixture.admit("False", 101, &["no id"]));
        fixture.now += EVENT_WINDOW;
        assert!(!fixture.admit("Unknown", 102, &[]));
        assert!(fixture.admit("False", 103, &["no id"]));
    }
}
