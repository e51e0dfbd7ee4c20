//! Decoding of the reply to a `transact` request (RFC 7047 section 4.1.3).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, ColumnType, DatabaseSchema, TableSchema};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{Message, NotationReader, Operation, Reply};

use uuid::Uuid;

use crate::db::{OperationResult, SelectedRows};
use crate::txn::Transaction;

use super::error::{SessionError, reply_error, unexpected};
use super::outcome::{Committed, FailedOperation, OpError};

/// Error of a request that the server cancels, because the database is removed or converted.
const CANCELED_TAG: &str = "canceled";

/// Decodes the reply to a request for one transaction or for several coalesced ones: the results of
/// each, or the error for which none was committed.
///
/// A guarded request has one additional operation at its beginning and one at its end.
pub(super) fn decode<'a>(
    transactions: impl Iterator<Item = &'a Transaction>,
    guarded: bool,
    reply: &TextBuf,
) -> Result<Result<Vec<Committed>, OpError>, SessionError> {
    let Message::Reply(Reply { outcome, .. }) = Message::decode(reply)? else {
        return Err(malformed("it is not a reply"));
    };
    let mut at = match outcome {
        Ok(results) => results,
        Err(error) => {
            let error = reply_error(error);
            if error.tag == CANCELED_TAG {
                // In a cluster, the cancelled request may still be committed.
                return Err(SessionError::Canceled);
            }
            return Ok(Err(commit_error(error)));
        }
    };
    if !at.enter_array() {
        return Err(malformed("it is not an array"));
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
        // Result of the operation that leaves the mark.
        if !at.next_element() {
            return Err(malformed("it has fewer results than operations"));
        }
        if let Some(error) = error_object(at) {
            return Ok(Err(commit_error(error)));
        }
        at.skip();
    }
    if !at.next_element() {
        return Ok(Ok(all_committed));
    }
    match error_object(at) {
        // Error of the commit.
        Some(error) => Ok(Err(commit_error(error))),
        None => Err(malformed("it has more results than operations")),
    }
}

/// Decodes the results of one transaction's operations, up to the first error.
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
            return Ok(Err(operation_error(transaction, index, error)));
        }
        let result = decode_result(*at, operation, transaction.schema(), strings)?;
        if let (Operation::Insert { uuid: placeholder, .. }, OperationResult::Inserted(uuid)) =
            (operation, &result)
        {
            committed.inserted.insert(*placeholder, *uuid);
        }
        committed.results.push(result);
        at.skip();
    }
    Ok(Ok(committed))
}

/// The error of a transaction whose commit was rejected.
fn commit_error(error: OvsdbError) -> OpError {
    OpError { operation: None, error }
}

/// The error of the operation at `index`. An index beyond the last operation stands for the commit.
pub(super) fn operation_error(
    transaction: &Transaction,
    index: usize,
    error: OvsdbError,
) -> OpError {
    let operation = transaction.operations().get(index);
    let failed = |operation| failed_operation(transaction, index, operation, &error);
    OpError { operation: operation.map(failed).map(Box::new), error }
}

/// The `<error>` at the reader, if there is one.
fn error_object(mut at: Reader<'_>) -> Option<OvsdbError> {
    member(at, b"error")?;
    OvsdbError::from_json(&Json::read(&mut at))
}

/// Describes the operation that failed.
fn failed_operation(
    transaction: &Transaction,
    index: usize,
    operation: &Operation,
    error: &OvsdbError,
) -> FailedOperation {
    let table = operation.table().map(|table| transaction.schema().table(table));
    let (row, columns): (_, Vec<ColumnId>) = match operation {
        Operation::Insert { uuid, row, .. } => {
            let row_columns = row.iter().map(|(column, _)| column).collect();
            let is_chosen = !transaction.is_placeholder(*uuid);
            (is_chosen.then_some(*uuid), row_columns)
        }
        Operation::Update { condition, row, .. } => {
            (condition.as_uuid(), row.iter().map(|(column, _)| *column).collect())
        }
        Operation::Mutate { condition, mutations, .. } => {
            (condition.as_uuid(), mutations.iter().map(|mutation| mutation.column).collect())
        }
        Operation::Wait { condition, columns, .. }
        | Operation::Select { condition, columns, .. } => (condition.as_uuid(), columns.clone()),
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
        columns: columns_at_fault(table.map(names).unwrap_or_default(), error),
    }
}

/// The columns of an operation that the server's error names; all of them if it names none.
fn columns_at_fault(columns: Vec<Arc<str>>, error: &OvsdbError) -> Vec<Arc<str>> {
    let details = error.details.as_deref().unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_named = |column: &Arc<str>| details.split(|c| !is_word(c)).any(|word| *word == **column);
    if columns.iter().any(is_named) {
        columns.into_iter().filter(is_named).collect()
    } else {
        columns
    }
}

/// Decodes the result of one operation.
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
            Ok(OperationResult::Rows(Box::new(SelectedRows {
                table: *table,
                columns: columns.clone(),
                rows,
            })))
        }
        _ => Ok(OperationResult::Empty),
    }
}

/// Decodes the rows of a `select`. Columns that were not selected have their defaults.
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

/// Finds a member of the object at the reader.
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
