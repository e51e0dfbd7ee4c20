//! Execution of operations on an overlay (RFC 7047 §5.2).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::row::{Row, Values};
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{
    ColumnValues, Condition, DecodedTransaction, Mutation, Operation, Operations,
};
use uuid::Uuid;

use super::bulk_insert::insert_rows;
use super::execution::{Access, OperationResult, SelectedRows, ServerRelease};
use super::overlay::Overlay;
use super::references::RowId;
use super::snapshot::PARALLEL_MIN_CHANGES;
use super::write_attempt::WriteKind;

/// Least number of operations for which inserts are counted to reserve room for their rows. Growing
/// the tables of a shorter transaction costs less than the count.
const RESERVE_MIN_OPERATIONS: usize = 64;

/// Length of the text of a member without its name and value: `"":,`.
const MEMBER_LEN: usize = 4;
/// Length of the text of a UUID: `["uuid","550e8400-e29b-41d4-a716-446655440000"]`.
const UUID_LEN: usize = 47;
/// Number of elements from which a changed value shares most of its memory with the former one.
const LONG_VALUE_LEN: usize = 128;
/// Bytes of an element, or of a pair, of a value.
const ATOM_BYTES: usize = 2 * size_of::<Atom>();

/// Reason why an execution ended before its last operation.
pub(super) enum Stop {
    Error(OvsdbError),
    /// See [`Execution::Waiting`](super::Execution::Waiting).
    Waiting {
        deadline_ms: Option<u64>,
    },
}

impl From<OvsdbError> for Stop {
    fn from(error: OvsdbError) -> Self {
        Self::Error(error)
    }
}

/// Executes the operations of one transaction.
pub(super) struct Executor<'a, 'o> {
    pub(super) schema: &'a DatabaseSchema,
    pub(super) overlay: &'o mut Overlay<'a>,
    uuids: &'o mut UuidSource,
    pub(super) access: &'o Access<'o>,
    /// Smallest timeout of the `wait`s so far that has not passed, in milliseconds after the
    /// arrival of the request. Satisfied `wait`s count too.
    deadline_ms: Option<u64>,
    /// `true` if the operations may have to be executed again, because a `wait` may be unsatisfied.
    may_wait: bool,
    /// `true` if no two committed rows have one key of a unique index.
    has_unique_keys: bool,
    /// Bytes of the rows that were selected, of [`Access::selected_bytes`].
    selected_bytes: usize,
}

impl<'a, 'o> Executor<'a, 'o> {
    pub(super) fn new(
        schema: &'a DatabaseSchema,
        overlay: &'o mut Overlay<'a>,
        uuids: &'o mut UuidSource,
        access: &'o Access<'o>,
    ) -> Self {
        Self {
            schema,
            overlay,
            uuids,
            access,
            deadline_ms: None,
            may_wait: true,
            has_unique_keys: true,
            selected_bytes: 0,
        }
    }

    /// Finds rows without unique indexes. The copy of a database may lack columns, so that rows
    /// have equal keys in it.
    #[cfg(feature = "client")]
    pub(super) fn without_unique_keys(self) -> Self {
        Self { has_unique_keys: false, ..self }
    }

    /// Executes the operations and appends their results. Inserted rows are moved out of a
    /// transaction that cannot wait.
    ///
    /// # Errors
    /// An operation failed or a `wait` is not satisfied. `results` has the results before it.
    pub(super) fn run(
        &mut self,
        transaction: &mut DecodedTransaction,
        results: &mut Vec<OperationResult>,
    ) -> Result<(), Stop> {
        self.may_wait = transaction.may_wait();
        self.insert_leading(&mut transaction.operations, results)?;
        self.reserve(&transaction.operations);
        for operation in transaction.operations.iter_mut() {
            let result = self.execute_operation(operation)?;
            // ovsdb-server checks after executing the operation, so the operation's own error comes
            // first. The changes are dropped with the overlay.
            if let Some(reason) = self.access.read_only.filter(|_| !operation.is_read_only()) {
                let details = format!("{} operation {reason}", operation.name());
                return Err(OvsdbError::new("not allowed", details).into());
            }
            results.push(result);
        }
        match &transaction.failure {
            None => Ok(()),
            Some(failure) => {
                if let Some((table, uuid, text)) = &failure.given {
                    self.check_unique(*table, *uuid, Some(text))?;
                }
                Err(failure.error.clone().into())
            }
        }
    }

    /// Takes the inserts with which a long transaction begins, and executes them on several threads.
    fn insert_leading(
        &mut self,
        operations: &mut Operations,
        results: &mut Vec<OperationResult>,
    ) -> Result<(), OvsdbError> {
        let is_restricted = self.access.read_only.is_some() || self.access.rules.is_some();
        if self.may_wait || is_restricted {
            return Ok(());
        }
        let Some(inserts) = operations.take_leading_inserts(PARALLEL_MIN_CHANGES) else {
            return Ok(());
        };
        insert_rows(self.overlay, self.uuids, inserts, results).map_err(|taken| {
            results.truncate(taken.index);
            self.duplicate_uuid(taken.table, taken.uuid, taken.given.as_deref())
        })
    }

