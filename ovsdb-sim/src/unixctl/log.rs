//! Log of the program that serves ovs-appctl.

use std::fmt;

use tracing::level_filters::LevelFilter;

/// Log of a program, whose level `ovs-appctl vlog/set` changes at run time. A library does not own
/// the log, so the program passes a function that sets its filter.
pub struct Log {
    pub(super) level: LevelFilter,
    pub(super) set_filter: Box<dyn Fn(&str) + Send + Sync>,
}

impl Log {
    /// Describes a log with the initial level `level`. `set_filter` gets directives in the notation
    /// of `RUST_LOG`, as for `EnvFilter` of the crate `tracing-subscriber`.
    pub fn new(level: LevelFilter, set_filter: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            level,
            set_filter: Box::new(set_filter),
        }
    }
}

impl Default for Log {
    /// Describes a log that `vlog/set` does not change. The commands are accepted.
    fn default() -> Self {
        Self::new(LevelFilter::WARN, |_| {})
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.level).finish()
    }
}
