//! Keeps rows of an OVSDB database equal to what follows from inputs, at the cost of what changes.
//!
//! ```text
//! inputs ──┐   changed cells                                        ┌─ Change: a transaction, counts, `more`
//!          ├─> pending parts ─> rows of each part ─> steps ─> cut ──┤
//! database ┘   changed rows     (reads are recorded)                └─ reports of parts
//! ```
//!
//! A [`Capability`] declares its tables and computes the rows of its parts. [`Engine`] does the
//! rest. See `docs/design/rows.md`.

mod capability;
mod change;
mod columns;
mod dependencies;
mod difference;
mod engine;
mod evaluation;
mod index;
mod members;
mod part_rows;
mod parts;
mod queue;
mod reader;
mod reports;
mod resolved;
mod scope;
mod shared;
mod sources;
mod steps;
mod table;
mod table_row;
mod writer;

pub use capability::{Capability, Inputs, changed_keys};
pub use change::{Change, Counts, Plan, PlanError};
pub use difference::{DifferenceKind, RowDifference};
pub use engine::{Engine, TRANSACTION_ROWS};
pub use evaluation::Refused;
pub use part_rows::{Added, PartRows};
pub use reader::{PartRow, Reader};
pub use reports::ChangedReport;
pub use scope::{KeptRow, ObjectName, Scope};
pub use table::{Declared, Holding, Identity, Layout, Owner, Phase, Phases, RowView, Table};

// What `table_row!` expands to.
#[doc(hidden)]
pub use patchbay_schemas::{datum::Datum, typed};
#[doc(hidden)]
pub use table_row::column_name;
