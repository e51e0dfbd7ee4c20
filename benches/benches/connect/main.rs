//! The zone controller: connecting 32,000 links, passes without changes, and passes after each kind
//! of change.
//!
//! `cargo bench --workspace --bench connect` runs all parts; `-- changes sockets many memory
//! zone growth`, or some of these names, runs only those parts. The benchmark needs ovsdb-server and
//! ovsdb-tool.

#![allow(clippy::print_stdout, reason = "the tables are what this program is for")]

mod changes;
mod growth;
mod many;
mod memory;
mod sockets;
mod table;
mod zone_process;

use anyhow::Result;
use mimalloc::MiMalloc;
use patchbay_benches::parts::{self, Part};

/// Allocator of `patchbay`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == memory::SUBJECT) {
        return memory::subject();
    }
    if arguments.first().is_some_and(|first| first == zone_process::SUBJECT) {
        return zone_process::subject(&arguments);
    }
    let parts: [(&str, Part); 6] = [
        ("changes", changes::report),
        ("sockets", sockets::report),
        ("many", many::report),
        ("memory", memory::report),
        ("zone", zone_process::report),
        ("growth", growth::report),
    ];
    parts::run(&parts, &arguments)
}
