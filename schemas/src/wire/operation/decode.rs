//! Decoding of one operation of a `transact` request.

use crate::error::OvsdbError;
use crate::json::{Json, Reader, ValueKind};
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use crate::wire::condition::Condition;
use crate::wire::mutation::Mutation;
use crate::wire::notation::NotationReader;
use crate::wire::operation_members::OperationMembers;

use super::insert::insert;
use super::row::decode_row;
use super::{Operation, OperationFailure};

/// Context of errors until the index of the operation and the number of operations are known.
pub(super) const CONTEXT: &str = "ovsdb operation";

/// Decodes one operation.
pub(super) fn decode_operation(
    reader: &mut Reader<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OperationFailure> {
    let mut members = OperationMembers::new(reader, CONTEXT);
    let outcome = match members.id("op").as_deref() {
        Some("insert") => insert(&mut members, schema, notation),
        Some("select") => select(&mut members, schema, notation).map_err(OperationFailure::from),
        Some("update") => update(&mut members, schema, notation).map_err(OperationFailure::from),
        Some("mutate") => mutate(&mut members, schema, notation).map_err(OperationFailure::from),
        Some("delete") => delete(&mut members, schema, notation).map_err(OperationFailure::from),
        Some("wait") => wait(&mut members, schema, notation).map_err(OperationFailure::from),
        Some("commit") => members.required("durable", ValueKind::Bool).map_or_else(
            || Err(members.error().into()),
            |mut durable| Ok(Operation::Commit { durable: durable.boolean().unwrap_or_default() }),
        ),
        Some("abort") => Ok(Operation::Abort),
        Some("comment") => members.required("comment", ValueKind::String).map_or_else(
            || Err(members.error().into()),
            |mut text| {
                Ok(Operation::Comment(
                    String::from_utf8_lossy(&text.string().unwrap_or_default()).into_owned(),
                ))
            },
        ),
        Some("assert") => members.id("lock").map_or_else(
            || Err(members.error().into()),
            |lock| Ok(Operation::Assert { lock: lock.into_owned() }),
        ),
        Some(other) => {
            members.fail(&format!("No operation \"{other}\""));
            Err(members.error().into())
        }
        None => Err(members.error().into()),
    };
    members.finish()?;
    outcome
}

impl From<OvsdbError> for OperationFailure {
    fn from(error: OvsdbError) -> Self {
        Self { given: None, error }
    }
}

/// Returns the table that the member `table` names.
pub(super) fn table_of<'s>(
    members: &mut OperationMembers<'_>,
    schema: &'s DatabaseSchema,
) -> Option<(TableId, &'s TableSchema)> {
    let name = members.id("table")?;
    let table = schema.table_by_name(&name);
    if table.is_none() {
        members.fail(&format!("No table named {name}."));
    }
    table
}

/// Rows that an operation reads or changes: the members `table` and `where`.
struct Target<'a, 's> {
    id: TableId,
    table: &'s TableSchema,
    condition: Reader<'a>,
}

impl<'a, 's> Target<'a, 's> {
    /// Reads both members, `table` first.
    fn read(members: &mut OperationMembers<'a>, schema: &'s DatabaseSchema) -> Option<Self> {
        let table = table_of(members, schema);
        let condition = members.required("where", ValueKind::Array);
        Self::new(table, condition)
    }

    fn new(
        table: Option<(TableId, &'s TableSchema)>,
        condition: Option<Reader<'a>>,
    ) -> Option<Self> {
        let ((id, table), condition) = table.zip(condition)?;
        Some(Self { id, table, condition })
    }

    fn condition(
        mut self,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Condition, OvsdbError> {
        Condition::decode(&mut self.condition, self.table, notation)
    }
}

fn select(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let target = Target::read(members, schema);
    let columns = members.optional("columns", ValueKind::Array);
    let sort = members.optional("sort", ValueKind::Array);
    let target = members.require(target)?;
    let (id, table) = (target.id, target.table);
    Ok(Operation::Select {
        table: id,
        condition: target.condition(notation)?,
        columns: columns_or_all(columns, table)?,
        sort: match sort {
            Some(mut sort) => table.column_set_from_json(&Json::read(&mut sort))?,
            None => Vec::new(),
        },
    })
}

/// Decodes an array of column names. `None`: all columns.
fn columns_or_all(
    columns: Option<Reader<'_>>,
    table: &TableSchema,
) -> Result<Vec<ColumnId>, OvsdbError> {
    match columns {
        Some(mut columns) => table.column_set_from_json(&Json::read(&mut columns)),
        None => {
            Ok([ColumnId::UUID, ColumnId::VERSION].into_iter().chain(table.column_ids()).collect())
        }
    }
}

fn update(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let target = Target::read(members, schema);
    let row = members.required("row", ValueKind::Object);
    let (target, mut row) = members.require(target.zip(row))?;
    let (id, table) = (target.id, target.table);
    let row = decode_row(&mut row, table, notation, None)?;
    if let Some((column, _)) = row.iter().find(|(column, _)| !table.is_mutable(*column)) {
        let details = format!(
            "Cannot update immutable column {} in table {}.",
            table.column_name(*column),
            table.name
        );
        return Err(OvsdbError::constraint(details).with_syntax(&members.to_json()));
    }
    Ok(Operation::Update { table: id, condition: target.condition(notation)?, row })
}

fn mutate(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let target = Target::read(members, schema);
    let mutations = members.required("mutations", ValueKind::Array);
    let (target, mut at) = members.require(target.zip(mutations))?;
    let mut mutations = Vec::new();
    at.enter_array();
    while at.next_element() {
        mutations.push(Mutation::decode(&mut at, target.table, notation)?);
    }
    Ok(Operation::Mutate { table: target.id, condition: target.condition(notation)?, mutations })
}

fn delete(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    // ovsdb-server checks `where` before `table` here.
    let condition = members.required("where", ValueKind::Array);
    let table = table_of(members, schema);
    let target = members.require(Target::new(table, condition))?;
    Ok(Operation::Delete { table: target.id, condition: target.condition(notation)? })
}

fn wait(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let timeout = members.optional_integer("timeout");
    let condition = members.required("where", ValueKind::Array);
    let columns = members.optional("columns", ValueKind::Array);
    let until = members.required("until", ValueKind::String);
    let rows = members.required("rows", ValueKind::Array);
    let table = table_of(members, schema);
    let target = Target::new(table, condition);
    let ((target, mut until), mut at) = members.require(target.zip(until).zip(rows))?;
    let (id, table) = (target.id, target.table);
    let condition = target.condition(notation)?;
    let columns = columns_or_all(columns, table)?;
    let timeout = timeout
        .map(|timeout| {
            u64::try_from(timeout).map_err(|_| {
                OvsdbError::syntax(&Json::Integer(timeout), "timeout must be nonnegative")
            })
        })
        .transpose()?;
    let until = string(&mut until);
    let equal = match &*until {
        "==" => true,
        "!=" => false,
        _ => {
            return Err(OvsdbError::syntax(
                &Json::string(until),
                "\"until\" must be \"==\" or \"!=\"",
            ));
        }
    };
    let mut rows = Vec::new();
    at.enter_array();
    while at.next_element() {
        let row = decode_row(&mut at, table, notation, rows.last())?;
        rows.push(row);
    }
    Ok(Operation::Wait { table: id, timeout, condition, columns, equal, rows })
}

/// Returns the text of a string. Invalid UTF-8 is replaced.
pub(super) fn string(at: &mut Reader<'_>) -> String {
    String::from_utf8_lossy(&at.string().unwrap_or_default()).into_owned()
}
