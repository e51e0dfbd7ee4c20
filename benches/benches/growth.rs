//! What a small transaction costs a server as the database, the table and the set that it touches grow.
//!
//! `cargo bench --workspace --bench growth`. Prints the server's CPU for each transaction and the exponents of
//! their growth, and writes `benches/figures/small-transactions.svg`. ovsdb-server, whose cost grows with the set, is
//! asked for fewer transactions, and not on the largest router.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::path::Path;

use anyhow::{Context as _, Result};
use patchbay_benches::client::Client;
use patchbay_benches::northbound;
use patchbay_benches::plot::{Chart, growth_exponent};
use patchbay_benches::process::{Kind, Server};
use uuid::Uuid;

/// Ports of the router; there is a static route for each.
const SIZES: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 128_000];
/// Each measurement is made so often on one server, and the best is shown.
const ROUNDS: usize = 3;

/// What is done to one port.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A new row, and the router's set with it.
    Insert,
    /// One column of a row.
    Update,
    /// The router's set without it; the row goes because nothing refers to it.
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
    let mut chart = Chart::new(
        "One small transaction",
        "ports on the router (and as many routes in the database)",
        "server CPU, microseconds",
    );
    print!("{:<52}", "server CPU for each transaction, us");
    for size in SIZES {
        print!("{size:>10}");
    }
    println!("  exponent");
    let runs = [
        (Kind::Simulator, &SIZES[..], 2_000),
        (Kind::Real, &SIZES[..4], 200),
    ];
    for (kind, sizes, transactions) in runs {
        let mut lines = [const { Vec::new() }; Work::ALL.len()];
        for size in sizes.iter().copied() {
            let costs = costs(kind, size, transactions)
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
            println!(
                "  {:>8.3}",
                growth_exponent(&line).context("costs are above 0")?
            );
            chart = chart.line(&name, line);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("figures/small-transactions.svg");
    chart.write(&path)?;
    println!("{}", path.display());
    Ok(())
}

/// The server's CPU microseconds for each transaction of each kind of work.
fn costs(kind: Kind, size: usize, transactions: usize) -> Result<[f64; Work::ALL.len()]> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.socket())?;
    let reply = client.call(&northbound::router_transaction(1, size))?;
    let router = northbound::inserted_last(&reply)?;
    drop(reply);
    let mut best = [f64::INFINITY; Work::ALL.len()];
    for _ in 0..ROUNDS {
        for (work, best) in Work::ALL.into_iter().zip(&mut best) {
            let requests: Vec<String> = (size..size + transactions)
                .map(|port| work.transaction(port, router))
                .collect();
            let before = server.cpu()?;
            client.pipeline(&requests)?;
            let cpu = server.cpu()?.saturating_sub(before);
            *best = best.min(cpu.as_secs_f64() * 1e6 / transactions as f64);
            let there = match work {
                Work::Insert | Work::Update => size + transactions,
                Work::Delete => size,
            };
            northbound::ensure_rows(&mut client, "Logical_Router_Port", there)?;
        }
    }
    Ok(best)
}
