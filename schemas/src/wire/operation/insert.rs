//! `insert` (RFC 7047 §5.2.1).

use uuid::Uuid;

use crate::atom::parse_uuid;
use crate::error::OvsdbError;
use crate::json::{Json, Kind, Reader};
use crate::schema::{DatabaseSchema, TableId, TableSchema, is_id};
use crate::wire::notation::NotationReader;
use crate::wire::object::OperationMembers;

use super::decode::{string, table_of};
use super::row::decode_insert_row;
use super::{Failure, InsertRow, Operation};

/// The rows that a transaction has inserted last, by table.
#[derive(Default)]
pub(super) struct LastInserts(Vec<Option<usize>>);

impl LastInserts {
    /// Takes note of the operation that comes at `place`.
    pub(super) fn note(&mut self, operation: &Operation, place: usize) {
        if let Operation::Insert { table, .. } = operation {
            if self.0.len() <= table.index() {
                self.0.resize(table.index() + 1, None);
            }
            self.0[table.index()] = Some(place);
        }
    }

    fn row<'o>(&self, table: TableId, operations: &'o [Operation]) -> Option<&'o InsertRow> {
        match operations.get((*self.0.get(table.index())?)?)? {
            Operation::Insert { row, .. } => Some(row),
            _ => None,
        }
    }
}

/// Decodes an `insert` in one walk over its text: one that chooses no UUID, is right, and names its table before its
/// row. None for all others; the reader's position is then undefined.
pub(super) fn insert_at_once(
    reader: &mut Reader<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    earlier: (&[Operation], &LastInserts),
) -> Option<Operation> {
    if !reader.enter_object() {
        return None;
    }
    let (mut is_insert, mut table, mut name, mut inserted) = (false, None, None, None);
    while let Some(member) = reader.next_member() {
        match &*member {
            b"op" if !is_insert && *reader.string()? == *b"insert" => is_insert = true,
            b"table" if table.is_none() => {
                let text = reader.string()?;
                table = Some(schema.table_by_name(std::str::from_utf8(&text).ok()?)?);
            }
            b"uuid-name" if name.is_none() && inserted.is_none() => {
                let text = reader.string()?;
                name = Some(text).filter(|text| std::str::from_utf8(text).is_ok_and(is_id));
                name.as_ref()?;
            }
            b"row" if is_insert && inserted.is_none() => {
                let (id, schema) = table?;
                let named = notation.named_uuids()?;
                // The name is taken only when all is right.
                let uuid = match &name {
                    Some(name) => named.mention(std::str::from_utf8(name).ok()?),
                    None => named.fresh(),
                };
                let (operations, last) = earlier;
                let like = last.row(id, operations);
                let row = decode_insert_row(reader, schema, notation, like).ok()?;
                check_defaults(schema, &row).ok()?;
                inserted = Some((uuid, row));
            }
            _ => return None,
        }
    }
    let ((table, _), (mut uuid, row)) = (table?, inserted?);
    if let Some(name) = name {
        let named = notation.named_uuids()?;
        uuid = named.insert(std::str::from_utf8(&name).ok()?, None)?;
    }
    Some(Operation::Insert {
        table,
        uuid,
        given: None,
        row,
    })
}

/// Decodes an `insert`, or says what is wrong with it.
pub(super) fn insert(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, Failure> {
    let table = table_of(members, schema);
    // The first of several faults is reported, in this order.
    let given = members.optional("uuid", Kind::String);
    let name = match members.optional("uuid-name", Kind::String) {
        Some(mut at) => {
            let text = string(&mut at);
            if !is_id(&text) {
                members.fail("Type mismatch for member 'uuid-name'.");
            }
            Some(text)
        }
        None => None,
    };
    let row = members.required("row", Kind::Object);
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
    let row = decode_insert_row(&mut row, table, notation, None).map_err(fail)?;
    check_defaults(table, &row).map_err(fail)?;
    Ok(Operation::Insert {
        table: id,
        uuid,
        given: given.map(|(_, text)| text),
        row,
    })
}

/// A column that is left out gets its default, which may break its own constraints.
fn check_defaults(table: &TableSchema, row: &InsertRow) -> Result<(), OvsdbError> {
    for column in table.refused_defaults() {
        if row.get(*column).is_none() {
            let ty = table.column_type(*column);
            ty.check(&ty.default_datum())?;
        }
    }
    Ok(())
}
