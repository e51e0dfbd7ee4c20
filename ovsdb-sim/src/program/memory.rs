//! Limits of the process, and settings of the allocator.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ovsdb_sim::Limits;

/// Variable with the time after which mimalloc gives free memory back to the system, in
/// milliseconds. By default, it does so at the first use of the allocator after a second, which a
/// server without requests does not make.
pub(crate) const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// File descriptors that are not for connections: listeners, journals, logs, the runtime's own.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Starts this process again, as the same process, with the settings of the allocator, which reads
/// them from the environment when the process begins. It goes on without them if that fails.
pub(crate) fn restart_with_settings() {
    if env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    if let Ok(program) = env::current_exe() {
        // Returns only if it fails.
        let _ = Command::new(program)
            .arg0(name)
            .args(arguments)
            .env(PURGE_DELAY, "0")
            .exec();
    }
}

/// Raises the number of file descriptors to the system's limit, and returns the limits of a server
/// that does not need more of them: one that has none left could not accept anybody.
pub(crate) fn connection_limits() -> Limits {
    let mut limits = Limits::default();
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return limits;
    };
    // Fails only if the limit was lowered meanwhile.
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap_or_default();
    // A process may have very few: one half is for connections then.
    let free = hard.saturating_sub(RESERVED_DESCRIPTORS).max(hard / 2);
    limits.connections = limits
        .connections
        .min(usize::try_from(free).unwrap_or(usize::MAX));
    let for_others = limits.connections / 8;
    limits.connections_per_peer = limits.connections - for_others;
    limits
}
