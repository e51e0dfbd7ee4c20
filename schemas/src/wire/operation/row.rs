//! Decoding of `<row>` (RFC 7047 section 5.1).

use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::{ColumnId, TableSchema};
use crate::wire::notation::NotationReader;

use super::insert_row::InsertRowBuilder;
use super::{ColumnValues, InsertRow};

/// Decodes the `<row>` of an `insert`.
///
/// `template` is the previous row of the table. The row probably has the same columns in the same
/// order, and shares equal values with it.
pub(super) fn decode_insert_row(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    template: Option<&InsertRow>,
) -> Result<InsertRow, OvsdbError> {
    let start = enter(reader)?;
    let mut row = InsertRowBuilder::new(table, template);
    while let Some(column) = next_column(reader, table, row.expected(), start)? {
        let value = *reader;
        let template = row.template_value(column);
        match notation.datum_with_template(reader, table.column_type(column), template) {
            Ok(datum) => row.set(column, datum),
            Err(error) => *reader = skip_overridden(value, column, table).ok_or(error)?,
        }
    }
    Ok(row.finish())
}

/// Decodes the `<row>` of another operation; `template` is as for [`decode_insert_row`].
pub(super) fn decode_row(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    template: Option<&ColumnValues>,
) -> Result<ColumnValues, OvsdbError> {
    let start = enter(reader)?;
    let mut template = template.into_iter().flatten();
    let mut row = ColumnValues::with_capacity(template.size_hint().0);
    loop {
        let likely = template.next();
        let expected = likely.map(|(column, _)| *column);
        let Some(column) = next_column(reader, table, expected, start)? else {
            break;
        };
        let likely = likely.filter(|(expected, _)| *expected == column).map(|(_, datum)| datum);
        let value = *reader;
        let datum = match notation.datum_with_template(reader, table.column_type(column), likely) {
            Ok(datum) => datum,
            Err(error) => {
                *reader = skip_overridden(value, column, table).ok_or(error)?;
                continue;
            }
        };
        match row.iter_mut().find(|(known, _)| *known == column) {
            Some((_, earlier)) => *earlier = datum,
            None => row.push((column, datum)),
        }
    }
    Ok(row)
}

/// Enters the object and returns its position.
fn enter<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, OvsdbError> {
    let start = *reader;
    if reader.enter_object() {
        return Ok(start);
    }
    Err(OvsdbError::syntax_at(start, "row must be JSON object"))
}

/// Moves to the value of the next column. `None`: the row has ended.
fn next_column(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    expected: Option<ColumnId>,
    row: Reader<'_>,
) -> Result<Option<ColumnId>, OvsdbError> {
    // Column names are identifiers, which JSON does not escape.
    if let Some(column) = expected
        && reader.is_plain_member(table.column_name(column))
    {
        return Ok(Some(column));
    }
    let name = reader.next_member();
    name.map(|name| column_of(&name, table, row)).transpose()
}

/// Passes an invalid value that has no effect, because the row names the column again. `None`: it
/// does not.
fn skip_overridden<'a>(
    mut value: Reader<'a>,
    column: ColumnId,
    table: &TableSchema,
) -> Option<Reader<'a>> {
    value.skip();
    let name = table.column_name(column).as_bytes();
    let mut rest = value;
    while let Some(member) = rest.next_member() {
        if *member == *name {
            return Some(value);
        }
        rest.skip();
    }
    None
}

/// Returns the column with this name.
fn column_of(name: &[u8], table: &TableSchema, row: Reader<'_>) -> Result<ColumnId, OvsdbError> {
    let column = std::str::from_utf8(name).ok().and_then(|name| table.column_id(name));
    column.ok_or_else(|| {
        let details =
            format!("No column {} in table {}.", String::from_utf8_lossy(name), table.name);
        OvsdbError { tag: "unknown column".into(), ..OvsdbError::syntax_at(row, details) }
    })
}
