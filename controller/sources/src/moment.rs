//! Moments in the history of a database file.

use std::io::BufRead;
use std::str::FromStr;
use std::time::SystemTime;

use jiff::Timestamp;
use ovsdb_sim::{DatabaseLog, FileError};
use patchbay_engine::db::Snapshot;

/// Moment in the history of a database file.
///
/// ```
/// use patchbay_sources::Moment;
///
/// assert_eq!("12".parse(), Ok(Moment::Record(12)));
/// assert!(matches!("2026-11-29T03:00:00Z".parse(), Ok(Moment::Time(_))));
/// assert!("yesterday".parse::<Moment>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moment {
    /// After the record with this number, as `ovsdb-tool show-log` counts.
    Record(u64),
    /// After the last transaction that is not later.
    Time(SystemTime),
}

/// Error: a text is neither the number of a record nor a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected the number of a record or a time such as 2026-11-29T03:00:00Z")]
pub struct MomentError;

/// State of a database at a moment, or at the end of its file.
#[derive(Debug)]
pub struct DatabaseState {
    /// The rows.
    pub snapshot: Snapshot,
    /// Time of the last transaction, as the clock of its server had it. `None`: no transaction has a
    /// time.
    pub time: Option<SystemTime>,
    /// Latest time of the transactions. A later one than [`time`](Self::time) is of a clock that ran
    /// backward afterwards.
    pub latest: Option<SystemTime>,
}

/// Error: a state cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The history begins after the moment.
    #[error("no transaction up to --at: {}", begin(*first))]
    TooEarly {
        /// Record and time of the first transaction. `None`: there is none.
        first: Option<(u64, Option<SystemTime>)>,
    },
}

fn begin(first: Option<(u64, Option<SystemTime>)>) -> String {
    let Some((record, time)) = first else {
        return "it has no transaction".to_owned();
    };
    let time = time.and_then(|time| Timestamp::try_from(time).ok());
    let time = time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"));
    format!("it begins with record {record} of {time}")
}

impl Moment {
    /// `true` if a transaction belongs to the history up to this moment. A transaction without a time
    /// is older than all times.
    pub fn includes(self, record: u64, time: Option<SystemTime>) -> bool {
        match (self, time) {
            (Self::Record(last), _) => record <= last,
            (Self::Time(last), Some(time)) => time <= last,
            (Self::Time(_), None) => true,
        }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(record) = text.parse() {
            return Ok(Self::Record(record));
        }
        let time: Timestamp = text.parse().map_err(|_| MomentError)?;
        Ok(Self::Time(time.into()))
    }
}

/// Executes the transactions of a log up to a moment, or all of them.
///
/// # Errors
/// The file cannot be read, or its history begins after the moment.
pub fn state_at<R: BufRead>(
    log: &mut DatabaseLog<R>,
    at: Option<Moment>,
) -> Result<DatabaseState, StateError> {
    let (mut first, mut time, mut latest) = (None, None, None);
    let mut reached = None;
    while let Some(transaction) = log.next()? {
        first.get_or_insert((transaction.record, transaction.time));
        if at.is_some_and(|at| !at.includes(transaction.record, transaction.time)) {
            if matches!(at, Some(Moment::Record(_))) {
                break;
            }
            continue;
        }
        (time, latest) = (transaction.time, latest.max(transaction.time));
        // A later transaction may be of an earlier time.
        reached = at.map(|_| log.snapshot());
    }
    let snapshot = match (at, reached) {
        (None, _) => log.snapshot(),
        (Some(_), Some(snapshot)) => snapshot,
        (Some(_), None) => return Err(StateError::TooEarly { first }),
    };
    Ok(DatabaseState { snapshot, time, latest })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_includes_what_is_not_later() {
        let Ok(Moment::Time(at)) = "2026-11-29T03:00:00Z".parse() else { panic!("a time") };
        let moment = Moment::Time(at);
        assert!(moment.includes(7, Some(at)) && moment.includes(7, None));
        assert!(!moment.includes(7, Some(at + Duration::from_millis(1))));
        assert!(Moment::Record(7).includes(7, None) && !Moment::Record(7).includes(8, Some(at)));
    }
}
