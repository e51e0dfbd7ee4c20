//! Limits of the process, and free memory that goes back to the system.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ovsdb_sim::Limits;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Pause between two calls that let mimalloc give free memory back to the system. It is mimalloc's
/// own delay, so that memory goes back between one and two delays after it was freed.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);
/// Size of a block that mimalloc takes from its arenas and returns to them at once, in bytes. Its
/// threads keep smaller ones.
const ARENA_BLOCK_BYTES: usize = 32 << 20;

/// Number of allocations on mimalloc's slow path after which it returns a thread's free pages to
/// the arenas, the default of its option `generic_collect`.
const COLLECT_ALLOCATIONS: usize = 10_000;
/// Size of a block for which mimalloc always takes its slow path, in bytes.
const SLOW_PATH_BYTES: usize = 2 << 10;
/// Work of the runtime's threads after which they may own free pages.
const WORK: Duration = Duration::from_millis(1);
/// Number of intervals after such work in which the threads collect: an idle thread can miss one.
const COLLECTIONS: u32 = 3;

/// File descriptors that are not for connections: listeners, journals, logs, the runtime's own.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Gives free memory back to the system while the server is idle. mimalloc does that when a block
/// returns to its arenas, if it has been free for a second, and an idle server returns none.
pub(crate) async fn purge_regularly() {
    let mut ticks = interval(PURGE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut collector = Collector::new();
    loop {
        ticks.tick().await;
        collector.collect_after_work().await;
        // Not touched, so that it takes no memory.
        drop(black_box(Vec::<u8>::with_capacity(ARENA_BLOCK_BYTES)));
    }
}

/// Collector of the pages that the runtime's threads own. A block that another thread frees stays
/// in its page, and only the owner of the page returns it to the arenas: an idle thread never does.
struct Collector {
    runtime: RuntimeMetrics,
    /// Time that collections have taken.
    collecting: Duration,
    /// Greatest time seen that the threads have worked, without collections.
    working: Duration,
    /// Number of collections to come.
    pending: u32,
}

impl Collector {
    fn new() -> Self {
        Self {
            runtime: Handle::current().metrics(),
            collecting: Duration::ZERO,
            working: Duration::ZERO,
            pending: COLLECTIONS,
        }
    }

    /// Collects on the runtime's threads if they have worked lately.
    async fn collect_after_work(&mut self) {
        let workers = self.runtime.num_workers();
        let busy: Duration =
            (0..workers).map(|worker| self.runtime.worker_total_busy_duration(worker)).sum();
        // A thread counts its time late, so that the difference can fall for a while.
        let working = busy.saturating_sub(self.collecting);
        if working > self.working + WORK {
            self.working = working;
            self.pending = COLLECTIONS;
        }
        if self.pending == 0 {
            return;
        }
        self.pending -= 1;
        // Idle threads take these tasks from this one.
        let mut tasks: JoinSet<Duration> =
            (0..workers).map(|_| async { collect_thread() }).collect();
        while let Some(time) = tasks.join_next().await {
            self.collecting += time.unwrap_or_default();
        }
    }
}

/// Makes mimalloc collect the pages of this thread, and returns the time that this takes.
fn collect_thread() -> Duration {
    let begin = Instant::now();
    for _ in 0..COLLECT_ALLOCATIONS {
        drop(black_box(Vec::<u8>::with_capacity(SLOW_PATH_BYTES)));
    }
    begin.elapsed()
}

/// Raises the number of file descriptors to the system's limit, and returns the limits of a server
/// that does not need more of them: one that has none left could not accept anybody. A single
/// message, or the replies to one connection, may have half of the bytes of all connections.
pub(crate) fn server_limits(connection_memory: usize, memory: usize) -> Limits {
    let mut limits = Limits {
        message: memory / 2,
        backlog: memory / 2,
        memory,
        connection_memory,
        ..Limits::default()
    };
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return limits;
    };
    // Fails only if the limit was lowered meanwhile.
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap_or_default();
    // If a process may have few descriptors, half of them are for connections.
    let free = hard.saturating_sub(RESERVED_DESCRIPTORS).max(hard / 2);
    limits.connections = limits.connections.min(usize::try_from(free).unwrap_or(usize::MAX));
    let for_others = limits.connections / 8;
    limits.connections_per_peer = limits.connections - for_others;
    limits
}
