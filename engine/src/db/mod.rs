//! Transaction engine: tables in memory, transactions with deferred constraints, snapshots.
//!
//! A [`Database`] has one writer. [`Database::transact`] executes operations on an overlay, which
//! keeps the former version of each touched row. It then checks the touched rows and publishes a
//! new [`Snapshot`]. Readers keep the snapshot that they hold. The cost of a transaction is
//! proportional to the rows and elements that it touches.
//!
//! The steps of a commit have ovsdb-server's order (see `docs/design/engine.md`).

mod bulk_insert;
mod change;
mod commit;
mod conversion;
mod database;
mod declared_index;
mod execute;
mod execution;
mod history;
mod index_key;
mod index_spec;
mod index_view;
mod overlay;
#[cfg(feature = "client")]
mod prediction;
mod references;
mod rehearsal;
mod snapshot;
mod table;
mod typed_table;
mod unique_index;
mod write_attempt;

pub use change::{ChangeSet, RowChange};
pub use database::{Database, DatabaseError};
pub use execution::{Access, Execution, OperationResult, SelectedRows, ServerRelease};
pub use index_key::IndexKey;
pub use index_spec::{Index, IndexSpec, KeyPart};
pub use index_view::{IndexError, IndexView, TypedIndex};
pub use rehearsal::Rehearsal;
pub use snapshot::Snapshot;
pub use table::Table;
pub use typed_table::TypedTable;
pub use write_attempt::{WriteAttempt, WriteKind, WriteRules};
