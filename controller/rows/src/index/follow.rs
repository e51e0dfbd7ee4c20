//! Changes of rows, followed by the indexes.

use std::hash::Hash;
use std::sync::Arc;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::row::Row;
use uuid::Uuid;

use super::{Index, RowKey, Touched};
use crate::parts::Parts;
use crate::table::{Owner, TablePlace};

impl<P: Clone + Eq + Hash> Index<P> {
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
                let (old, new) = (change.old.as_ref(), change.new.as_ref());
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

    fn follow_owner(
        &mut self,
        place: TablePlace,
        old: Option<&Arc<Row>>,
        new: Option<&Arc<Row>>,
        parts: &mut Parts<P>,
        touched: &mut Touched,
    ) {
        if self.owners[place.index()].is_none() {
            return;
        }
        let owner = |row: Option<&Arc<Row>>| match self.owner(place, row?) {
            Owner::Part(part) => Some(part),
            Owner::Other | Owner::Unowned => None,
        };
        let (old_part, new_part) = (owner(old), owner(new));
        if let (Some(row), Some(part)) = (old, old_part)
            && new_part.as_ref() != Some(&part)
        {
            let part = parts.id(part);
            touched.parts.push(part);
            self.owned.remove(part, (place, row.uuid));
        }
        if let (Some(row), Some(part)) = (new, new_part) {
            let part = parts.id(part);
            touched.parts.push(part);
            self.owned.put(part, (place, row.clone()));
        }
    }

    /// Follows the contributed members of a row that stays.
    fn follow_contributed(
        &self,
        place: TablePlace,
        old: Option<&Arc<Row>>,
        new: Option<&Arc<Row>>,
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
        old.diff(&now, |atom| removed.push(atom.clone()), |atom| added.push(atom.clone()));
        removed.append(added);
        if !removed.is_empty() {
            let members = std::mem::take(removed);
            touched.members.push((new.uuid, members));
        }
    }

    /// Follows the identity of a row.
    pub(super) fn follow_keys(
        &mut self,
        table: TablePlace,
        old: Option<&Arc<Row>>,
        new: Option<&Arc<Row>>,
        touched: &mut Touched,
    ) {
        let layout = self.layout.clone();
        let Some(row) = new.or(old) else { return };
        let uuid = row.uuid;
        let resolved = layout.table(table);
        let key = |row: Option<&Arc<Row>>| layout.row_key(table, row?);
        let (old_key, new_key) = (key(old), key(new));
        let is_changed = match (old, new) {
            (Some(old), Some(new)) => resolved.changed(old, new),
            _ => true,
        };
        if resolved.identity.is_in_holder {
            match new_key {
                Some(hash) => self.keys_in_holder.insert((table, uuid), (hash, row.clone())),
                None => self.keys_in_holder.remove(&(table, uuid)),
            };
            for holding in &resolved.held_by {
                let holders: Vec<Uuid> = self.holders(*holding).of(uuid).collect();
                for holder in holders {
                    let key =
                        |hash| RowKey { table, hash: layout.key_in_holder(*holding, holder, hash) };
                    self.change_key(old_key.map(key), new_key.map(key), row, is_changed, touched);
                }
            }
            return;
        }
        let in_table = |hash| RowKey { table, hash };
        let (old, new) = (old_key.map(in_table), new_key.map(in_table));
        if resolved.identity.unique_index.is_none() {
            self.change_key(old, new, row, is_changed, touched);
        } else if is_changed {
            touched.keys.extend(old.into_iter().chain(new));
        }
    }

    fn change_key(
        &mut self,
        old: Option<RowKey>,
        new: Option<RowKey>,
        row: &Arc<Row>,
        is_changed: bool,
        touched: &mut Touched,
    ) {
        if let Some(old) = old.filter(|_| old != new) {
            self.keys.remove(old, row.uuid);
        }
        if let Some(new) = new {
            self.keys.put(new, row);
        }
        if is_changed {
            touched.keys.extend(old.into_iter().chain(new));
        }
    }

    /// Follows the rows that a row holds. Returns those that it lost or gained.
    pub(super) fn follow_members(
        &mut self,
        table: TablePlace,
        old: Option<&Arc<Row>>,
        new: Option<&Arc<Row>>,
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
                    for uuid in rows {
                        let Some((hash, row)) = self.keys_in_holder.get(&(held, *uuid)) else {
                            continue;
                        };
                        let key = key(*hash);
                        touched.keys.push(key);
                        if is_gained {
                            self.keys.put(key, row);
                        } else {
                            self.keys.remove(key, *uuid);
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
