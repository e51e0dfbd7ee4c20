//! Conversion of a database to another schema.

use std::sync::Arc;

use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::schema::{BaseType, ColumnType, DatabaseSchema};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{
    ColumnValues, DecodedTransaction, InsertRow, NotationReader, Operation,
};

use super::database::Database;
use super::execution::{Access, Execution};
use super::snapshot::Snapshot;

impl Database {
    /// Converts the database to another schema, as ovsdb-server's `convert` request does. O(rows).
    ///
    /// Tables and columns that both schemas have keep their contents. Other tables and columns are
    /// dropped, or are empty and have default values. Declared indexes are kept.
    ///
    /// Returns the database as it was before, for [`revert_conversion`](Self::revert_conversion).
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use patchbay_engine::db::Database;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::datum::Datum;
    /// use patchbay_schemas::schema::DatabaseSchema;
    ///
    /// let schema = |columns: &str| {
    ///     let tables = format!(r#"{{"Bridge":{{"isRoot":true,"columns":{{{columns}}}}}}}"#);
    ///     let text = format!(r#"{{"name":"D","version":"1.0.0","tables":{tables}}}"#);
    ///     DatabaseSchema::parse(text.as_bytes()).map(Arc::new)
    /// };
    /// let mut database = Database::new(schema(r#""name":{"type":"string"}"#)?);
    /// let mut txn = TxnBuilder::new(&database.snapshot());
    /// txn.insert_row("Bridge", [("name", Datum::scalar("br0"))])?;
    /// database.transact(txn.finish().operations())?;
    ///
    /// let with_tag = schema(r#""name":{"type":"string"},"tag":{"type":"integer"}"#)?;
    /// let former = database.convert(with_tag)?;
    /// assert!(database.schema().table_by_name("Bridge").unwrap().1.column_id("tag").is_some());
    /// assert_eq!(database.snapshot().row_count(), 1);
    ///
    /// database.revert_conversion(former);
    /// assert!(database.schema().table_by_name("Bridge").unwrap().1.column_id("tag").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A value does not fit the new type of its column, or the contents violate a constraint of the
    /// new schema. Nothing has changed.
    pub fn convert(&mut self, schema: Arc<DatabaseSchema>) -> Result<Self, OvsdbError> {
        let operations = converted_inserts(&self.snapshot(), &schema)?;
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        let uuids = std::mem::replace(self.uuids_mut(), UuidSource::seeded(0));
        let mut converted = Self::from_empty(self.snapshot().empty_like(schema), uuids);
        match converted.execute(&mut transaction, &Access::unrestricted()) {
            Execution::Failed { error, .. } => {
                std::mem::swap(self.uuids_mut(), converted.uuids_mut());
                Err(error)
            }
            // A transaction of inserts never waits.
            Execution::Committed { .. } | Execution::Waiting { .. } => {
                Ok(std::mem::replace(self, converted))
            }
        }
    }

    /// Reverts a conversion to the database that [`convert`](Self::convert) returned. Transactions
    /// since the conversion are lost.
    pub fn revert_conversion(&mut self, mut former: Self) {
        std::mem::swap(self.uuids_mut(), former.uuids_mut());
        *self = former;
    }
}

/// Operations that insert the converted rows into an empty database of the new schema.
fn converted_inserts(
    snapshot: &Snapshot,
    schema: &DatabaseSchema,
) -> Result<Vec<Operation>, OvsdbError> {
    let mut operations = Vec::new();
    let mut strings = StringCache::default();
    for table in schema.table_ids() {
        let new = schema.table(table);
        let Some((old_table, old)) = snapshot.schema().table_by_name(&new.name) else {
            continue;
        };
        let kept: Vec<_> = new
            .column_ids()
            .filter_map(|column| Some((column, old.column_id(new.column_name(column))?)))
            .collect();
        for row in snapshot.table(old_table).iter() {
            let value = |(column, old_column): &(_, _)| {
                let (ty, old_ty) = (new.column_type(*column), old.column_type(*old_column));
                let old_value = row.get(*old_column).into_owned();
                if ty == old_ty {
                    return Ok((*column, old_value));
                }
                let value = convert_value(&old_value, old_ty, ty, &mut strings)?;
                Ok((*column, value))
            };
            operations.push(Operation::Insert {
                table,
                uuid: row.uuid,
                given: None,
                row: InsertRow::new(
                    new,
                    kept.iter().map(value).collect::<Result<ColumnValues, OvsdbError>>()?,
                ),
            });
        }
    }
    Ok(operations)
}

