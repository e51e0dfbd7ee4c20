//! Sources of an answer, and how old they are.

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use patchbay_report::ReportSource;
use serde::Serialize;

use super::moment::time_text;

/// Largest difference of two clocks that is no problem.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// Units of ages, with their lengths in seconds. A unit is used from its double on.
const UNITS: [(&str, u64); 4] = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];

/// Source of an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SourceAge {
    /// Remote, file or archive.
    pub(super) name: String,
    pub(super) time: SourceTime,
}

/// Time of the content of a source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SourceTime {
    /// Of a server that runs.
    Now,
    /// Of a file. `time`: `None` if nothing in it has a time. `latest`: latest time in its history.
    Kept { time: Option<SystemTime>, latest: Option<SystemTime> },
}

/// A document with its sources.
#[derive(Serialize)]
pub(super) struct SourcedDocument<'a, T> {
    #[serde(flatten)]
    pub(super) document: &'a T,
    pub(super) sources: Vec<SourceDocument>,
}

/// Source in a document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceDocument {
    source: String,
    /// `None`: it is not known.
    time: Option<String>,
    /// What is wrong with the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
}

impl SourceAge {
    /// Source of a server that runs.
    pub(super) fn live(name: &str) -> Self {
        Self { name: name.to_owned(), time: SourceTime::Now }
    }

    /// `true` for a server that runs.
    pub(super) fn is_live(&self) -> bool {
        self.time == SourceTime::Now
    }

    /// The source in a line. `now`: time on this machine.
    pub(super) fn line(&self, now: SystemTime) -> String {
        let name = &self.name;
        let SourceTime::Kept { time, .. } = self.time else {
            return format!("{name}, now");
        };
        let Some(time) = time else {
            return format!("{name}, of an unknown time");
        };
        let date = Date(time);
        if let Some(problem) = self.clock_problem(now) {
            return format!("{name}, of {date}: {problem}");
        }
        let age = now.duration_since(time).unwrap_or_default();
        format!("{name}, {} old ({date})", length(age))
    }

    /// The source in a document.
    pub(super) fn document(&self, now: SystemTime) -> SourceDocument {
        let time = match self.time {
            SourceTime::Now => Some(now),
            SourceTime::Kept { time, .. } => time,
        };
        SourceDocument {
            source: self.name.clone(),
            time: time.map(|time| time_text(Some(time))),
            clock: self.clock_problem(now),
        }
    }

    /// What contradicts the time. `None`: nothing does.
    fn clock_problem(&self, now: SystemTime) -> Option<String> {
        let SourceTime::Kept { time: Some(time), latest } = self.time else {
            return None;
        };
        if let Ok(ahead) = time.duration_since(now)
            && ahead > CLOCK_TOLERANCE
        {
            let ahead = length(ahead);
            return Some(format!(
                "{ahead} ahead of the clock of this machine, so one of both is wrong"
            ));
        }
        let latest = latest.filter(|latest| {
            latest.duration_since(time).is_ok_and(|behind| behind > CLOCK_TOLERANCE)
        })?;
        Some(format!("the clock ran backward, an earlier transaction is of {}", Date(latest)))
    }
}

impl SourceDocument {
    /// The source in a page.
    pub(super) fn into_report(self) -> ReportSource {
        ReportSource { name: self.source, time: self.time }
    }
}

/// A time in UTC, to the second.
struct Date(SystemTime);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::try_from(self.0) {
            Ok(time) => write!(f, "{}", time.strftime("%Y-%m-%d %H:%M:%S UTC")),
            Err(_) => f.write_str("an unknown time"),
        }
    }
}

/// A length of time in words.
fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let fitting = UNITS.iter().find(|(_, length)| seconds >= 2 * length);
    let (unit, count) =
        fitting.map_or(("second", seconds), |(unit, length)| (*unit, seconds / length));
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * DAY + seconds)
    }

    fn line(time: u64, latest: u64) -> String {
        let time = SourceTime::Kept { time: Some(at(time)), latest: Some(at(latest)) };
        SourceAge { name: "nb.db".to_owned(), time }.line(at(10 * DAY))
    }

    #[test]
    fn an_age_is_in_words() {
        let date = "(2024-10-11 00:00:00 UTC)";
        assert_eq!(line(7 * DAY, 7 * DAY), format!("nb.db, 3 days old {date}"));
        assert!(line(10 * DAY, 0).starts_with("nb.db, 0 seconds old"));
        for (seconds, expected) in
            [(1, "1 second"), (119, "119 seconds"), (120, "2 minutes"), (DAY, "24 hours")]
        {
            assert_eq!(length(Duration::from_secs(seconds)), expected);
        }
        let unknown = SourceTime::Kept { time: None, latest: None };
        let unknown = SourceAge { name: "a".to_owned(), time: unknown };
        assert_eq!(unknown.line(at(0)), "a, of an unknown time");
        assert_eq!(SourceAge::live("unix:/a").line(at(0)), "unix:/a, now");
    }

    #[test]
    fn a_clock_that_is_wrong_is_said() {
        let ahead = line(12 * DAY, 12 * DAY);
        let expected = "nb.db, of 2024-10-16 00:00:00 UTC: 2 days ahead of the clock of this machine, so one of both is wrong";
        assert_eq!(ahead, expected);
        let backward = line(7 * DAY, 9 * DAY);
        let expected = "nb.db, of 2024-10-11 00:00:00 UTC: the clock ran backward, an earlier transaction is of 2024-10-13 00:00:00 UTC";
        assert_eq!(backward, expected);
    }
}
