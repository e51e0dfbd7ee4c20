//! The content of a database under another schema.

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
use super::execute::{Access, Execution};
use super::snapshot::Snapshot;

impl Database {
    /// Puts the database under another schema. Tables and columns that both schemas have keep their content, as
    /// far as the new types can hold it; others are dropped or begin with defaults. O(rows).
    ///
    /// Returns the database as it was, for [`go_back_to`](Self::go_back_to).
    ///
    /// # Errors
    /// A value has no place in the new type, or the content breaks a constraint of the new schema. Nothing changed.
    pub fn convert(&mut self, schema: Arc<DatabaseSchema>) -> Result<Self, OvsdbError> {
        let operations = inserts(&self.snapshot(), &schema)?;
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations,
            failure: None,
        };
        let uuids = std::mem::replace(self.uuids_mut(), UuidSource::seeded(0));
        let mut converted = Self::with_uuids(schema, uuids);
        converted.keep_indexes(self);
        match converted.execute(&mut transaction, &Access::unrestricted()) {
            Execution::Failed { error, .. } => {
                std::mem::swap(self.uuids_mut(), converted.uuids_mut());
                Err(error)
            }
            // Inserts do not wait.
            Execution::Committed { .. } | Execution::Blocked { .. } => {
                Ok(std::mem::replace(self, converted))
            }
        }
    }

    /// Undoes a conversion after which nothing was changed.
    pub fn go_back_to(&mut self, mut former: Self) {
        std::mem::swap(self.uuids_mut(), former.uuids_mut());
        *self = former;
    }
}

/// What fills an empty database of the new schema.
fn inserts(snapshot: &Snapshot, schema: &DatabaseSchema) -> Result<Vec<Operation>, OvsdbError> {
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
                let value = row.get(*old_column).into_owned();
                let value = if ty == old_ty {
                    value
                } else {
                    reread(&value, old_ty, ty, &mut strings)?
                };
                Ok((*column, value))
            };
            operations.push(Operation::Insert {
                table,
                uuid: row.uuid,
                given: None,
                row: InsertRow::new(
                    new,
                    kept.iter()
                        .map(value)
                        .collect::<Result<ColumnValues, OvsdbError>>()?,
                ),
            });
        }
    }
    Ok(operations)
}

/// A value, written and read as one of another type.
fn reread(
    value: &Datum,
    old: &ColumnType,
    new: &ColumnType,
    strings: &mut StringCache,
) -> Result<Datum, OvsdbError> {
    // A real is no integer, whatever its value: its text does not tell.
    let was_real = |old: &BaseType, new: &BaseType| {
        old.atom == AtomType::Real && new.atom == AtomType::Integer
    };
    let values = old.value.as_ref().zip(new.value.as_ref());
    let real = if was_real(&old.key, &new.key) {
        value.atoms().next()
    } else if values.is_some_and(|(old, new)| was_real(old, new)) {
        value.atoms().nth(1)
    } else {
        None
    };
    let outcome = if let Some(real) = real
        && (new.min as usize..=new.max as usize).contains(&value.len())
    {
        let text = text_of(|text| write_atom(text, real))?;
        Err(OvsdbError::syntax_at(element(&text), "expected integer"))
    } else {
        let text = text_of(|text| write_value(text, value))?;
        NotationReader::new(strings).datum(&mut element(&text), new)
    };
    outcome.map_err(|error| respelled(error, value))
}

/// The error with reals as they are printed: what was read of them may have become integers.
fn respelled(mut error: OvsdbError, value: &Datum) -> OvsdbError {
    type Write<'w> = &'w dyn Fn(&mut Vec<u8>);
    let mut respell = |exactly: Write<'_>, printed: Write<'_>| {
        let Ok(text) = text_of(exactly) else { return };
        if error.syntax == Some(Json::read(&mut element(&text)).to_text()) {
            let mut out = Vec::new();
            printed(&mut out);
            error.syntax = Some(String::from_utf8_lossy(&out).into_owned());
        }
    };
    respell(&|out| write_value(out, value), &|out| value.write_json(out));
    for atom in value.atoms().filter(|atom| matches!(atom, Atom::Real(_))) {
        respell(&|out| write_atom(out, atom), &|out| atom.write_json(out));
    }
    error
}

/// Writes a value as clients see it, but with all digits of its reals.
fn write_value(out: &mut Vec<u8>, value: &Datum) {
    match value {
        Datum::Set(set) if set.len() == 1 => set.iter().for_each(|atom| write_atom(out, atom)),
        Datum::Set(set) => {
            out.extend_from_slice(b"[\"set\",[");
            for (i, atom) in set.iter().enumerate() {
                separate(out, i);
                write_atom(out, atom);
            }
            out.extend_from_slice(b"]]");
        }
        Datum::Map(map) => {
            out.extend_from_slice(b"[\"map\",[");
            for (i, (key, value)) in map.iter().enumerate() {
                separate(out, i);
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

fn separate(out: &mut Vec<u8>, i: usize) {
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

/// An array of one element, which `write` writes.
fn text_of(write: impl FnOnce(&mut Vec<u8>)) -> Result<TextBuf, OvsdbError> {
    let mut text = b"[".to_vec();
    write(&mut text);
    text.push(b']');
    TextBuf::parse(text).map_err(|error| OvsdbError::new("internal error", error.to_string()))
}

/// The only element of an array.
fn element(text: &TextBuf) -> Reader<'_> {
    let mut reader = Reader::new(text.as_text());
    reader.enter_array();
    reader.next_element();
    reader
}
