//! What people were told of zones' verdicts, so that they are not told the same again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use patchbay_resources::object::{Condition, ObjectMeta};
use tokio::time::Instant;

/// How often something is told of one connect within a time: that something is wrong, that it is something else, and that it is
/// mended. What happens more often is told when the time is over, as it is then.
const TIMES: usize = 3;
const WITHIN: Duration = Duration::from_secs(600);

/// What was told about connects, by their names. What was told before this process led is not known in full; what the
/// conditions say counts as told.
#[derive(Debug, Default)]
pub(super) struct News(BTreeMap<String, History>);

/// What was told about one connect.
#[derive(Debug)]
struct History {
    /// Tells the object from a later one of the same name.
    uid: Option<String>,
    last: Option<Verdict>,
    times: Vec<Instant>,
    /// When to tell what is not told yet.
    due: Option<Instant>,
}

/// What is worth telling: neither how many zones, networks and ports there are, nor of which nodes the same is true.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    holds: bool,
    /// Since when, in seconds.
    since: i64,
    /// A digest of what is not connected and why; none if that is not known.
    obstacles: Option<u64>,
}

impl Verdict {
    /// None as long as nobody knows.
    fn of(condition: &Condition, obstacles: Option<u64>) -> Option<Self> {
        let holds = match &*condition.status {
            "True" => true,
            "False" => false,
            _ => return None,
        };
        Some(Self {
            holds,
            since: condition.last_transition_time.0.as_second(),
            obstacles,
        })
    }

    /// Whether they say the same, maybe at different times.
    fn says_the_same(&self, other: &Self) -> bool {
        let obstacles = self.obstacles.zip(other.obstacles);
        self.holds == other.holds && obstacles.is_none_or(|(one, other)| one == other)
    }
}

impl News {
    /// Whether to tell what a condition says now; it was like `before` when the connect was looked at last.
    pub(super) fn hear(
        &mut self,
        connect: &ObjectMeta,
        before: Option<&Condition>,
        now: &Condition,
        obstacles: &BTreeSet<&str>,
        at: Instant,
    ) -> bool {
        let name = connect.name.clone().unwrap_or_default();
        let new = || History {
            uid: connect.uid.clone(),
            last: before.and_then(|condition| Verdict::of(condition, None)),
            times: Vec::new(),
            due: None,
        };
        let history = self.0.entry(name).or_insert_with(new);
        if history.uid != connect.uid {
            *history = new();
        }
        history.due = None;
        let Some(verdict) = Verdict::of(now, Some(digest(obstacles))) else {
            return false;
        };
        history.times.retain(|told| at < *told + WITHIN);
        if let Some(last) = &mut history.last
            && last.says_the_same(&verdict)
            // After each edit, nobody knows for a while, and then it is as it was. That must not use up what may be told.
            && (last.since == verdict.since || !history.times.is_empty())
        {
            *last = verdict;
            return false;
        }
        if history.times.len() >= TIMES {
            history.due = history.times.first().map(|told| *told + WITHIN);
            return false;
        }
        history.times.push(at);
        history.last = Some(verdict);
        true
    }

    /// When to look again at what was not told.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|history| history.due).min()
    }

    /// It is looked at: it is not due any more, even if that fails.
    pub(super) fn look(&mut self, now: Instant) {
        for history in self.0.values_mut() {
            history.due = history.due.filter(|due| *due > now);
        }
    }

    /// Forgets connects that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|connect, _| is_there(connect));
    }
}

fn digest(obstacles: &BTreeSet<&str>) -> u64 {
    let kinds: BTreeSet<String> = obstacles.iter().map(|text| without_nodes(text)).collect();
    let mut hasher = DefaultHasher::new();
    kinds.hash(&mut hasher);
    hasher.finish()
}

/// The text without names of nodes, which are those of zones.
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

    /// The news of one connect, at a time that goes on.
    struct Bed {
        news: News,
        connect: ObjectMeta,
        now: Instant,
        before: Option<Condition>,
    }

    impl Bed {
        fn new() -> Self {
            Self {
                news: News::default(),
                connect: ObjectMeta {
                    name: Some("c".to_owned()),
                    ..ObjectMeta::default()
                },
                now: Instant::now(),
                before: None,
            }
        }

        fn hear(&mut self, status: &str, since: i64, obstacles: &[&str]) -> bool {
            let condition = Condition {
                type_: "Connected".to_owned(),
                status: status.to_owned(),
                last_transition_time: Time(Timestamp::from_second(since).unwrap()),
                reason: String::new(),
                message: String::new(),
                observed_generation: None,
            };
            let obstacles = obstacles.iter().copied().collect();
            let before = self.before.as_ref();
            let told = self
                .news
                .hear(&self.connect, before, &condition, &obstacles, self.now);
            self.before = Some(condition);
            told
        }
    }

    #[test]
    fn what_stays_is_told_once() {
        let mut bed = Bed::new();
        assert!(!bed.hear("Unknown", 1, &[]));
        assert!(bed.hear("True", 2, &[]));
        assert!(!bed.hear("True", 2, &[]));
        assert!(bed.hear("False", 3, &["network red, node n1: no id"]));
        assert!(!bed.hear("False", 3, &["network red, node n2: no id"]));
        let more = ["network red, node n2: no id", "network red, node n3: no id"];
        assert!(!bed.hear("False", 3, &more));
        assert!(bed.hear("False", 3, &["network blue, node n2: no id"]));
    }

    #[test]
    fn what_another_leader_has_written_is_told() {
        let mut bed = Bed::new();
        bed.hear("False", 1, &["no id"]);
        bed.news = News::default();
        assert!(!bed.hear("False", 1, &["no id"]));
        assert!(bed.hear("False", 1, &["no chassis"]));
        bed.connect.uid = Some("another".to_owned());
        bed.before = None;
        assert!(bed.hear("False", 1, &["no chassis"]));
    }

    #[test]
    fn what_flaps_is_told_when_its_time_has_come() {
        let mut bed = Bed::new();
        let told = (0..20).filter(|second| {
            let status = if second % 2 == 0 { "True" } else { "False" };
            bed.hear(status, *second, &[])
        });
        assert_eq!(told.count(), TIMES);
        assert_eq!(bed.news.due(), Some(bed.now + WITHIN));
        bed.now += WITHIN;
        bed.news.look(bed.now);
        assert_eq!(bed.news.due(), None);
        assert!(bed.hear("False", 19, &[]));
        assert_eq!(bed.news.due(), None);
        bed.news.retain(|_| false);
        assert!(bed.news.0.is_empty());
    }

    #[test]
    fn what_is_over_before_its_time_has_come_is_not_told() {
        let mut bed = Bed::new();
        for (second, status) in (0..).zip(["True", "False", "True", "False"]) {
            bed.hear(status, second, &[]);
        }
        assert!(bed.news.due().is_some());
        // Back to what was told last.
        assert!(!bed.hear("True", 5, &[]));
        assert_eq!(bed.news.due(), None);
    }

    #[test]
    fn what_is_as_it_was_after_each_edit_does_not_keep_others_from_being_told() {
        let mut bed = Bed::new();
        assert!(bed.hear("True", 0, &[]));
        for second in 1..10 {
            assert!(!bed.hear("Unknown", 10 * second, &[]));
            assert!(!bed.hear("True", 10 * second + 5, &[]));
        }
        assert!(bed.hear("False", 101, &["no id"]));
        bed.now += WITHIN;
        assert!(!bed.hear("Unknown", 102, &[]));
        assert!(bed.hear("False", 103, &["no id"]));
    }
}
