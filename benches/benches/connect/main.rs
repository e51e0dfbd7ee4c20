//! The zone half: what it takes to connect 32,000 ports, to see that there is nothing to do, and to follow changes.
//!
//! `cargo bench --workspace --bench connect`, with `-- changes sockets many memory growth` or some of them only these
//! parts. `growth` writes `benches/figures/connect.svg`. Needs ovsdb-server and ovsdb-tool.

#![allow(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

mod changes;
mod growth;
mod many;
mod memory;
mod sockets;
mod table;

use anyhow::Result;
use mimalloc::MiMalloc;
use patchbay_benches::parts::{self, Part};

/// That of `patchbay`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == memory::SUBJECT)
    {
        return memory::subject();
    }
    let parts: [(&str, Part); 5] = [
        ("changes", changes::report),
        ("sockets", sockets::report),
        ("many", many::report),
        ("memory", memory::report),
        ("growth", growth::report),
    ];
    parts::run(&parts, &arguments)
}
