//! The flag `--timeout`.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;

/// Time limit of commands that wait for a server.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct TimeLimit {
    /// Maximum time to wait for a server: until its contents are read, for the reply to a
    /// transaction, and after a lost connection until the next commit. Within it, unreachable
    /// servers and clusters without a leader are tried again.
    #[arg(short, long, value_name = "SECONDS", default_value_t = DEFAULT_TIMEOUT_SECONDS)]
    timeout: NonZeroU32,
}

/// Default of `--timeout` in seconds. An election takes about a second, and a server reads a large
/// database in some seconds when it starts.
const DEFAULT_TIMEOUT_SECONDS: NonZeroU32 = NonZeroU32::new(30).expect("not zero");

impl TimeLimit {
    /// The limit.
    pub(super) fn duration(self) -> Duration {
        Duration::from_secs(self.timeout.get().into())
    }
}
