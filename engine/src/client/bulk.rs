//! Bulk transactions, which a server executes in much less time while this client has no monitor.
//!
//! See [`Config::bulk_rows`](super::Config::bulk_rows).

use patchbay_schemas::wire::{Mutation, Mutator, Operation};

use super::pending::PendingTransaction;
use super::retained_state::RetainedState;

/// `true` if a transaction inserts at least `rows` rows, and about as many as the replica holds.
///
/// Reading the database again then costs less than following the transaction. The factor of 1.25
/// allows for a connect, which inserts slightly fewer rows than its networks have.
///
/// The transaction must have no effects that the client cannot compute and must not wait in the
/// server. Requested locks rule it out, because under a lock every state of the replica must be
/// complete.
pub(super) fn is_bulk(pending: &PendingTransaction, rows: usize, retained: &RetainedState) -> bool {
    let operations = pending.transaction.operations();
    if operations.len() < rows || retained.locks.has_requests() {
        return false;
    }
    let Some(replica) = &retained.replica else {
        return false;
    };
    let is_insert = |operation: &&Operation| matches!(operation, Operation::Insert { .. });
    let inserted = operations.iter().filter(is_insert).count();
    inserted >= rows
        && inserted + inserted / 4 >= replica.snapshot().row_count()
        && operations.iter().all(only_adds)
}

/// `true` if an operation removes nothing and cannot wait in the server.
fn only_adds(operation: &Operation) -> bool {
    let inserts = |mutation: &Mutation| mutation.mutator == Mutator::Insert;
    match operation {
        Operation::Insert { .. } | Operation::Comment(_) => true,
        Operation::Mutate { mutations, .. } => mutations.iter().all(inserts),
        Operation::Wait { timeout, .. } => *timeout == Some(0),
        _ => false,
    }
}
