//! Rows that are not as parts want them, in words.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map, Set};
use uuid::Uuid;

use crate::index::Index;
use crate::parts::PartId;
use crate::steps::{Action, Membership, NewRow, Step, Target};
use crate::table::{Holding, TablePlace};

/// Upper bound of the text of a row or a value, in characters.
const MAX_TEXT_CHARS: usize = 120;
/// Elements of a column that a difference lists; further ones are counted.
const MAX_ELEMENTS: usize = 3;

/// Row that is not as its part wants it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RowDifference {
    /// Name of the table.
    pub table: &'static str,
    /// Name of the row, or the content that identifies it best.
    pub row: String,
    /// Difference.
    pub kind: DifferenceKind,
}

/// Difference of a row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DifferenceKind {
    /// The row is not there.
    Missing,
    /// Columns that differ, in words.
    Changed(Vec<String>),
    /// The row is there, and another one does not refer to it.
    NotHeld {
        /// Table of the other row.
        table: &'static str,
        /// Name of the other row.
        holder: String,
    },
    /// Another row refers to it and should not.
    Held {
        /// Table of the other row.
        table: &'static str,
        /// Name of the other row.
        holder: String,
    },
    /// The part owns the row and does not want it.
    Unwanted,
}

/// Differences that steps remove, each with its part, in the order of the steps.
pub(crate) fn differences<P: Clone + Eq + Hash>(
    steps: &[Step],
    index: &Index<P>,
) -> Vec<(PartId, RowDifference)> {
    let mut found: Vec<(PartId, RowDifference)> = Vec::new();
    // A row has several steps if a column changes in stages, or if several rows lose it.
    let mut places = HashMap::<(PartId, Uuid), usize>::new();
    for step in steps {
        let Some((row, kind)) = existing(&step.action, index) else {
            if let Action::Insert(row) = &step.action {
                found.push((step.part, missing(row, index)));
            }
            continue;
        };
        let place = *places.entry((step.part, row.1)).or_insert(found.len());
        match (found.get_mut(place), kind) {
            (None, kind) => found.push((step.part, of_row(row, kind, index))),
            (Some((_, known)), DifferenceKind::Changed(more)) => match &mut known.kind {
                DifferenceKind::Changed(columns) => columns.extend(more),
                _ => known.kind = DifferenceKind::Changed(more),
            },
            // One difference of a row is enough.
            (Some(_), _) => {}
        }
    }
    found
}

/// Difference of a row that is there. `None`: a new row, or a reference to a new row, which is a
/// difference itself.
fn existing<P: Clone + Eq + Hash>(
    action: &Action,
    index: &Index<P>,
) -> Option<((TablePlace, Uuid), DifferenceKind)> {
    let other = |holding: Holding, holder: Uuid| {
        let table = index.layout.holding(holding).spec.holder;
        let name = index.layout.table(table).name;
        (name, row_text(table, holder, index))
    };
    let held_in = |holding: Holding| index.layout.holding(holding).spec.held;
    Some(match action {
        Action::Update { table, row, columns } => {
            let texts = columns.iter().map(|(name, have, wanted)| column_text(name, have, wanted));
            ((*table, *row), DifferenceKind::Changed(texts.collect()))
        }
        Action::Mutate { table, row, .. } => {
            let members = index.layout.table(*table).members;
            let column = members.map_or("", |members| members.name);
            let text = format!("{column} has other members");
            ((*table, *row), DifferenceKind::Changed(vec![text]))
        }
        Action::Attach(Membership {
            holding,
            holder: Target::There(holder),
            held: Target::There(held),
        }) => {
            let (table, holder) = other(*holding, *holder);
            let kind = DifferenceKind::NotHeld { table, holder };
            ((held_in(*holding), *held), kind)
        }
        Action::Detach { holding, holder, held, goes: false } => {
            let (table, holder) = other(*holding, *holder);
            let kind = DifferenceKind::Held { table, holder };
            ((held_in(*holding), *held), kind)
        }
        Action::Detach { holding, held, .. } => {
            ((held_in(*holding), *held), DifferenceKind::Unwanted)
        }
        Action::Delete { table, row } => ((*table, *row), DifferenceKind::Unwanted),
        Action::Insert(_) | Action::Attach(_) => return None,
    })
}