    /// Reserves room for the rows that the operations insert, if they are many.
    fn reserve(&mut self, operations: &Operations) {
        if operations.len() < RESERVE_MIN_OPERATIONS {
            return;
        }
        let mut inserts = vec![0; self.schema.tables.len()];
        for operation in operations {
            if let Operation::Insert { table, .. } = operation {
                inserts[table.index()] += 1;
            }
        }
        for (table, rows) in self.schema.table_ids().zip(inserts) {
            if rows > 0 {
                self.overlay.reserve(table, rows);
            }
        }
    }

    fn execute_operation(&mut self, operation: &mut Operation) -> Result<OperationResult, Stop> {
        Ok(match operation {
            Operation::Insert { table, uuid, given, row } => {
                self.check_unique(*table, *uuid, given.as_deref())?;
                let values =
                    if self.may_wait { row.clone().into_values() } else { row.take_values() };
                self.insert(*table, *uuid, values)?;
                OperationResult::Inserted(*uuid)
            }
            Operation::Select { table, condition, columns, sort } => {
                let rows = self.select(*table, condition, columns, sort);
                self.count_selected(*table, columns, &rows)?;
                OperationResult::Rows(Box::new(SelectedRows {
                    table: *table,
                    columns: columns.clone(),
                    rows,
                }))
            }
            Operation::Update { table, condition, row } => {
                let columns = row.iter().map(|(column, _)| *column);
                let matching =
                    self.writable_uuids(WriteKind::Update, *table, condition, columns)?;
                for uuid in &matching {
                    self.update(*table, *uuid, row);
                }
                OperationResult::Count(matching.len())
            }
            Operation::Mutate { table, condition, mutations } => {
                let columns = mutations.iter().map(|mutation| mutation.column);
                let matching =
                    self.writable_uuids(WriteKind::Mutate, *table, condition, columns)?;
                for uuid in &matching {
                    self.mutate(*table, *uuid, mutations)?;
                }
                OperationResult::Count(matching.len())
            }
            Operation::Delete { table, condition } => {
                let matching = self.writable_uuids(WriteKind::Delete, *table, condition, [])?;
                for uuid in &matching {
                    self.overlay.delete(*table, *uuid);
                }
                OperationResult::Count(matching.len())
            }
            Operation::Wait { table, timeout, condition, columns, equal, rows } => {
                let pending = timeout.filter(|timeout| *timeout > self.access.elapsed_ms);
                self.deadline_ms = self.deadline_ms.into_iter().chain(pending).min();
                if !self.is_satisfied(*table, condition, columns, *equal, rows) {
                    return Err(self.stop_at_wait(*timeout));
                }
                OperationResult::Empty
            }
            Operation::Commit { .. } | Operation::Comment(_) => OperationResult::Empty,
            Operation::Abort => return Err(OvsdbError::new("aborted", "aborted by request").into()),
            Operation::Assert { lock } if (self.access.owns_lock)(lock) => OperationResult::Empty,
            Operation::Assert { lock } => {
                return Err(OvsdbError::new(
                    "not owner",
                    format!("Asserted lock {lock} not held."),
                )
                .into());
            }
        })
    }

    /// Checks that a row with this UUID may be inserted. `given` is the text of a UUID that the
    /// client chose. UUIDs that the client did not choose may collide too if they come from a seed.
    fn check_unique(
        &self,
        table: TableId,
        uuid: Uuid,
        given: Option<&str>,
    ) -> Result<(), OvsdbError> {
        if self.overlay.may_insert(table, uuid) {
            return Ok(());
        }
        Err(self.duplicate_uuid(table, uuid, given))
    }

    fn duplicate_uuid(&self, table: TableId, uuid: Uuid, given: Option<&str>) -> OvsdbError {
        let details = if self.access.release < ServerRelease::V4_0 {
            "This UUID would duplicate a UUID already present within the table or deleted within the same \
             transaction."
                .to_owned()
        } else {
            let name = &self.schema.table(table).name;
            format!(
                "This UUID would duplicate a UUID already present within the \"{name}\" table or deleted from this \
                 table within the same transaction."
            )
        };
        let text = given.map_or_else(|| uuid.to_string(), str::to_owned);
        OvsdbError::new("duplicate uuid", details).with_syntax(&Json::string(text))
    }

    fn insert(&mut self, table: TableId, uuid: Uuid, values: Values) -> Result<(), OvsdbError> {
        let row = Row { uuid, version: self.uuids.next_uuid(), values };
        self.check_permitted(WriteKind::Insert, table, || vec![&row], [])?;
        self.overlay.insert(table, row);
        Ok(())
    }

    fn update(&mut self, table: TableId, uuid: Uuid, values: &ColumnValues) {
        if let Some(row) = self.overlay.modify(table, uuid) {
            for (column, datum) in values {
                if !column.is_implicit() {
                    row.values[*column] = datum.clone();
                }
            }
        }
    }

