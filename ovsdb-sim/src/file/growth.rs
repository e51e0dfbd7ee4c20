//! Growth of a file, which decides when it is compacted (`ovsdb_storage_should_snapshot` of
//! ovsdb-server).

use std::time::Duration;

use tokio::time::Instant;

/// Time from the opening or a compaction of a file until the next compaction, at least.
/// ovsdb-server adds up to ten more minutes, so that the members of a cluster take turns.
const MIN_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Time from a compaction that failed until the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which a file is compacted, however little it has grown.
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Size in bytes from which a file is compacted if it has doubled.
const MIN_BYTES: u64 = 10 << 20;
/// Number of records from which a file is compacted if it has doubled.
const MIN_RECORDS: u64 = 100;

/// Part of a file that has been read or written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// End of the record with the first content, an offset in bytes. The content that has changed
    /// since then is behind it.
    pub(super) base: u64,
    /// End of the last record, an offset in bytes.
    pub(super) end: u64,
    /// Number of records.
    pub(super) records: u64,
}

impl Extent {
    /// `true` if much of the file is likely to be out of date.
    fn has_grown(&self) -> bool {
        self.records >= MIN_RECORDS && self.end > MIN_BYTES && self.end / 2 > self.base
    }
}

/// Times between which a file is compacted.
#[derive(Debug)]
pub(super) struct CompactionTimes {
    earliest: Instant,
    latest: Instant,
}

impl CompactionTimes {
    /// Times of a file that has just been opened or compacted.
    pub(super) fn after_compaction() -> Self {
        Self::after(MIN_INTERVAL)
    }

    /// Times after a compaction that has failed.
    pub(super) fn after_failure() -> Self {
        Self::after(RETRY_INTERVAL)
    }

    fn after(interval: Duration) -> Self {
        let now = Instant::now();
        Self { earliest: now + interval, latest: now + MAX_INTERVAL }
    }

    /// `true` if a file with this extent is to be compacted now.
    pub(super) fn are_due(&self, extent: &Extent) -> bool {
        let now = Instant::now();
        now >= self.latest || now >= self.earliest && extent.has_grown()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn a_file_has_grown_if_it_is_long_and_has_doubled_in_many_records() {
        let extent = |base, end, records| Extent { base, end, records };
        let end = MIN_BYTES + 2;
        assert!(extent(end / 2 - 1, end, MIN_RECORDS).has_grown());
        for grown_little in [
            extent(0, MIN_BYTES, MIN_RECORDS),
            extent(end / 2, end, MIN_RECORDS),
            extent(0, end, MIN_RECORDS - 1),
        ] {
            assert!(!grown_little.has_grown(), "{grown_little:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_compacted_ten_minutes_after_its_opening_and_once_a_day() {
        let grown = Extent { base: 0, end: 2 * MIN_BYTES, records: MIN_RECORDS };
        let times = CompactionTimes::after_compaction();
        assert!(!times.are_due(&grown));
        advance(MIN_INTERVAL).await;
        assert!(times.are_due(&grown) && !times.are_due(&Extent::default()));
        advance(MAX_INTERVAL).await;
        assert!(times.are_due(&Extent::default()));

        let times = CompactionTimes::after_failure();
        advance(RETRY_INTERVAL).await;
        assert!(times.are_due(&grown));
    }
}
