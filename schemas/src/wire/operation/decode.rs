//! One operation of a `transact` request, from text.

use crate::error::OvsdbError;
use crate::json::{Json, Kind, Reader};
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use crate::wire::condition::Condition;
use crate::wire::mutation::Mutation;
use crate::wire::notation::NotationReader;
use crate::wire::object::OperationMembers;

use super::insert::insert;
use super::row::decode_row;
use super::{Failure, Operation};

/// What stands for the operation's place until the number of operations is known.
pub(super) const CONTEXT: &str = "ovsdb operation";

/// Decodes one operation.
pub(super) fn decode_operation(
    reader: &mut Reader<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, Failure> {
    let mut members = OperationMembers::new(reader, CONTEXT);
    let outcome = match members.id("op").as_deref() {
        Some("insert") => insert(&mut members, schema, notation),
        Some("select") => select(&mut members, schema, notation).map_err(Failure::from),
        Some("update") => update(&mut members, schema, notation).map_err(Failure::from),
        Some("mutate") => mutate(&mut members, schema, notation).map_err(Failure::from),
        Some("delete") => delete(&mut members, schema, notation).map_err(Failure::from),
        Some("wait") => wait(&mut members, schema, notation).map_err(Failure::from),
        Some("commit") => members.required("durable", Kind::Bool).map_or_else(
            || Err(members.error().into()),
            |mut durable| {
                Ok(Operation::Commit {
                    durable: durable.boolean().unwrap_or_default(),
                })
            },
        ),
        Some("abort") => Ok(Operation::Abort),
        Some("comment") => members.required("comment", Kind::String).map_or_else(
            || Err(members.error().into()),
            |mut text| {
                Ok(Operation::Comment(
                    String::from_utf8_lossy(&text.string().unwrap_or_default()).into_owned(),
                ))
            },
        ),
        Some("assert") => members.id("lock").map_or_else(
            || Err(members.error().into()),
            |lock| {
                Ok(Operation::Assert {
                    lock: lock.into_owned(),
                })
            },
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

impl From<OvsdbError> for Failure {
    fn from(error: OvsdbError) -> Self {
        Self { given: None, error }
    }
}

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

fn select(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let table = table_of(members, schema);
    let condition = members.required("where", Kind::Array);
    let columns = members.optional("columns", Kind::Array);
    let sort = members.optional("sort", Kind::Array);
    let (Some((id, table)), Some(mut condition), false) = (table, condition, members.has_error())
    else {
        return Err(members.error());
    };
    let condition = Condition::decode(&mut condition, table, notation)?;
    let columns = columns_or_all(columns, table)?;
    let sort = match sort {
        Some(mut sort) => table.column_set_from_json(&Json::read(&mut sort))?,
        None => Vec::new(),
    };
    Ok(Operation::Select {
        table: id,
        condition,
        columns,
        sort,
    })
}

fn columns_or_all(
    columns: Option<Reader<'_>>,
    table: &TableSchema,
) -> Result<Vec<ColumnId>, OvsdbError> {
    match columns {
        Some(mut columns) => table.column_set_from_json(&Json::read(&mut columns)),
        None => Ok([ColumnId::UUID, ColumnId::VERSION]
            .into_iter()
            .chain(table.column_ids())
            .collect()),
    }
}

fn update(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let table = table_of(members, schema);
    let condition = members.required("where", Kind::Array);
    let row = members.required("row", Kind::Object);
    let (Some((id, table)), Some(mut condition), Some(mut row), false) =
        (table, condition, row, members.has_error())
    else {
        return Err(members.error());
    };
    let row = decode_row(&mut row, table, notation, None)?;
    if let Some((column, _)) = row.iter().find(|(column, _)| !table.is_mutable(*column)) {
        let details = format!(
            "Cannot update immutable column {} in table {}.",
            table.column_name(*column),
            table.name
        );
        return Err(OvsdbError::constraint(details).with_syntax(&members.to_json()));
    }
    let condition = Condition::decode(&mut condition, table, notation)?;
    Ok(Operation::Update {
        table: id,
        condition,
        row,
    })
}

fn mutate(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let table = table_of(members, schema);
    let condition = members.required("where", Kind::Array);
    let mutations = members.required("mutations", Kind::Array);
    let (Some((id, table)), Some(mut condition), Some(mut at), false) =
        (table, condition, mutations, members.has_error())
    else {
        return Err(members.error());
    };
    let mut mutations = Vec::new();
    at.enter_array();
    while at.next_element() {
        mutations.push(Mutation::decode(&mut at, table, notation)?);
    }
    let condition = Condition::decode(&mut condition, table, notation)?;
    Ok(Operation::Mutate {
        table: id,
        condition,
        mutations,
    })
}

fn delete(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let condition = members.required("where", Kind::Array);
    let table = table_of(members, schema);
    let (Some((id, table)), Some(mut condition), false) = (table, condition, members.has_error())
    else {
        return Err(members.error());
    };
    Ok(Operation::Delete {
        table: id,
        condition: Condition::decode(&mut condition, table, notation)?,
    })
}

fn wait(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OvsdbError> {
    let timeout = members.optional_integer("timeout");
    let condition = members.required("where", Kind::Array);
    let columns = members.optional("columns", Kind::Array);
    let until = members.required("until", Kind::String);
    let rows = members.required("rows", Kind::Array);
    let table = table_of(members, schema);
    let (Some((id, table)), Some(mut condition), Some(mut until), Some(mut at), false) =
        (table, condition, until, rows, members.has_error())
    else {
        return Err(members.error());
    };
    let condition = Condition::decode(&mut condition, table, notation)?;
    let columns = columns_or_all(columns, table)?;
    let timeout = timeout.map(|timeout| {
        let negative =
            || OvsdbError::syntax(&Json::Integer(timeout), "timeout must be nonnegative");
        u64::try_from(timeout).map_err(|_| negative())
    });
    let timeout = timeout.transpose()?;
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
    Ok(Operation::Wait {
        table: id,
        timeout,
        condition,
        columns,
        equal,
        rows,
    })
}

pub(super) fn string(at: &mut Reader<'_>) -> String {
    String::from_utf8_lossy(&at.string().unwrap_or_default()).into_owned()
}
