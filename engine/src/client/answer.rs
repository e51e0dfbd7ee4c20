//! Reads the answer to a transaction.

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, ColumnType, DatabaseSchema, TableSchema};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{Message, NotationReader, Operation, Reply};

use uuid::Uuid;

use crate::db::OperationResult;
use crate::txn::Transaction;

use super::error::{SessionError, reply_error, unexpected};
use super::outcome::{Committed, FailedOperation, OpError};

/// The error of requests that the server gives up because the database goes or gets another schema.
const CANCELED: &str = "canceled";

/// Decodes the reply to a request for one transaction or for several together: what became of each, or why none was made.
/// One that is guarded has an operation more at its beginning and one at its end.
pub(super) fn decode<'a>(
    transactions: impl Iterator<Item = &'a Transaction>,
    guarded: bool,
    reply: &TextBuf,
) -> Result<Result<Vec<Committed>, OpError>, SessionError> {
    let Message::Reply(Reply { outcome, .. }) = Message::decode(reply)? else {
        return Err(malformed("not a reply"));
    };
    let mut at = match outcome {
        Ok(results) => results,
        Err(error) => {
            let error = reply_error(error);
            if error.tag == CANCELED {
                // It was under way already and, in a cluster, may be made yet.
                return Err(SessionError::Canceled);
            }
            return Ok(Err(of_no_operation(error)));
        }
    };
    if !at.enter_array() {
        return Err(malformed("not an array"));
    }
    if guarded {
        if !at.next_element() {
            return Err(malformed("it has fewer results than operations"));
        }
        if error_object(at).is_some() {
            return Err(SessionError::GuardLost);
        }
        at.skip();
    }
    let mut strings = StringCache::default();
    let mut all_committed = Vec::with_capacity(1);
    for transaction in transactions {
        match decode_transaction(&mut at, transaction, &mut strings)? {
            Ok(committed) => all_committed.push(committed),
            Err(error) => return Ok(Err(error)),
        }
    }
    if guarded {
        // The mark.
        if !at.next_element() {
            return Err(malformed("it has fewer results than operations"));
        }
        if let Some(error) = error_object(at) {
            return Ok(Err(of_no_operation(error)));
        }
        at.skip();
    }
    if !at.next_element() {
        return Ok(Ok(all_committed));
    }
    match error_object(at) {
        // Of the commit.
        Some(error) => Ok(Err(of_no_operation(error))),
        None => Err(malformed("it has more results than operations")),
    }
}

/// Decodes the results of one transaction's operations, up to the first that failed.
fn decode_transaction(
    at: &mut Reader<'_>,
    transaction: &Transaction,
    strings: &mut StringCache,
) -> Result<Result<Committed, OpError>, SessionError> {
    let mut committed = Committed::of(transaction.schema().clone());
    for (index, operation) in transaction.operations().iter().enumerate() {
        if !at.next_element() {
            return Err(malformed("it has fewer results than operations"));
        }
        if let Some(error) = error_object(*at) {
            return Ok(Err(rejected(transaction, index, error)));
        }
        let result = decode_result(*at, operation, transaction.schema(), strings)?;
        if let (
            Operation::Insert {
                uuid: placeholder, ..
            },
            OperationResult::Inserted(uuid),
        ) = (operation, &result)
        {
            committed.inserted.insert(*placeholder, *uuid);
        }
        committed.results.push(result);
        at.skip();
    }
    Ok(Ok(committed))
}

/// An error of the whole transaction: its commit was refused.
fn of_no_operation(error: OvsdbError) -> OpError {
    OpError {
        operation: None,
        error,
    }
}

/// What the error means that an operation met; beyond the last, the commit.
pub(super) fn rejected(transaction: &Transaction, index: usize, error: OvsdbError) -> OpError {
    let operation = transaction.operations().get(index);
    let failed = |operation| failed_operation(transaction, index, operation, &error);
    OpError {
        operation: operation.map(failed).map(Box::new),
        error,
    }
}

/// The `<error>` that comes next, if one does.
fn error_object(mut at: Reader<'_>) -> Option<OvsdbError> {
    member(at, b"error")?;
    OvsdbError::from_json(&Json::read(&mut at))
}

