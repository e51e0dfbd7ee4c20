//! Executes operations on an overlay (RFC 7047 §5.2).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::row::{Row, Values};
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{ColumnValues, Condition, DecodedTransaction, Mutation, Operation};
use uuid::Uuid;

use super::change::ChangeSet;
use super::overlay::Overlay;

/// From so many operations on it is worth counting them first.
const MANY_OPERATIONS: usize = 64;

/// What the sender of a transaction may do, and how long it has been waiting.
pub struct Access<'a> {
    /// Why writing is refused: the text that follows `insert operation `.
    pub read_only: Option<&'a str>,
    /// Whether the sender owns a lock.
    pub owns_lock: &'a dyn Fn(&str) -> bool,
    /// Milliseconds since the request arrived.
    pub elapsed: u64,
}

impl Access<'_> {
    /// May write, owns no locks, has just arrived.
    pub fn unrestricted() -> Self {
        Self {
            read_only: None,
            owns_lock: &|_| false,
            elapsed: 0,
        }
    }
}

/// What became of a transaction.
#[derive(Debug)]
pub enum Execution {
    /// All operations succeeded and the changes are published.
    Committed {
        /// One result per operation.
        results: Vec<OperationResult>,
        /// What changed; empty when nothing did.
        changes: ChangeSet,
    },
    /// An operation failed, or the commit did (then there are as many results as operations). Nothing changed.
    Failed {
        /// The results of the operations before the failure.
        results: Vec<OperationResult>,
        /// The failure.
        error: OvsdbError,
    },
    /// A `wait` is not satisfied. Nothing changed; try again after the next change, or when the time is over.
    Blocked {
        /// Milliseconds after the arrival of the request; none waits for ever.
        deadline: Option<u64>,
    },
}

/// The result of one operation.
#[derive(Clone, Debug)]
pub enum OperationResult {
    /// Of `insert`: the new row.
    Inserted(Uuid),
    /// Of `update`, `mutate` and `delete`: how many rows matched.
    Count(usize),
    /// Of `select`.
    Rows {
        /// Their table.
        table: TableId,
        /// The columns that were asked for.
        columns: Vec<ColumnId>,
        /// The rows, whole.
        rows: Vec<Arc<Row>>,
    },
    /// Of `wait`, `commit`, `comment` and `assert`.
    Nothing,
}

/// What ends the execution before its end.
pub(super) enum Stop {
    Error(OvsdbError),
    Blocked { deadline: Option<u64> },
}

impl From<OvsdbError> for Stop {
    fn from(error: OvsdbError) -> Self {
        Self::Error(error)
    }
}

