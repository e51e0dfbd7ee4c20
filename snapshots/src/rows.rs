//! Texts of whole rows: `ovn-nbctl list`, and a database with names in place of UUIDs.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::hash_order;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnType, TableSchema};
use uuid::Uuid;

use crate::lookup::RenderError;
use crate::output::Output;

/// Table whose column `name` is a text for logs.
const NAMELESS: &str = "ACL";
/// External id that OVN-Kubernetes' rows without names are known by.
const ID: &str = "k8s.ovn.org/id";

/// Renders the rows of a table as `ovn-nbctl list` does, in the order of its hash table. The
/// columns are those of the database's schema, so with the schema of a release the text is that of
/// the release.
///
/// # Errors
/// There is no such table.
pub fn list(snapshot: &Snapshot, table: &str) -> Result<String, RenderError> {
    let schema = snapshot.schema();
    let Some((id, table_schema)) = schema.table_by_name(table) else {
        return Err(RenderError::NoSuchTable { table: table.to_owned() });
    };
    let rows = snapshot.table(id);
    let uuids = rows.iter().map(|row| row.uuid).collect();
    let mut output = Output::default();
    for (place, uuid) in hash_order::row_order(uuids).into_iter().enumerate() {
        let Some(row) = snapshot.row(id, uuid) else {
            continue;
        };
        if place > 0 {
            output.line(format_args!(""));
        }
        output.line(format_args!("{:20}: {uuid}", "_uuid"));
        for (name, ty, datum) in columns(table_schema, row) {
            let value = datum_text(ty, &datum, &|atom, _| atom_text(atom));
            output.line(format_args!("{name:20}: {value}"));
        }
    }
    Ok(output.finish())
}

/// Renders all rows of a database, each with its columns that are not empty, and with names in
/// place of UUIDs. Databases with equal content have equal texts, whatever UUIDs they have.
///
/// A row without name is known by its external id `k8s.ovn.org/id`, or else by its columns that
/// refer to no row. Rows are sorted by name.
pub fn northbound(snapshot: &Snapshot) -> String {
    let schema = snapshot.schema();
    let mut tables: Vec<_> = schema.table_ids().collect();
    tables.sort_by_key(|id| &schema.table(*id).name);
    let mut output = Output::default();
    for id in tables {
        let table = schema.table(id);
        let rows = snapshot.table(id).iter();
        let mut texts: Vec<(String, String)> =
            rows.map(|row| (label(table, row), named_row(snapshot, table, row))).collect();
        texts.sort();
        for (label, text) in texts {
            output.line(format_args!("{} {label}", table.name));
            output.put(format_args!("{text}"));
        }
    }
    output.finish()
}

/// The columns of a row that are not empty.
fn named_row(snapshot: &Snapshot, table: &TableSchema, row: &Row) -> String {
    let mut output = Output::default();
    let all = columns(table, row).into_iter();
    for (name, ty, datum) in all.filter(|(_, ty, datum)| !ty.is_default(datum)) {
        let value = datum_text(ty, &datum, &|atom, base| {
            name_of(snapshot, base, atom).unwrap_or_else(|| atom_text(atom))
        });
        output.line(format_args!("    {name}: {value}"));
    }
    output.finish()
}

/// Columns by name.
fn columns<'a>(table: &'a TableSchema, row: &Row) -> Vec<(&'a str, &'a ColumnType, Datum)> {
    let mut columns: Vec<_> = table
        .column_ids()
        .map(|column| {
            let ty = table.column_type(column);
            (table.column_name(column), ty, row.get(column).into_owned())
        })
        .collect();
    columns.sort_by_key(|(name, ..)| *name);
    columns
}

/// Name of the row that an atom refers to. `None`: it refers to none.
fn name_of(snapshot: &Snapshot, base: &BaseType, atom: &Atom) -> Option<String> {
    let (reference, uuid) = (base.reference()?, atom.as_uuid()?);
    let row = snapshot.row(reference.table, uuid)?;
    Some(label(snapshot.schema().table(reference.table), row))
}

/// Name of a row, or what stands for it.
fn label(table: &TableSchema, row: &Row) -> String {
    let column = |name: &str| table.column_id(name).map(|column| row.get(column));
    let name = column("name").filter(|_| &*table.name != NAMELESS);
    let name = name.and_then(|name| name.as_scalar()?.as_str().map(str::to_owned));
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        return name;
    }
    let id = column("external_ids");
    if let Some(id) = id.and_then(|ids| ids.as_map()?.get_str(ID).map(str::to_owned)) {
        return id;
    }
    let columns = columns(table, row).into_iter();
    let own = columns
        .filter(|(name, ty, datum)| {
            let values = ty.value.as_ref().and_then(BaseType::reference);
            let has_references = ty.key.reference().or(values).is_some();
            !has_references && *name != "external_ids" && !ty.is_default(datum)
        })
        .map(|(name, ty, datum)| {
            let value = datum_text(ty, &datum, &|atom, _| atom_text(atom));
            format!("{name}={value}")
        });
    own.collect::<Vec<_>>().join(" ")
}

/// A datum as `ovn-nbctl` prints it, with the texts of its atoms. References are sorted by text.
fn datum_text(ty: &ColumnType, datum: &Datum, text: &dyn Fn(&Atom, &BaseType) -> String) -> String {
    let (mut items, open, close): (Vec<String>, _, _) = match datum {
        Datum::Set(set) => (set.iter().map(|atom| text(atom, &ty.key)).collect(), '[', ']'),
        Datum::Map(map) => {
            let pair = |key: &Atom, value: &Atom| {
                let base = ty.value.as_ref().unwrap_or(&ty.key);
                format!("{}={}", text(key, &ty.key), text(value, base))
            };
            let pairs = map.iter().map(|(key, value)| pair(key, value));
            (pairs.collect(), '{', '}')
        }
    };
    if ty.key.reference().is_some() {
        items.sort();
    }
    if ty.max > 1 || items.is_empty() {
        format!("{open}{}{close}", items.join(", "))
    } else {
        items.concat()
    }
}

/// An atom as `ovn-nbctl` prints it: texts that are not like names are in quotes.
fn atom_text(atom: &Atom) -> String {
    match atom.as_str() {
        Some(text) if is_plain(text) => text.to_owned(),
        Some(_) => {
            let mut json = Vec::new();
            atom.write_json(&mut json);
            String::from_utf8_lossy(&json).into_owned()
        }
        None => match (atom.as_uuid(), atom.as_integer(), atom.as_boolean()) {
            (Some(uuid), ..) => uuid.to_string(),
            (_, Some(number), _) => number.to_string(),
            (_, _, Some(is_true)) => is_true.to_string(),
            _ => {
                let mut json = Vec::new();
                atom.write_json(&mut json);
                String::from_utf8_lossy(&json).into_owned()
            }
        },
    }
}

/// Returns `true` if Open vSwitch prints a text without quotes.
fn is_plain(text: &str) -> bool {
    const UUID_LEN: usize = 36;
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_part = |c: char| is_start(c) || c.is_ascii_digit() || c == '-' || c == '.';
    let is_uuid = text.len() == UUID_LEN && Uuid::try_parse(text).is_ok();
    text.starts_with(is_start)
        && text.chars().all(is_part)
        && !matches!(text, "true" | "false")
        && !is_uuid
}
