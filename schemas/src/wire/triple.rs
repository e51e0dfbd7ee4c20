//! `[column, function, value]` and `[column, mutator, value]`: the common form of `<condition>` and
//! `<mutation>`.

use std::borrow::Cow;

use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::{ColumnId, TableSchema};

use super::notation::array_len;

/// First two elements of a triple.
pub(super) struct TripleHead<'a> {
    start: Reader<'a>,
    pub(super) column: ColumnId,
    pub(super) column_name: Cow<'a, str>,
    /// Name of the function or mutator.
    pub(super) operator: Cow<'a, str>,
}

impl TripleHead<'_> {
    /// Returns the error of an operator that does not apply to the type of the column.
    pub(super) fn type_mismatch(&self, table: &TableSchema) -> OvsdbError {
        let details = format!(
            "Type mismatch: \"{}\" operator may not be applied to column {} of type {}.",
            self.operator,
            self.column_name,
            table.column_type(self.column).to_english()
        );
        OvsdbError::syntax_at(self.start, details)
    }

    /// Returns an error with this tag and the text of the triple.
    pub(super) fn error(&self, tag: &'static str, details: String) -> OvsdbError {
        tagged(tag, self.start, details)
    }
}

/// Decodes a triple whose value `decode_value` reads. `kind` is the name of the triple in errors.
///
/// An error of the form (three elements, of which the first two are strings) precedes all other
/// errors.
pub(super) fn decode_triple<'a, T>(
    reader: &mut Reader<'a>,
    table: &TableSchema,
    kind: &str,
    decode_value: impl FnOnce(&TripleHead<'a>, &mut Reader<'a>) -> Result<T, OvsdbError>,
) -> Result<T, OvsdbError> {
    let start = *reader;
    let malformed = || OvsdbError::syntax_at(start, format!("Parse error in {kind}."));
    let (column_name, operator) = strings(reader).ok_or_else(malformed)?;
    let value = if let Some(column) = table.column_id(&column_name) {
        let head = TripleHead { start, column, column_name, operator };
        decode_value(&head, reader)
    } else {
        let details = format!("No column {column_name} in table {}.", table.name);
        Err(tagged("unknown column", start, details))
    };
    let is_triple = match &value {
        Ok(_) => !reader.next_element(),
        Err(_) => array_len(start) == Some(3),
    };
    if is_triple { value } else { Err(malformed()) }
}

fn tagged(tag: &'static str, start: Reader<'_>, details: String) -> OvsdbError {
    OvsdbError { tag: tag.into(), ..OvsdbError::syntax_at(start, details) }
}

/// Reads `[string, string,`. `None`: the value does not start in this form.
fn strings<'a>(reader: &mut Reader<'a>) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    let string = |reader: &mut Reader<'a>| Some(to_text(reader.string()?));
    if !reader.enter_array() || !reader.next_element() {
        return None;
    }
    let first = string(reader)?;
    if !reader.next_element() {
        return None;
    }
    let second = string(reader)?;
    reader.next_element().then_some((first, second))
}

/// Converts a name to text. Invalid UTF-8 is replaced, because no column, function or mutator has
/// such a name.
fn to_text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}
