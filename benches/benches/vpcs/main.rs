//! Tenants with VPCs of Kube-OVN in one database: their creation, changes, and `lint`.
//!
//! `cargo bench --workspace --bench vpcs` runs all parts; `-- creation`, `-- changes` or `-- lint`
//! runs only that part, and a number limits the tenants. `creation` measures passes in this process,
//! with a database in it and with ovsdb-server.

#![allow(clippy::print_stdout, reason = "the tables are what this program is for")]

mod changes;
mod creation;
mod lint;

use anyhow::Result;
use cap::Cap;
use mimalloc::MiMalloc;
use patchbay_benches::parts::{self, Part};
use patchbay_benches::vpcs::Counting;
use patchbay_model::Databases;
use patchbay_reconcile::northbound::Northbound;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::uuids::UuidSource;

/// Allocator of `patchbay`, with a count of live bytes.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

/// Numbers of tenants.
const TENANTS: [usize; 3] = [100, 1_000, 5_000];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: [(&str, Part); 3] =
        [("creation", creation::report), ("changes", changes::report), ("lint", lint::report)];
    parts::run(&parts, &arguments)
}

/// The numbers of tenants to measure.
fn sizes() -> Vec<usize> {
    let limit = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    TENANTS.into_iter().filter(|count| limit.is_none_or(|limit| *count <= limit)).collect()
}

/// A reconciler of the one database.
fn reconciler<N: Northbound>(database: N) -> ZoneReconciler<Counting<N>> {
    ZoneReconciler::new(Databases::CENTRAL, Counting::new(database), UuidSource::seeded(1))
}

/// Prints a line of a table.
fn print_line(name: &str, cells: &[String]) {
    print!("{name:<56}");
    for cell in cells {
        print!("{cell:>14}");
    }
    println!();
}
