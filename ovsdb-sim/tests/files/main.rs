//! Standalone database files, exchanged with the real ovsdb-server and ovsdb-tool.

mod damage;
mod disk_full;
mod given;
mod journal;
mod load;
mod servers;
mod steps;
