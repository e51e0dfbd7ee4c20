//! Configuration: what runs in this process, and every interval and time-out.

use std::time::Duration;

use patchbay_engine::backoff::Backoff;
use patchbay_engine::client::{Remotes, Tls};
use patchbay_model::ClusterSettings;

use crate::admin::AdminPort;

/// Configuration of [`run`](crate::run()).
#[derive(Debug)]
pub struct ControllerConfig {
    /// The cluster manager. `None`: it does not run in this process.
    pub cluster: Option<ClusterManagerConfig>,
    /// The zone controller. `None`: it does not run in this process.
    pub zone: Option<ZoneControllerConfig>,
    /// Namespace of the `ConfigMap`s with the zones' reports.
    pub namespace: String,
    /// Unique name of this process: holder of the lease and reporting instance of events.
    pub identity: String,
    /// The port with probes and metrics. `None`: there is none.
    pub admin: Option<AdminPort>,
    /// Intervals and time-outs.
    pub timing: Timing,
}

/// The cluster manager. Of all processes that run it, only the holder of the lease is active.
#[derive(Clone, Debug)]
pub struct ClusterManagerConfig {
    /// Address ranges and IP families of the cluster.
    pub settings: ClusterSettings,
    /// `true` if it manages networks: definitions, ids, subnets and addresses of pods.
    ///
    /// The cluster manager of OVN-Kubernetes must not run then.
    pub manages_networks: bool,
    /// The lease for leader election.
    pub lease: LeaseConfig,
}

/// A `Lease` object (group `coordination.k8s.io`) and its intervals.
///
/// The intervals mean the same as those of client-go's leader election.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseConfig {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Time after the last observed renewal from which another process may take the lease.
    ///
    /// The object holds it in whole seconds; less than 1 s counts as 1 s.
    pub duration: Duration,
    /// Time after its last renewal from which the holder stops to write.
    ///
    /// It must be shorter than `duration`, so that the holder stops before another one starts.
    pub renew_deadline: Duration,
    /// Interval between two attempts to get or renew the lease.
    pub retry: Duration,
}

impl LeaseConfig {
    /// A lease with the intervals of Kubernetes' own controllers: 15 s, 10 s and 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// The zone controller.
#[derive(Clone, Debug)]
pub struct ZoneControllerConfig {
    /// Name of the zone, which is the name of its node.
    pub zone: String,
    /// Address ranges, IP families and features of the cluster. Only with dynamic allocation of
    /// networks are pods and `EgressIP`s watched for connects.
    pub settings: ClusterSettings,
    /// `true` if it writes the rows of networks, pods, policies and services. `false`:
    /// OVN-Kubernetes writes these rows.
    pub writes_networks: bool,
    /// Remotes of the zone's Northbound database.
    pub northbound: Remotes,
    /// Private key and certificates for `ssl:` remotes.
    pub tls: Option<Tls>,
}

/// Intervals and time-outs of both controllers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// Time without changes that ends a burst of changes; the controller then reconciles.
    pub debounce_quiet: Duration,
    /// Longest time from a change to the next reconciliation, if changes never pause.
    pub debounce_max: Duration,
    /// Shortest and longest delay before a failed operation is retried.
    pub retry: (Duration, Duration),
    /// Time-out of a read from the API server; for a watch, until its response begins.
    pub request_timeout: Duration,
    /// Time-out of a write. It exceeds the 34 s within which an API server answers each write
    /// (`requestTimeoutUpperBound`), so that the answer names a webhook that does not respond.
    pub write_timeout: Duration,
    /// Longest silence on a watch before it is opened again.
    ///
    /// API servers send a bookmark about once a minute.
    pub watch_idle_timeout: Duration,
    /// Time after the loss of a watch from which it does not continue at its resource version.
    ///
    /// API servers keep the events of 75 s (`eventFreshDuration`), so later ones may be gone anyway.
    pub watch_gap_limit: Duration,
    /// Time for which the objects of a kind are kept after the API server has lost the kind.
    ///
    /// A definition that is deleted and created again is absent for seconds, an aggregated API
    /// server that restarts for minutes. Without the objects their rows would be removed on all
    /// nodes.
    pub missing_kind_grace_period: Duration,
    /// Time for which reports are collected: in a zone before it writes its `ConfigMap`, in the
    /// cluster manager before it updates conditions.
    ///
    /// It is also the grace period for an unreachable Northbound database.
    pub report_interval: Duration,
    /// Interval at which a zone writes an unchanged report again.
    ///
    /// Zones do not watch `ConfigMap`s, so this restores one that was deleted.
    pub report_refresh_interval: Duration,
    /// Renewal of the zones' leases.
    pub zone_lease: ZoneLeaseTiming,
    /// Time that the zone of a new node has for its first report, if something is missing.
    /// OVN-Kubernetes creates routers and switches meanwhile.
    pub join_grace_period: Duration,
}

/// Renewal of the zones' leases, by which the leader knows that zone controllers run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ZoneLeaseTiming {
    /// Interval between two renewals. 5,000 zones write 250 times a second at 20 s. Their kubelets
    /// write twice as often.
    pub renew_interval: Duration,
    /// Time after an observed renewal from which a zone counts as not running. One renewal may be
    /// lost.
    pub duration: Duration,
    /// Interval at which the leader looks at the leases.
    pub check_interval: Duration,
}

impl Default for ZoneLeaseTiming {
    fn default() -> Self {
        Self {
            renew_interval: Duration::from_secs(20),
            duration: Duration::from_secs(45),
            check_interval: Duration::from_secs(5),
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            debounce_quiet: Duration::from_millis(20),
            debounce_max: Duration::from_millis(500),
            retry: (Duration::from_millis(100), Duration::from_secs(30)),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(40),
            watch_idle_timeout: Duration::from_secs(150),
            watch_gap_limit: Duration::from_secs(75),
            missing_kind_grace_period: Duration::from_secs(300),
            report_interval: Duration::from_secs(10),
            report_refresh_interval: Duration::from_secs(600),
            zone_lease: ZoneLeaseTiming::default(),
            join_grace_period: Duration::from_secs(60),
        }
    }
}

impl Timing {
    /// The back-off for retries, at its shortest delay.
    pub(crate) fn retry_backoff(&self) -> Backoff {
        let (min, max) = self.retry;
        Backoff::new(min, max)
    }
}