    fn mutate(
        &mut self,
        table: TableId,
        uuid: Uuid,
        mutations: &[Mutation],
    ) -> Result<(), OvsdbError> {
        let schema = self.schema.table(table);
        if let Some(row) = self.overlay.modify(table, uuid) {
            for mutation in mutations {
                mutation
                    .apply(&mut row.values[mutation.column], schema.column_type(mutation.column))?;
            }
        }
        Ok(())
    }

    pub(super) fn matching_rows(&self, table: TableId, condition: &Condition) -> Vec<&Arc<Row>> {
        let matches = |row: &&Arc<Row>| condition.matches_all(row);
        if let Some(uuid) = condition.as_uuid() {
            let row = self.overlay.get(table, uuid);
            return row.into_iter().filter(matches).collect();
        }
        if self.has_unique_keys
            && let Some(rows) = self.overlay.rows_by_key(table, condition)
        {
            return rows.filter(matches).collect();
        }
        self.overlay.rows(table).filter(matches).collect()
    }

    fn select(
        &self,
        table: TableId,
        condition: &Condition,
        columns: &[ColumnId],
        sort: &[ColumnId],
    ) -> Vec<Arc<Row>> {
        let mut rows: Vec<Arc<Row>> =
            self.matching_rows(table, condition).into_iter().cloned().collect();
        if !sort.is_empty() {
            rows.sort_by(|a, b| {
                let order = |column: &ColumnId| a.get(*column).cmp(&b.get(*column));
                sort.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            });
        }
        if !columns.contains(&ColumnId::UUID) {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(project(row, columns)));
        }
        rows
    }

    /// Counts the rows of a `select`, which stay in memory until the reply is encoded.
    ///
    /// # Errors
    /// The rows of the transaction need more bytes than they may.
    fn count_selected(
        &mut self,
        table: TableId,
        columns: &[ColumnId],
        rows: &[Arc<Row>],
    ) -> Result<(), OvsdbError> {
        let schema = self.schema.table(table);
        let texts = columns.iter().map(|column| {
            let value = if column.is_implicit() { UUID_LEN } else { 1 };
            MEMBER_LEN + schema.column_name(*column).len() + value
        });
        let least = size_of::<Arc<Row>>().max(texts.sum());
        let mut bytes = rows.len().saturating_mul(least);
        if self.overlay.has_touched(table) {
            let own = rows
                .iter()
                .filter(|row| self.overlay.touched(RowId::new(table, row.uuid)).is_some());
            bytes += own.map(|row| row_bytes(row)).sum::<usize>();
        }
        self.selected_bytes = self.selected_bytes.saturating_add(bytes);
        let limit = self.access.selected_bytes;
        if self.selected_bytes <= limit {
            return Ok(());
        }
        let details = format!(
            "the rows that a transaction selects may not have more than {limit} bytes together"
        );
        Err(OvsdbError::new("resources exhausted", details))
    }

    /// `true` if a `wait` is satisfied: the matching rows are the expected ones (`equal`), or are
    /// not.
    fn is_satisfied(
        &self,
        table: TableId,
        condition: &Condition,
        columns: &[ColumnId],
        equal: bool,
        rows: &[ColumnValues],
    ) -> bool {
        let found: HashSet<Vec<Datum>> = self
            .matching_rows(table, condition)
            .into_iter()
            .map(|row| project(row, columns))
            .collect();
        let schema = self.schema.table(table);
        let expected: HashSet<Vec<Datum>> = rows
            .iter()
            .map(|values| {
                let column = |column: &ColumnId| {
                    let given = values.iter().find(|(have, _)| have == column);
                    given.map_or_else(
                        || schema.column_type(*column).default_datum(),
                        |(_, datum)| datum.clone(),
                    )
                };
                columns.iter().map(column).collect()
            })
            .collect();
        (found == expected) == equal
    }

    /// Reason to stop at a `wait` that is not satisfied: it waits, or it has timed out.
    fn stop_at_wait(&self, timeout: Option<u64>) -> Stop {
        let elapsed = self.access.elapsed_ms;
        if timeout.is_none_or(|timeout| elapsed < timeout) {
            return Stop::Waiting { deadline_ms: self.deadline_ms };
        }
        let details = if elapsed == 0 {
            "\"where\" clause test failed".to_owned()
        } else {
            format!("\"wait\" timed out after {elapsed} ms")
        };
        OvsdbError::new("timed out", details).into()
    }
}

/// The bytes of a version of a row beside what it shares with other versions: of a long value, which
/// is a tree, a few nodes.
fn row_bytes(row: &Row) -> usize {
    let value = |value: &Datum| size_of::<Datum>() + value.len().min(LONG_VALUE_LEN) * ATOM_BYTES;
    size_of::<Row>() + row.values.iter().map(value).sum::<usize>()
}

/// Values of some columns of a row.
fn project(row: &Row, columns: &[ColumnId]) -> Vec<Datum> {
    columns.iter().map(|column| row.get(*column).into_owned()).collect()
}