/// Converts a value by writing it as JSON and decoding the JSON as a value of the new type.
fn convert_value(
    value: &Datum,
    old: &ColumnType,
    new: &ColumnType,
    strings: &mut StringCache,
) -> Result<Datum, OvsdbError> {
    // A real never becomes an integer, although the text of 1.0 would be decoded as one.
    let was_real = |old: &BaseType, new: &BaseType| {
        old.atom == AtomType::Real && new.atom == AtomType::Integer
    };
    let values = old.value.as_ref().zip(new.value.as_ref());
    let real = if old.is_map() != new.is_map() {
        // The notation is that of the other kind of column.
        None
    } else if was_real(&old.key, &new.key) {
        value.atoms().next()
    } else if values.is_some_and(|(old, new)| was_real(old, new))
        && first_key_fits(value, &new.key, strings)
    {
        value.atoms().nth(1)
    } else {
        None
    };
    let outcome = if let Some(real) = real
        && (new.min as usize..=new.max as usize).contains(&value.len())
    {
        let text = array_of(|text| write_atom(text, real))?;
        Err(OvsdbError::syntax_at(only_element(&text), "expected integer"))
    } else {
        let text = array_of(|text| write_value(text, value))?;
        NotationReader::new(strings).datum(&mut only_element(&text), new)
    };
    outcome.map_err(|error| with_printed_reals(error, value))
}

/// `true` if the first key of a map is a value of the new type, so that an error is in the value.
fn first_key_fits(map: &Datum, new: &BaseType, strings: &mut StringCache) -> bool {
    let scalar = ColumnType { key: new.clone(), value: None, min: 1, max: 1 };
    let Some(key) = map.atoms().next() else {
        return false;
    };
    let text = array_of(|text| write_atom(text, key));
    text.is_ok_and(|text| {
        let mut reader = only_element(&text);
        NotationReader::new(strings).datum(&mut reader, &scalar).is_ok()
    })
}

/// Replaces the reals in the error's syntax by their printed form, because decoding may have turned
/// them into integers.
fn with_printed_reals(mut error: OvsdbError, value: &Datum) -> OvsdbError {
    type Write<'w> = &'w dyn Fn(&mut Vec<u8>);
    let mut replace = |exactly: Write<'_>, printed: Write<'_>| {
        let Ok(text) = array_of(exactly) else { return };
        if error.syntax.as_deref() == Some(&*Json::read(&mut only_element(&text)).to_text()) {
            let mut out = Vec::new();
            printed(&mut out);
            error.syntax = Some(String::from_utf8_lossy(&out).into());
        }
    };
    replace(&|out| write_value(out, value), &|out| value.write_json(out));
    for atom in value.atoms().filter(|atom| matches!(atom, Atom::Real(_))) {
        replace(&|out| write_atom(out, atom), &|out| atom.write_json(out));
    }
    error
}

/// Writes a value in the notation of RFC 7047 §5.1, but with all digits of its reals.
fn write_value(out: &mut Vec<u8>, value: &Datum) {
    match value {
        Datum::Set(set) if set.len() == 1 => set.iter().for_each(|atom| write_atom(out, atom)),
        Datum::Set(set) => {
            out.extend_from_slice(b"[\"set\",[");
            for (i, atom) in set.iter().enumerate() {
                write_separator(out, i);
                write_atom(out, atom);
            }
            out.extend_from_slice(b"]]");
        }
        Datum::Map(map) => {
            out.extend_from_slice(b"[\"map\",[");
            for (i, (key, value)) in map.iter().enumerate() {
                write_separator(out, i);
                out.push(b'[');
                write_atom(out, key);
                out.push(b',');
                write_atom(out, value);
                out.push(b']');
            }
            out.extend_from_slice(b"]]");
        }
    }
}

fn write_separator(out: &mut Vec<u8>, i: usize) {
    if i > 0 {
        out.push(b',');
    }
}

fn write_atom(out: &mut Vec<u8>, atom: &Atom) {
    match atom {
        Atom::Real(real) => out.extend_from_slice(format!("{:?}", real.0).as_bytes()),
        other => other.write_json(out),
    }
}

/// A JSON array with one element, which `write` writes.
fn array_of(write: impl FnOnce(&mut Vec<u8>)) -> Result<TextBuf, OvsdbError> {
    let mut text = b"[".to_vec();
    write(&mut text);
    text.push(b']');
    TextBuf::parse(text).map_err(|error| OvsdbError::new("internal error", error.to_string()))
}

/// A reader at the only element of an array.
fn only_element(text: &TextBuf) -> Reader<'_> {
    let mut reader = Reader::new(text.as_text());
    reader.enter_array();
    reader.next_element();
    reader
}
