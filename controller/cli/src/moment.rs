//! The flag `--at`: a moment in the history of a database file.

use std::str::FromStr;
use std::time::SystemTime;

use jiff::Timestamp;

/// Moment in the history of a database file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Moment {
    /// After the record with this number, as `history` and `ovsdb-tool show-log` count.
    Record(u64),
    /// After the last transaction that is not later.
    Time(SystemTime),
}

impl Moment {
    /// `true` if a transaction belongs to the history up to this moment. A transaction without a time
    /// is older than all times.
    pub(super) fn includes(self, record: u64, time: Option<SystemTime>) -> bool {
        match (self, time) {
            (Self::Record(last), _) => record <= last,
            (Self::Time(last), Some(time)) => time <= last,
            (Self::Time(_), None) => true,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(record) = text.parse() {
            return Ok(Self::Record(record));
        }
        let time: Result<Timestamp, _> = text.parse();
        time.map(|time| Self::Time(time.into())).map_err(|_| {
            "expected the number of a record or a time such as 2026-11-29T03:00:00Z".to_owned()
        })
    }
}

/// Time of a transaction as text, in UTC. Unknown times are `-`.
pub(super) fn time_text(time: Option<SystemTime>) -> String {
    let time = time.and_then(|time| Timestamp::try_from(time).ok());
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_record_or_a_time() {
        assert_eq!("12".parse(), Ok(Moment::Record(12)));
        let time: Moment = "2026-11-29T03:00:00Z".parse().unwrap();
        let Moment::Time(at) = time else { panic!("{time:?}") };
        assert_eq!(time_text(Some(at)), "2026-11-29T03:00:00.000Z");
        assert!(time.includes(7, Some(at)) && time.includes(7, None));
        assert!(!time.includes(7, Some(at + std::time::Duration::from_millis(1))));
        assert!("yesterday".parse::<Moment>().is_err());
    }
}
