//! The rows of a capability's tables, kept up to date: each change of a row costs as much as the
//! row.
//!
//! ```text
//! owned      part -> rows
//! keys       identity -> rows
//! holders    row -> the rows that hold it, for each holding
//! ```
//!
//! A capability without parts needs `owned` only: the rest is indexed before the first part is
//! evaluated.

mod holders;
mod keys;
mod own_rows;
mod owned;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_engine::db::{RowChange, Snapshot, Table};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use smallvec::{SmallVec, smallvec};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::parts::{PartId, Parts};
use crate::resolved::{IdentityValues, Resolved};
use crate::table::{Holding, Layout, Owner, OwnerOf, RowView, TablePlace};
pub(crate) use holders::Holders;
use keys::Keys;
pub(crate) use keys::RowKey;
pub(crate) use own_rows::{OwnRow, OwnRows};
use owned::OwnedRows;

/// A row of a part.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct OwnedRow {
    pub(crate) part: PartId,
    pub(crate) table: TablePlace,
    pub(crate) uuid: Uuid,
}

/// What changed in the database, as far as parts may depend on it.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Parts that own a changed row, or owned it before.
    pub(crate) parts: Vec<PartId>,
    /// Identities of changed rows.
    pub(crate) keys: Vec<RowKey>,
    /// Rows whose contributed members have changed, with the members that came and went.
    pub(crate) members: Vec<(Uuid, Vec<Atom>)>,
}

/// Indexes over one database.
pub(crate) struct Index<P> {
    pub(crate) layout: Arc<Resolved>,
    owners: Vec<Option<OwnerOf<P>>>,
    snapshot: Snapshot,
    /// Several row types may be of one table.
    places: HashMap<TableId, SmallVec<[TablePlace; 2]>, RandomState>,
    owned: OwnedRows,
    keys: Keys,
    /// Keys of rows that are identified within their holders.
    keys_in_holder: HashMap<(TablePlace, Uuid), u64, RandomState>,
    holders: Vec<Holders>,
    /// `true` if keys and holders are indexed.
    is_complete: bool,
}

impl<P: fmt::Debug> fmt::Debug for Index<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("owned", &self.owned.len())
            .finish_non_exhaustive()
    }
}

impl<P: Clone + Eq + Hash> Index<P> {
    /// Finds the owners of all rows of the layout's tables.
    pub(crate) fn new(layout: &Layout<P>, snapshot: &Snapshot, parts: &mut Parts<P>) -> Self {
        let resolved = Resolved::new(layout, snapshot.schema());
        let mut places = HashMap::<TableId, SmallVec<_>, RandomState>::default();
        for (place, table) in (0..).zip(&resolved.tables) {
            if let Some(id) = table.id {
                places.entry(id).or_default().push(TablePlace(place));
            }
        }
        let holders = resolved.holdings.iter();
        let mut index = Self {
            holders: holders
                .map(|holding| Holders::new(holding.column))
                .collect(),
            layout: Arc::new(resolved),
            owners: layout.tables.iter().map(|table| table.owner).collect(),
            snapshot: snapshot.clone(),
            owned: OwnedRows::default(),
            keys: Keys::default(),
            keys_in_holder: HashMap::default(),
            places,
            is_complete: false,
        };
        for place in index.layout.places() {
            let rows = index.layout.table(place).id.map(|id| snapshot.table(id));
            for row in rows.into_iter().flat_map(Table::iter) {
                if let Owner::Part(part) = index.owner(place, row) {
                    index.owned.add(OwnedRow {
                        part: parts.id(part),
                        table: place,
                        uuid: row.uuid,
                    });
                }
            }
        }
        index
    }

