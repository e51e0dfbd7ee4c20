//! The builder, with changes to rows of any table by column names and values. The typed methods use
//! these.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{ColumnValues, Condition, InsertRow, Mutation, Mutator, Operation};
use uuid::Uuid;

use crate::db::{IndexSpec, Snapshot};

use super::difference::{ColumnChange, column_change};
use super::error::{AffectedRow, BuildError};
use super::inserted_keys::InsertedKeys;
use super::operations::Operations;
use super::transaction::Transaction;
use super::typed_columns::TypedColumns;
use super::value_check::check_argument;

/// Collects changes to rows into one [`Transaction`].
///
/// Each change applies to the row as the changes before it leave it. Repeated changes to one row
/// are merged: a new row takes one `insert`, an existing row takes at most one `update` and one
/// `mutate`.
///
/// ```
/// use patchbay_engine::db::Snapshot;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
///
/// let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
/// let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
/// let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
/// // `port` is a placeholder, which other rows of the transaction may refer to.
/// txn.add(router, LogicalRouter::PORTS, [port])?;
/// txn.put(router, LogicalRouter::OPTIONS, [("chassis", "node1")])?;
/// // The changes to the new router are part of its `insert`.
/// assert_eq!(txn.finish().operations().len(), 2);
/// # Ok::<(), patchbay_engine::txn::BuildError>(())
/// ```
///
/// Changes to an existing row:
///
/// ```
/// use patchbay_engine::db::Database;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter};
///
/// let mut database = Database::new(nb::schema());
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
/// database.transact(txn.finish().operations())?;
///
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// txn.set(router, LogicalRouter::ENABLED, Some(true))?;
/// txn.put(router, LogicalRouter::EXTERNAL_IDS, [("owner", "a")])?;
/// txn.modify(router, |router| router.name = "lr1".into())?;
/// let transaction = txn.finish();
/// let names: Vec<_> = transaction.operations().iter().map(|operation| operation.name()).collect();
/// assert_eq!(names, ["update", "mutate"]);
///
/// database.transact(transaction.operations())?;
/// let row = database.snapshot().get(router)?.unwrap();
/// assert_eq!((row.name.as_str(), row.enabled), ("lr1", Some(true)));
/// assert_eq!(row.external_ids["owner"], "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TxnBuilder {
    pub(super) snapshot: Snapshot,
    pub(super) operations: Operations,
    /// Sections between the places where a split is allowed; at least one.
    pub(super) sections: Vec<Section>,
    /// UUIDs that stand for inserted rows until the server has chosen theirs.
    pub(super) placeholders: HashSet<Uuid, RandomState>,
    uuids: UuidSource,
    /// `true` after [`guard_changes`](Self::guard_changes).
    pub(super) guards_changes: bool,
    /// Columns that have a guard.
    pub(super) guarded_columns: HashSet<(TableId, Uuid, ColumnId), RandomState>,
    /// Tables and columns of the row types that the transaction has used.
    pub(super) typed_columns: HashMap<TypeId, (TableId, TypedColumns), RandomState>,
    /// Keys of the rows that the transaction inserts, in the indexes that upserts have used.
    pub(super) inserted_keys: HashMap<IndexSpec, InsertedKeys, RandomState>,
}

/// Part of a transaction that may not be split.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// `wait` operations of guards. They come first, because they check values from before the
    /// section.
    pub(super) guards: Vec<Operation>,
    /// Position of the first operation of the section.
    pub(super) start: usize,
}

