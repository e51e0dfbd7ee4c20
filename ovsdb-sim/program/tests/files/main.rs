//! Database files, exchanged with the real ovsdb-server and ovsdb-tool.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cluster;
mod compaction;
mod damage;
mod disk_full;
mod given;
mod journal;
mod load;
mod locks;
mod log;
mod modes;
mod servers;
mod steps;
mod unwritable_log;
