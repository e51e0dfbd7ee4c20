//! The builder: changes to rows of any table, by names and values. The typed ones are made of these.

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

use super::error::RowName;
use super::merge::Operations;
use super::typed::TypedColumns;
use super::upsert::InsertedKeys;
use super::value::{Step, check_argument, step};
use super::{BuildError, Transaction};

/// Collects changes to rows.
///
/// Changes to one row become one operation each of the kinds that it takes, however often the row is changed. Each change
/// is made to what the ones before have left, in whatever ways they were asked for.
///
/// ```
/// use patchbay_engine::db::Snapshot;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
///
/// let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
/// let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
/// let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
/// txn.add(router, LogicalRouter::PORTS, [port])?;
/// txn.put(router, LogicalRouter::OPTIONS, [("chassis", "node1")])?;
/// assert_eq!(txn.finish().operations().len(), 2);
/// # Ok::<(), patchbay_engine::txn::BuildError>(())
/// ```
#[derive(Debug)]
pub struct TxnBuilder {
    pub(super) snapshot: Snapshot,
    pub(super) operations: Operations,
    /// Where the transaction may be split, one ends and the next begins; there is always one.
    pub(super) sections: Vec<Section>,
    pub(super) placeholders: HashSet<Uuid, RandomState>,
    uuids: UuidSource,
    /// Whether changes are guarded.
    pub(super) guarding: bool,
    /// Columns whose value is waited for already.
    pub(super) guarded: HashSet<(TableId, Uuid, ColumnId), RandomState>,
    /// What was found out of the types of rows so far.
    pub(super) typed: HashMap<TypeId, (TableId, TypedColumns), RandomState>,
    /// The rows that the transaction inserts, as far as upserts have looked for them.
    pub(super) inserted: HashMap<IndexSpec, InsertedKeys, RandomState>,
}

/// What may not be split.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Come first, because they are about what was before.
    pub(super) guards: Vec<Operation>,
    /// The place of its first operation.
    pub(super) start: usize,
}

