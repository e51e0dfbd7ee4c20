//! Names of all metrics, with their labels and texts.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// Kind of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricKind {
    /// A number that grows.
    Counter,
    /// A number.
    Gauge,
    /// Numbers of measured values up to bounds.
    Histogram,
}

/// A metric of the admin port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: MetricKind,
    /// Labels, separated by commas.
    pub labels: &'static str,
    /// Text of the line `HELP`.
    pub help: &'static str,
}

pub(crate) const PASSES: &str = "controller_runtime_reconcile_total";
pub(crate) const PASS_ERRORS: &str = "controller_runtime_reconcile_errors_total";
pub(crate) const PASS_SECONDS: &str = "controller_runtime_reconcile_time_seconds";
pub(crate) const ACTIVE_WORKERS: &str = "controller_runtime_active_workers";
pub(crate) const QUEUE_ADDS: &str = "workqueue_adds_total";
pub(crate) const QUEUE_DEPTH: &str = "workqueue_depth";
pub(crate) const QUEUE_RETRIES: &str = "workqueue_retries_total";
pub(crate) const QUEUE_WORK_SECONDS: &str = "workqueue_work_duration_seconds";
pub(crate) const REQUESTS: &str = "rest_client_requests_total";
pub(crate) const IS_LEADER: &str = "leader_election_master_status";
pub(crate) const LISTS: &str = "patchbay_watch_lists_total";
pub(crate) const WATCH_ERRORS: &str = "patchbay_watch_errors_total";
pub(crate) const EVENTS: &str = "patchbay_events_total";
pub(crate) const DROPPED_EVENTS: &str = "patchbay_events_dropped_total";
pub(crate) const ROWS: &str = "patchbay_northbound_rows_total";

pub(crate) const BUILD: &str = "patchbay_build_info";
pub(crate) const HEARTBEAT_AGE: &str = "patchbay_task_heartbeat_age_seconds";
pub(crate) const WATCHED_OBJECTS: &str = "patchbay_watch_objects";
pub(crate) const LISTED: &str = "patchbay_watch_listed";
pub(crate) const FAILING: &str = "patchbay_watch_failing";
pub(crate) const CONNECTED: &str = "patchbay_northbound_connected";
pub(crate) const LAG: &str = "patchbay_northbound_lag_seconds";
pub(crate) const PROBLEMS: &str = "patchbay_problems";
pub(crate) const ZONES: &str = "patchbay_zones";
pub(crate) const ZONES_BEHIND: &str = "patchbay_zones_behind";
pub(crate) const CONNECT_CONDITIONS: &str = "patchbay_connect_conditions";
pub(crate) const CONNECT_STATE: &str = "patchbay_connect_state";
pub(crate) const CONNECT_ZONES_BEHIND: &str = "patchbay_connect_zones_behind";
pub(crate) const CONNECT_SUBNETS_USED: &str = "patchbay_connect_subnets_used";
pub(crate) const CONNECT_SUBNETS_LEFT: &str = "patchbay_connect_subnets_left";
pub(crate) const CONNECTS_OMITTED: &str = "patchbay_connects_omitted";
pub(crate) const USED: &str = "patchbay_allocations_used";
pub(crate) const LEFT: &str = "patchbay_allocations_left";

use MetricKind::{Counter, Gauge, Histogram};

/// Metrics that the recorder of the process counts and measures.
pub(crate) const COUNTED: &[Metric] = &[
    metric(
        PASSES,
        Counter,
        "controller, result",
        "Passes by result: success, error, or requeue_after if a later pass is due without a change.",
    ),
    metric(PASS_ERRORS, Counter, "controller", "Passes in which something failed."),
    metric(PASS_SECONDS, Histogram, "controller", "Time of a pass, with its transactions."),
    metric(ACTIVE_WORKERS, Gauge, "controller", "1 during a pass, else 0."),
    metric(
        QUEUE_ADDS,
        Counter,
        "name",
        "Writes of objects that a controller has begun, or events that were queued.",
    ),
    metric(QUEUE_DEPTH, Gauge, "name", "Writes or events without an answer of the API server."),
    metric(
        QUEUE_RETRIES,
        Counter,
        "name",
        "Writes of objects that have failed, and are tried again.",
    ),
    metric(
        QUEUE_WORK_SECONDS,
        Histogram,
        "name",
        "Time of the write of an object, up to the answer of the API server.",
    ),
    metric(
        REQUESTS,
        Counter,
        "code, host, method",
        "Requests to the API server by status code; <error> without an answer.",
    ),
    metric(IS_LEADER, Gauge, "name", "1 if the process holds the lease, else 0."),
    metric(LISTS, Counter, "kind", "Complete lists of a kind."),
    metric(WATCH_ERRORS, Counter, "kind", "Lists and watches that have failed."),
    metric(
        EVENTS,
        Counter,
        "type, reason",
        "Events that were queued for objects, by type and reason.",
    ),
    metric(DROPPED_EVENTS, Counter, "", "Events that were dropped because too many were queued."),
    metric(
        ROWS,
        Counter,
        "operation",
        "Rows that the zone controller has inserted, changed and deleted.",
    ),
    metric(
        "ovsdb_client_transactions_total",
        Counter,
        "database, outcome",
        "Transactions by outcome: committed, rejected, not_sent or unknown.",
    ),
    metric(
        "ovsdb_client_round_trip_seconds",
        Histogram,
        "database",
        "Time from a request to its reply.",
    ),
    metric(
        "ovsdb_client_queued_seconds",
        Histogram,
        "database",
        "Time that a transaction waits for its request.",
    ),
    metric(
        "ovsdb_client_queue_depth",
        Histogram,
        "database",
        "Transactions left in the queue when one is taken from it.",
    ),
    metric(
        "ovsdb_client_requests_under_way",
        Histogram,
        "database",
        "Unanswered requests, when one is added.",
    ),
    metric(
        "ovsdb_client_coalesced_transactions",
        Histogram,
        "database",
        "Transactions of a request.",
    ),
    metric(
        "ovsdb_client_received_bytes_total",
        Counter,
        "database",
        "Bytes received from the server.",
    ),
    metric("ovsdb_client_sent_bytes_total", Counter, "database", "Bytes sent to the server."),
    metric(
        "ovsdb_client_changed_rows_total",
        Counter,
        "database",
        "Rows inserted, modified or deleted in the replica, by all clients of the database.",
    ),
    metric("ovsdb_client_rows", Gauge, "database", "Rows in the replica."),
    metric("ovsdb_client_connections_total", Counter, "database", "Successful connections."),
    metric(
        "ovsdb_client_reconnects_total",
        Counter,
        "database",
        "Successful connections but the first.",
    ),
    metric(
        "ovsdb_client_failed_connections_total",
        Counter,
        "database",
        "Failed attempts to connect.",
    ),
    metric(
        "ovsdb_client_disconnects_total",
        Counter,
        "database",
        "Connections that were lost or closed.",
    ),
    metric(
        "ovsdb_client_resyncs_total",
        Counter,
        "database, kind",
        "Resyncs: continued with the missed transactions, or full.",
    ),
    metric("ovsdb_client_resync_rows", Histogram, "database", "Rows that differed after a resync."),
];

