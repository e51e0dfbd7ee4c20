//! Options of a remote, which its connections share.

use std::sync::Arc;
use std::time::Duration;

use crate::target::is_unix;

/// Time of silence after which a client at a TCP port must answer an `echo`, as in ovsdb-server.
const TCP_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Options of a remote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteOptions {
    /// Time of silence after which a client must answer an `echo`. `None`: no probes.
    pub(crate) probe_interval: Option<Duration>,
    /// `true`: clients may neither change databases nor use locks.
    pub(crate) is_read_only: bool,
    /// Role that limits the writes of clients (see `rbac`). `None` or empty: no limits. A remote
    /// whose role changes closes its connections.
    pub(crate) role: Option<Arc<str>>,
}

impl RemoteOptions {
    /// The options of a target for which none are given.
    pub(crate) fn of_target(target: &str) -> Self {
        Self {
            probe_interval: (!is_unix(target)).then_some(TCP_PROBE_INTERVAL),
            is_read_only: false,
            role: None,
        }
    }

    /// Sets the probe interval in milliseconds, as configurations have it: 0 and less disable
    /// probes.
    #[must_use]
    pub(crate) fn with_probe_interval(mut self, milliseconds: i64) -> Self {
        self.probe_interval = u64::try_from(milliseconds)
            .ok()
            .filter(|milliseconds| *milliseconds > 0)
            .map(Duration::from_millis);
        self
    }
}