    /// Indexes rows by identity and by holder, unless that is done. The evaluation of parts needs it.
    pub(crate) fn complete(&mut self) {
        if std::mem::replace(&mut self.is_complete, true) {
            return;
        }
        let snapshot = self.snapshot.clone();
        let layout = self.layout.clone();
        // After this, all parts are evaluated.
        let mut discarded = Touched::default();
        for place in layout.places() {
            let table = layout.table(place);
            let rows = table.id.filter(|_| table.is_indexed());
            let rows = rows.map(|id| snapshot.table(id));
            for row in rows.into_iter().flat_map(Table::iter) {
                self.follow_keys(place, None, Some(row), &mut discarded);
                self.follow_members(place, None, Some(row), &mut discarded);
                discarded.keys.clear();
            }
        }
    }

    /// Follows the database to a later snapshot.
    pub(crate) fn follow(
        &mut self,
        snapshot: &Snapshot,
        changes: &[RowChange],
        parts: &mut Parts<P>,
    ) -> Touched {
        let former = std::mem::replace(&mut self.snapshot, snapshot.clone());
        let mut touched = Touched::default();
        let mut moved = Vec::new();
        for change in changes {
            let places = self.places.get(&change.table).cloned().unwrap_or_default();
            for place in places {
                let (old, new) = (change.old.as_deref(), change.new.as_deref());
                self.follow_owner(place, old, new, parts, &mut touched);
                if !self.is_complete {
                    continue;
                }
                self.follow_contributed(place, old, new, &mut touched);
                self.follow_keys(place, old, new, &mut touched);
                moved.extend(self.follow_members(place, old, new, &mut touched));
            }
        }
        // New rows are touched already.
        let is_new = |place: TablePlace, row: Uuid| {
            let table = self.layout.table(place).id;
            table.is_none_or(|table| former.row(table, row).is_none())
        };
        moved.retain(|(place, row)| !is_new(*place, *row));
        moved.sort_unstable();
        moved.dedup();
        for (place, row) in moved {
            self.touch_moved(place, row, parts, &mut touched);
        }
        touched
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// A row of the present state.
    pub(crate) fn row(&self, table: TablePlace, uuid: Uuid) -> Option<&Arc<Row>> {
        self.snapshot.row(self.layout.table(table).id?, uuid)
    }

    pub(crate) fn view<'a>(&'a self, table: TablePlace, row: &'a Row) -> RowView<'a> {
        RowView {
            row,
            table: self.layout.table(table),
        }
    }

    /// Owner of a row.
    pub(crate) fn owner(&self, table: TablePlace, row: &Row) -> Owner<P> {
        match self.owners[table.index()] {
            Some(owner) => owner(&self.view(table, row)),
            None => Owner::Unowned,
        }
    }

    /// Rows of a part.
    pub(crate) fn owned(&self, part: PartId) -> impl Iterator<Item = OwnedRow> {
        self.owned.of(part)
    }

    pub(crate) fn holders(&self, holding: Holding) -> &Holders {
        &self.holders[holding.index()]
    }

    /// The row whose identity is one text: the first by UUID.
    pub(crate) fn named(&self, table: TablePlace, name: &SmolStr) -> (RowKey, Option<&Arc<Row>>) {
        let key = self.named_key(table, name);
        (key, self.find_named(key, name))
    }

    /// Key of the row whose identity is one text.
    pub(crate) fn named_key(&self, table: TablePlace, name: &str) -> RowKey {
        let hash = self.layout.text_key(name);
        RowKey { table, hash }
    }

    /// The row of a key whose identity is one text: the first by UUID.
    pub(crate) fn find_named(&self, key: RowKey, name: &SmolStr) -> Option<&Arc<Row>> {
        let values = || smallvec![Datum::scalar(Atom::String(name.clone()))];
        let mut rows = self.find(key, values);
        rows.find(|row| self.layout.row_key(key.table, row) == Some(key.hash))
    }

    /// All rows whose identity is one text, by UUID.
    pub(crate) fn all_named(&self, table: TablePlace, name: &SmolStr) -> (RowKey, Vec<Uuid>) {
        let key = self.named_key(table, name);
        let values = || smallvec![Datum::scalar(Atom::String(name.clone()))];
        let rows = self
            .find(key, values)
            .filter(|row| self.layout.row_key(table, row) == Some(key.hash))
            .map(|row| row.uuid);
        (key, rows.collect())
    }

    /// Rows of an identity. `values` are its columns' values.
    pub(crate) fn find(
        &self,
        key: RowKey,
        values: impl FnOnce() -> IdentityValues,
    ) -> impl Iterator<Item = &Arc<Row>> {
        let table = self.layout.table(key.table);
        let rows = table.id.map(|id| self.snapshot.table(id));
        let unique = table.identity.unique_index;
        let by_index = rows
            .zip(unique)
            .and_then(|(rows, index)| rows.find(index, &values()));
        let by_key = unique
            .is_none()
            .then(|| self.keys.get(key))
            .into_iter()
            .flatten()
            .filter_map(move |row| rows?.get(row));
        by_index.into_iter().chain(by_key)
    }

    /// Returns `true` if no other row has this key of a row.
    pub(crate) fn is_only(&self, key: RowKey, row: &Row) -> bool {
        let identity = &self.layout.table(key.table).identity;
        let values = || {
            let columns = identity.columns.iter();
            let values = columns.filter_map(|(_, column)| row.values.get(*column).cloned());
            values.collect()
        };
        self.find(key, values).all(|other| other.uuid == row.uuid)
    }

    /// Keys under which parts may want a row.
    pub(crate) fn keys_of(&self, table: TablePlace, row: &Row) -> Vec<RowKey> {
        let Some(hash) = self.layout.row_key(table, row) else {
            return Vec::new();
        };
        let resolved = self.layout.table(table);
        if !resolved.identity.is_in_holder {
            return vec![RowKey { table, hash }];
        }
        let holdings = resolved.held_by.iter();
        let keys = holdings.flat_map(|holding| {
            let holders = self.holders(*holding).of(row.uuid);
            let hash = move |holder| self.layout.key_in_holder(*holding, holder, hash);
            holders.map(move |holder| RowKey {
                table,
                hash: hash(holder),
            })
        });
        keys.collect()
    }

    fn follow_owner(
        &mut self,
        place: TablePlace,
        old: Option<&Row>,
        new: Option<&Row>,
        parts: &mut Parts<P>,
        touched: &mut Touched,
    ) {
        if self.owners[place.index()].is_none() {
            return;
        }
        let owner = |row: Option<&Row>| match self.owner(place, row?) {
            Owner::Part(part) => Some(part),
            Owner::Other | Owner::Unowned => None,
        };
        let (old_part, new_part) = (owner(old), owner(new));
        let is_same = old_part == new_part;
        for (row, part, is_new) in [(old, old_part, false), (new, new_part, true)] {
            let (Some(row), Some(part)) = (row, part) else {
                continue;
            };
            if is_same && is_new {
                continue;
            }
            let part = parts.id(part);
            touched.parts.push(part);
            let owned = OwnedRow {
                part,
                table: place,
                uuid: row.uuid,
            };
            match (is_same, is_new) {
                (true, _) => {}
                (false, true) => self.owned.add(owned),
                (false, false) => self.owned.remove(owned),
            }
        }
    }

    /// Follows the contributed members of a row that stays.
    fn follow_contributed(
        &self,
        place: TablePlace,
        old: Option<&Row>,
        new: Option<&Row>,
        touched: &mut Touched,
    ) {
        let column = self.layout.table(place).members;
        let (Some(old), Some(new), Some(column)) = (old, new, column.and_then(|of| of.column))
        else {
            return;
        };
        let set = |row: &'_ Row| row.values.get(column)?.as_set().cloned();
        let (old, removed) = (set(old).unwrap_or_default(), &mut Vec::new());
        let (now, added) = (set(new).unwrap_or_default(), &mut Vec::new());
        old.diff(
            &now,
            |atom| removed.push(atom.clone()),
            |atom| added.push(atom.clone()),
        );
        removed.append(added);
        if !removed.is_empty() {
            let members = std::mem::take(removed);
            touched.members.push((new.uuid, members));
        }
    }

    /// Follows the identity of a row.
    fn follow_keys(
        &mut self,
        table: TablePlace,
        old: Option<&Row>,
        new: Option<&Row>,
        touched: &mut Touched,
    ) {
        let layout = self.layout.clone();
        let Some(uuid) = old.or(new).map(|row| row.uuid) else {
            return;
        };
        let resolved = layout.table(table);
        let key = |row: Option<&Row>| layout.row_key(table, row?);
        let (old_key, new_key) = (key(old), key(new));
        let is_changed = match (old, new) {
            (Some(old), Some(new)) => resolved.changed(old, new),
            _ => true,
        };
        if resolved.identity.is_in_holder {
            if old_key != new_key {
                match new_key {
                    Some(hash) => self.keys_in_holder.insert((table, uuid), hash),
                    None => self.keys_in_holder.remove(&(table, uuid)),
                };
            }
            for holding in &resolved.held_by {
                let holders: Vec<Uuid> = self.holders(*holding).of(uuid).collect();
                for holder in holders {
                    let key = |hash| RowKey {
                        table,
                        hash: layout.key_in_holder(*holding, holder, hash),
                    };
                    self.change_key(
                        old_key.map(key),
                        new_key.map(key),
                        uuid,
                        is_changed,
                        touched,
                    );
                }
            }
            return;
        }
        let in_table = |hash| RowKey { table, hash };
        let (old, new) = (old_key.map(in_table), new_key.map(in_table));
        if resolved.identity.unique_index.is_none() {
            self.change_key(old, new, uuid, is_changed, touched);
        } else if is_changed {
            touched.keys.extend(old.into_iter().chain(new));
        }
    }

    fn change_key(
        &mut self,
        old: Option<RowKey>,
        new: Option<RowKey>,
        row: Uuid,
        is_changed: bool,
        touched: &mut Touched,
    ) {
        if old != new {
            if let Some(old) = old {
                self.keys.remove(old, row);
            }
            if let Some(new) = new {
                self.keys.add(new, row);
            }
        } else if let Some(new) = new {
            // A new row may be known by its holder already.
            self.keys.add(new, row);
        }
        if is_changed {
            touched.keys.extend(old.into_iter().chain(new));
        }
    }

    /// Follows the rows that a row holds. Returns those that it lost or gained.
    fn follow_members(
        &mut self,
        table: TablePlace,
        old: Option<&Row>,
        new: Option<&Row>,
        touched: &mut Touched,
    ) -> Vec<(TablePlace, Uuid)> {
        let layout = self.layout.clone();
        let Some(holder) = old.or(new).map(|row| row.uuid) else {
            return Vec::new();
        };
        let mut moved = Vec::new();
        for holding in &layout.table(table).holds {
            let held = layout.holding(*holding).spec.held;
            let (lost, gained) = self.holders[holding.index()].follow(old, new);
            if layout.table(held).identity.is_in_holder {
                let key = |hash| RowKey {
                    table: held,
                    hash: layout.key_in_holder(*holding, holder, hash),
                };
                for (rows, is_gained) in [(&lost, false), (&gained, true)] {
                    for row in rows {
                        let Some(hash) = self.keys_in_holder.get(&(held, *row)) else {
                            continue;
                        };
                        let key = key(*hash);
                        touched.keys.push(key);
                        if is_gained {
                            self.keys.add(key, *row);
                        } else {
                            self.keys.remove(key, *row);
                        }
                    }
                }
            }
            moved.extend(lost.into_iter().chain(gained).map(|row| (held, row)));
        }
        moved
    }

    /// Touches a row that has other holders than before.
    fn touch_moved(
        &self,
        table: TablePlace,
        row: Uuid,
        parts: &mut Parts<P>,
        touched: &mut Touched,
    ) {
        let Some(row) = self.row(table, row) else {
            return;
        };
        if let Owner::Part(part) = self.owner(table, row) {
            touched.parts.push(parts.id(part));
        }
        // Within holders the keys are touched already.
        if !self.layout.table(table).identity.is_in_holder
            && let Some(hash) = self.layout.row_key(table, row)
        {
            touched.keys.push(RowKey { table, hash });
        }
    }
}
