//! The networks' own rows in one zone: first pass, pass without changes, node added and removed,
//! from 400 to 32,000 links (networks times nodes).
//!
//! `cargo bench --workspace --bench networks` runs all parts; `-- passes`, `-- commands` or
//! `-- objects` runs only that part, and a number limits the links. `passes` measures in this
//! process, `commands` measures `patchbay apply` and `patchbay plan` with ovsdb-sim and needs
//! OVN's schema. `objects` measures `patchbay plan` on up to 10,000 objects of one kind.

#![allow(clippy::print_stdout, reason = "the tables are what this program is for")]

mod commands;
mod objects;
mod passes;
mod table;

use anyhow::Result;
use mimalloc::MiMalloc;
use patchbay_benches::connect::ClusterSize;
use patchbay_benches::parts::{self, Part};

/// Allocator of `patchbay`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Number of networks of every cluster.
const NETWORKS: usize = 16;
/// Numbers of nodes.
const NODES: [usize; 4] = [25, 100, 400, 2_000];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: [(&str, Part); 3] =
        [("passes", passes::report), ("commands", commands::report), ("objects", objects::report)];
    parts::run(&parts, &arguments)
}

/// Returns the clusters to measure, by growing size.
fn sizes() -> Vec<ClusterSize> {
    let limit = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    NODES
        .into_iter()
        .map(|nodes| ClusterSize { networks: NETWORKS, nodes })
        .filter(|size| limit.is_none_or(|limit| size.links() <= limit))
        .collect()
}
