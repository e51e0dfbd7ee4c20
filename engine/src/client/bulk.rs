//! Transactions that a server executes in much less time while it need not report them.
//!
//! See [`Config::bulk_rows`](super::Config::bulk_rows).

use patchbay_schemas::wire::{Mutation, Mutator, Operation};

use super::known::Known;
use super::pipeline::Job;

/// Whether a transaction inserts so many rows, `rows` at least, that the replica is better read anew than told of them: about
/// as many as the replica holds, which are read, too. A connect's rows are as many as those of its networks, and a few
/// less.
///
/// It must do nothing else of which the client cannot know what follows from it, and be answered at once. Under a lock
/// each state of the replica counts, so it is told of everything.
pub(super) fn is_bulk(job: &Job, rows: usize, known: &Known) -> bool {
    let operations = job.transaction.operations();
    if operations.len() < rows || known.locks.any_wanted() {
        return false;
    }
    let Some(replica) = &known.replica else {
        return false;
    };
    let is_insert = |operation: &&Operation| matches!(operation, Operation::Insert { .. });
    let inserted = operations.iter().filter(is_insert).count();
    inserted >= rows
        && inserted + inserted / 4 >= replica.snapshot().row_count()
        && operations.iter().all(only_adds)
}

/// Whether an operation takes nothing away, and waits for nobody.
fn only_adds(operation: &Operation) -> bool {
    let inserts = |mutation: &Mutation| mutation.mutator == Mutator::Insert;
    match operation {
        Operation::Insert { .. } | Operation::Comment(_) => true,
        Operation::Mutate { mutations, .. } => mutations.iter().all(inserts),
        Operation::Wait { timeout, .. } => *timeout == Some(0),
        _ => false,
    }
}
