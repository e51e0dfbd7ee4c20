//! The builder.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{ColumnId, ColumnType, DatabaseSchema, TableId, TableSchema};
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{ColumnValues, Condition, Mutation, Mutator, Operation};
use uuid::Uuid;

use crate::db::Snapshot;

use super::{BuildError, Transaction};

/// Sets and maps up to this size are rewritten when they change; of longer ones only the difference is sent.
const REWRITE_UP_TO: usize = 8;

/// Collects changes to rows.
///
/// ```
/// use patchbay_engine::db::Snapshot;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
///
/// let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
/// let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
/// txn.insert(&LogicalRouter { name: "lr0".into(), ports: [port].into(), ..Default::default() })?;
/// assert_eq!(txn.finish().operations().len(), 2);
/// # Ok::<(), patchbay_engine::txn::BuildError>(())
/// ```
#[derive(Debug)]
pub struct TxnBuilder {
    schema: Arc<DatabaseSchema>,
    operations: Vec<Operation>,
    placeholders: HashSet<Uuid, RandomState>,
    uuids: UuidSource,
}

impl TxnBuilder {
    /// An empty transaction for the database that the snapshot is of.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self::with_uuids(snapshot, UuidSource::random())
    }

    /// Like [`new`](Self::new), placeholders taken from `uuids`. An embedded database keeps them as the rows' UUIDs.
    pub fn with_uuids(snapshot: &Snapshot, uuids: UuidSource) -> Self {
        Self {
            schema: snapshot.schema().clone(),
            operations: Vec::new(),
            placeholders: HashSet::default(),
            uuids,
        }
    }

    /// Inserts a row. Columns with their default are not sent.
    ///
    /// # Errors
    /// The database's schema cannot express the row.
    pub fn insert<T: TableRow>(&mut self, row: &T) -> Result<Ref<T>, BuildError> {
        let table = self.table::<T>()?;
        let schema = self.schema.table(table);
        let mut values = ColumnValues::new();
        for (name, datum) in T::COLUMNS.iter().zip(row.to_data()) {
            values.extend(
                self.value(schema, name, datum)?
                    .filter(|(column, datum)| !schema.column_type(*column).is_default(datum)),
            );
        }
        let uuid = self.uuids.next_uuid();
        self.placeholders.insert(uuid);
        self.operations.push(Operation::Insert {
            table,
            uuid,
            given: None,
            row: values,
        });
        Ok(Ref::new(uuid))
    }

    /// Changes a row from what it is to what it should be; only columns that differ are sent, and of long sets and
    /// maps only the difference. False when nothing differs.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn update<T: TableRow>(
        &mut self,
        row: Ref<T>,
        current: &T,
        wanted: &T,
    ) -> Result<bool, BuildError> {
        let table = self.table::<T>()?;
        let schema = self.schema.table(table);
        let mut values = ColumnValues::new();
        let mut mutations = Vec::new();
        let columns = T::COLUMNS
            .iter()
            .zip(current.to_data().into_iter().zip(wanted.to_data()));
        for (name, (current, wanted)) in columns.filter(|(_, (current, wanted))| current != wanted)
        {
            let Some((column, wanted)) = self.value(schema, name, wanted)? else {
                continue;
            };
            if current.len().max(wanted.len()) <= REWRITE_UP_TO {
                values.push((column, wanted));
            } else {
                mutations.extend(difference(column, &current, &wanted));
            }
        }
        let condition = Condition::uuid(row.uuid);
        let changes = !values.is_empty() || !mutations.is_empty();
        if !values.is_empty() {
            self.operations.push(Operation::Update {
                table,
                condition: condition.clone(),
                row: values,
            });
        }
        if !mutations.is_empty() {
            self.operations.push(Operation::Mutate {
                table,
                condition,
                mutations,
            });
        }
        Ok(changes)
    }

    /// Adds elements or pairs to a column; keys that are there keep their values.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn mutate_insert<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.mutate::<T>(row, column, Mutator::Insert, value)
    }

    /// Removes elements, pairs or (given a set on a map) keys from a column.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn mutate_delete<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.mutate::<T>(row, column, Mutator::Delete, value)
    }

    /// Deletes a row. Rows of tables that are not root go by themselves when nothing refers to them.
    ///
    /// # Errors
    /// The database's schema has no such table.
    pub fn delete<T: TableRow>(&mut self, row: Ref<T>) -> Result<(), BuildError> {
        let table = self.table::<T>()?;
        self.operations.push(Operation::Delete {
            table,
            condition: Condition::uuid(row.uuid),
        });
        Ok(())
    }

    /// Makes the whole transaction fail unless a column still holds this value.
    ///
    /// # Errors
    /// The database's schema cannot express the value.
    pub fn expect<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        let table = self.table::<T>()?;
        let schema = self.schema.table(table);
        let Some((column, value)) = self.value(schema, column, value)? else {
            return Ok(());
        };
        self.operations.push(Operation::Wait {
            table,
            timeout: Some(0),
            condition: Condition::uuid(row.uuid),
            columns: vec![column],
            equal: true,
            rows: vec![vec![(column, value)]],
        });
        Ok(())
    }

    /// Adds a text that ends up in the server's log.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.operations.push(Operation::Comment(text.into()));
    }

    /// Whether nothing was collected.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// How many operations were collected.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// The transaction.
    #[must_use]
    pub fn finish(self) -> Transaction {
        Transaction {
            schema: self.schema,
            operations: self.operations,
            placeholders: self.placeholders,
        }
    }

    fn mutate<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        mutator: Mutator,
        argument: Datum,
    ) -> Result<(), BuildError> {
        let table = self.table::<T>()?;
        let schema = self.schema.table(table);
        let Some(column) = schema.column_id(column) else {
            return if argument.is_empty() {
                Ok(())
            } else {
                Err(self.no_column(schema, column, &argument))
            };
        };
        let mutation = Mutation {
            column,
            mutator,
            argument,
        };
        let condition = Condition::uuid(row.uuid);
        // Changes to one row by the operation just before are one operation.
        if let Some(Operation::Mutate {
            table: last_table,
            condition: last,
            mutations,
        }) = self.operations.last_mut()
            && *last_table == table
            && *last == condition
        {
            mutations.push(mutation);
        } else {
            self.operations.push(Operation::Mutate {
                table,
                condition,
                mutations: vec![mutation],
            });
        }
        Ok(())
    }

    fn table<T: TableRow>(&self) -> Result<TableId, BuildError> {
        self.schema
            .table_id(T::TABLE)
            .ok_or_else(|| BuildError::NoTable {
                database: self.schema.name.clone(),
                table: T::TABLE.to_owned(),
            })
    }

    /// A value that the schema can hold; none for a default value of a column that the schema lacks.
    fn value(
        &self,
        schema: &TableSchema,
        column: &str,
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let Some(id) = schema.column_id(column) else {
            let is_default = datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default);
            return if is_default {
                Ok(None)
            } else {
                Err(self.no_column(schema, column, &datum))
            };
        };
        match check(&datum, schema.column_type(id)) {
            Ok(()) => Ok(Some((id, datum))),
            Err(source) => Err(BuildError::Value {
                table: schema.name.to_string(),
                column: column.to_owned(),
                value: datum.to_string(),
                source: Box::new(source),
            }),
        }
    }

    fn no_column(&self, schema: &TableSchema, column: &str, datum: &Datum) -> BuildError {
        BuildError::NoColumn {
            database: self.schema.name.clone(),
            table: schema.name.to_string(),
            column: column.to_owned(),
            value: datum.to_string(),
        }
    }
}

