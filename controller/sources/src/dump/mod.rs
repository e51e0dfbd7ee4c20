//! Text of `ovsdb-client dump` as a database.
//!
//! ```text
//! text -> tables   table, csv, list or json: names of columns, and cells
//!      -> datum    cells to JSON of RFC 7047, by the types of the schema
//!      -> content  file of a standalone database with one transaction
//! ```
//!
//! A dump names no types, so that only Northbound databases are read, by the schema of this program.

mod content;
mod datum;
mod tables;

pub(crate) use content::{Dump, DumpError, read_dump};
pub(crate) use tables::is_dump;
