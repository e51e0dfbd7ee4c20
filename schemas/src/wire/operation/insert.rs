//! Decoding of `insert` (RFC 7047 section 5.2.1).

use uuid::Uuid;

use crate::atom::parse_uuid;
use crate::error::OvsdbError;
use crate::json::{Json, Reader, ValueKind};
use crate::schema::{DatabaseSchema, TableId, TableSchema, is_id};
use crate::wire::notation::NotationReader;
use crate::wire::operation_members::OperationMembers;

use super::decode::{string, table_of};
use super::row::decode_insert_row;
use super::templates::RowTemplates;
use super::{InsertRow, Operation, OperationFailure};

/// Index of the last `insert` operation of each table, and rows of earlier requests.
pub(super) struct LastInserts<'t> {
    indices: Vec<Option<usize>>,
    templates: &'t RowTemplates,
}

impl<'t> LastInserts<'t> {
    /// Returns the state at the start of a request.
    pub(super) fn new(templates: &'t RowTemplates) -> Self {
        Self { indices: Vec::new(), templates }
    }

    /// Records the operation with this index.
    pub(super) fn record(&mut self, operation: &Operation, index: usize) {
        if let Operation::Insert { table, .. } = operation {
            if self.indices.len() <= table.index() {
                self.indices.resize(table.index() + 1, None);
            }
            self.indices[table.index()] = Some(index);
        }
    }

    /// Returns the row that was inserted last into a table, or a row of an earlier request.
    fn row<'o>(&self, table: TableId, operations: &'o [Operation]) -> Option<&'o InsertRow>
    where
        't: 'o,
    {
        let index = self.indices.get(table.index()).copied().flatten();
        match index.and_then(|index| operations.get(index)) {
            Some(Operation::Insert { row, .. }) => Some(row),
            _ => self.templates.row(table),
        }
    }
}

/// Decodes a valid `insert` in a single pass over its text.
///
/// `None`: the operation is invalid, requests a UUID, or has the member `row` before `table`. The
/// position of the reader is then unspecified, and [`insert`] decodes the operation.
pub(super) fn insert_in_one_pass(
    reader: &mut Reader<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    earlier: (&[Operation], &LastInserts<'_>),
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
                let (id, table) = table?;
                let named = notation.named_uuids()?;
                // The name is defined only after the operation has been found valid.
                let uuid = match &name {
                    Some(name) => named.resolve(std::str::from_utf8(name).ok()?),
                    None => named.generate(),
                };
                let (operations, last) = earlier;
                let template = last.row(id, operations);
                let row = decode_insert_row(reader, table, notation, template).ok()?;
                check_defaults(table, &row).ok()?;
                inserted = Some((uuid, row));
            }
            _ => return None,
        }
    }
    let ((table, _), (mut uuid, row)) = (table?, inserted?);
    if let Some(name) = name {
        let named = notation.named_uuids()?;
        uuid = named.define(std::str::from_utf8(&name).ok()?, None)?;
    }
    Some(Operation::Insert { table, uuid, given: None, row })
}

/// Decodes an `insert` from its members.
pub(super) fn insert(
    members: &mut OperationMembers<'_>,
    schema: &DatabaseSchema,
    notation: &mut NotationReader<'_, '_, '_>,
) -> Result<Operation, OperationFailure> {
    let table = table_of(members, schema);
    // The order of these checks determines which of several errors is reported.
    let given = members.optional("uuid", ValueKind::String);
    let name = match members.optional("uuid-name", ValueKind::String) {
        Some(mut at) => {
            let text = string(&mut at);
            if !is_id(&text) {
                members.fail("Type mismatch for member 'uuid-name'.");
            }
            Some(text)
        }
        None => None,
    };
    let row = members.required("row", ValueKind::Object);
    let ((id, table), mut row) = members.require(table.zip(row))?;
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
    let fail = |error| OperationFailure {
        given: given.clone().map(|(uuid, text)| (id, uuid, text)),
        error,
    };
    let named = notation.named_uuids();
    let uuid = match (&name, given_uuid, named) {
        (Some(name), given, Some(named)) => named.define(name, given).ok_or_else(|| {
            let details = "This \"uuid-name\" appeared on an earlier \"insert\" operation.";
            let error =
                OvsdbError::new("duplicate uuid-name", details).with_syntax(&Json::string(name));
            fail(error)
        })?,
        (_, Some(given), _) => given,
        (_, None, Some(named)) => named.generate(),
        (_, None, None) => Uuid::nil(),
    };
    let row = decode_insert_row(&mut row, table, notation, None).map_err(fail)?;
    check_defaults(table, &row).map_err(fail)?;
    Ok(Operation::Insert { table: id, uuid, given: given.map(|(_, text)| text), row })
}

/// Checks the defaults of omitted columns, which may violate the constraints of the columns.
fn check_defaults(table: &TableSchema, row: &InsertRow) -> Result<(), OvsdbError> {
    for column in table.refused_defaults() {
        if row.get(*column).is_none() {
            let ty = table.column_type(*column);
            ty.check(&ty.default_datum())?;
        }
    }
    Ok(())
}
