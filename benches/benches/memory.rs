//! Memory of ovsdb-server and ovsdb-sim side by side: idle connections, unfinished messages, and
//! what stays when they are gone.
//!
//! `cargo bench --workspace --bench memory` prints resident memory. The limit of file descriptors
//! must allow the connections; fewer are made otherwise.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use patchbay_benches::client::RawClient;
use patchbay_benches::process::{Server, ServerKind};

/// Number of connections that have asked once and are silent then.
const IDLE_CONNECTIONS: u64 = 10_000;
/// Descriptors that neither side needs for these connections.
const OTHER_DESCRIPTORS: u64 = 300;
/// Number of messages without an end, each of [`UNFINISHED_BYTES`].
const UNFINISHED_MESSAGES: usize = 500;
const UNFINISHED_BYTES: usize = 1 << 20;
/// Time in which a server reads what was sent, or gives memory back.
const REST: Duration = Duration::from_secs(2);

/// Resident memory of one server in bytes.
#[derive(Debug)]
struct Figures {
    start: u64,
    idle: u64,
    after_idle: u64,
    unfinished: u64,
    after_unfinished: u64,
}

impl Figures {
    /// The figures in the order of the table's lines.
    fn values(&self) -> [u64; 5] {
        [
            self.start,
            self.idle,
            self.after_idle,
            self.unfinished,
            self.after_unfinished,
        ]
    }
}

fn main() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let idle = IDLE_CONNECTIONS.min(hard.saturating_sub(OTHER_DESCRIPTORS));
    let [real, sim] = ServerKind::BOTH.map(|kind| measure(kind, idle));
    let (real, sim) = (real?, sim?);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{:<60} {:>12} {:>12}",
        "resident memory", "ovsdb-server", "ovsdb-sim"
    );
    let names = [
        "after the start".to_owned(),
        format!("{idle} idle connections"),
        "  when they are closed".to_owned(),
        format!("{UNFINISHED_MESSAGES} unfinished messages of 1 MiB"),
        "  when they are closed".to_owned(),
    ];
    for ((name, real), sim) in names.iter().zip(real.values()).zip(sim.values()) {
        let (real, sim) = (mib(real), mib(sim));
        println!("{name:<60} {real:>8.1} MiB {sim:>8.1} MiB");
    }
    let each = |figures: &Figures| figures.idle.saturating_sub(figures.start) / idle;
    let (real, sim) = (each(&real), each(&sim));
    println!("{:<60} {real:>10} B {sim:>10} B", "an idle connection");
    Ok(())
}

fn measure(kind: ServerKind, idle: u64) -> Result<Figures> {
    let server = Server::start(kind)?;
    let mut asker = RawClient::connect(server.socket())?;
    asker.call(r#"{"id":1,"method":"echo","params":[]}"#)?;
    let start = server.resident_bytes()?;

    let mut connections = Vec::new();
    for _ in 0..idle {
        let mut stream = UnixStream::connect(server.socket())?;
        stream.write_all(br#"{"id":1,"method":"echo","params":[]}"#)?;
        connections.push(stream);
    }
    thread::sleep(REST);
    let idle = server.resident_bytes()?;
    drop(connections);
    thread::sleep(REST);
    let after_idle = server.resident_bytes()?;

    let text = "x".repeat(UNFINISHED_BYTES);
    let mut connections = Vec::new();
    for _ in 0..UNFINISHED_MESSAGES {
        let mut stream = UnixStream::connect(server.socket())?;
        stream.write_all(br#"{"id":1,"method":"echo","params":[""#)?;
        stream.write_all(text.as_bytes())?;
        connections.push(stream);
    }
    thread::sleep(REST);
    let unfinished = server.resident_bytes()?;
    drop(connections);
    thread::sleep(REST);
    Ok(Figures {
        start,
        idle,
        after_idle,
        unfinished,
        after_unfinished: server.resident_bytes()?,
    })
}
