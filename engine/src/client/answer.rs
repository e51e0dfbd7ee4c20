//! Reads the answer to a transaction.

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::schema::ColumnType;
use patchbay_schemas::strings::Strings;
use patchbay_schemas::wire::{Message, NotationReader, Operation, Reply};

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
            let index = operation.map_or(usize::MAX, |(index, _)| index);
            return Ok(Err(rejected(transaction, index, error)));
        }
        let (_, operation) =
            operation.ok_or_else(|| malformed("it has more results than operations"))?;
        let result = decode_result(at, operation, &mut strings)?;
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

/// What the error means that an operation met; beyond the last, the commit.
pub(super) fn rejected(transaction: &Transaction, index: usize, error: OvsdbError) -> OpError {
    let operation = transaction.operations().get(index);
    let operation = operation.map(|operation| FailedOperation {
        index,
        operation: operation.name(),
        table: operation
            .table()
            .map(|table| transaction.schema().table(table).name.clone()),
    });
    OpError { operation, error }
}

/// The `<error>` that comes next, if one does.
fn error_object(mut at: Reader<'_>) -> Option<OvsdbError> {
    member(at, b"error")?;
    OvsdbError::from_json(&Json::read(&mut at))
}

/// The result of one operation. A [`Transaction`] has none that read.
fn decode_result(
    at: Reader<'_>,
    operation: &Operation,
    strings: &mut Strings,
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
        _ => Ok(OperationResult::Nothing),
    }
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
