//! The transaction engine: tables in memory, transactions with deferred constraints, snapshots for readers.
//!
//! A [`Database`] has one writer. [`Database::transact`] executes operations on an overlay that remembers the
//! former version of each row it touches, checks what was touched and publishes a new [`Snapshot`];
//! readers keep the one they have. The cost of a transaction is that of the rows and elements it touches.
//!
//! The order of work at commit is ovsdb-server's (see `docs/design/engine.md`).

mod change;
mod commit;
mod convert;
mod database;
mod declared;
mod execute;
mod expected;
mod history;
mod index;
mod index_spec;
mod lookup;
mod overlay;
mod references;
mod snapshot;
mod table;
mod typed;

pub use change::{ChangeSet, RowChange};
pub use database::{Database, DatabaseError};
pub use execute::{Access, Execution, OperationResult};
pub use index_spec::{Index, IndexKey, IndexSpec, KeyPart};
pub use lookup::{IndexError, IndexView, TypedIndex};
pub use snapshot::Snapshot;
pub use table::Table;
pub use typed::TypedTable;
