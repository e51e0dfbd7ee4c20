//! Cost of a small transaction as the database, its table and its set grow.
//!
//! `cargo bench --workspace --bench growth` prints the server CPU of each transaction and the
//! growth exponents. ovsdb-server runs fewer
//! transactions, and none on the largest router, because its cost grows with the set.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use anyhow::{Context as _, Result};
use patchbay_benches::client::RawClient;
use patchbay_benches::northbound;
use patchbay_benches::process::{Server, ServerKind};
use patchbay_benches::text::growth_exponent;
use uuid::Uuid;

/// Numbers of router ports; the database has as many static routes.
const SIZES: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 128_000];
/// Runs of each measurement on one server; the best is printed.
const ROUNDS: usize = 3;

/// Change of one port.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Inserts a row and adds it to the router's set.
    Insert,
    /// Updates one column of a row.
    Update,
    /// Removes the row from the router's set. The row is deleted, because nothing refers to it.
    Delete,
}

impl Work {
    const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert a port and mutate the router",
            Self::Update => "update a column of a port",
            Self::Delete => "delete a port from the router",
        }
    }

    fn transaction(self, port: usize, router: Uuid) -> String {
        match self {
            Self::Insert => northbound::add_given_port_transaction(2, port, router),
            Self::Update => northbound::update_port_transaction(2, port),
            Self::Delete => northbound::remove_port_transaction(2, port, router),
        }
    }
}

fn main() -> Result<()> {
    print!("{:<52}", "server CPU for each transaction, us");
    for size in SIZES {
        print!("{size:>10}");
    }
    println!("  exponent");
    let runs = [(ServerKind::Simulator, &SIZES[..], 2_000), (ServerKind::Real, &SIZES[..4], 200)];
    for (kind, sizes, transactions) in runs {
        let mut lines = [const { Vec::new() }; Work::ALL.len()];
        for size in sizes.iter().copied() {
            let costs = measure_costs(kind, size, transactions)
                .with_context(|| format!("{} with {size} ports", kind.name()))?;
            for (line, cost) in lines.iter_mut().zip(costs) {
                line.push((size as f64, cost));
            }
        }
        for (work, line) in Work::ALL.into_iter().zip(lines) {
            let name = format!("{}: {}", kind.name(), work.name());
            print!("{name:<52}");
            for column in 0..SIZES.len() {
                match line.get(column) {
                    Some((_, cost)) => print!("{cost:>10.2}"),
                    None => print!("{:>10}", "-"),
                }
            }
            println!("  {:>8.3}", growth_exponent(&line).context("costs are above 0")?);
        }
    }
    Ok(())
}

/// Measures the server CPU of each kind of transaction, in microseconds.
fn measure_costs(
    kind: ServerKind,
    size: usize,
    transactions: usize,
) -> Result<[f64; Work::ALL.len()]> {
    let server = Server::start(kind)?;
    let mut client = RawClient::connect(server.socket())?;
    let reply = client.call(&northbound::router_transaction(1, size))?;
    let router = northbound::last_inserted_uuid(&reply)?;
    drop(reply);
    let mut best = [f64::INFINITY; Work::ALL.len()];
    for _ in 0..ROUNDS {
        for (work, best) in Work::ALL.into_iter().zip(&mut best) {
            let requests: Vec<String> =
                (size..size + transactions).map(|port| work.transaction(port, router)).collect();
            let before = server.cpu_time()?;
            client.pipeline(&requests)?;
            let cpu = server.cpu_time()?.saturating_sub(before);
            *best = best.min(cpu.as_secs_f64() * 1e6 / transactions as f64);
            let rows = match work {
                Work::Insert | Work::Update => size + transactions,
                Work::Delete => size,
            };
            northbound::ensure_rows(&mut client, "Logical_Router_Port", rows)?;
        }
    }
    Ok(best)
}
