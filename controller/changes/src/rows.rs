//! Changed rows with their columns.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnId, TableSchema};
use serde::Serialize;

use patchbay_model::external_ids::key;
use patchbay_model::printable::printable;

/// Columns that identify a row without a name and an owner id, best first.
const IDENTIFYING_COLUMNS: [&str; 7] =
    ["match", "ip_prefix", "logical_ip", "cidr", "chassis_name", "logical_port", "action"];

/// Maximum length of a printed key, value or name, in bytes.
pub const MAX_ELEMENT_BYTES: usize = 1_000;

/// One row that is inserted, changed or deleted.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ChangedRow {
    /// Name of the table.
    pub table: String,
    /// Name of the row, or what identifies it best.
    pub row: String,
    /// What happens to the row.
    pub change: ChangeKind,
    columns: BTreeMap<String, ColumnChange>,
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It comes.
    Insert,
    /// Its columns change.
    Change,
    /// It goes.
    Delete,
}

/// The elements of a column that are removed and added.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
struct ColumnChange {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    old: Vec<Element>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    new: Vec<Element>,
}

/// Element of a column.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
struct Element {
    plain: String,
    /// The element as `ovn-nbctl list` prints it.
    #[serde(skip)]
    printed: String,
}

impl ChangedRow {
    /// Names of the columns that are not alike.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// `true` if no column is added or removed.
    pub fn is_unchanged(&self) -> bool {
        self.columns.is_empty()
    }

    /// The elements that are removed (`-`) and added (`+`), a line for each: at most `limit` of each
    /// column and sign, the others as a number.
    pub fn lines(&self, limit: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for (column, change) in &self.columns {
            for (sign, elements) in [('-', &change.old), ('+', &change.new)] {
                let shown = elements.iter().take(limit);
                lines.extend(shown.map(|element| format!("{sign} {column}: {}", element.printed)));
                if let Some(more @ 1..) = elements.len().checked_sub(limit) {
                    lines.push(format!("{sign} {column}: {more} more"));
                }
            }
        }
        lines
    }

    /// The elements that were added, by column, in the order of their texts.
    pub fn into_elements(self) -> BTreeMap<String, Vec<String>> {
        let columns = self.columns.into_iter();
        let sorted = |elements: Vec<Element>| {
            let mut texts: Vec<_> = elements.into_iter().map(|element| element.plain).collect();
            texts.sort();
            texts
        };
        columns.map(|(column, change)| (column, sorted(change.new))).collect()
    }
}

impl ChangeKind {
    /// What a change does to its row.
    pub fn of(change: &RowChange) -> Self {
        match (&change.old, &change.new) {
            (None, _) => Self::Insert,
            (_, None) => Self::Delete,
            _ => Self::Change,
        }
    }

    /// The character before a row that is inserted, changed or deleted.
    pub fn sign(self) -> char {
        match self {
            Self::Insert => '+',
            Self::Change => '~',
            Self::Delete => '-',
        }
    }
}

/// The snapshots before and after, which hold the names of the rows.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots<'a> {
    /// Rows before the change.
    pub before: &'a Snapshot,
    /// Rows after the change.
    pub after: &'a Snapshot,
}