/// The operation that the error is about.
fn failed_operation(
    transaction: &Transaction,
    index: usize,
    operation: &Operation,
    error: &OvsdbError,
) -> FailedOperation {
    let table = operation
        .table()
        .map(|table| transaction.schema().table(table));
    let (row, columns): (_, Vec<ColumnId>) = match operation {
        Operation::Insert { uuid, row, .. } => {
            let row_columns = row.iter().map(|(column, _)| column).collect();
            let named = !transaction.is_placeholder(*uuid);
            (named.then_some(*uuid), row_columns)
        }
        Operation::Update { condition, row, .. } => (
            condition.as_uuid(),
            row.iter().map(|(column, _)| *column).collect(),
        ),
        Operation::Mutate {
            condition,
            mutations,
            ..
        } => (
            condition.as_uuid(),
            mutations.iter().map(|mutation| mutation.column).collect(),
        ),
        Operation::Wait {
            condition, columns, ..
        }
        | Operation::Select {
            condition, columns, ..
        } => (condition.as_uuid(), columns.clone()),
        Operation::Delete { condition, .. } => (condition.as_uuid(), Vec::new()),
        _ => (None, Vec::new()),
    };
    let names = |table: &TableSchema| -> Vec<Arc<str>> {
        let names = columns.iter().map(|column| table.column_name(*column));
        names.map(Arc::from).collect()
    };
    FailedOperation {
        index,
        operation: operation.name(),
        table: table.map(|table| table.name.clone()),
        row: row.filter(|row| !transaction.is_placeholder(*row)),
        columns: at_fault(table.map(names).unwrap_or_default(), error),
    }
}

/// Those of an operation's columns that the server's words name, if they name any; else all.
fn at_fault(columns: Vec<Arc<str>>, error: &OvsdbError) -> Vec<Arc<str>> {
    let details = error.details.as_deref().unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = |column: &Arc<str>| details.split(|c| !is_word(c)).any(|word| *word == **column);
    if columns.iter().any(named) {
        columns.into_iter().filter(named).collect()
    } else {
        columns
    }
}

/// The result of one operation.
fn decode_result(
    at: Reader<'_>,
    operation: &Operation,
    schema: &DatabaseSchema,
    strings: &mut StringCache,
) -> Result<OperationResult, SessionError> {
    match operation {
        Operation::Insert { .. } => {
            let uuid = member(at, b"uuid").and_then(|mut at| {
                let datum = NotationReader::new(strings).datum(&mut at, ColumnType::uuid());
                datum.ok()?.as_scalar()?.as_uuid()
            });
            uuid.map(OperationResult::Inserted)
                .ok_or_else(|| malformed("the result of an insert has no uuid"))
        }
        Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
            let count = member(at, b"count").and_then(|mut at| at.integer());
            count
                .and_then(|count| usize::try_from(count).ok())
                .map(OperationResult::Count)
                .ok_or_else(|| malformed("the result of an operation has no count"))
        }
        Operation::Select { table, columns, .. } => {
            let rows = member(at, b"rows").and_then(|at| {
                let table = schema.table(*table);
                decode_rows(at, table, strings)
            });
            let rows = rows.ok_or_else(|| malformed("the result of a select has no rows"))?;
            Ok(OperationResult::Rows {
                table: *table,
                columns: columns.clone(),
                rows,
            })
        }
        _ => Ok(OperationResult::Nothing),
    }
}

/// Rows as `select` returns them. What was not asked for has its default.
fn decode_rows(
    mut at: Reader<'_>,
    table: &TableSchema,
    strings: &mut StringCache,
) -> Option<Vec<Arc<Row>>> {
    let mut rows = Vec::new();
    at.enter_array().then_some(())?;
    while at.next_element() {
        let mut row = Row::new(Uuid::nil(), table);
        at.enter_object().then_some(())?;
        while let Some(name) = at.next_member() {
            let column = table.column_id(std::str::from_utf8(&name).ok()?)?;
            let ty = table.column_type(column);
            let datum = NotationReader::new(strings).datum(&mut at, ty).ok()?;
            match column {
                ColumnId::UUID => row.uuid = datum.as_scalar()?.as_uuid()?,
                column => row.set(column, datum),
            }
        }
        rows.push(Arc::new(row));
    }
    Some(rows)
}

/// The member of the object that comes next.
fn member<'a>(mut at: Reader<'a>, wanted: &[u8]) -> Option<Reader<'a>> {
    let mut found = None;
    at.enter_object().then_some(())?;
    while let Some(name) = at.next_member() {
        if *name == *wanted {
            found = Some(at);
        }
        at.skip();
    }
    found
}

fn malformed(problem: &'static str) -> SessionError {
    unexpected("answer to transact", problem)
}
