//! Changes of references from routers and switches to rows.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::PlanError;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Set};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::ColumnId;
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

/// Column with its name and its id in the database; mostly a set of references.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReferenceColumn {
    pub(super) name: &'static str,
    pub(super) column: Option<ColumnId>,
}

impl ReferenceColumn {
    pub(crate) fn of<T: TableRow>(snapshot: &Snapshot, name: &'static str) -> Self {
        let table = snapshot.schema().table_by_name(T::TABLE);
        Self {
            name,
            column: table.and_then(|(_, table)| table.column_id(name)),
        }
    }

    pub(crate) fn id(self) -> Option<ColumnId> {
        self.column
    }

    /// References of a row in this column.
    pub(crate) fn set(self, holder: &Row) -> Option<&Set> {
        holder.values.get(self.column?)?.as_set()
    }

    pub(super) fn holds(self, holder: &Row, held: Uuid) -> bool {
        self.set(holder)
            .is_some_and(|set| set.contains(&Atom::Uuid(held)))
    }
}

/// References that rows of `T`'s table gain and lose.
#[derive(Debug)]
pub(super) struct HolderChanges<'a, T> {
    rows: BTreeMap<Uuid, (&'a Row, BTreeMap<&'static str, SetChange>)>,
    /// Name column, whose expected value proves that a row exists.
    name: ReferenceColumn,
    table: PhantomData<fn() -> T>,
}

#[derive(Debug, Default)]
struct SetChange {
    lost: Vec<Atom>,
    gained: Vec<Atom>,
}

impl<'a, T: TableRow> HolderChanges<'a, T> {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        Self {
            rows: BTreeMap::new(),
            name: ReferenceColumn::of::<T>(snapshot, "name"),
            table: PhantomData,
        }
    }

    /// Adds a reference to a row, unless it exists.
    pub(super) fn attach(&mut self, holder: &'a Row, column: ReferenceColumn, held: Uuid) {
        if !column.holds(holder, held) {
            self.change(holder, column).gained.push(Atom::Uuid(held));
        }
    }

    /// Removes a reference to a row. OVSDB deletes unreferenced rows of non-root tables.
    pub(super) fn detach(&mut self, holder: &'a Row, column: ReferenceColumn, held: Uuid) {
        self.change(holder, column).lost.push(Atom::Uuid(held));
    }

    fn change(&mut self, holder: &'a Row, column: ReferenceColumn) -> &mut SetChange {
        let (_, sets) = self
            .rows
            .entry(holder.uuid)
            .or_insert_with(|| (holder, BTreeMap::new()));
        sets.entry(column.name).or_default()
    }

    /// UUIDs of the changed rows.
    pub(super) fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.rows.keys().copied()
    }

    /// Adds the changes to the transaction.
    ///
    /// The transaction fails if a row that gains references was deleted, because OVSDB would
    /// silently delete the new unreferenced rows.
    pub(super) fn build(self, txn: &mut TxnBuilder) -> Result<(), PlanError> {
        for (holder, sets) in self.rows.into_values() {
            let row = Ref::<T>::new(holder.uuid);
            let gains = sets.values().any(|change| !change.gained.is_empty());
            let column = self.name.column.filter(|_| gains);
            if let Some(name) = column.and_then(|column| holder.values.get(column)) {
                txn.expect(row, self.name.name, name.clone())?;
            }
            for (column, SetChange { lost, gained }) in sets {
                if !lost.is_empty() {
                    txn.mutate_delete(row, column, Datum::Set(Set::from_vec(lost)))?;
                }
                if !gained.is_empty() {
                    txn.mutate_insert(row, column, Datum::Set(Set::from_vec(gained)))?;
                }
            }
        }
        Ok(())
    }
}
