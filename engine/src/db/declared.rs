//! Indexes that users of a database declare: from keys to the rows that have them, unique or not.

use std::sync::Arc;

use foldhash::fast::RandomState;
use imbl::OrdSet;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableSchema};
use uuid::Uuid;

use super::index_spec::{IndexKey, IndexSpec, KeyPart};

/// One index over the rows of one table. Clones share what is unchanged.
#[derive(Clone, Debug)]
pub(super) struct DeclaredIndex {
    parts: Arc<[Part]>,
    rows: imbl::GenericHashMap<IndexKey, Rows, RandomState, imbl::shared_ptr::DefaultSharedPtr>,
    /// How many keys more than one row has.
    shared_keys: usize,
}

/// [`KeyPart`] with its names resolved.
#[derive(Clone, Debug)]
enum Part {
    Column(ColumnId),
    MapKey(ColumnId, Atom),
    Element(ColumnId),
}

/// The rows that have one key.
#[derive(Clone, Debug)]
pub(super) enum Rows {
    One(Uuid),
    /// Two or more.
    Many(OrdSet<Uuid>),
}

impl DeclaredIndex {
    /// An empty index; none when the table lacks one of the columns.
    pub(super) fn new(spec: &IndexSpec, table: &TableSchema) -> Option<Self> {
        let part = |part: &KeyPart| {
            let column = table.column_id(part.column())?;
            Some(match part {
                KeyPart::Column(_) => Part::Column(column),
                KeyPart::MapKey { key, .. } => Part::MapKey(column, Atom::from(&**key)),
                KeyPart::Element(_) => Part::Element(column),
            })
        };
        Some(Self {
            parts: spec.parts().iter().map(part).collect::<Option<_>>()?,
            rows: imbl::GenericHashMap::with_hasher(RandomState::default()),
            shared_keys: 0,
        })
    }

    pub(super) fn get(&self, key: &IndexKey) -> Option<&Rows> {
        self.rows.get(key)
    }

    /// How many different keys there are.
    pub(super) fn key_count(&self) -> usize {
        self.rows.len()
    }

    /// How many keys more than one row has.
    pub(super) fn shared_keys(&self) -> usize {
        self.shared_keys
    }

    /// Follows a row from one version to the next.
    pub(super) fn apply(&mut self, old: Option<&Row>, new: Option<&Row>) {
        match (&*self.parts.clone(), old, new) {
            (_, None, None) => {}
            // A long set that changed a little costs as much as changed.
            ([Part::Element(column)], Some(old), Some(new)) => {
                self.apply_elements(new.uuid, &old.get(*column), &new.get(*column));
            }
            (parts, Some(old), Some(new)) if parts.iter().all(|part| part.same(old, new)) => {}
            (parts, old, new) => {
                if let Some(old) = old {
                    keys(parts, old, |key| self.remove(&key, old.uuid));
                }
                if let Some(new) = new {
                    keys(parts, new, |key| self.insert(key, new.uuid));
                }
            }
        }
    }

    fn apply_elements(&mut self, row: Uuid, old: &Datum, new: &Datum) {
        let key = |atom: &Atom| IndexKey::from(Datum::scalar(atom.clone()));
        match (old, new) {
            (Datum::Set(old), Datum::Set(new)) => {
                let (mut lost, mut gained) = (Vec::new(), Vec::new());
                old.diff(
                    new,
                    |atom| lost.push(key(atom)),
                    |atom| gained.push(key(atom)),
                );
                for key in &lost {
                    self.remove(key, row);
                }
                for key in gained {
                    self.insert(key, row);
                }
            }
            (Datum::Map(old), Datum::Map(new)) => {
                old.diff(new, |name, old, new| match (old, new) {
                    (Some(_), None) => self.remove(&key(name), row),
                    (None, Some(_)) => self.insert(key(name), row),
                    _ => {}
                });
            }
            // One column is always the one or the other.
            _ => {}
        }
    }

    fn insert(&mut self, key: IndexKey, row: Uuid) {
        let Some(rows) = self.rows.get_mut(&key) else {
            self.rows.insert(key, Rows::One(row));
            return;
        };
        match rows {
            Rows::One(one) if *one == row => {}
            Rows::One(one) => {
                *rows = Rows::Many([*one, row].into_iter().collect());
                self.shared_keys += 1;
            }
            Rows::Many(many) => {
                many.insert(row);
            }
        }
    }

    fn remove(&mut self, key: &IndexKey, row: Uuid) {
        match self.rows.get_mut(key) {
            Some(Rows::Many(many)) => {
                many.remove(&row);
                if many.len() == 1
                    && let Some(last) = many.get_min().copied()
                {
                    self.shared_keys -= 1;
                    self.rows.insert(key.clone(), Rows::One(last));
                }
            }
            Some(Rows::One(one)) if *one == row => {
                self.rows.remove(key);
            }
            _ => {}
        }
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Uuid> {
        let (one, many) = match self {
            Self::One(one) => (Some(*one), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

impl Part {
    /// Whether two versions of a row have the same keys here.
    fn same(&self, old: &Row, new: &Row) -> bool {
        match self {
            Self::Column(column) | Self::Element(column) => {
                let (old, new) = (old.get(*column), new.get(*column));
                old.shares_with(&new) || old == new
            }
            Self::MapKey(column, key) => {
                let (old, new) = (old.get(*column), new.get(*column));
                old.shares_with(&new) || map_value(&old, key) == map_value(&new, key)
            }
        }
    }
}

fn map_value<'a>(map: &'a Datum, key: &Atom) -> Option<&'a Atom> {
    map.as_map()?.get(key)
}

/// Calls `found` for each key that a row has.
fn keys(parts: &[Part], row: &Row, mut found: impl FnMut(IndexKey)) {
    // All keys made of the parts so far; one but for parts that are elements.
    let mut keys: Vec<Vec<Datum>> = vec![Vec::with_capacity(parts.len())];
    for part in parts {
        match part {
            Part::Column(column) => {
                let value = row.get(*column);
                for key in &mut keys {
                    key.push(value.clone().into_owned());
                }
            }
            Part::MapKey(column, name) => {
                let map = row.get(*column);
                let Some(value) = map_value(&map, name) else {
                    return;
                };
                for key in &mut keys {
                    key.push(Datum::scalar(value.clone()));
                }
            }
            Part::Element(column) => {
                let value = row.get(*column);
                let elements = || match &*value {
                    Datum::Set(set) => set.iter().collect::<Vec<_>>(),
                    Datum::Map(map) => map.iter().map(|(key, _)| key).collect(),
                };
                let with = |key: &Vec<Datum>, atom: &Atom| {
                    let mut key = key.clone();
                    key.push(Datum::scalar(atom.clone()));
                    key
                };
                keys = keys
                    .iter()
                    .flat_map(|key| {
                        elements()
                            .into_iter()
                            .map(|atom| with(key, atom))
                            .collect::<Vec<_>>()
                    })
                    .collect();
            }
        }
    }
    for key in keys {
        found(key.into_iter().collect());
    }
}
