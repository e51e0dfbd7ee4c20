//! The rows of a capability's tables, kept up to date: each change of a row costs as much as the
//! row.
//!
//! ```text
//! owned      part -> rows
//! keys       identity -> rows
//! holders    row -> the rows that hold it, for each holding
//! ```
//!
//! If the inputs have no parts, only `owned` is needed at first: the rest is indexed before the
//! first part is evaluated.

mod follow;
mod holders;
mod keys;
mod own_rows;
mod owned;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::{Row, load_ahead};
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

/// Number of rows that are loaded into the processor's caches at a time.
const ROWS_AHEAD: usize = 16;

/// A row of a part.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct OwnedRow {
    pub(crate) part: PartId,
    pub(crate) table: TablePlace,
    pub(crate) uuid: Uuid,
}

/// Changes of the database on which parts may depend.
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
    /// Rows that are identified within their holders, with the hash of their identity there.
    keys_in_holder: HashMap<(TablePlace, Uuid), (u64, Arc<Row>), RandomState>,
    holders: Vec<Holders>,
    /// `true` if keys and holders are indexed.
    is_complete: bool,
}

impl<P: fmt::Debug> fmt::Debug for Index<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("owned", &self.owned.len()).finish_non_exhaustive()
    }
}

impl<P: Clone + Eq + Hash> Index<P> {
    /// Finds the owners of all rows of the layout's tables. The index is complete if there are parts
    /// already.
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
            holders: holders.map(|holding| Holders::new(holding.column)).collect(),
            layout: Arc::new(resolved),
            owners: layout.tables.iter().map(|table| table.owner).collect(),
            snapshot: snapshot.clone(),
            owned: OwnedRows::default(),
            keys: Keys::default(),
            keys_in_holder: HashMap::default(),
            places,
            is_complete: false,
        };
        index.is_complete = parts.len() > 0;
        index.read_rows(Some(parts));
        index
    }

    /// Indexes rows by identity and by holder, unless that is done. The evaluation of parts needs
    /// it.
    pub(crate) fn complete(&mut self) {
        if !std::mem::replace(&mut self.is_complete, true) {
            self.read_rows(None);
        }
    }

    /// Indexes all rows of the layout's tables: by owner, unless there are no `parts`, and in a
    /// complete index by identity and holder.
    fn read_rows(&mut self, mut parts: Option<&mut Parts<P>>) {
        let snapshot = self.snapshot.clone();
        let layout = self.layout.clone();
        // After this, all parts are evaluated.
        let mut discarded = Touched::default();
        for place in layout.places() {
            let table = layout.table(place);
            let is_owned = parts.is_some() && self.owners[place.index()].is_some();
            let is_indexed = self.is_complete && table.is_indexed();
            let Some(rows) =
                table.id.filter(|_| is_owned || is_indexed).map(|id| snapshot.table(id))
            else {
                continue;
            };
            if is_indexed && table.has_keys() {
                self.keys.reserve(rows.len());
            }
            if is_indexed && table.identity.is_in_holder {
                self.keys_in_holder.reserve(rows.len());
            }
            let mut rows = rows.iter();
            loop {
                let next: SmallVec<[&Arc<Row>; ROWS_AHEAD]> =
                    rows.by_ref().take(ROWS_AHEAD).collect();
                if next.is_empty() {
                    break;
                }
                load_ahead(next.iter().map(|row| &***row));
                for row in next {
                    if let Some(parts) = parts.as_deref_mut()
                        && let Owner::Part(part) = self.owner(place, row)
                    {
                        self.owned.put(parts.id(part), (place, row.clone()));
                    }
                    if is_indexed && table.has_keys() {
                        self.follow_keys(place, None, Some(row), &mut discarded);
                    }
                    if is_indexed {
                        self.follow_members(place, None, Some(row), &mut discarded);
                    }
                    discarded.keys.clear();
                }
            }
        }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// A row of the present state.
    pub(crate) fn row(&self, table: TablePlace, uuid: Uuid) -> Option<&Arc<Row>> {
        self.snapshot.row(self.layout.table(table).id?, uuid)
    }

    pub(crate) fn view<'a>(&'a self, table: TablePlace, row: &'a Row) -> RowView<'a> {
        RowView { row, table: self.layout.table(table) }
    }

    /// Owner of a row.
    pub(crate) fn owner(&self, table: TablePlace, row: &Row) -> Owner<P> {
        match self.owners[table.index()] {
            Some(owner) => owner(&self.view(table, row)),
            None => Owner::Unowned,
        }
    }

    /// Rows of a part, sorted by table and UUID.
    pub(crate) fn owned(
        &self,
        part: PartId,
    ) -> impl Iterator<Item = (TablePlace, &Arc<Row>)> + Clone {
        self.owned.of(part)
    }

    /// Loads rows and what the index has of them into the processor's caches, at the same time.
    pub(crate) fn load_ahead<'a>(
        &self,
        rows: impl Iterator<Item = (TablePlace, &'a Arc<Row>)> + Clone,
    ) {
        load_ahead(rows.clone().map(|(_, row)| &**row));
        let held = rows.flat_map(|(place, row)| {
            let holdings = self.layout.table(place).held_by.iter();
            holdings.map(|holding| usize::from(self.holders(*holding).is_held(row.uuid)))
        });
        black_box(held.sum::<usize>());
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
        let by_index = rows.zip(unique).and_then(|(rows, index)| rows.find(index, &values()));
        let by_key = unique.is_none().then(|| self.keys.get(key)).into_iter().flatten();
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
            holders.map(move |holder| RowKey { table, hash: hash(holder) })
        });
        keys.collect()
    }
}