pub(super) struct Executor<'a, 'o> {
    pub(super) schema: &'a DatabaseSchema,
    pub(super) overlay: &'o mut Overlay<'a>,
    pub(super) uuids: &'o mut UuidSource,
    pub(super) access: &'o Access<'o>,
    /// The smallest timeout of the `wait`s so far that is not over, satisfied ones included.
    deadline: Option<u64>,
    /// Whether the same operations may have to be executed again.
    may_block: bool,
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
            deadline: None,
            may_block: true,
        }
    }

    /// Executes the operations. The rows to insert are moved out of a transaction that cannot block.
    pub(super) fn run(
        &mut self,
        transaction: &mut DecodedTransaction,
        results: &mut Vec<OperationResult>,
    ) -> Result<(), Stop> {
        self.reserve(&transaction.operations);
        self.may_block = transaction.may_wait();
        for operation in &mut transaction.operations {
            let result = self.operation(operation)?;
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

    /// Makes room for many inserted rows at once.
    fn reserve(&mut self, operations: &[Operation]) {
        if operations.len() < MANY_OPERATIONS {
            return;
        }
        let mut inserts = vec![0; self.schema.tables.len()];
        for operation in operations {
            if let Operation::Insert { table, .. } = operation {
                inserts[table.index()] += 1;
            }
        }
        for (table, rows) in self.schema.table_ids().zip(inserts) {
            self.overlay.reserve(table, rows);
        }
    }

    fn operation(&mut self, operation: &mut Operation) -> Result<OperationResult, Stop> {
        Ok(match operation {
            Operation::Insert {
                table,
                uuid,
                given,
                row,
            } => {
                self.check_unique(*table, *uuid, given.as_deref())?;
                let values = if self.may_block {
                    row.clone().into_values()
                } else {
                    row.take_values()
                };
                self.insert(*table, *uuid, values);
                OperationResult::Inserted(*uuid)
            }
            Operation::Select {
                table,
                condition,
                columns,
                sort,
            } => OperationResult::Rows {
                table: *table,
                columns: columns.clone(),
                rows: self.select(*table, condition, columns, sort),
            },
            Operation::Update {
                table,
                condition,
                row,
            } => {
                let matching = self.matching(*table, condition);
                for uuid in &matching {
                    self.update(*table, *uuid, row);
                }
                OperationResult::Count(matching.len())
            }
            Operation::Mutate {
                table,
                condition,
                mutations,
            } => {
                let matching = self.matching(*table, condition);
                for uuid in &matching {
                    self.mutate(*table, *uuid, mutations)?;
                }
                OperationResult::Count(matching.len())
            }
            Operation::Delete { table, condition } => {
                let matching = self.matching(*table, condition);
                for uuid in &matching {
                    self.overlay.delete(*table, *uuid);
                }
                OperationResult::Count(matching.len())
            }
            Operation::Wait {
                table,
                timeout,
                condition,
                columns,
                equal,
                rows,
            } => {
                let pending = timeout.filter(|timeout| *timeout > self.access.elapsed);
                self.deadline = self.deadline.into_iter().chain(pending).min();
                if !self.is_satisfied(*table, condition, columns, *equal, rows) {
                    return Err(self.unsatisfied(*timeout));
                }
                OperationResult::Nothing
            }
            Operation::Commit { .. } | Operation::Comment(_) => OperationResult::Nothing,
            Operation::Abort => return Err(OvsdbError::new("aborted", "aborted by request").into()),
            Operation::Assert { lock } if (self.access.owns_lock)(lock) => OperationResult::Nothing,
            Operation::Assert { lock } => {
                return Err(OvsdbError::new(
                    "not owner",
                    format!("Asserted lock {lock} not held."),
                )
                .into());
            }
        })
    }

    /// Whether a row of this UUID may be inserted; `given` is how a client chose it. An embedded database's user may take
    /// UUIDs from a seed, which can come again.
    fn check_unique(
        &self,
        table: TableId,
        uuid: Uuid,
        given: Option<&str>,
    ) -> Result<(), OvsdbError> {
        if self.overlay.may_insert(table, uuid) {
            return Ok(());
        }
        let details = "This UUID would duplicate a UUID already present within the table or deleted within the same \
                       transaction.";
        let text = given.map_or_else(|| uuid.to_string(), str::to_owned);
        Err(OvsdbError::new("duplicate uuid", details).with_syntax(&Json::string(text)))
    }

    fn insert(&mut self, table: TableId, uuid: Uuid, values: Values) {
        let row = Row {
            uuid,
            version: self.uuids.next_uuid(),
            values,
        };
        self.overlay.insert(table, row);
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
                mutation.apply(
                    &mut row.values[mutation.column],
                    schema.column_type(mutation.column),
                )?;
            }
        }
        Ok(())
    }

    fn matching_rows(&self, table: TableId, condition: &Condition) -> Vec<&Arc<Row>> {
        match condition.as_uuid() {
            Some(uuid) => self
                .overlay
                .get(table, uuid)
                .into_iter()
                .filter(|row| condition.matches_all(row))
                .collect(),
            None => self
                .overlay
                .rows(table)
                .filter(|row| condition.matches_all(row))
                .collect(),
        }
    }

    fn matching(&self, table: TableId, condition: &Condition) -> Vec<Uuid> {
        self.matching_rows(table, condition)
            .into_iter()
            .map(|row| row.uuid)
            .collect()
    }

    fn select(
        &self,
        table: TableId,
        condition: &Condition,
        columns: &[ColumnId],
        sort: &[ColumnId],
    ) -> Vec<Arc<Row>> {
        let mut rows: Vec<Arc<Row>> = self
            .matching_rows(table, condition)
            .into_iter()
            .cloned()
            .collect();
        if !sort.is_empty() {
            rows.sort_by(|a, b| {
                let order = |column: &ColumnId| a.get(*column).cmp(&b.get(*column));
                sort.iter()
                    .map(order)
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            });
        }
        if !columns.contains(&ColumnId::UUID) {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(project(row, columns)));
        }
        rows
    }

    /// Whether the matching rows are, or are not, the expected ones.
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
                    let said = values.iter().find(|(have, _)| have == column);
                    said.map_or_else(
                        || schema.column_type(*column).default_datum(),
                        |(_, datum)| datum.clone(),
                    )
                };
                columns.iter().map(column).collect()
            })
            .collect();
        (found == expected) == equal
    }

    /// What becomes of a transaction with a `wait` that is not satisfied.
    fn unsatisfied(&self, timeout: Option<u64>) -> Stop {
        let elapsed = self.access.elapsed;
        if timeout.is_none_or(|timeout| elapsed < timeout) {
            return Stop::Blocked {
                deadline: self.deadline,
            };
        }
        let details = if elapsed == 0 {
            "\"where\" clause test failed".to_owned()
        } else {
            format!("\"wait\" timed out after {elapsed} ms")
        };
        OvsdbError::new("timed out", details).into()
    }
}

fn project(row: &Row, columns: &[ColumnId]) -> Vec<Datum> {
    columns
        .iter()
        .map(|column| row.get(*column).into_owned())
        .collect()
}