impl TxnBuilder {
    /// An empty transaction for the database that the snapshot is of.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self::with_uuids(snapshot, UuidSource::random())
    }

    /// Like [`new`](Self::new), placeholders taken from `uuids`. An embedded database keeps them as the rows' UUIDs.
    pub fn with_uuids(snapshot: &Snapshot, uuids: UuidSource) -> Self {
        Self {
            snapshot: snapshot.clone(),
            operations: Operations::default(),
            sections: vec![Section::default()],
            placeholders: HashSet::default(),
            uuids,
            guarding: false,
            guarded: HashSet::default(),
            typed: HashMap::default(),
            inserted: HashMap::default(),
        }
    }

    /// The snapshot that the changes are made from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Inserts a row of any table. What is not given gets its default.
    ///
    /// # Errors
    /// The database's schema cannot express the row.
    pub fn insert_row<'a>(
        &mut self,
        table: &str,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<Uuid, BuildError> {
        let table = self.table(table)?;
        let values = by_column(self.snapshot.schema().clone(), table, values);
        self.insert_new(table, values)
    }

    /// Inserts a row of any table with a UUID that the caller has chosen. A second row of the same UUID is refused, so
    /// the insertion can be repeated when it is not known whether the first one was executed.
    ///
    /// # Errors
    /// The database's schema cannot express the row.
    pub fn insert_row_as<'a>(
        &mut self,
        uuid: Uuid,
        table: &str,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let values = by_column(self.snapshot.schema().clone(), table, values);
        self.insert_values(table, uuid, Some(uuid.to_string()), values)
    }

    /// Inserts a row under a placeholder.
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
            if ty.is_some_and(|ty| ty.is_nothing(&datum)) {
                return Some(None);
            }
            let value = self.checked(table, RowName::New, (name, column), datum);
            value.map_err(|error| refused = Some(error)).ok()
        });
        let is_default = |column, datum: &Datum| schema.column_type(column).is_default(datum);
        let values = values
            .flatten()
            .filter(|(column, datum)| !is_default(*column, datum));
        let row = InsertRow::like(schema, values, self.operations.last_insert(table));
        if let Some(error) = refused {
            return Err(error);
        }
        self.operations.insert(table, uuid, given, row);
        Ok(())
    }

    /// Returns a placeholder for a row that [`insert_reserved`](Self::insert_reserved) inserts later: other rows may
    /// refer to it before.
    pub fn reserve(&mut self) -> Uuid {
        self.uuids.next_uuid()
    }

    /// Inserts a row of any table under a placeholder that [`reserve`](Self::reserve) has returned. Each value comes with
    /// the name of its column and the column's place in the database; `None`: the schema has no such column.
    ///
    /// # Errors
    /// The database's schema cannot express the row.
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

    /// Gives columns of a row of any table new values, as they are.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn set_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let mut set = ColumnValues::new();
        for (name, datum) in values {
            if let Some((column, datum)) = self.value(table, self.name(row), name, datum)? {
                self.may_change(table, row, column)?;
                let current = self.snapshot.row(table, row);
                if let Some(current) = current.map(|row| row.get(column).into_owned()) {
                    self.guard(table, row, column, current);
                }
                set.push((column, datum));
            }
        }
        self.operations.set(table, row, set);
        Ok(())
    }

    /// Makes columns of a row that are not what is wanted, what is wanted: each `(name, current, wanted)`. Of long sets
    /// and maps only the difference is sent. False when nothing differs.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
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
            let Some((column, wanted)) = self.value(table, self.name(row), name, wanted)? else {
                continue;
            };
            self.may_change(table, row, column)?;
            match step(column, &current, wanted) {
                Step::Set(wanted) => {
                    values.push((column, wanted));
                    self.guard(table, row, column, current);
                }
                Step::Mutate(difference) => mutations.extend(difference),
            }
        }
        let changes = !values.is_empty() || !mutations.is_empty();
        self.operations.set(table, row, values);
        self.mutate_checked(table, row, mutations)?;
        Ok(changes)
    }

    /// Changes a column of a row of any table relative to what it holds.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
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
                Err(self.no_column(table, self.name(row), column, &argument))
            };
        };
        check_argument(mutator, &argument, schema.column_type(id)).map_err(|source| {
            self.refused(table, self.name(row), id, argument.to_string(), source)
        })?;
        self.may_change(table, row, id)?;
        if argument.is_empty() {
            return Ok(());
        }
        let mutation = Mutation {
            column: id,
            mutator,
            argument,
        };
        self.mutate_checked(table, row, vec![mutation])
    }

    /// Deletes a row of any table. Rows of tables that are not root go by themselves when nothing refers to them.
    ///
    /// # Errors
    /// The database's schema has no such table.
    pub fn delete_row(&mut self, table: &str, row: Uuid) -> Result<(), BuildError> {
        let table = self.table(table)?;
        if self.operations.delete(table, row) {
            self.placeholders.remove(&row);
        }
        Ok(())
    }

    /// Reads columns of a row as they are when the transaction comes to this point, with its own changes so far. Returns
    /// the place of the result.
    pub(super) fn read_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let schema = self.snapshot.schema().table(table);
        let ids = columns
            .into_iter()
            .filter_map(|name| schema.column_id(name));
        let select = Operation::Select {
            table,
            condition: Condition::uuid(row),
            columns: std::iter::once(ColumnId::UUID).chain(ids).collect(),
            sort: Vec::new(),
        };
        self.operations.push_read(table, row, select);
        Ok(())
    }

    /// Makes the whole transaction fail unless the client owns this lock (RFC 7047 §4.1.8, §5.2.10).
    pub fn assert_lock(&mut self, lock: impl Into<String>) {
        let lock = lock.into();
        self.operations.push(Operation::Assert { lock });
    }

    /// Adds a text that ends up in the server's log.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.operations.push(Operation::Comment(text.into()));
    }

    /// Whether nothing was collected.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty_from(0) && self.guards().next().is_none()
    }

    /// How many operations were collected.
    pub fn len(&self) -> usize {
        self.operations.len() + self.guards().count()
    }

    fn guards(&self) -> impl Iterator<Item = &Operation> {
        self.sections.iter().flat_map(|section| &section.guards)
    }

    /// The transaction.
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

    /// The parts that may not be split, each as a transaction of its own.
    pub(super) fn finish_sections(self) -> impl Iterator<Item = Transaction> {
        let schema = self.snapshot.schema().clone();
        let placeholders = Arc::new(self.placeholders);
        let ends = self.sections.iter().skip(1).map(|next| next.start);
        let ends: Vec<usize> = ends.chain([self.operations.end()]).collect();
        let mut places = self.operations.into_places();
        self.sections
            .into_iter()
            .zip(ends)
            .map(move |(section, end)| {
                let operations = places.by_ref().take(end - section.start).flatten();
                Transaction {
                    schema: schema.clone(),
                    operations: section.guards.into_iter().chain(operations).collect(),
                    placeholders: placeholders.clone(),
                }
            })
    }

    /// The transaction may be split here, into two that are committed one after the other; see
    /// [`finish_split`](Self::finish_split).
    pub fn allow_split(&mut self) {
        let last = self.sections.last().map_or(0, |last| last.start);
        if !self.operations.is_empty_from(last) {
            // What comes is another request.
            self.operations.seal();
            let start = self.operations.end();
            let guards = Vec::new();
            self.sections.push(Section { guards, start });
        }
    }

    fn mutate_checked(
        &mut self,
        table: TableId,
        row: Uuid,
        mutations: Vec<Mutation>,
    ) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().clone();
        let joined = self.operations.mutate(&schema, table, row, mutations);
        joined.map_err(|(column, source)| {
            let value = "the result".to_owned();
            self.refused(table, self.name(row), column, value, source)
        })
    }
}

/// Looks columns up.
fn by_column<'a>(
    schema: Arc<DatabaseSchema>,
    table: TableId,
    values: impl IntoIterator<Item = (&'a str, Datum)>,
) -> impl Iterator<Item = (&'a str, Option<ColumnId>, Datum)> {
    let values = values.into_iter();
    values.map(move |(name, datum)| (name, schema.table(table).column_id(name), datum))
}
