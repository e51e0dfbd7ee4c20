//! The operations of `transact` (RFC 7047 §5.2).

use uuid::Uuid;

use crate::atom::parse_uuid;
use crate::datum::Datum;
use crate::error::OvsdbError;
use crate::json::{Json, Kind, Reader};
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema, is_id};
use crate::strings::Strings;
use crate::uuids::UuidSource;

use super::condition::Condition;
use super::mutation::Mutation;
use super::notation::{NamedUuids, NotationReader};
use super::object::OperationMembers;

/// Values for some columns of a row.
pub type ColumnValues = Vec<(ColumnId, Datum)>;

/// One operation, all names resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a row.
    Insert {
        /// To this table.
        table: TableId,
        /// With this UUID.
        uuid: Uuid,
        /// The `uuid` member as it was sent: the caller chose the UUID, and it may be taken.
        given: Option<String>,
        /// The columns that do not get their defaults.
        row: ColumnValues,
    },
    /// Reads rows.
    Select {
        /// From this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
        /// Which columns.
        columns: Vec<ColumnId>,
        /// By which columns to sort, ascending.
        sort: Vec<ColumnId>,
    },
    /// Overwrites columns.
    Update {
        /// In this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
        /// The new values.
        row: ColumnValues,
    },
    /// Changes columns relative to what they hold.
    Mutate {
        /// In this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
        /// The changes, in order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// From this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
    },
    /// Waits until rows look as said.
    Wait {
        /// In this table.
        table: TableId,
        /// Milliseconds; none waits for ever.
        timeout: Option<u64>,
        /// Which rows.
        condition: Condition,
        /// Which columns to compare.
        columns: Vec<ColumnId>,
        /// Until the rows are (`==`), or are not (`!=`), the expected ones.
        equal: bool,
        /// The expected rows; what they do not say is the default.
        rows: Vec<ColumnValues>,
    },
    /// Asks for durability; in memory there is nothing to do.
    Commit {
        /// Whether the transaction must be on disk before the reply.
        durable: bool,
    },
    /// Fails on purpose.
    Abort,
    /// A text for the log.
    Comment(String),
    /// Fails unless the client owns a lock.
    Assert {
        /// Name of the lock.
        lock: String,
    },
}

impl Operation {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Select { .. } => "select",
            Self::Update { .. } => "update",
            Self::Mutate { .. } => "mutate",
            Self::Delete { .. } => "delete",
            Self::Wait { .. } => "wait",
            Self::Commit { .. } => "commit",
            Self::Abort => "abort",
            Self::Comment(_) => "comment",
            Self::Assert { .. } => "assert",
        }
    }

    /// The table whose rows it reads or changes.
    pub fn table(&self) -> Option<TableId> {
        match self {
            Self::Insert { table, .. }
            | Self::Select { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Wait { table, .. } => Some(*table),
            Self::Commit { .. } | Self::Abort | Self::Comment(_) | Self::Assert { .. } => None,
        }
    }

    /// Whether it is allowed on a read-only database. (`commit` is not.)
    pub fn is_read_only(&self) -> bool {
        matches!(
            self,
            Self::Select { .. }
                | Self::Wait { .. }
                | Self::Abort
                | Self::Comment(_)
                | Self::Assert { .. }
        )
    }
}

/// The operation at which decoding stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// An `insert` that gave this UUID (as sent) for this table: whether it is taken matters before `error`.
    pub given: Option<(TableId, Uuid, String)>,
    /// What is wrong with the operation.
    pub error: OvsdbError,
}

/// The operations of a request, up to the first that could not be decoded.
///
/// A broken operation does not keep those before it from running: their results are in the reply.
#[derive(Clone, Debug, Default)]
pub struct DecodedTransaction {
    /// The operations before `failure`, or all.
    pub operations: Vec<Operation>,
    /// The operation after them, if it could not be decoded.
    pub failure: Option<Failure>,
    /// How many operations the request holds.
    pub total: usize,
}

/// Decodes the operations of a `transact` request. `reader` is in the array of parameters, behind the
/// name of the database.
pub fn decode_transaction(
    reader: &mut Reader<'_>,
    schema: &DatabaseSchema,
    strings: &mut Strings,
    uuids: &mut UuidSource,
) -> DecodedTransaction {
    let mut named = NamedUuids::new(uuids);
    let mut notation = NotationReader::with_named_uuids(strings, &mut named);
    let mut decoded = DecodedTransaction::default();
    while reader.next_element() {
        decoded.total += 1;
        if decoded.failure.is_some() {
            reader.skip();
            continue;
        }
        let at = *reader;
        match decode_operation(reader, schema, &mut notation) {
            Ok(operation) => decoded.operations.push(operation),
            Err(failure) => {
                *reader = at;
                reader.skip();
                decoded.failure = Some(failure);
            }
        }
    }
    if let Some(Failure {
        error: OvsdbError {
            details: Some(details),
            ..
        },
        ..
    }) = &mut decoded.failure
    {
        name_operation(details, decoded.operations.len() + 1, decoded.total);
    }
    decoded
}

