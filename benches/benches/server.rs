//! ovsdb-server, the installed and the newest release, and ovsdb-sim side by side, over unix
//! sockets, on the data set "32K".
//!
//! `cargo bench --workspace --bench server` prints their figures, and how many times better those
//! of ovsdb-sim are: wall-clock time as a client measures it, and server CPU, which depends less
//! on the load of the machine. Each figure is the best of three runs, or of N with `-- N`; the
//! servers take turns. `-- N routers`, `start`, `inserts` and `monitors` choose parts of the table.
//! ovsdb-server, ovsdb-tool and OVN's schema must be installed; ovsdb-sim is built if it has
//! changed.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::client::RawClient;
use patchbay_benches::northbound;
use patchbay_benches::process::{Server, ServerKind};

/// Numbers of router ports; the database has as many static routes.
const SIZES: [usize; 3] = [2_000, 8_000, 32_000];
/// Number of small transactions: few, because their cost in ovsdb-server grows with the router.
const SMALL_TRANSACTIONS: usize = 2_000;
/// Number of transactions that depend on no other row.
const INDEPENDENT_TRANSACTIONS: usize = 40_000;
/// Number of clients that monitor the changes.
const MONITORS: usize = 50;
/// Time in which a server gives memory back that it needed for a transaction.
const REST: Duration = Duration::from_secs(3);
/// Number of starts in one run.
const STARTS: usize = 5;
/// Runs of each measurement, unless the command line has another number; the best is printed.
const ROUNDS: usize = 3;

/// Figure in one line of the table.
#[derive(Debug)]
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    /// `true`: a larger value is better.
    is_rate: bool,
}

/// Function that adds the figures of one part.
type Part = fn(ServerKind, &mut Figures) -> Result<()>;

/// Parts of the table by their names on the command line.
const PARTS: [(&str, Part); 4] = [
    ("routers", measure_routers),
    ("start", measure_start),
    ("inserts", measure_independent),
    ("monitors", measure_monitors),
];

/// Figures of one server, with the same lines for each server.
#[derive(Debug, Default)]
struct Figures(Vec<Figure>);

fn main() -> Result<()> {
    let kinds = ServerKind::available();
    let mut all: Vec<Figures> = kinds.iter().map(|_| Figures::default()).collect();
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok());
    let is_named = |name: &str| arguments.iter().any(|argument| argument == name);
    let names_none = !PARTS.iter().any(|(name, _)| is_named(name));
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        for (kind, figures) in kinds.iter().zip(&mut all) {
            let mut round = Figures::default();
            for (_, part) in PARTS.iter().filter(|(name, _)| names_none || is_named(name)) {
                part(*kind, &mut round)?;
            }
            figures.keep_better(round);
        }
    }
    print!("{:<72}", "");
    for kind in &kinds {
        print!(" {:>14}", kind.title());
    }
    println!();
    let (sim, servers) = all.split_last().context("ovsdb-sim is always measured")?;
    for (line, sim) in sim.0.iter().enumerate() {
        print!("{:<72}", sim.what);
        for server in servers {
            print!(" {:>14.3}", server.0[line].value);
        }
        print!(" {:>14.3} {:<4}", sim.value, sim.unit);
        for server in servers {
            let value = server.0[line].value;
            let ratio = if sim.is_rate { sim.value / value } else { value / sim.value };
            print!(" {ratio:>7.1} x");
        }
        println!();
    }
    Ok(())
}

impl Figures {
    fn push(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.0.push(Figure { what: what.into(), value, unit, is_rate: unit == "/s" });
    }

    fn keep_better(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            mine.value = if mine.is_rate {
                mine.value.max(other.value)
            } else {
                mine.value.min(other.value)
            };
        }
    }
}

/// Loads routers of several sizes.
fn measure_routers(kind: ServerKind, figures: &mut Figures) -> Result<()> {
    for ports in SIZES {
        measure_router(kind, ports, figures)
            .with_context(|| format!("{} with {ports} ports", kind.name()))?;
    }
    Ok(())
}

