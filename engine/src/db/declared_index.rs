//! Indexes that users of a database declare: from keys to rows, unique or not.

use std::sync::Arc;

use foldhash::fast::RandomState;
use imbl::OrdSet;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableSchema};
use uuid::Uuid;

use super::index_key::IndexKey;
use super::index_spec::{IndexSpec, KeyPart};

/// Index over the rows of a table. Clones share unchanged parts.
#[derive(Clone, Debug)]
pub(super) struct DeclaredIndex {
    parts: Arc<[ColumnPart]>,
    rows: imbl::GenericHashMap<
        IndexKey,
        IndexedRows,
        RandomState,
        imbl::shared_ptr::DefaultSharedPtr,
    >,
    /// Number of keys that more than one row has.
    shared_keys: usize,
}

/// [`KeyPart`] with the column's name replaced by its id.
#[derive(Clone, Debug)]
enum ColumnPart {
    Column(ColumnId),
    MapKey(ColumnId, Atom),
    Element(ColumnId),
}

/// Rows with the same key.
#[derive(Clone, Debug)]
pub(super) enum IndexedRows {
    One(Uuid),
    /// Two or more.
    Many(OrdSet<Uuid>),
}

impl DeclaredIndex {
    /// Creates an empty index. `None`: the table lacks one of the columns.
    pub(super) fn new(spec: &IndexSpec, table: &TableSchema) -> Option<Self> {
        let part = |part: &KeyPart| {
            let column = table.column_id(part.column())?;
            Some(match part {
                KeyPart::Column(_) => ColumnPart::Column(column),
                KeyPart::MapKey { key, .. } => ColumnPart::MapKey(column, Atom::from(&**key)),
                KeyPart::Element(_) => ColumnPart::Element(column),
            })
        };
        Some(Self {
            parts: spec.parts().iter().map(part).collect::<Option<_>>()?,
            rows: imbl::GenericHashMap::with_hasher(RandomState::default()),
            shared_keys: 0,
        })
    }

    pub(super) fn get(&self, key: &IndexKey) -> Option<&IndexedRows> {
        self.rows.get(key)
    }

    /// Number of different keys.
    pub(super) fn key_count(&self) -> usize {
        self.rows.len()
    }

    /// Number of keys that more than one row has.
    pub(super) fn shared_keys(&self) -> usize {
        self.shared_keys
    }

    /// Replaces the keys of the old version of a row by those of the new version.
    pub(super) fn apply(&mut self, old: Option<&Row>, new: Option<&Row>) {
        match (&*self.parts.clone(), old, new) {
            (_, None, None) => {}
            // For a long set the cost is proportional to the difference.
            ([ColumnPart::Element(column)], Some(old), Some(new)) => {
                self.apply_elements(new.uuid, &old.get(*column), &new.get(*column));
            }
            (parts, Some(old), Some(new))
                if parts.iter().all(|part| part.has_same_keys(old, new)) => {}
            (parts, old, new) => {
                if let Some(old) = old {
                    for_each_key(parts, old, |key| self.remove(&key, old.uuid));
                }
                if let Some(new) = new {
                    for_each_key(parts, new, |key| self.insert(key, new.uuid));
                }
            }
        }
    }

    fn apply_elements(&mut self, row: Uuid, old: &Datum, new: &Datum) {
        let key = |atom: &Atom| IndexKey::from(Datum::scalar(atom.clone()));
        match (old, new) {
            (Datum::Set(old), Datum::Set(new)) => {
                let (mut lost, mut gained) = (Vec::new(), Vec::new());
                old.diff(new, |atom| lost.push(key(atom)), |atom| gained.push(key(atom)));
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
            // Both values are of one column, so both are sets or both are maps.
            _ => {}
        }
    }

    fn insert(&mut self, key: IndexKey, row: Uuid) {
        let Some(rows) = self.rows.get_mut(&key) else {
            self.rows.insert(key, IndexedRows::One(row));
            return;
        };
        match rows {
            IndexedRows::One(one) if *one == row => {}
            IndexedRows::One(one) => {
                *rows = IndexedRows::Many([*one, row].into_iter().collect());
                self.shared_keys += 1;
            }
            IndexedRows::Many(many) => {
                many.insert(row);
            }
        }
    }

    fn remove(&mut self, key: &IndexKey, row: Uuid) {
        match self.rows.get_mut(key) {
            Some(IndexedRows::Many(many)) => {
                many.remove(&row);
                if many.len() == 1
                    && let Some(last) = many.get_min().copied()
                {
                    self.shared_keys -= 1;
                    self.rows.insert(key.clone(), IndexedRows::One(last));
                }
            }
            Some(IndexedRows::One(one)) if *one == row => {
                self.rows.remove(key);
            }
            _ => {}
        }
    }
}

impl IndexedRows {
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

impl ColumnPart {
    /// `true` if two versions of a row have the same values for this part.
    fn has_same_keys(&self, old: &Row, new: &Row) -> bool {
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

/// Calls `visit` for each key of a row.
fn for_each_key(parts: &[ColumnPart], row: &Row, mut visit: impl FnMut(IndexKey)) {
    // Beginnings of all keys, made of the parts so far. Only element parts yield more than one.
    let mut keys: Vec<Vec<Datum>> = vec![Vec::with_capacity(parts.len())];
    for part in parts {
        match part {
            ColumnPart::Column(column) => {
                let value = row.get(*column);
                for key in &mut keys {
                    key.push(value.clone().into_owned());
                }
            }
            ColumnPart::MapKey(column, name) => {
                let map = row.get(*column);
                let Some(value) = map_value(&map, name) else {
                    return;
                };
                for key in &mut keys {
                    key.push(Datum::scalar(value.clone()));
                }
            }
            ColumnPart::Element(column) => {
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
                        elements().into_iter().map(|atom| with(key, atom)).collect::<Vec<_>>()
                    })
                    .collect();
            }
        }
    }
    for key in keys {
        visit(key.into_iter().collect());
    }
}