/// What stands for the operation's place until the number of operations is known.
const CONTEXT: &str = "ovsdb operation";

fn name_operation(details: &mut String, i: usize, n: usize) {
    let vague = format!("Parsing {CONTEXT} failed:");
    if let Some(rest) = details.strip_prefix(&vague) {
        *details = format!("Parsing {CONTEXT} {i} of {n} failed:{rest}");
    }
}

fn decode_operation(
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

fn table_of<'s>(
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

fn insert(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, Failure> {
    let table = table_of(members, schema);
    let name = members.optional("uuid-name", Kind::String);
    let row = members.required("row", Kind::Object);
    let given = members.optional("uuid", Kind::String);
    let name = match name {
        Some(mut at) => {
            let text = string(&mut at);
            if !is_id(&text) {
                members.fail("Type mismatch for member 'uuid-name'.");
            }
            Some(text)
        }
        None => None,
    };
    let (Some((id, table)), Some(mut row), false) = (table, row, members.has_error()) else {
        return Err(members.error().into());
    };
    let given = match given {
        Some(mut at) => {
            let text = string(&mut at);
            match parse_uuid(text.as_bytes()) {
                Some(uuid) => Some((uuid, text)),
                None => return Err(OvsdbError::syntax(&Json::string(text), "bad uuid").into()),
            }
        }
        None => None,
    };
    let given_uuid = given.as_ref().map(|(uuid, _)| *uuid);
    let fail = |error| Failure {
        given: given.clone().map(|(uuid, text)| (id, uuid, text)),
        error,
    };
    let named = notation.named_uuids();
    let uuid = match (&name, given_uuid, named) {
        (Some(name), given, Some(named)) => named.insert(name, given).ok_or_else(|| {
            let details = "This \"uuid-name\" appeared on an earlier \"insert\" operation.";
            let error =
                OvsdbError::new("duplicate uuid-name", details).with_syntax(&Json::string(name));
            fail(error)
        })?,
        (_, Some(given), _) => given,
        (_, None, Some(named)) => named.fresh(),
        (_, None, None) => Uuid::nil(),
    };
    let row = decode_row(&mut row, table, notation).map_err(fail)?;
    check_defaults(table, &row).map_err(fail)?;
    Ok(Operation::Insert {
        table: id,
        uuid,
        given: given.map(|(_, text)| text),
        row,
    })
}

/// A column that is left out gets its default, which may break its own constraints.
fn check_defaults(table: &TableSchema, row: &ColumnValues) -> Result<(), OvsdbError> {
    for column in table.column_ids() {
        let ty = table.column_type(column);
        let constrained = ty
            .base_types()
            .any(|base| base.constraint != crate::schema::Constraint::None);
        if constrained && ty.min > 0 && !row.iter().any(|(have, _)| *have == column) {
            ty.check(&ty.default_datum())?;
        }
    }
    Ok(())
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
    let row = decode_row(&mut row, table, notation)?;
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
        rows.push(decode_row(&mut at, table, notation)?);
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

/// Decodes a `<row>`.
pub(crate) fn decode_row(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<ColumnValues, OvsdbError> {
    let start = *reader;
    if !reader.enter_object() {
        return Err(OvsdbError::syntax_at(start, "row must be JSON object"));
    }
    let mut row = ColumnValues::new();
    while let Some(name) = reader.next_member() {
        let column = std::str::from_utf8(&name)
            .ok()
            .and_then(|name| table.column_id(name))
            .ok_or_else(|| {
                let details = format!(
                    "No column {} in table {}.",
                    String::from_utf8_lossy(&name),
                    table.name
                );
                OvsdbError {
                    tag: "unknown column".into(),
                    ..OvsdbError::syntax_at(start, details)
                }
            })?;
        let datum = notation.datum(reader, table.column_type(column))?;
        match row.iter_mut().find(|(have, _)| *have == column) {
            Some((_, earlier)) => *earlier = datum,
            None => row.push((column, datum)),
        }
    }
    Ok(row)
}

fn string(at: &mut Reader<'_>) -> String {
    String::from_utf8_lossy(&at.string().unwrap_or_default()).into_owned()
}
