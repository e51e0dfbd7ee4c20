//! Reads the answer to a transaction.

use std::sync::Arc;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, ColumnType, DatabaseSchema, TableId};
use patchbay_schemas::strings::Strings;
use patchbay_schemas::wire::{Message, NotationReader, Operation, Reply};
use uuid::Uuid;

use crate::db::OperationResult;
use crate::txn::Transaction;

use super::error::{SessionError, reply_error, unexpected};
use super::outcome::{Committed, FailedOperation, OpError};

/// Decodes the reply to a transaction.
pub(super) fn decode(
    transaction: &Transaction,
    reply: &TextBuf,
) -> Result<Result<Committed, OpError>, SessionError> {
    let Message::Reply(Reply { outcome, .. }) = Message::decode(reply)? else {
        return Err(malformed("not a reply"));
    };
    let mut at = match outcome {
        Ok(results) => results,
        Err(error) => {
            return Ok(Err(OpError {
                operation: None,
                error: reply_error(error),
            }));
        }
    };
    if !at.enter_array() {
        return Err(malformed("not an array"));
    }
    let mut strings = Strings::default();
    let mut committed = Committed::default();
    let mut operations = transaction.operations().iter().enumerate();
    while at.next_element() {
        let operation = operations.next();
        if let Some(error) = error_object(at) {
            let operation = operation.map(|(index, operation)| FailedOperation {
                index,
                operation: operation.name(),
                table: table_of(operation)
                    .map(|table| transaction.schema().table(table).name.clone()),
            });
            return Ok(Err(OpError { operation, error }));
        }
        let (_, operation) =
            operation.ok_or_else(|| malformed("it has more results than operations"))?;
        let result = decode_result(at, operation, transaction.schema(), &mut strings)?;
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
    match operations.next() {
        None => Ok(Ok(committed)),
        Some(_) => Err(malformed("it has fewer results than operations")),
    }
}

/// The `<error>` that comes next, if one does.
fn error_object(at: Reader<'_>) -> Option<OvsdbError> {
    let mut members = at;
    members.enter_object().then_some(())?;
    while let Some(name) = members.next_member() {
        if &*name == b"error" {
            return OvsdbError::from_json(&Json::read(&mut { at }));
        }
        members.skip();
    }
    None
}

fn decode_result(
    mut at: Reader<'_>,
    operation: &Operation,
    schema: &DatabaseSchema,
    strings: &mut Strings,
) -> Result<OperationResult, SessionError> {
    let (wanted, problem): (&[u8], _) = match operation {
        Operation::Insert { .. } => (b"uuid", "the result of an insert has no uuid"),
        Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
            (b"count", "the result of an operation has no count")
        }
        Operation::Select { .. } => (b"rows", "the result of a select has no rows"),
        _ => return Ok(OperationResult::Nothing),
    };
    let mut found = None;
    if at.enter_object() {
        while let Some(name) = at.next_member() {
            if &*name == wanted {
                found = Some(at);
            }
            at.skip();
        }
    }
    let mut at = found.ok_or_else(|| malformed(problem))?;
    match operation {
        Operation::Select { table, columns, .. } => {
            let rows = decode_rows(at, *table, schema, strings)?;
            Ok(OperationResult::Rows {
                table: *table,
                columns: columns.clone(),
                rows,
            })
        }
        Operation::Insert { .. } => {
            let uuid_type = ColumnType::uuid();
            let datum = NotationReader::new(strings).datum(&mut at, uuid_type);
            let uuid = datum.ok().and_then(|datum| datum.as_scalar()?.as_uuid());
            uuid.map(OperationResult::Inserted)
                .ok_or_else(|| malformed(problem))
        }
        _ => {
            let count = at.integer().and_then(|count| usize::try_from(count).ok());
            count
                .map(OperationResult::Count)
                .ok_or_else(|| malformed(problem))
        }
    }
}

/// Decodes the rows of a `select`; columns that were not asked for have their defaults.
fn decode_rows(
    mut at: Reader<'_>,
    table: TableId,
    schema: &DatabaseSchema,
    strings: &mut Strings,
) -> Result<Vec<Arc<Row>>, SessionError> {
    let table = schema.table(table);
    let problem = "the rows of a select do not fit the schema";
    let mut rows = Vec::new();
    if !at.enter_array() {
        return Err(malformed(problem));
    }
    while at.next_element() {
        let mut row = Row::new(Uuid::nil(), table);
        if !at.enter_object() {
            return Err(malformed(problem));
        }
        while let Some(name) = at.next_member() {
            let column = std::str::from_utf8(&name)
                .ok()
                .and_then(|name| table.column_id(name));
            let column = column.ok_or_else(|| malformed(problem))?;
            let datum = NotationReader::new(strings).datum(&mut at, table.column_type(column));
            let datum = datum.map_err(|_| malformed(problem))?;
            match datum.as_scalar().and_then(Atom::as_uuid) {
                Some(uuid) if column == ColumnId::UUID => row.uuid = uuid,
                _ => row.set(column, datum),
            }
        }
        rows.push(Arc::new(row));
    }
    Ok(rows)
}

fn table_of(operation: &Operation) -> Option<TableId> {
    match operation {
        Operation::Insert { table, .. }
        | Operation::Select { table, .. }
        | Operation::Update { table, .. }
        | Operation::Mutate { table, .. }
        | Operation::Delete { table, .. }
        | Operation::Wait { table, .. } => Some(*table),
        _ => None,
    }
}

fn malformed(problem: &'static str) -> SessionError {
    unexpected("answer to transact", problem)
}
