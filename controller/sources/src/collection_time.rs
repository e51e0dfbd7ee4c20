//! Time of a collection.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// Maximum length of a file with the times of a collection, in bytes.
pub(crate) const MAX_TIMESTAMP_BYTES: u64 = 4_096;

/// Times of the files of an archive.
#[derive(Debug, Default)]
pub(crate) struct CollectionTime {
    /// Latest time of a file.
    newest: Option<SystemTime>,
    /// Time that the collector names itself.
    named: Option<SystemTime>,
}

impl CollectionTime {
    /// The time of the collection: that of the collector, or else that of its newest file.
    pub(crate) fn get(&self) -> Option<SystemTime> {
        self.named.or(self.newest)
    }

    /// Adds the time of a file. `None`: it is not known.
    pub(crate) fn add_file(&mut self, time: Option<SystemTime>) {
        self.newest = self.newest.max(time);
    }

    /// Adds the time of a member of a tar archive, in seconds since 1970. Archives that are equal for
    /// equal files have 0.
    pub(crate) fn add_member(&mut self, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        self.add_file(time.filter(|_| seconds > 0));
    }

    /// Reads the file `timestamp` of must-gather: the begin and the end of the collection, as the
    /// language Go prints times.
    pub(crate) fn read(&mut self, text: &str) {
        let times = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (date, time, offset) = (words.next()?, words.next()?, words.next()?);
            let time: Timestamp = format!("{date}T{time}{offset}").parse().ok()?;
            Some(time.into())
        });
        self.named = self.named.max(times.max());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_names_its_end() {
        let mut time = CollectionTime::default();
        assert_eq!(time.get(), None);
        time.add_member(0);
        assert_eq!(time.get(), None);
        time.add_member(1_800_000_000);
        assert_eq!(
            time.get(),
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1_800_000_000))
        );
        time.read("yesterday\n\n");
        time.read(
            "2026-11-26 02:13:04.123456789 +0000 UTC m=+0.080218346\n\
             2026-11-26 03:15:04.5 +0100 CET m=+120.1\n",
        );
        let end: Timestamp = "2026-11-26T02:15:04.5Z".parse().unwrap();
        assert_eq!(time.get(), Some(end.into()));
    }
}
