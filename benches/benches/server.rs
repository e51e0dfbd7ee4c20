//! ovsdb-server and ovsdb-sim side by side, over unix sockets, on the data set "32K".
//!
//! `cargo bench --workspace --bench server`. Prints both figures and their ratio: wall-clock time as a client
//! sees it, and the server's own CPU, which a busy machine changes less. Of each the best of three runs, or of `--
//! NUMBER`. ovsdb-server, ovsdb-tool and OVN's schema must be installed; the simulator is the program that this
//! workspace builds.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::client::Client;
use patchbay_benches::northbound;
use patchbay_benches::process::{Kind, Server};

/// Ports of routers, as many static routes each.
const SIZES: [usize; 3] = [2_000, 8_000, 32_000];
/// Small transactions on ovsdb-server, whose time for each grows with the router.
const SMALL: usize = 2_000;
/// Transactions that touch nothing else.
const INDEPENDENT: usize = 40_000;
/// Clients that follow the changes.
const WATCHERS: usize = 50;
/// Each measurement is made so often, unless another number is asked for, and the best is shown.
const ROUNDS: usize = 3;

/// One line of the table.
#[derive(Debug)]
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    /// Whether more is better.
    is_rate: bool,
}

/// The figures of one server, always the same lines.
#[derive(Debug, Default)]
struct Figures(Vec<Figure>);

fn main() -> Result<()> {
    let [mut real, mut sim] = [Figures::default(), Figures::default()];
    let rounds = std::env::args().find_map(|argument| argument.parse().ok());
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        real.keep_better(measure(Kind::Real)?);
        sim.keep_better(measure(Kind::Simulator)?);
    }
    println!("{:<62} {:>12} {:>12}", "", "ovsdb-server", "ovsdb-sim");
    for (real, sim) in real.0.iter().zip(&sim.0) {
        let ratio = if real.is_rate {
            sim.value / real.value
        } else {
            real.value / sim.value
        };
        println!(
            "{:<62} {:>12.3} {:>12.3} {:<4} {ratio:>7.1} x",
            real.what, real.value, sim.value, real.unit
        );
    }
    Ok(())
}

impl Figures {
    fn push(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.0.push(Figure {
            what: what.into(),
            value,
            unit,
            is_rate: unit == "/s",
        });
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

fn measure(kind: Kind) -> Result<Figures> {
    let mut figures = Figures::default();
    for ports in SIZES {
        with_router(kind, ports, &mut figures)
            .with_context(|| format!("{} with {ports} ports", kind.name()))?;
    }
    independent(kind, &mut figures)?;
    watched(kind, &mut figures)?;
    Ok(figures)
}

/// Loads a router, reads everything back and adds ports.
fn with_router(kind: Kind, ports: usize, figures: &mut Figures) -> Result<()> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.socket())?;
    let size = format!("{ports} ports + {ports} routes");

    let request = northbound::router_transaction(1, ports);
    let (reply, wall, cpu) = timed(&server, || client.call(&request))?;
    drop(request);
    let router = northbound::inserted_last(&reply)?;
    figures.push(format!("{size}: one transaction"), wall, "s");
    figures.push("  server CPU", cpu, "s");
    figures.push(
        "  resident memory",
        server.resident()? as f64 / f64::from(1 << 20),
        "MiB",
    );

    let mut reader = Client::connect(server.socket())?;
    let request = northbound::monitor_request(1);
    let (len, wall, cpu) = timed(&server, || reader.call_for_len(&request))?;
    ensure!(len > 600 * ports, "the first reply has only {len} bytes");
    figures.push("  first monitor_cond reply", wall, "s");
    figures.push("  server CPU", cpu, "s");
    drop(reader);

    let requests: Vec<String> = (ports..ports + SMALL)
        .map(|i| northbound::add_port_transaction(2, i, router))
        .collect();
    let ((), wall, cpu) = timed(&server, || client.pipeline(&requests))?;
    northbound::ensure_rows(&mut client, "Logical_Router_Port", ports + SMALL)?;
    figures.push("  port + mutate, pipelined", SMALL as f64 / wall, "/s");
    figures.push("  server CPU for each", cpu * 1e6 / SMALL as f64, "us");
    Ok(())
}

fn independent(kind: Kind, figures: &mut Figures) -> Result<()> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.socket())?;
    let requests: Vec<String> = (0..INDEPENDENT as u32)
        .map(northbound::independent_transaction)
        .collect();
    let ((), wall, cpu) = timed(&server, || client.pipeline(&requests))?;
    northbound::ensure_rows(&mut client, "Address_Set", INDEPENDENT)?;
    figures.push(
        "independent inserts, pipelined",
        INDEPENDENT as f64 / wall,
        "/s",
    );
    figures.push(
        "  server CPU for each",
        cpu * 1e6 / INDEPENDENT as f64,
        "us",
    );
    Ok(())
}

/// What a server spends on each update that it sends, when many clients follow one stream of changes.
fn watched(kind: Kind, figures: &mut Figures) -> Result<()> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.socket())?;
    let reply = client.call(&northbound::router_transaction(1, 10))?;
    let router = northbound::inserted_last(&reply)?;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let mut watcher = Client::connect(server.socket())?;
        watcher.call(&northbound::monitor_request(1))?;
        watchers.push(watcher);
    }
    let last = format!("_node{}\"", 10 + SMALL - 1);
    let (updates, _, cpu) = timed(&server, || {
        std::thread::scope(|scope| {
            let watching: Vec<_> = watchers
                .iter_mut()
                .map(|watcher| {
                    // Changes may come merged, so a count is no end; the end is the last port's name.
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
            for i in 10..10 + SMALL {
                client.call_for_len(&northbound::add_port_transaction(2, i, router))?;
            }
            let mut updates = 0;
            for watcher in watching {
                updates += watcher
                    .join()
                    .map_err(|_| anyhow::anyhow!("a watcher failed"))??;
            }
            Ok(updates)
        })
    })?;
    let changes = SMALL * WATCHERS;
    figures.push(
        format!("{SMALL} changes one by one, {WATCHERS} monitors: CPU for each change and monitor"),
        cpu * 1e6 / changes as f64,
        "us",
    );
    figures.push("  messages for each", updates as f64 / changes as f64, "");
    Ok(())
}

/// What a piece of work gives, and the seconds that it and the server's CPU took.
fn timed<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, f64, f64)> {
    let before = server.cpu()?;
    let begin = Instant::now();
    let given = work()?;
    let wall = begin.elapsed();
    let cpu = server.cpu()?.saturating_sub(before);
    let seconds = |duration: Duration| duration.as_secs_f64();
    Ok((given, seconds(wall), seconds(cpu)))
}
