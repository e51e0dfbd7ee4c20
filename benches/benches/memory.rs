//! Memory of ovsdb-server (installed and newest) and ovsdb-sim side by side: idle connections,
//! unfinished messages, and what stays when they are gone.
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

/// Number of connections to ovsdb-sim that have asked once and are silent then.
const IDLE_CONNECTIONS: u64 = 10_000;
/// The same to ovsdb-server, which needs minutes for 10,000: it looks at all of them again and
/// again.
const FEWER_IDLE_CONNECTIONS: u64 = 2_000;
/// Descriptors that neither side needs for these connections.
const OTHER_DESCRIPTORS: u64 = 300;
/// Number of messages without an end, each of [`UNFINISHED_BYTES`].
const UNFINISHED_MESSAGES: usize = 500;
const UNFINISHED_BYTES: usize = 1 << 20;
/// Time in which a server reads what was sent, or gives memory back.
const REST: Duration = Duration::from_secs(3);

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
        [self.start, self.idle, self.after_idle, self.unfinished, self.after_unfinished]
    }
}

fn main() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let most = hard.saturating_sub(OTHER_DESCRIPTORS);
    let idle_connections = |kind| match kind {
        ServerKind::Simulator => IDLE_CONNECTIONS.min(most),
        ServerKind::Real | ServerKind::Newest => FEWER_IDLE_CONNECTIONS.min(most),
    };
    let kinds = ServerKind::available();
    let all = kinds
        .iter()
        .map(|kind| measure(*kind, idle_connections(*kind)))
        .collect::<Result<Vec<_>>>()?;
    print!("{:<50}", "resident memory");
    for kind in &kinds {
        print!(" {:>16}", kind.title());
    }
    println!();
    let names = [
        "after the start".to_owned(),
        "idle connections".to_owned(),
        "  when they are closed".to_owned(),
        format!("{UNFINISHED_MESSAGES} unfinished messages of 1 MiB"),
        "  when they are closed".to_owned(),
    ];
    for (line, name) in names.iter().enumerate() {
        print!("{name:<50}");
        for figures in &all {
            let mib = figures.values()[line] as f64 / f64::from(1 << 20);
            print!(" {mib:>12.1} MiB");
        }
        println!();
    }
    print!("{:<50}", "number of idle connections");
    for kind in &kinds {
        print!(" {:>16}", idle_connections(*kind));
    }
    println!();
    print!("{:<50}", "an idle connection");
    for (kind, figures) in kinds.iter().zip(&all) {
        let each = figures.idle.saturating_sub(figures.start) / idle_connections(*kind);
        print!(" {each:>14} B");
    }
    println!();
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
    Ok(Figures { start, idle, after_idle, unfinished, after_unfinished: server.resident_bytes()? })
}
