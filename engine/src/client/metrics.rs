//! What a client counts and measures, through the `metrics` facade: whoever installs a recorder sees it.
//!
//! The names stand in `engine/README.md`.

use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};

use super::connection_events::Resync;
use super::outcome::CommitOutcome;

/// The counters, gauges and histograms of one client. They belong to the recorder that was installed when the client was made.
pub(super) struct Metrics {
    committed: Counter,
    rejected: Counter,
    not_sent: Counter,
    unknown: Counter,
    round_trip: Histogram,
    queued: Histogram,
    queue_depth: Histogram,
    under_way: Histogram,
    coalesced: Histogram,
    received_bytes: Counter,
    sent_bytes: Counter,
    changed_rows: Counter,
    rows: Gauge,
    connections: Counter,
    reconnects: Counter,
    failed_connections: Counter,
    disconnects: Counter,
    continued: Counter,
    full: Counter,
    resync_rows: Histogram,
}

impl Metrics {
    /// Those of a client of this database.
    pub(super) fn new(database: &str) -> Self {
        let database = SharedString::from(database.to_owned());
        let transactions = |outcome: &'static str| counter!("ovsdb_client_transactions_total", "database" => database.clone(), "outcome" => outcome);
        let resyncs = |kind: &'static str| counter!("ovsdb_client_resyncs_total", "database" => database.clone(), "kind" => kind);
        let count = |name: &'static str| counter!(name, "database" => database.clone());
        let measure = |name: &'static str| histogram!(name, "database" => database.clone());
        Self {
            committed: transactions("committed"),
            rejected: transactions("rejected"),
            not_sent: transactions("not_sent"),
            unknown: transactions("unknown"),
            round_trip: measure("ovsdb_client_round_trip_seconds"),
            queued: measure("ovsdb_client_queued_seconds"),
            queue_depth: measure("ovsdb_client_queue_depth"),
            under_way: measure("ovsdb_client_requests_under_way"),
            coalesced: measure("ovsdb_client_coalesced_transactions"),
            received_bytes: count("ovsdb_client_received_bytes_total"),
            sent_bytes: count("ovsdb_client_sent_bytes_total"),
            changed_rows: count("ovsdb_client_changed_rows_total"),
            rows: gauge!("ovsdb_client_rows", "database" => database.clone()),
            connections: count("ovsdb_client_connections_total"),
            reconnects: count("ovsdb_client_reconnects_total"),
            failed_connections: count("ovsdb_client_failed_connections_total"),
            disconnects: count("ovsdb_client_disconnects_total"),
            continued: resyncs("continued"),
            full: resyncs("full"),
            resync_rows: measure("ovsdb_client_resync_rows"),
        }
    }

    /// A handle has got the outcome of a transaction.
    pub(super) fn told(&self, outcome: &CommitOutcome) {
        match outcome {
            CommitOutcome::Committed(_) => &self.committed,
            CommitOutcome::Rejected(_) => &self.rejected,
            CommitOutcome::NotSent(_) => &self.not_sent,
            CommitOutcome::Unknown(_) => &self.unknown,
        }
        .increment(1);
    }

    /// A transaction was taken from the queue, where so many wait still.
    pub(super) fn taken(&self, queued: Instant, waiting: usize) {
        self.queued.record(queued.elapsed());
        self.queue_depth.record(waiting as f64);
    }

    /// A request for so many transactions was made; with it, so many are under way.
    pub(super) fn requested(&self, transactions: usize, under_way: usize) {
        self.under_way.record(under_way as f64);
        self.coalesced.record(transactions as f64);
    }

    /// The server has answered a transaction.
    pub(super) fn answered(&self, round_trip: Duration) {
        self.round_trip.record(round_trip);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.received_bytes.increment(bytes as u64);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.sent_bytes.increment(bytes as u64);
    }

    /// Rows of the replica have changed, by transactions.
    pub(super) fn changed(&self, rows: usize) {
        self.changed_rows.increment(rows as u64);
    }

    /// The replica has so many rows.
    pub(super) fn holds(&self, rows: usize) {
        self.rows.set(rows as f64);
    }

    /// The replica was brought up to date.
    pub(super) fn resynced(&self, kind: Resync, rows: usize) {
        match kind {
            Resync::Continued => &self.continued,
            Resync::Full => &self.full,
        }
        .increment(1);
        self.resync_rows.record(rows as f64);
        self.changed(rows);
    }

    /// A connection was made, the first or a later one.
    pub(super) fn connected(&self, again: bool) {
        self.connections.increment(1);
        self.reconnects.increment(u64::from(again));
    }

    pub(super) fn disconnected(&self) {
        self.disconnects.increment(1);
    }

    pub(super) fn connection_failed(&self) {
        self.failed_connections.increment(1);
    }
}
