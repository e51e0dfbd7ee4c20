//! The log of the program that a socket is of.

use std::fmt;

use tracing::level_filters::LevelFilter;

/// How much a program says, which `ovs-appctl vlog/set` changes while it runs.
pub struct Log {
    pub(super) level: LevelFilter,
    pub(super) set_filter: Box<dyn Fn(&str) + Send + Sync>,
}

impl Log {
    /// A program that says as much as `level` and makes of directives, in the notation of `RUST_LOG`, its filter: see
    /// [`EnvFilter`](tracing_subscriber::EnvFilter).
    pub fn new(level: LevelFilter, set_filter: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            level,
            set_filter: Box::new(set_filter),
        }
    }
}

impl Default for Log {
    /// A program whose log is none of the socket's business: the commands are understood, and change nothing.
    fn default() -> Self {
        Self::new(LevelFilter::WARN, |_| {})
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.level).finish()
    }
}
