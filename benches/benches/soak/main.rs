//! ovsdb-sim under hostile clients, faults and kills, with a journal.
//!
//! `cargo bench --workspace --bench soak -- SECONDS` runs for a time (default: 60 s) and fails if
//! an acknowledged row is lost, a row is doubled, or memory does not come back. A path behind it
//! names another build of ovsdb-sim.
//!
//! Writers insert and delete rows with names of their own. After a connection without a reply they
//! look the row up, as a client has to. The process is killed, or ended, again and again, and
//! started on its journal. At the end the rows are those that the writers know, each once, and the
//! memory is that of a server that has just been started on the same journal.

#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

mod hostile;
mod server;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use server::SoakServer;
use writer::{Writer, WriterReport};

/// Duration unless the command line has another number, in seconds.
const DEFAULT_SECONDS: u64 = 60;
/// Number of writers.
const WRITERS: usize = 4;
/// Pause between two ends of the process.
const LIFE: Duration = Duration::from_secs(7);
/// Pause between two faults.
const FAULT_INTERVAL: Duration = Duration::from_millis(300);
/// Time after the load in which memory comes back.
const REST: Duration = Duration::from_secs(3);
/// Memory that may stay after the load, beside that of a new server with the same rows, in bytes.
const ALLOWED_REST_BYTES: u64 = 16 << 20;

fn main() -> Result<()> {
    let seconds = std::env::args().find_map(|argument| argument.parse().ok());
    let duration = Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS));
    let given = std::env::args().skip(1).find(|argument| argument.contains('/'));
    let server = SoakServer::start(given.map(PathBuf::from))?;
    let is_over = AtomicBool::new(false);
    let (mut kills, mut faults, mut rounds, mut attacks) = (0, 0, 0, BTreeMap::new());
    let mut reports = Vec::new();
    thread::scope(|scope| -> Result<()> {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || Writer::new(server, number).run(is_over))
            })
            .collect();
        let hostile: Vec<_> = hostile::ATTACKS
            .iter()
            .map(|(name, attack)| {
                let run = || {
                    let mut count = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        // An attack ends with an error when the server does.
                        attack(server.socket(), count).unwrap_or_default();
                        count += 1;
                    }
                    count
                };
                (*name, scope.spawn(run))
            })
            .collect();
        let begin = Instant::now();
        let mut killed = begin;
        while begin.elapsed() < duration {
            thread::sleep(FAULT_INTERVAL);
            // Fails while the server is being started again.
            faults += usize::from(server.set_next_fault(rounds).is_ok());
            rounds += 1;
            if killed.elapsed() > LIFE {
                server.restart(kills)?;
                kills += 1;
                killed = Instant::now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for (name, thread) in hostile {
            let count = thread.join().map_err(|_| anyhow!("{name} failed"))?;
            attacks.insert(name, count);
        }
        for writer in writers {
            reports.push(writer.join().map_err(|_| anyhow!("a writer failed"))??);
        }
        Ok(())
    })?;
    thread::sleep(REST);
    let used = server.resident_bytes()?;
    let rows = check_rows(&server, &reports)?;
    server.restart(0)?;
    let again = check_rows(&server, &reports)?;
    ensure!(rows == again, "{rows} rows, {again} after a restart");
    let fresh = server.resident_bytes()?;

    let sum = |count: fn(&WriterReport) -> u64| reports.iter().map(count).sum::<u64>();
    println!("{} s, {kills} kills, {faults} faults", duration.as_secs());
    println!("hostile clients: {attacks:?}");
    println!(
        "transactions: {} acknowledged, {} without a reply, {rows} rows at the end",
        sum(|report| report.acknowledged),
        sum(|report| report.unknown),
    );
    println!("lost: 0, doubled: 0");
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "resident after the load: {:.1} MiB, of a new server with the rows: {:.1} MiB",
        mib(used),
        mib(fresh)
    );
    ensure!(used <= fresh + ALLOWED_REST_BYTES, "memory does not come back");
    Ok(())
}

/// Compares the rows of the server with those that the writers know.
fn check_rows(server: &SoakServer, reports: &[WriterReport]) -> Result<usize> {
    let found = server.names()?;
    let mut counts = BTreeMap::<&str, usize>::new();
    for name in &found {
        *counts.entry(name).or_default() += 1;
    }
    let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(doubled.is_empty(), "doubled: {doubled:?}");
    let known: usize = reports.iter().map(|report| report.rows.len()).sum();
    for name in reports.iter().flat_map(|report| &report.rows) {
        counts.remove(name.as_str()).with_context(|| format!("lost: {name}"))?;
    }
    ensure!(counts.is_empty(), "deleted rows are back: {counts:?}");
    Ok(known)
}
