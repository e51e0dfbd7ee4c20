//! Limits of the process, and free memory that goes back to the system.

use std::hint::black_box;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ovsdb_sim::Limits;
use tokio::time::{MissedTickBehavior, interval};

/// Pause between two calls that let mimalloc give free memory back to the system. It is mimalloc's
/// own delay, so that memory goes back between one and two delays after it was freed.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);
/// Size of a block that mimalloc takes from its arenas and returns to them at once, in bytes. Its
/// threads keep smaller ones.
const ARENA_BLOCK_BYTES: usize = 32 << 20;

/// File descriptors that are not for connections: listeners, journals, logs, the runtime's own.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Gives free memory back to the system while the server is idle. mimalloc does that when a block
/// returns to its arenas, if it has been free for a second, and an idle server returns none.
pub(crate) async fn purge_regularly() {
    let mut ticks = interval(PURGE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Not touched, so that it takes no memory.
        drop(black_box(Vec::<u8>::with_capacity(ARENA_BLOCK_BYTES)));
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
    // If a process may have few descriptors, half of them are for connections.
    let free = hard.saturating_sub(RESERVED_DESCRIPTORS).max(hard / 2);
    limits.connections = limits
        .connections
        .min(usize::try_from(free).unwrap_or(usize::MAX));
    let for_others = limits.connections / 8;
    limits.connections_per_peer = limits.connections - for_others;
    limits
}
