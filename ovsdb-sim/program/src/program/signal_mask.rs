//! Signals that this process catches or ignores (proc(5), `/proc/self/status`).

use std::fs;

/// Set of signals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalMask(u64);

impl SignalMask {
    /// The signals with a handler.
    pub(crate) fn caught() -> Self {
        Self::read("SigCgt:")
    }

    /// The ignored signals.
    pub(crate) fn ignored() -> Self {
        Self::read("SigIgn:")
    }

    pub(crate) fn contains(self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }

    /// Reads a mask. It is empty on a system without the file.
    fn read(name: &str) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        Self(mask.unwrap_or_default())
    }
}