impl TxnBuilder {
    /// Creates an empty transaction for the database of a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self::with_uuids(snapshot, UuidSource::random())
    }

    /// Creates an empty transaction whose placeholders come from `uuids`. A
    /// [`Database`](crate::db::Database) keeps them as the UUIDs of the rows.
    pub fn with_uuids(snapshot: &Snapshot, uuids: UuidSource) -> Self {
        Self {
            snapshot: snapshot.clone(),
            operations: Operations::default(),
            sections: vec![Section::default()],
            placeholders: HashSet::default(),
            uuids,
            guards_changes: false,
            guarded_columns: HashSet::default(),
            typed_columns: HashMap::default(),
            inserted_keys: HashMap::default(),
        }
    }

    /// Makes room for a number of new rows.
    #[must_use]
    pub fn with_capacity(mut self, rows: usize) -> Self {
        self.placeholders.reserve(rows);
        self.operations.reserve(rows);
        self
    }

    /// Snapshot that the changes start from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Inserts a row of any table. Other columns get their defaults. Returns the placeholder of the
    /// row.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, or its type does not allow a value.
    pub fn insert_row<'a>(
        &mut self,
        table: &str,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<Uuid, BuildError> {
        let table = self.table(table)?;
        let values = with_columns(self.snapshot.schema().clone(), table, values);
        self.insert_new(table, values)
    }

    /// Inserts a row of any table with a UUID that the caller chose.
    ///
    /// The server refuses a second row with the same UUID. So the transaction may be repeated if
    /// its outcome is unknown.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, or its type does not allow a value.
    pub fn insert_row_as<'a>(
        &mut self,
        uuid: Uuid,
        table: &str,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let values = with_columns(self.snapshot.schema().clone(), table, values);
        self.insert_values(table, uuid, Some(uuid.to_string()), values)
    }

    /// Inserts a row with a placeholder.
    pub(super) fn insert_new<'a>(
        &mut self,
        table: TableId,
        values: impl IntoIterator<Item = (&'a str, Option<ColumnId>, Datum)>,
    ) -> Result<Uuid, BuildError> {
        let uuid = self.reserve();
        self.insert_reserved(uuid, table, values)?;
        Ok(uuid)
    }

    pub(super) fn insert_values<'a>(
        &mut self,
        table: TableId,
        uuid: Uuid,
        given: Option<String>,
        values: impl IntoIterator<Item = (&'a str, Option<ColumnId>, Datum)>,
    ) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().table(table);
        let mut refused = None;
        let values = values.into_iter().map_while(|(name, column, datum)| {
            let ty = column.map(|column| schema.column_type(column));
            if ty.is_some_and(|ty| ty.is_empty_default(&datum)) {
                return Some(None);
            }
            let value = self.checked(table, AffectedRow::New, (name, column), datum);
            value.map_err(|error| refused = Some(error)).ok()
        });
        let is_default = |column, datum: &Datum| schema.column_type(column).is_default(datum);
        let values = values.flatten().filter(|(column, datum)| !is_default(*column, datum));
        let row = InsertRow::with_template(schema, values, self.operations.last_insert(table));
        if let Some(error) = refused {
            return Err(error);
        }
        self.operations.insert(table, uuid, given, row);
        Ok(())
    }

    /// Returns a placeholder for a row that [`insert_reserved`](Self::insert_reserved) inserts
    /// later. Other rows may refer to it before.
    pub fn reserve(&mut self) -> Uuid {
        self.uuids.next_uuid()
    }

    /// Inserts a row of any table under a placeholder that [`reserve`](Self::reserve) has
    /// returned. Each value comes with the name and the id of its column; `None`: the schema has no
    /// such column.
    ///
    /// # Errors
    /// The schema lacks a column with a value, or its type does not allow a value.
    pub fn insert_reserved<'a>(
        &mut self,
        placeholder: Uuid,
        table: TableId,
        values: impl IntoIterator<Item = (&'a str, Option<ColumnId>, Datum)>,
    ) -> Result<(), BuildError> {
        self.insert_values(table, placeholder, None, values)?;
        self.placeholders.insert(placeholder);
        Ok(())
    }

    /// Sets columns of a row of any table.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, its type does not allow a value, or a
    /// column is immutable.
    pub fn set_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let values = self.column_values(table, row, values)?;
        for (column, _) in &values {
            self.check_mutable(table, row, *column)?;
            let current = self.snapshot.row(table, row);
            if let Some(current) = current.map(|row| row.get(*column).into_owned()) {
                self.guard(table, row, *column, current);
            }
        }
        self.operations.set(table, row, values);
        Ok(())
    }

    /// Changes the columns of a row that differ from the wanted values.
    ///
    /// `columns` yields `(name, current, wanted)`. Of long sets and maps only the difference is
    /// sent. Returns `false` if no column differs.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, its type does not allow a value, or a
    /// column is immutable.
    pub fn update_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        columns: impl IntoIterator<Item = (&'a str, Datum, Datum)>,
    ) -> Result<bool, BuildError> {
        let table = self.table(table)?;
        let mut values = ColumnValues::new();
        let mut mutations = Vec::new();
        for (name, current, wanted) in columns {
            if current == wanted {
                continue;
            }
            let row_name = self.row_name(row);
            let Some((column, wanted)) = self.value(table, row_name, name, wanted)? else {
                continue;
            };
            self.check_mutable(table, row, column)?;
            match column_change(column, &current, wanted) {
                ColumnChange::Set(wanted) => {
                    values.push((column, wanted));
                    self.guard(table, row, column, current);
                }
                ColumnChange::Mutate(difference) => mutations.extend(difference),
            }
        }
        let changes = !values.is_empty() || !mutations.is_empty();
        self.operations.set(table, row, values);
        self.merge_mutations(table, row, mutations)?;
        Ok(changes)
    }

    /// Changes a column of a row of any table relative to its value (RFC 7047 §5.1, `<mutation>`).
    ///
    /// # Errors
    /// The schema lacks the table or the column, the column's type does not allow the argument, or
    /// the column is immutable.
    pub fn mutate_row(
        &mut self,
        table: &str,
        row: Uuid,
        column: &str,
        mutator: Mutator,
        argument: Datum,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let schema = self.snapshot.schema().table(table);
        let Some(id) = schema.column_id(column) else {
            return if argument.is_empty() {
                Ok(())
            } else {
                Err(self.no_column_error(table, self.row_name(row), column, &argument))
            };
        };
        check_argument(mutator, &argument, schema.column_type(id)).map_err(|source| {
            self.value_error(table, self.row_name(row), id, argument.to_string(), source)
        })?;
        self.check_mutable(table, row, id)?;
        if argument.is_empty() {
            return Ok(());
        }
        let mutation = Mutation { column: id, mutator, argument };
        self.merge_mutations(table, row, vec![mutation])
    }

    /// Deletes a row of any table. The server deletes rows of non-root tables by itself when no row
    /// refers to them.
    ///
    /// # Errors
    /// The schema lacks the table.
    pub fn delete_row(&mut self, table: &str, row: Uuid) -> Result<(), BuildError> {
        let table = self.table(table)?;
        if self.operations.delete(table, row) {
            self.placeholders.remove(&row);
        }
        Ok(())
    }

    /// Appends a `select` that reads columns of a row with the changes of the transaction up to
    /// this point.
    pub(super) fn read_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let schema = self.snapshot.schema().table(table);
        let ids = columns.into_iter().filter_map(|name| schema.column_id(name));
        let select = Operation::Select {
            table,
            condition: Condition::uuid(row),
            columns: std::iter::once(ColumnId::UUID).chain(ids).collect(),
            sort: Vec::new(),
        };
        self.operations.push_read(table, row, select);
        Ok(())
    }

    /// Makes the transaction fail unless the client owns a lock (RFC 7047 §4.1.8, §5.2.10).
    pub fn assert_lock(&mut self, lock: impl Into<String>) {
        let lock = lock.into();
        self.operations.push(Operation::Assert { lock });
    }

    /// Adds a comment, which the server writes into its log (RFC 7047 §5.2.9).
    pub fn comment(&mut self, text: impl Into<String>) {
        self.operations.push(Operation::Comment(text.into()));
    }

    /// `true` if the transaction has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty_from(0) && self.guards().next().is_none()
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len() + self.guards().count()
    }

    fn guards(&self) -> impl Iterator<Item = &Operation> {
        self.sections.iter().flat_map(|section| &section.guards)
    }

    /// Finishes the transaction.
    #[must_use]
    pub fn finish(self) -> Transaction {
        let mut whole = Transaction {
            schema: self.snapshot.schema().clone(),
            operations: Vec::new(),
            placeholders: Arc::default(),
        };
        for section in self.finish_sections() {
            if whole.operations.is_empty() {
                whole = section;
            } else {
                whole.operations.extend(section.operations);
            }
        }
        whole
    }

    /// Finishes the transaction as one transaction for each section.
    pub(super) fn finish_sections(self) -> impl Iterator<Item = Transaction> {
        let schema = self.snapshot.schema().clone();
        let placeholders = Arc::new(self.placeholders);
        let ends: Vec<usize> = self
            .sections
            .iter()
            .skip(1)
            .map(|next| next.start)
            .chain([self.operations.end()])
            .collect();
        let mut places = self.operations.into_places();
        self.sections.into_iter().zip(ends).map(move |(section, end)| {
            let operations = places.by_ref().take(end - section.start).flatten();
            Transaction {
                schema: schema.clone(),
                operations: section.guards.into_iter().chain(operations).collect(),
                placeholders: placeholders.clone(),
            }
        })
    }

    /// Allows [`finish_split`](Self::finish_split) to split the transaction here, into two that are
    /// committed one after the other.
    pub fn allow_split(&mut self) {
        let last = self.sections.last().map_or(0, |last| last.start);
        if !self.operations.is_empty_from(last) {
            // Changes of the next section may be part of another request.
            self.operations.seal();
            let start = self.operations.end();
            let guards = Vec::new();
            self.sections.push(Section { guards, start });
        }
    }

    fn merge_mutations(
        &mut self,
        table: TableId,
        row: Uuid,
        mutations: Vec<Mutation>,
    ) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().clone();
        let merged = self.operations.mutate(&schema, table, row, mutations);
        merged.map_err(|(column, source)| {
            let value = "the result".to_owned();
            self.value_error(table, self.row_name(row), column, value, source)
        })
    }
}

/// Adds the column to each name and value. `None`: the schema lacks the column.
fn with_columns<'a>(
    schema: Arc<DatabaseSchema>,
    table: TableId,
    values: impl IntoIterator<Item = (&'a str, Datum)>,
) -> impl Iterator<Item = (&'a str, Option<ColumnId>, Datum)> {
    let values = values.into_iter();
    values.map(move |(name, datum)| (name, schema.table(table).column_id(name), datum))
}