impl Snapshots<'_> {
    /// The rows of changes, by table and name.
    pub fn changed_rows(&self, changes: &[RowChange]) -> Vec<ChangedRow> {
        let mut rows: Vec<_> =
            changes.iter().filter_map(|change| self.changed_row(change)).collect();
        rows.sort();
        rows
    }

    /// The row of a change. `None`: it has no version.
    pub fn changed_row(&self, change: &RowChange) -> Option<ChangedRow> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let schema = self.after.schema().table(change.table);
        let columns = schema.column_ids().filter_map(|column| {
            let column_change = self.column_change(schema, column, old, new)?;
            Some((schema.column_name(column).to_owned(), column_change))
        });
        Some(ChangedRow {
            table: schema.name.to_string(),
            row: row_name(schema, new.or(old)?),
            change: ChangeKind::of(change),
            columns: columns.collect(),
        })
    }

    fn column_change(
        &self,
        schema: &TableSchema,
        column: ColumnId,
        old: Option<&Row>,
        new: Option<&Row>,
    ) -> Option<ColumnChange> {
        let ty = schema.column_type(column);
        let elements = |row: Option<&Row>, names: [&Snapshot; 2]| {
            let datum = row.map(|row| row.get(column));
            let datum = datum.filter(|datum| !ty.is_default(datum));
            datum.map_or_else(Vec::new, |datum| elements(&ty.key, &datum, names))
        };
        // Of a deleted row the name is enough.
        let new_elements = elements(new, [self.after, self.before]);
        let old_elements = elements(old.filter(|_| new.is_some()), [self.before, self.after]);
        let only = |these: &[Element], others: &[Element]| -> Vec<Element> {
            let others: HashSet<&Element> = others.iter().collect();
            let only = these.iter().filter(|element| !others.contains(element));
            only.cloned().collect()
        };
        let change = ColumnChange {
            old: only(&old_elements, &new_elements),
            new: only(&new_elements, &old_elements),
        };
        (!change.old.is_empty() || !change.new.is_empty()).then_some(change)
    }
}

/// The elements of a column, with the names of rows from the first snapshot that has them.
fn elements(ty: &BaseType, datum: &Datum, names: [&Snapshot; 2]) -> Vec<Element> {
    match datum {
        Datum::Set(set) => set.iter().map(|atom| element(ty, atom, names)).collect(),
        Datum::Map(map) => map
            .iter()
            .map(|(key, value)| Element {
                plain: format!("{}={}", plain(key), plain(value)),
                printed: format!("{}={}", printed(key), printed(value)),
            })
            .collect(),
    }
}

fn element(ty: &BaseType, atom: &Atom, names: [&Snapshot; 2]) -> Element {
    let target = ty.reference().zip(atom.as_uuid());
    let row = target.and_then(|(reference, uuid)| {
        let mut rows = names.into_iter().filter_map(|known| known.row(reference.table, uuid));
        Some(row_name(names[0].schema().table(reference.table), rows.next()?))
    });
    let name = row.map(|name| Atom::from(name.as_str()));
    let atom = name.as_ref().unwrap_or(atom);
    Element { plain: plain(atom), printed: printed(atom) }
}

/// An atom as `ovn-nbctl list` prints it, at most [`MAX_ELEMENT_BYTES`] of it.
fn printed(atom: &Atom) -> String {
    printable(&atom.to_string(), MAX_ELEMENT_BYTES).into_owned()
}

fn plain(atom: &Atom) -> String {
    match atom {
        Atom::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// Returns the name of a row, or what identifies it best.
pub(super) fn row_name(schema: &TableSchema, row: &Row) -> String {
    let text = |column: &str| {
        let datum = row.get(schema.column_id(column)?);
        let text = datum.as_scalar()?.as_str()?.to_owned();
        Some(text).filter(|text| !text.is_empty())
    };
    let identity = || {
        let external_ids = row.get(schema.column_id("external_ids")?);
        external_ids.as_map()?.get_str(key::ID).map(str::to_owned)
    };
    text("name")
        .or_else(identity)
        .or_else(|| IDENTIFYING_COLUMNS.into_iter().find_map(text))
        .unwrap_or_else(|| row.uuid.to_string())
}

impl fmt::Display for ChangedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = self.change.sign();
        let row = printed(&Atom::from(self.row.as_str()));
        writeln!(f, "{sign} {} {row}", self.table)?;
        for (column, change) in &self.columns {
            for old in &change.old {
                writeln!(f, "    - {column}: {}", old.printed)?;
            }
            for new in &change.new {
                writeln!(f, "    + {column}: {}", new.printed)?;
            }
        }
        Ok(())
    }
}
