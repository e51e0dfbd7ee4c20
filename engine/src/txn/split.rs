//! Transactions that are too large for one request.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::wire::Operation;
use uuid::Uuid;

use super::error::SplitError;
use super::{Transaction, TxnBuilder};

impl TxnBuilder {
    /// The transaction in as few parts as keep each request within `limit` bytes, split only where
    /// [`allow_split`](Self::allow_split) was said. The parts are committed one after the other, see
    /// [`Client::transact_parts`](crate::client::Client::transact_parts): others see what is in between, and rows that
    /// nothing refers to at the end of a part are gone in the next unless their table is root.
    ///
    /// ```
    /// use patchbay_engine::db::Snapshot;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalSwitch};
    ///
    /// let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
    /// for i in 0..100 {
    ///     txn.insert(&LogicalSwitch { name: format!("sw{i}"), ..Default::default() })?;
    ///     txn.allow_split();
    /// }
    /// let parts = txn.finish_split(4000)?;
    /// assert!(parts.len() > 1 && parts.len() < 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What must stay together is longer than the limit.
    pub fn finish_split(self, limit: usize) -> Result<Vec<Transaction>, SplitError> {
        let mut parts: Vec<Transaction> = Vec::new();
        // Of the last part.
        let mut len = 0;
        for section in self.finish_sections().filter(|section| !section.is_empty()) {
            let bytes = section.request_len();
            if bytes > limit {
                return Err(SplitError::TooLarge { bytes, limit });
            }
            match parts.last_mut() {
                Some(last) if len + bytes <= limit => {
                    last.operations.extend(section.operations);
                    len += bytes;
                }
                _ => {
                    parts.push(section);
                    len = bytes;
                }
            }
        }
        Ok(parts)
    }
}

impl Transaction {
    fn request_len(&self) -> usize {
        let mut request = Vec::new();
        self.write_params(&mut request);
        request.len()
    }

    /// Puts the UUIDs that rows got in the place of their placeholders.
    pub(crate) fn resolve(&mut self, uuid_of: impl Fn(Uuid) -> Option<Uuid>) {
        for operation in &mut self.operations {
            each_datum(operation, &mut |datum| resolve(datum, &uuid_of));
        }
    }

    /// The operations as a server has executed them: with the UUIDs that it gave to the inserted rows. They are taken out
    /// of the transaction.
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

/// Calls `with` for each value in an operation.
fn each_datum(operation: &mut Operation, with: &mut impl FnMut(&mut Datum)) {
    use patchbay_schemas::wire::{Clause, Condition};
    let clauses = |condition: &mut Condition, with: &mut dyn FnMut(&mut Datum)| {
        for clause in &mut condition.0 {
            if let Clause::Column { argument, .. } = clause {
                with(argument);
            }
        }
    };
    match operation {
        Operation::Insert { row, .. } => row.values_mut().for_each(with),
        Operation::Update { condition, row, .. } => {
            clauses(condition, with);
            for (_, datum) in row {
                with(datum);
            }
        }
        Operation::Mutate {
            condition,
            mutations,
            ..
        } => {
            clauses(condition, with);
            for mutation in mutations {
                with(&mut mutation.argument);
            }
        }
        Operation::Wait {
            condition, rows, ..
        } => {
            clauses(condition, with);
            rows.iter_mut().flatten().for_each(|(_, datum)| with(datum));
        }
        Operation::Select { condition, .. } | Operation::Delete { condition, .. } => {
            clauses(condition, with);
        }
        Operation::Commit { .. }
        | Operation::Abort
        | Operation::Comment(_)
        | Operation::Assert { .. } => {}
    }
}

fn resolve(datum: &mut Datum, uuid_of: &impl Fn(Uuid) -> Option<Uuid>) {
    let resolved = |atom: &Atom| atom.as_uuid().and_then(uuid_of).map(Atom::Uuid);
    if !datum.atoms().any(|atom| resolved(atom).is_some()) {
        return;
    }
    let atom = |atom: &Atom| resolved(atom).unwrap_or_else(|| atom.clone());
    *datum = match &*datum {
        Datum::Set(set) => Datum::Set(set.iter().map(atom).collect()),
        Datum::Map(map) => Datum::Map(
            map.iter()
                .map(|(key, value)| (atom(key), atom(value)))
                .collect(),
        ),
    };
}