fn missing<P: Clone + Eq + Hash>(row: &NewRow, index: &Index<P>) -> RowDifference {
    let table = index.layout.table(row.table);
    let columns = table.columns.iter().zip(&row.data);
    RowDifference {
        table: table.name,
        row: identifying_text(|column| {
            let mut columns = columns.clone();
            columns.find_map(|((name, ..), value)| (*name == column).then(|| value.clone()))
        }),
        kind: DifferenceKind::Missing,
    }
}

fn of_row<P: Clone + Eq + Hash>(
    (table, row): (TablePlace, Uuid),
    kind: DifferenceKind,
    index: &Index<P>,
) -> RowDifference {
    RowDifference { table: index.layout.table(table).name, row: row_text(table, row, index), kind }
}

/// The text that identifies a row of the database.
fn row_text<P: Clone + Eq + Hash>(table: TablePlace, uuid: Uuid, index: &Index<P>) -> String {
    let Some(row) = index.row(table, uuid) else {
        return uuid.to_string();
    };
    let view = index.view(table, row);
    identifying_text(|column| view.column(column).cloned())
}

/// The name of a row, or what identifies it best.
fn identifying_text(column: impl Fn(&str) -> Option<Datum>) -> String {
    let text = |name: &str| {
        let value = column(name)?;
        Some(plain(value.as_scalar()?)).filter(|text| !text.is_empty())
    };
    let joined = |first: &str, word: &str, second: &str| {
        Some(format!("{}{word}{}", text(first)?, text(second)?))
    };
    let identity = text("name")
        .or_else(|| joined("ip_prefix", " via ", "nexthop"))
        .or_else(|| joined("priority", " ", "match"));
    shorten(&identity.unwrap_or_default())
}

/// How a column differs from the wanted value.
fn column_text(name: &str, have: &Datum, wanted: &Datum) -> String {
    match (have, wanted) {
        (Datum::Map(have), Datum::Map(wanted)) => map_text(name, have, wanted),
        (Datum::Set(have), Datum::Set(wanted)) if have.len() > 1 || wanted.len() > 1 => {
            let (mut lost, mut gained) = (Vec::new(), Vec::new());
            have.diff(
                wanted,
                |atom| lost.push(shorten(&atom.to_string())),
                |atom| gained.push(shorten(&atom.to_string())),
            );
            let parts = [("lacks", gained), ("should not have", lost)]
                .into_iter()
                .filter(|(_, elements)| !elements.is_empty())
                .map(|(verb, elements)| format!("{verb} {}", limited(&elements)));
            format!("{name} {}", parts.collect::<Vec<_>>().join(" and "))
        }
        (Datum::Set(have), Datum::Set(wanted)) => value_text(name, one(have), one(wanted)),
        // A column has one type.
        _ => value_text(name, Some(have.to_string()), Some(wanted.to_string())),
    }
}

fn map_text(name: &str, have: &Map, wanted: &Map) -> String {
    let keys: BTreeSet<&Atom> = have.iter().chain(wanted.iter()).map(|(key, _)| key).collect();
    let different = keys.into_iter().filter(|key| have.get(key) != wanted.get(key));
    let value = |map: &Map, key: &Atom| map.get(key).map(plain);
    let texts = different.map(|key| {
        let name = format!("{name}:{}", plain(key));
        value_text(&name, value(have, key), value(wanted, key))
    });
    limited(&texts.collect::<Vec<_>>())
}

fn value_text(name: &str, have: Option<String>, wanted: Option<String>) -> String {
    let have = have.map_or_else(|| "missing".to_owned(), |have| shorten(&have));
    match wanted {
        Some(wanted) => format!("{name} is {have} instead of {}", shorten(&wanted)),
        None => format!("{name} is {have} and should be empty"),
    }
}

fn one(set: &Set) -> Option<String> {
    set.iter().next().map(plain)
}

fn plain(atom: &Atom) -> String {
    match atom {
        Atom::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

fn limited(texts: &[String]) -> String {
    let first = texts.iter().take(MAX_ELEMENTS);
    let first = first.map(String::as_str).collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(MAX_ELEMENTS) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
