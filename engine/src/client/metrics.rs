//! Metrics of a client, recorded through the `metrics` facade.
//!
//! `engine/README.md` lists the names.

use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};

use super::connection_events::ResyncKind;
use super::outcome::CommitOutcome;

/// Counters, gauges and histograms of one client, registered with the recorder that was installed
/// when the client connected.
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
    /// Registers the metrics of a client of `database`.
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

    /// Counts a transaction by its outcome.
    pub(super) fn record_outcome(&self, outcome: &CommitOutcome) {
        match outcome {
            CommitOutcome::Committed(_) => &self.committed,
            CommitOutcome::Rejected(_) => &self.rejected,
            CommitOutcome::NotSent(_) => &self.not_sent,
            CommitOutcome::Unknown(_) => &self.unknown,
        }
        .increment(1);
    }

    /// Records a transaction that was taken from the queue, and the number that still wait in it.
    pub(super) fn record_dequeued(&self, queued: Instant, waiting: usize) {
        self.queued.record(queued.elapsed());
        self.queue_depth.record(waiting as f64);
    }

    /// Records a request with its number of transactions, and the number of unanswered requests.
    pub(super) fn record_request(&self, transactions: usize, under_way: usize) {
        self.under_way.record(under_way as f64);
        self.coalesced.record(transactions as f64);
    }

    /// Records the time between a request and its reply.
    pub(super) fn record_reply(&self, round_trip: Duration) {
        self.round_trip.record(round_trip);
    }

    pub(super) fn record_received_bytes(&self, bytes: usize) {
        self.received_bytes.increment(bytes as u64);
    }

    pub(super) fn record_sent_bytes(&self, bytes: usize) {
        self.sent_bytes.increment(bytes as u64);
    }

    /// Counts rows that a transaction has changed in the replica.
    pub(super) fn record_changed_rows(&self, rows: usize) {
        self.changed_rows.increment(rows as u64);
    }

    /// Sets the number of rows in the replica.
    pub(super) fn set_row_count(&self, rows: usize) {
        self.rows.set(rows as f64);
    }

    /// Counts a resync and the rows that it has changed.
    pub(super) fn record_resync(&self, kind: ResyncKind, rows: usize) {
        match kind {
            ResyncKind::Continued => &self.continued,
            ResyncKind::Full => &self.full,
        }
        .increment(1);
        self.resync_rows.record(rows as f64);
        self.record_changed_rows(rows);
    }

    /// Counts a connection. `is_reconnect`: it is not the client's first one.
    pub(super) fn record_connection(&self, is_reconnect: bool) {
        self.connections.increment(1);
        self.reconnects.increment(u64::from(is_reconnect));
    }

    pub(super) fn record_disconnect(&self) {
        self.disconnects.increment(1);
    }

    pub(super) fn record_failed_connection(&self) {
        self.failed_connections.increment(1);
    }
}
