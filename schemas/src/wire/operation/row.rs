//! `<row>` (RFC 7047 §5.1).

use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::{ColumnId, TableSchema};
use crate::wire::notation::NotationReader;

use super::ColumnValues;

/// Decodes a `<row>`. Programs write their rows alike: `like`, the one before, tells which columns probably come in
/// which order, and what they may share.
pub(super) fn decode_row(
    reader: &mut Reader<'_>,
    table: &TableSchema,
    notation: &mut NotationReader<'_, '_, '_>,
    like: Option<&ColumnValues>,
) -> Result<ColumnValues, OvsdbError> {
    let start = *reader;
    if !reader.enter_object() {
        return Err(OvsdbError::syntax_at(start, "row must be JSON object"));
    }
    let mut likely = like.into_iter().flatten();
    let mut row = ColumnValues::with_capacity(likely.size_hint().0);
    loop {
        // Names of columns are identifiers.
        let expected = likely.next();
        let (column, likely) = match expected {
            Some((column, datum)) if reader.is_plain_member(table.column_name(*column)) => {
                (*column, Some(datum))
            }
            _ => match reader.next_member() {
                Some(name) => (column_of(&name, table, start)?, None),
                None => break,
            },
        };
        let datum = notation.datum_like(reader, table.column_type(column), likely)?;
        match row.iter_mut().find(|(have, _)| *have == column) {
            Some((_, earlier)) => *earlier = datum,
            None => row.push((column, datum)),
        }
    }
    Ok(row)
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