/// Loads a router, reads all rows and adds ports.
fn measure_router(kind: ServerKind, ports: usize, figures: &mut Figures) -> Result<()> {
    let server = Server::start(kind)?;
    let mut client = RawClient::connect(server.socket())?;
    let size = format!("{ports} ports + {ports} routes");

    let request = northbound::router_transaction(1, ports);
    let (reply, wall, cpu) = measure_work(&server, || client.call(&request))?;
    drop(request);
    let router = northbound::last_inserted_uuid(&reply)?;
    figures.push(format!("{size}: one transaction"), wall, "s");
    figures.push("  server CPU", cpu, "s");
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    figures.push("  peak of resident memory", mebibytes(server.peak_bytes()?), "MiB");
    thread::sleep(REST);
    let resident = mebibytes(server.resident_bytes()?);
    figures.push("  resident memory, 3 s later", resident, "MiB");

    let mut reader = RawClient::connect(server.socket())?;
    let request = northbound::monitor_request(1);
    let (len, wall, cpu) = measure_work(&server, || reader.call_and_skip(&request))?;
    ensure!(len > 600 * ports, "the first reply has only {len} bytes");
    figures.push("  first monitor_cond reply", wall, "s");
    figures.push("  server CPU", cpu, "s");
    drop(reader);

    let requests: Vec<String> = (ports..ports + SMALL_TRANSACTIONS)
        .map(|i| northbound::add_port_transaction(2, i, router))
        .collect();
    let ((), wall, cpu) = measure_work(&server, || client.pipeline(&requests))?;
    northbound::ensure_rows(&mut client, "Logical_Router_Port", ports + SMALL_TRANSACTIONS)?;
    figures.push("  port + mutate, pipelined", SMALL_TRANSACTIONS as f64 / wall, "/s");
    figures.push("  server CPU for each", cpu * 1e6 / SMALL_TRANSACTIONS as f64, "us");
    Ok(())
}

/// Starts a server several times and prints the fastest start.
fn measure_start(kind: ServerKind, figures: &mut Figures) -> Result<()> {
    let mut best = Duration::MAX;
    for _ in 0..STARTS {
        best = best.min(Server::start(kind)?.start_time());
    }
    figures.push("start until it listens, empty database", best.as_secs_f64() * 1e3, "ms");
    Ok(())
}

fn measure_independent(kind: ServerKind, figures: &mut Figures) -> Result<()> {
    let server = Server::start(kind)?;
    let mut client = RawClient::connect(server.socket())?;
    let requests: Vec<String> =
        (0..INDEPENDENT_TRANSACTIONS as u32).map(northbound::independent_transaction).collect();
    let ((), wall, cpu) = measure_work(&server, || client.pipeline(&requests))?;
    northbound::ensure_rows(&mut client, "Address_Set", INDEPENDENT_TRANSACTIONS)?;
    figures.push("independent inserts, pipelined", INDEPENDENT_TRANSACTIONS as f64 / wall, "/s");
    figures.push("  server CPU for each", cpu * 1e6 / INDEPENDENT_TRANSACTIONS as f64, "us");
    Ok(())
}

/// Measures the server CPU of each update, with many clients that monitor one stream of changes.
fn measure_monitors(kind: ServerKind, figures: &mut Figures) -> Result<()> {
    let server = Server::start(kind)?;
    let mut client = RawClient::connect(server.socket())?;
    let reply = client.call(&northbound::router_transaction(1, 10))?;
    let router = northbound::last_inserted_uuid(&reply)?;
    let mut watchers = Vec::new();
    for _ in 0..MONITORS {
        let mut watcher = RawClient::connect(server.socket())?;
        watcher.call(&northbound::monitor_request(1))?;
        watchers.push(watcher);
    }
    let last = format!("_node{}\"", 10 + SMALL_TRANSACTIONS - 1);
    let (updates, _, cpu) = measure_work(&server, || {
        thread::scope(|scope| {
            let watching: Vec<_> = watchers
                .iter_mut()
                .map(|watcher| {
                    // The name of the last port marks the end. A count would not, because updates
                    // may be merged.
                    scope.spawn(|| {
                        for updates in 1.. {
                            if watcher.receive()?.contains(&last) {
                                return Ok(updates);
                            }
                        }
                        Ok::<usize, anyhow::Error>(0)
                    })
                })
                .collect();
            for i in 10..10 + SMALL_TRANSACTIONS {
                client.call_and_skip(&northbound::add_port_transaction(2, i, router))?;
            }
            let mut updates = 0;
            for watcher in watching {
                updates += watcher.join().map_err(|_| anyhow::anyhow!("a watcher failed"))??;
            }
            Ok(updates)
        })
    })?;
    let changes = SMALL_TRANSACTIONS * MONITORS;
    figures.push(
        format!("{SMALL_TRANSACTIONS} changes one by one, {MONITORS} monitors: CPU for each change and monitor"),
        cpu * 1e6 / changes as f64,
        "us",
    );
    figures.push("  messages for each", updates as f64 / changes as f64, "");
    Ok(())
}

/// Runs work and returns its result, its wall-clock seconds and the seconds of server CPU.
fn measure_work<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, f64, f64)> {
    let before = server.cpu_time()?;
    let begin = Instant::now();
    let result = work()?;
    let wall = begin.elapsed();
    let cpu = server.cpu_time()?.saturating_sub(before);
    let seconds = |duration: Duration| duration.as_secs_f64();
    Ok((result, seconds(wall), seconds(cpu)))
}