fn check(datum: &Datum, ty: &ColumnType) -> Result<(), OvsdbError> {
    let fits = ty.is_map() == datum.as_map().is_some()
        && datum.len() >= ty.min as usize
        && datum.len() <= ty.max as usize
        && datum
            .as_set()
            .is_none_or(|set| set.iter().all(|atom| atom.atom_type() == ty.key.atom));
    if !fits {
        return Err(OvsdbError::constraint(format!(
            "the column is a {}",
            ty.to_english()
        )));
    }
    ty.check(datum)
}

/// The mutations that lead from one value to another.
fn difference(column: ColumnId, current: &Datum, wanted: &Datum) -> Vec<Mutation> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let (mut pairs, is_map) = (Vec::new(), wanted.as_map().is_some());
    match (current, wanted) {
        (Datum::Set(current), Datum::Set(wanted)) => {
            current.diff(
                wanted,
                |atom| removed.push(atom.clone()),
                |atom| added.push(atom.clone()),
            );
        }
        (Datum::Map(current), Datum::Map(wanted)) => current.diff(wanted, |key, old, new| {
            removed.extend(old.map(|_| key.clone()));
            pairs.extend(new.map(|value| (key.clone(), value.clone())));
        }),
        _ => {}
    }
    let delete = Datum::Set(Set::from_vec(removed));
    let insert = if is_map {
        Datum::Map(pairs.into_iter().collect::<Map>())
    } else {
        Datum::Set(Set::from_vec(added))
    };
    [(Mutator::Delete, delete), (Mutator::Insert, insert)]
        .into_iter()
        .filter(|(_, argument)| !argument.is_empty())
        .map(|(mutator, argument)| Mutation {
            column,
            mutator,
            argument,
        })
        .collect()
}
