//! `<row>` (RFC 7047 §5.1).

use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::{ColumnId, TableSchema};
use crate::wire::notation::NotationReader;

use super::insert_row::InsertRowBuilder;
use super::{ColumnValues, InsertRow};

/// Decodes the `<row>` of an `insert`. Programs write their rows alike: `like`, the one before, tells which columns
/// probably come in which order, and what they may share.
pub(super) fn decode_insert_row(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    like: Option<&InsertRow>,
) -> Result<InsertRow, OvsdbError> {
    let start = enter(reader)?;
    let mut row = InsertRowBuilder::new(table, like);
    while let Some(column) = next_column(reader, table, row.expected(), start)? {
        let value = *reader;
        let likely = row.likely(column);
        match notation.datum_like(reader, table.column_type(column), likely) {
            Ok(datum) => row.set(column, datum),
            Err(error) => *reader = overridden(value, column, table).ok_or(error)?,
        }
    }
    Ok(row.finish())
}

/// Decodes the `<row>` of another operation; the same of `like`.
pub(super) fn decode_row(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    like: Option<&ColumnValues>,
) -> Result<ColumnValues, OvsdbError> {
    let start = enter(reader)?;
    let mut likely = like.into_iter().flatten();
    let mut row = ColumnValues::with_capacity(likely.size_hint().0);
    loop {
        let likely = likely.next();
        let expected = likely.map(|(column, _)| *column);
        let Some(column) = next_column(reader, table, expected, start)? else {
            break;
        };
        let likely = likely.filter(|(expected, _)| *expected == column);
        let likely = likely.map(|(_, datum)| datum);
        let value = *reader;
        let datum = match notation.datum_like(reader, table.column_type(column), likely) {
            Ok(datum) => datum,
            Err(error) => {
                *reader = overridden(value, column, table).ok_or(error)?;
                continue;
            }
        };
        match row.iter_mut().find(|(have, _)| *have == column) {
            Some((_, earlier)) => *earlier = datum,
            None => row.push((column, datum)),
        }
    }
    Ok(row)
}

/// Where the row begins.
fn enter<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, OvsdbError> {
    let start = *reader;
    if reader.enter_object() {
        return Ok(start);
    }
    Err(OvsdbError::syntax_at(start, "row must be JSON object"))
}

/// The next column of a row; none at the row's end.
fn next_column(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    expected: Option<ColumnId>,
    row: Reader<'_>,
) -> Result<Option<ColumnId>, OvsdbError> {
    // Names of columns are identifiers.
    if let Some(column) = expected
        && reader.is_plain_member(table.column_name(column))
    {
        return Ok(Some(column));
    }
    let name = reader.next_member();
    name.map(|name| column_of(&name, table, row)).transpose()
}

/// Behind a value that does not count, because the row names the column once more; none if it does not.
fn overridden<'a>(
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

fn column_of(name: &[u8], table: &TableSchema, row: Reader<'_>) -> Result<ColumnId, OvsdbError> {
    let column = std::str::from_utf8(name)
        .ok()
        .and_then(|name| table.column_id(name));
    column.ok_or_else(|| {
        let details = format!(
            "No column {} in table {}.",
            String::from_utf8_lossy(name),
            table.name
        );
        OvsdbError {
            tag: "unknown column".into(),
            ..OvsdbError::syntax_at(row, details)
        }
    })
}