/// Metrics that are read from the state of the process at each scrape.
pub(crate) const OBSERVED: &[Metric] = &[
    metric(BUILD, Gauge, "version", "1, with the version of the program."),
    metric(
        HEARTBEAT_AGE,
        Gauge,
        "task",
        "Time since a task was polled. Waiting tasks are polled each 10 s.",
    ),
    metric(WATCHED_OBJECTS, Gauge, "kind", "Objects of a watched kind."),
    metric(LISTED, Gauge, "kind", "1 after the first complete list of a kind, else 0."),
    metric(FAILING, Gauge, "kind", "1 while lists or watches of a kind fail for long, else 0."),
    metric(CONNECTED, Gauge, "", "1 while the replica follows the Northbound database, else 0."),
    metric(
        LAG,
        Gauge,
        "",
        "Time for which the replica has not followed the Northbound database; 0 while it does.",
    ),
    metric(PROBLEMS, Gauge, "controller", "Problems of the last pass, as in the log."),
    metric(
        ZONES,
        Gauge,
        "state",
        "Nodes by the state of their zone: running, unobserved (the leader is new) or not_running. Of the leader only.",
    ),
    metric(
        ZONES_BEHIND,
        Gauge,
        "",
        "Zones whose report is not about the present state of a connect, of the connect with the most. Of the leader only.",
    ),
    metric(
        CONNECT_CONDITIONS,
        Gauge,
        "condition, status, reason",
        "Connects by condition. Of the leader only.",
    ),
    metric(
        CONNECT_STATE,
        Gauge,
        "connect, state",
        "1 for the state of a connect: connected, not_connected, refused or unknown; 0 for the others. At most 100 connects, those with problems first. Of the leader only.",
    ),
    metric(
        CONNECT_ZONES_BEHIND,
        Gauge,
        "connect",
        "Zones whose report is not about the present state of the connect. Of the leader only.",
    ),
    metric(
        CONNECT_SUBNETS_USED,
        Gauge,
        "connect, family",
        "Blocks of connectSubnets with subnets of networks. Of the leader only.",
    ),
    metric(
        CONNECT_SUBNETS_LEFT,
        Gauge,
        "connect, family",
        "Free blocks of connectSubnets. Of the leader only.",
    ),
    metric(
        CONNECTS_OMITTED,
        Gauge,
        "",
        "Connects beyond the 100 with series of their own. Of the leader only.",
    ),
    metric(
        USED,
        Gauge,
        "resource",
        "Allocated network_ids, node_ids and router_tunnel_keys. Of the leader only.",
    ),
    metric(
        LEFT,
        Gauge,
        "resource",
        "Free network_ids, node_ids and router_tunnel_keys. Of the leader only.",
    ),
];

/// Metrics of the process, which `metrics-process` reads at each scrape.
pub(crate) const PROCESS: &[Metric] = &[
    metric(
        "process_cpu_seconds_total",
        Counter,
        "",
        "Processor time of the process, in whole seconds.",
    ),
    metric("process_resident_memory_bytes", Gauge, "", "Resident memory."),
    metric("process_virtual_memory_bytes", Gauge, "", "Virtual memory."),
    metric("process_virtual_memory_max_bytes", Gauge, "", "Limit of the virtual memory."),
    metric("process_open_fds", Gauge, "", "Open file descriptors."),
    metric("process_max_fds", Gauge, "", "Limit of open file descriptors."),
    metric("process_threads", Gauge, "", "Threads."),
    metric(
        "process_start_time_seconds",
        Gauge,
        "",
        "Start of the process, since the epoch of Unix.",
    ),
];

/// All metrics, for their reference.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    COUNTED.iter().chain(OBSERVED).chain(PROCESS)
}

/// Describes metrics to the present recorder.
pub(crate) fn describe(metrics: &[Metric]) {
    for Metric { name, kind, help, .. } in metrics {
        let (name, help) = (*name, *help);
        match kind {
            Counter => describe_counter!(name, help),
            Gauge => describe_gauge!(name, help),
            Histogram => describe_histogram!(name, help),
        }
    }
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help }
}
