//! Transaction builder: collects changes to rows into one transaction.
//!
//! A row that the transaction inserts is named by a placeholder: [`TxnBuilder::insert`] returns a
//! [`Ref`](patchbay_schemas::typed::Ref) that other rows of the same transaction may hold. On the
//! wire, placeholders are named-uuids (RFC 7047 §5.1).
//!
//! | task | typed method | method for any table |
//! |---|---|---|
//! | insert a row | [`insert`](TxnBuilder::insert), [`insert_as`](TxnBuilder::insert_as) | [`insert_row`](TxnBuilder::insert_row), [`insert_row_as`](TxnBuilder::insert_row_as) |
//! | change the columns that differ | [`update`](TxnBuilder::update), [`modify`](TxnBuilder::modify) | [`update_row`](TxnBuilder::update_row) |
//! | insert a row or change the existing one | [`upsert`](TxnBuilder::upsert) | |
//! | set a column | [`set`](TxnBuilder::set) | [`set_row`](TxnBuilder::set_row) |
//! | change a set, a map or a counter relative to its value | [`add`](TxnBuilder::add), [`remove`](TxnBuilder::remove), [`put`](TxnBuilder::put), [`remove_keys`](TxnBuilder::remove_keys), [`increase`](TxnBuilder::increase) | [`mutate_row`](TxnBuilder::mutate_row) |
//! | delete a row | [`delete`](TxnBuilder::delete) | [`delete_row`](TxnBuilder::delete_row) |
//! | refuse the transaction if the database has changed | [`guard_changes`](TxnBuilder::guard_changes), [`verify`](TxnBuilder::verify), [`expect`](TxnBuilder::expect), [`expect_none`](TxnBuilder::expect_none) | [`expect_row`](TxnBuilder::expect_row), [`expect_no_row`](TxnBuilder::expect_no_row) |
//! | refuse the transaction unless the client owns a lock | [`assert_lock`](TxnBuilder::assert_lock) | |
//! | split a transaction that is too large | [`allow_split`](TxnBuilder::allow_split), [`finish_split`](TxnBuilder::finish_split) | |

mod builder;
mod checks;
mod difference;
mod error;
mod inserted_keys;
mod operations;
mod pending_row;
mod preconditions;
#[cfg(feature = "client")]
mod sent_transaction;
mod split;
mod transaction;
mod typed;
mod typed_columns;
mod upsert;
mod value_check;

pub use builder::TxnBuilder;
pub use error::{AffectedRow, BuildError, SplitError};
pub use transaction::Transaction;
pub use upsert::UpsertOutcome;
