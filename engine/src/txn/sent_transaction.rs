//! A transaction on its way to a server: UUIDs chosen by the client, the request in pieces, and the
//! operations as the server executed them.

use std::sync::Arc;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::wire::{Condition, Operation};
use uuid::Uuid;

use super::transaction::Transaction;

impl Transaction {
    /// `true` if the UUID is a placeholder: the transaction inserts the row, and the server chooses
    /// its UUID.
    pub(crate) fn is_placeholder(&self, row: Uuid) -> bool {
        self.placeholders.contains(&row)
    }

    /// Appends an `assert` operation, which fails unless the client owns the lock.
    pub(crate) fn assert_lock(&mut self, lock: &str) {
        let lock = lock.to_owned();
        self.operations.push(Operation::Assert { lock });
    }

    /// Makes each placeholder the UUID that the client chooses for its row.
    pub(crate) fn choose_uuids(&mut self) {
        for operation in &mut self.operations {
            if let Operation::Insert { uuid, given, .. } = operation
                && self.placeholders.contains(uuid)
            {
                given.get_or_insert_with(|| uuid.to_string());
            }
        }
        self.placeholders = Arc::default();
    }

    /// Appends the beginning of the parameters of a `transact` request. Operations follow, each
    /// after a comma.
    pub(crate) fn write_database(&self, out: &mut Vec<u8>) {
        self.write(|writer| writer.write_database(out));
    }

    /// Appends operations from position `from` on until `out` has at least `min_bytes` bytes.
    /// Returns the number of appended operations.
    pub(crate) fn write_operations(
        &self,
        from: usize,
        min_bytes: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        self.write(|writer| writer.write_operations(&self.operations[from..], min_bytes, out))
    }

    /// Replaces placeholders in values and conditions by the UUIDs that the server chose.
    pub(crate) fn resolve(&mut self, uuid_of: impl Fn(Uuid) -> Option<Uuid>) {
        for operation in &mut self.operations {
            for_each_datum(operation, &mut |datum| resolve(datum, &uuid_of));
        }
    }

    /// Takes the operations out of the transaction as the server executed them, with the UUIDs that
    /// it chose for inserted rows.
    pub(crate) fn take_executed(
        &mut self,
        uuid_of: impl Fn(Uuid) -> Option<Uuid>,
    ) -> Vec<Operation> {
        self.resolve(&uuid_of);
        for operation in &mut self.operations {
            if let Operation::Insert { uuid, .. } = operation {
                *uuid = uuid_of(*uuid).unwrap_or(*uuid);
            }
        }
        std::mem::take(&mut self.operations)
    }
}

/// Calls `visit` for each value in an operation.
fn for_each_datum(operation: &mut Operation, visit: &mut impl FnMut(&mut Datum)) {
    let clauses = |condition: &mut Condition, visit: &mut dyn FnMut(&mut Datum)| {
        condition.arguments_mut().for_each(visit);
    };
    match operation {
        Operation::Insert { row, .. } => row.values_mut().for_each(visit),
        Operation::Update { condition, row, .. } => {
            clauses(condition, visit);
            for (_, datum) in row {
                visit(datum);
            }
        }
        Operation::Mutate { condition, mutations, .. } => {
            clauses(condition, visit);
            for mutation in mutations {
                visit(&mut mutation.argument);
            }
        }
        Operation::Wait { condition, rows, .. } => {
            clauses(condition, visit);
            rows.iter_mut().flatten().for_each(|(_, datum)| visit(datum));
        }
        Operation::Select { condition, .. } | Operation::Delete { condition, .. } => {
            clauses(condition, visit);
        }
        Operation::Commit { .. }
        | Operation::Abort
        | Operation::Comment(_)
        | Operation::Assert { .. } => {}
    }
}

/// Replaces the UUIDs in a value for which `uuid_of` returns another one.
fn resolve(datum: &mut Datum, uuid_of: &impl Fn(Uuid) -> Option<Uuid>) {
    let resolved = |atom: &Atom| atom.as_uuid().and_then(uuid_of).map(Atom::Uuid);
    if !datum.atoms().any(|atom| resolved(atom).is_some()) {
        return;
    }
    let atom = |atom: &Atom| resolved(atom).unwrap_or_else(|| atom.clone());
    *datum = match &*datum {
        Datum::Set(set) => Datum::Set(set.iter().map(atom).collect()),
        Datum::Map(map) => {
            Datum::Map(map.iter().map(|(key, value)| (atom(key), atom(value))).collect())
        }
    };
}
