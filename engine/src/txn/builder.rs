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

use crate::db::Snapshot;

use super::error::RowName;
use super::merge::Operations;
use super::typed::TypedColumns;
use super::value::{Step, check, check_argument, is_default, step};
use super::{BuildError, Transaction};

/// Collects changes to rows.
///
/// Changes to one row become one operation each of the kinds that it takes, however often the row is changed.
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
    /// Where the transaction may be split, one ends and the next begins.
    pub(super) sections: Vec<Section>,
    placeholders: HashSet<Uuid, RandomState>,
    uuids: UuidSource,
    guarding: bool,
    /// Columns whose value is waited for already.
    guarded: HashSet<(TableId, Uuid, ColumnId), RandomState>,
    /// What was found out of the types of rows so far.
    pub(super) typed: HashMap<TypeId, (TableId, TypedColumns), RandomState>,
}

/// What may not be split.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Come first, because they are about what was before.
    guards: Vec<Operation>,
    operations: Operations,
}

impl Section {
    pub(super) fn into_list(self) -> impl Iterator<Item = Operation> {
        self.guards.into_iter().chain(self.operations.into_list())
    }
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
            sections: vec![Section::default()],
            placeholders: HashSet::default(),
            uuids,
            guarding: false,
            guarded: HashSet::default(),
            typed: HashMap::default(),
        }
    }

    /// From here on, each column that is changed from what it is in the snapshot must still be that when the transaction
    /// is executed. Otherwise the whole transaction is refused, see [`OpError::is_conflict`], and nobody's change is
    /// lost: compute it anew from a newer snapshot.
    ///
    /// Elements that are added and removed need no guard: such changes do not overwrite each other.
    ///
    /// [`OpError::is_conflict`]: crate::client::OpError::is_conflict
    ///
    /// ```
    /// # use patchbay_engine::db::Database;
    /// # use patchbay_engine::txn::TxnBuilder;
    /// # use patchbay_schemas::nb::{self, LogicalRouter};
    /// # let mut database = Database::new(nb::schema());
    /// # let mut txn = TxnBuilder::new(&database.snapshot());
    /// # let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
    /// # database.transact(txn.finish().operations())?;
    /// let seen = database.snapshot();
    /// let mut ours = TxnBuilder::new(&seen);
    /// ours.guard_changes();
    /// ours.set(router, LogicalRouter::ENABLED, Some(false))?;
    /// let mut others = TxnBuilder::new(&seen);
    /// others.set(router, LogicalRouter::ENABLED, Some(true))?;
    ///
    /// database.transact(others.finish().operations())?;
    /// assert!(database.transact(ours.finish().operations()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guard_changes(&mut self) {
        self.guarding = true;
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
        let uuid = self.uuids.next_uuid();
        self.insert_values(table, uuid, None, values)?;
        self.placeholders.insert(uuid);
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
        let like = self
            .sections
            .last()
            .and_then(|section| section.operations.last_insert(table));
        let row = InsertRow::like(schema, values, like);
        if let Some(error) = refused {
            return Err(error);
        }
        self.operations().insert(table, uuid, given, row);
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
        self.operations().set(table, row, set);
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
        self.operations().set(table, row, values);
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
        if self.operations().delete(table, row) {
            self.placeholders.remove(&row);
        }
        Ok(())
    }

    /// Makes the whole transaction fail unless columns of a row hold these values when it comes to this point.
    ///
    /// # Errors
    /// The database's schema cannot express a value.
    pub fn expect_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let mut expected = ColumnValues::new();
        for (name, datum) in values {
            expected.extend(self.value(table, self.name(row), name, datum)?);
        }
        if !expected.is_empty() {
            let wait = wait(table, Condition::uuid(row), Some(expected));
            self.operations().push_read(table, row, wait);
        }
        Ok(())
    }

    /// Makes the whole transaction fail if a row satisfies a condition when it comes to this point: to insert a row only
    /// if there is none like it, whatever others do meanwhile.
    ///
    /// # Errors
    /// The database's schema has no such table.
    pub fn expect_no_row(&mut self, table: &str, condition: Condition) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let wait = wait(table, condition, None);
        // Which rows it reads is not known before: what changes them afterwards must come after it.
        let operations = self.operations();
        operations.seal();
        operations.push(wait);
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
        self.operations().push_read(table, row, select);
        Ok(())
    }

    /// Makes the whole transaction fail unless the client owns this lock (RFC 7047 §4.1.8, §5.2.10).
    pub fn assert_lock(&mut self, lock: impl Into<String>) {
        let lock = lock.into();
        self.operations().push(Operation::Assert { lock });
    }

    /// Adds a text that ends up in the server's log.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.operations().push(Operation::Comment(text.into()));
    }

    /// Whether nothing was collected.
    pub fn is_empty(&self) -> bool {
        let empty = |section: &Section| section.guards.is_empty() && section.operations.is_empty();
        self.sections.iter().all(empty)
    }

    /// How many operations were collected.
    pub fn len(&self) -> usize {
        let len = |section: &Section| section.guards.len() + section.operations.len();
        self.sections.iter().map(len).sum()
    }

    /// The transaction.
    #[must_use]
    pub fn finish(self) -> Transaction {
        Transaction {
            schema: self.snapshot.schema().clone(),
            operations: self
                .sections
                .into_iter()
                .flat_map(Section::into_list)
                .collect(),
            placeholders: Arc::new(self.placeholders),
        }
    }

    /// The parts that may not be split, each as a transaction of its own.
    pub(super) fn finish_sections(self) -> impl Iterator<Item = Transaction> {
        let schema = self.snapshot.schema().clone();
        let placeholders = Arc::new(self.placeholders);
        self.sections.into_iter().map(move |section| Transaction {
            schema: schema.clone(),
            operations: section.into_list().collect(),
            placeholders: placeholders.clone(),
        })
    }

    /// The transaction may be split here, into two that are committed one after the other; see
    /// [`finish_split`](Self::finish_split).
    pub fn allow_split(&mut self) {
        if !self
            .sections
            .last()
            .is_none_or(|last| last.operations.is_empty())
        {
            self.sections.push(Section::default());
        }
    }

    /// What collects at the moment.
    pub(super) fn operations(&mut self) -> &mut Operations {
        &mut self.section().operations
    }

    fn section(&mut self) -> &mut Section {
        if self.sections.is_empty() {
            self.sections.push(Section::default());
        }
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    fn mutate_checked(
        &mut self,
        table: TableId,
        row: Uuid,
        mutations: Vec<Mutation>,
    ) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().clone();
        let joined = self.operations().mutate(&schema, table, row, mutations);
        joined.map_err(|(column, source)| {
            let value = "the result".to_owned();
            self.refused(table, self.name(row), column, value, source)
        })
    }

    /// Lets the transaction fail unless a column still holds what it is changed from.
    fn guard(&mut self, table: TableId, row: Uuid, column: ColumnId, current: Datum) {
        if self.guarding
            && !self.placeholders.contains(&row)
            && !self.section().operations.is_inserted(table, row)
            && self.guarded.insert((table, row, column))
        {
            let expected = Some(vec![(column, current)]);
            let wait = wait(table, Condition::uuid(row), expected);
            self.section().guards.push(wait);
        }
    }

    /// Whether the transaction makes a row or it is there already.
    pub(super) fn name(&self, row: Uuid) -> RowName {
        if self.placeholders.contains(&row) {
            RowName::New
        } else {
            RowName::Existing(row)
        }
    }

    pub(super) fn table(&self, name: &str) -> Result<TableId, BuildError> {
        let schema = self.snapshot.schema();
        schema.table_id(name).ok_or_else(|| BuildError::NoTable {
            database: schema.name.clone(),
            table: name.to_owned(),
        })
    }

    /// A value that the schema can hold; none for a default value of a column that the schema lacks.
    fn value(
        &self,
        table: TableId,
        row: RowName,
        column: &str,
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let id = self.snapshot.schema().table(table).column_id(column);
        self.checked(table, row, (column, id), datum)
    }

    /// The same of a column that was looked up.
    fn checked(
        &self,
        table: TableId,
        row: RowName,
        (column, id): (&str, Option<ColumnId>),
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let schema = self.snapshot.schema().table(table);
        let Some(id) = id else {
            return if is_default(&datum) {
                Ok(None)
            } else {
                Err(self.no_column(table, row, column, &datum))
            };
        };
        match check(&datum, schema.column_type(id)) {
            Ok(()) => Ok(Some((id, datum))),
            Err(source) => Err(self.refused(table, row, id, datum.to_string(), source)),
        }
    }

    /// Whether a column may be changed after its row was inserted.
    fn may_change(&self, table: TableId, row: Uuid, column: ColumnId) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().table(table);
        let inserted = |section: &Section| section.operations.is_inserted(table, row);
        if schema.is_mutable(column) || self.sections.last().is_some_and(inserted) {
            return Ok(());
        }
        Err(BuildError::Immutable {
            table: schema.name.to_string(),
            column: schema.column_name(column).to_owned(),
            row: self.name(row),
        })
    }

    fn no_column(&self, table: TableId, row: RowName, column: &str, datum: &Datum) -> BuildError {
        let schema = self.snapshot.schema();
        BuildError::NoColumn {
            database: schema.name.clone(),
            table: schema.table(table).name.to_string(),
            column: column.to_owned(),
            value: datum.to_string(),
            row,
        }
    }

    fn refused(
        &self,
        table: TableId,
        row: RowName,
        column: ColumnId,
        value: String,
        source: patchbay_schemas::error::OvsdbError,
    ) -> BuildError {
        let schema: &DatabaseSchema = self.snapshot.schema();
        let table = schema.table(table);
        BuildError::Value {
            table: table.name.to_string(),
            column: table.column_name(column).to_owned(),
            value,
            row,
            source: Box::new(source),
        }
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

/// Waits not at all, until a row is as expected; without a row, until there is none.
fn wait(table: TableId, condition: Condition, expected: Option<ColumnValues>) -> Operation {
    let columns = expected.iter().flatten().map(|(column, _)| *column);
    Operation::Wait {
        table,
        timeout: Some(0),
        condition,
        columns: columns.collect(),
        equal: true,
        rows: expected.into_iter().collect(),
    }
}
