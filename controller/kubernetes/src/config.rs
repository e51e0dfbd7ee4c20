//! What runs, and how patient it is.

use std::time::Duration;

use ipnet::IpNet;
use patchbay_engine::client::{Remotes, Tls};

use patchbay_model::ClusterSettings;
use patchbay_model::IpFamily;

/// What [`run`](super::run) runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster-wide half, if it runs here.
    pub cluster: Option<ClusterHalf>,
    /// The zone half, if it runs here.
    pub zone: Option<ZoneHalf>,
    /// Namespace of what zones report.
    pub namespace: String,
    /// Name of this process among all that run the same: holder of the lease, reporter of events.
    pub identity: String,
    /// How patient everything is.
    pub timing: Timing,
}

/// The cluster-wide half. Of all processes that run it, the one that holds the lease works.
#[derive(Clone, Debug)]
pub struct ClusterHalf {
    /// What it must know about the cluster.
    pub settings: ClusterSettings,
    /// The lease.
    pub lease: Lease,
}

/// A Lease object and how long it holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// For how long a holder that gives no sign of life is waited for. In whole seconds, at least 1.
    pub duration: Duration,
    /// For how long a holder that cannot renew the lease goes on. Shorter than `duration`: it stops before another starts.
    pub renew_deadline: Duration,
    /// How often the lease is renewed or asked for.
    pub retry: Duration,
}

impl Lease {
    /// A lease as Kubernetes' own controllers hold it: 15 s, 10 s and 2 s.
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

/// The zone half.
#[derive(Clone, Debug)]
pub struct ZoneHalf {
    /// Name of the zone: that of its node.
    pub zone: String,
    /// The IP families that the cluster runs.
    pub families: Vec<IpFamily>,
    /// The service ranges, in configured order.
    pub service_cidrs: Vec<IpNet>,
    /// Networks are rendered only on nodes that need them, so that it takes pods and egress IPs to know where they are.
    pub dynamic_udn: bool,
    /// Where the zone's Northbound database is served.
    pub northbound: Remotes,
    /// The keys for `ssl:` remotes.
    pub tls: Option<Tls>,
}

/// How patient everything is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// How long nothing must happen before what has happened is looked at.
    pub quiet: Duration,
    /// How long at most it takes until what has happened is looked at, if something always happens.
    pub latest: Duration,
    /// The shortest and the longest wait before something that failed is tried again.
    pub retry: (Duration, Duration),
    /// How long a request to the API server may take; of a watch, until it begins.
    pub request: Duration,
    /// How long nothing may be heard of a watch before it is begun anew. API servers send a bookmark about every minute.
    pub idle: Duration,
    /// How long what zones report is collected before it is written.
    pub report: Duration,
    /// How often zones write what they have reported although nothing is new, should somebody have deleted it.
    pub repeat: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(20),
            latest: Duration::from_millis(500),
            retry: (Duration::from_millis(100), Duration::from_secs(30)),
            request: Duration::from_secs(30),
            idle: Duration::from_secs(150),
            report: Duration::from_secs(10),
            repeat: Duration::from_secs(600),
        }
    }
}
