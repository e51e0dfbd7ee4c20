//! Changes to typed rows.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::schema::{ColumnId, TableId};
use patchbay_schemas::typed::{Column, Field, Ref, TableRow, Value};
use patchbay_schemas::wire::{Clause, Condition, Function, Mutator};
use uuid::Uuid;

use super::{BuildError, TxnBuilder};

/// None for columns that the database's schema lacks.
pub(super) type TypedColumns = Arc<[Option<ColumnId>]>;

fn by_column<T: TableRow>(
    columns: &[Option<ColumnId>],
    row: &T,
) -> impl Iterator<Item = (&'static str, Option<ColumnId>, Datum)> {
    let columns = T::COLUMNS.iter().zip(columns).zip(row.to_data());
    columns.map(|((name, column), datum)| (*name, *column, datum))
}

impl TxnBuilder {
    /// Inserts a row. Columns with their default are not sent.
    ///
    /// # Errors
    /// The database's schema cannot express the row.
    pub fn insert<T: TableRow>(&mut self, row: &T) -> Result<Ref<T>, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        self.insert_new(table, by_column(&columns, row))
            .map(Ref::new)
    }

    /// Inserts a row with a UUID that the caller has chosen; see [`insert_row_as`](Self::insert_row_as).
    ///
    /// # Errors
    /// The database's schema cannot express the row.
    pub fn insert_as<T: TableRow>(&mut self, uuid: Uuid, row: &T) -> Result<Ref<T>, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        let given = Some(uuid.to_string());
        self.insert_values(table, uuid, given, by_column(&columns, row))?;
        Ok(Ref::new(uuid))
    }

    /// Changes a row from what it is to what it should be; only columns that differ are sent, and of long sets and
    /// maps only the difference. False when nothing differs.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn update<T: TableRow>(
        &mut self,
        row: Ref<T>,
        current: &T,
        wanted: &T,
    ) -> Result<bool, BuildError> {
        let data = current.to_data().into_iter().zip(wanted.to_data());
        let columns = T::COLUMNS.iter().zip(data);
        let columns = columns.map(|(name, (current, wanted))| (*name, current, wanted));
        self.update_row(T::TABLE, row.uuid, columns)
    }

    /// Changes a row by changing a copy of it: as it is in the snapshot, or inserted by this transaction, with all changes
    /// that the transaction makes to it so far. Only columns that differ are sent. False when nothing differs.
    ///
    /// ```
    /// # use patchbay_engine::db::Snapshot;
    /// # use patchbay_engine::txn::TxnBuilder;
    /// # use patchbay_schemas::nb::{self, LogicalRouter};
    /// # let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
    /// # let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
    /// txn.modify(router, |router| {
    ///     router.enabled = Some(true);
    ///     router.options.insert("chassis".into(), "node1".into());
    /// })?;
    /// # Ok::<(), patchbay_engine::txn::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// There is no such row, `T` cannot hold it, or the database's schema cannot express the change or one before.
    pub fn modify<T: TableRow>(
        &mut self,
        row: Ref<T>,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, BuildError> {
        let current = self.current(row)?;
        let mut wanted = current.clone();
        change(&mut wanted);
        self.update(row, &current, &wanted)
    }

    /// The table of typed rows, and which of its columns those in [`TableRow::COLUMNS`] are.
    pub(super) fn columns_of<T: TableRow>(
        &mut self,
    ) -> Result<(TableId, TypedColumns), BuildError> {
        if let Some((table, columns)) = self.typed.get(&TypeId::of::<T>()) {
            return Ok((*table, columns.clone()));
        }
        let table = self.table(T::TABLE)?;
        let schema = self.snapshot.schema().table(table);
        let columns = T::COLUMNS.iter().map(|name| schema.column_id(name));
        let columns: TypedColumns = columns.collect();
        self.typed
            .insert(TypeId::of::<T>(), (table, columns.clone()));
        Ok((table, columns))
    }

    /// A row as this transaction has it so far.
    pub(super) fn current<T: TableRow>(&mut self, row: Ref<T>) -> Result<T, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        let so_far = self.row_so_far(table, row.uuid)?;
        Ok(T::from_data(|place| {
            so_far.value(columns.get(place).copied().flatten()?)
        })?)
    }

    /// Gives a column a value.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers have a value, not a place"
    )]
    pub fn set<T: TableRow, C: Column>(
        &mut self,
        row: Ref<T>,
        field: Field<T, C>,
        value: C,
    ) -> Result<(), BuildError> {
        self.set_row(T::TABLE, row.uuid, [(field.name(), value.to_datum())])
    }

    /// Adds elements to a set, whatever else is in it or comes into it.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn add<T: TableRow, V: Value + Ord>(
        &mut self,
        row: Ref<T>,
        field: Field<T, BTreeSet<V>>,
        elements: impl IntoIterator<Item = V>,
    ) -> Result<(), BuildError> {
        self.mutate_insert(row, field.name(), set_of(elements))
    }

    /// Removes elements from a set.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn remove<T: TableRow, V: Value + Ord>(
        &mut self,
        row: Ref<T>,
        field: Field<T, BTreeSet<V>>,
        elements: impl IntoIterator<Item = V>,
    ) -> Result<(), BuildError> {
        self.mutate_delete(row, field.name(), set_of(elements))
    }

    /// Sets keys of a map, whatever other keys it has or gets. Keys that are there get the new value.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn put<T: TableRow, K: Value + Ord, V: Value>(
        &mut self,
        row: Ref<T>,
        field: Field<T, BTreeMap<K, V>>,
        pairs: impl IntoIterator<Item = (impl Into<K>, impl Into<V>)>,
    ) -> Result<(), BuildError> {
        let pairs: Map = pairs
            .into_iter()
            .map(|(key, value)| (key.into().to_atom(), value.into().to_atom()))
            .collect();
        let keys = pairs.iter().map(|(key, _)| key.clone()).collect();
        self.mutate_delete(row, field.name(), Datum::Set(keys))?;
        self.mutate_insert(row, field.name(), Datum::Map(pairs))
    }

    /// Removes keys from a map, whatever their values.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn remove_keys<T: TableRow, K: Value + Ord, V: Value>(
        &mut self,
        row: Ref<T>,
        field: Field<T, BTreeMap<K, V>>,
        keys: impl IntoIterator<Item = impl Into<K>>,
    ) -> Result<(), BuildError> {
        let keys = set_of(keys.into_iter().map(Into::into));
        self.mutate_delete(row, field.name(), keys)
    }

    /// Adds a number to a column, whatever it holds: a counter that several may count.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn increase<T: TableRow>(
        &mut self,
        row: Ref<T>,
        field: Field<T, i64>,
        by: i64,
    ) -> Result<(), BuildError> {
        let by = Datum::scalar(by);
        self.mutate_row(T::TABLE, row.uuid, field.name(), Mutator::Add, by)
    }

    /// Adds elements or pairs to a column; keys that are there keep their values.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn mutate_insert<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.mutate_row(T::TABLE, row.uuid, column, Mutator::Insert, value)
    }

    /// Removes elements, pairs or (given a set on a map) keys from a column.
    ///
    /// # Errors
    /// The database's schema cannot express the change.
    pub fn mutate_delete<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.mutate_row(T::TABLE, row.uuid, column, Mutator::Delete, value)
    }

    /// Deletes a row. Rows of tables that are not root go by themselves when nothing refers to them.
    ///
    /// # Errors
    /// The database's schema has no such table.
    pub fn delete<T: TableRow>(&mut self, row: Ref<T>) -> Result<(), BuildError> {
        self.delete_row(T::TABLE, row.uuid)
    }

    /// Makes the whole transaction fail unless a column still holds this value.
    ///
    /// # Errors
    /// The database's schema cannot express the value.
    pub fn expect<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.expect_row(T::TABLE, row.uuid, [(column, value)])
    }

    /// Makes the whole transaction fail unless a column still holds what the snapshot shows, though it is not changed:
    /// because something else was computed from it.
    ///
    /// # Errors
    /// The snapshot has no such row, or the transaction deletes it.
    pub fn verify<T: TableRow, C: Column>(
        &mut self,
        row: Ref<T>,
        field: Field<T, C>,
    ) -> Result<(), BuildError> {
        let table = self.table(T::TABLE)?;
        let schema = self.snapshot.schema().table(table);
        match schema.column_id(field.name()) {
            Some(column) => self.expect_unchanged(table, row.uuid, column),
            None => self.row_so_far(table, row.uuid).map(drop),
        }
    }

    /// Makes the whole transaction fail if a row has this value in a column: to insert a row only if there is none like
    /// it, whatever others do meanwhile.
    ///
    /// # Errors
    /// The database's schema has no such table or column.
    pub fn expect_none<T: TableRow, C: Column>(
        &mut self,
        field: Field<T, C>,
        value: &C,
    ) -> Result<(), BuildError> {
        let table = self.table(T::TABLE)?;
        let schema = self.snapshot.schema();
        let column = schema.table(table).column_id(field.name());
        let column = column.ok_or_else(|| BuildError::NoColumn {
            database: schema.name.clone(),
            table: T::TABLE.to_owned(),
            column: field.name().to_owned(),
            value: value.to_datum().to_string(),
            row: super::RowName::New,
        })?;
        let clause = Clause::Column {
            column,
            function: Function::Equal,
            argument: value.to_datum(),
        };
        self.expect_no_row(T::TABLE, Condition(vec![clause]))
    }

    /// Reads a row as the transaction leaves it at this point, into the result: what a counter has become, for instance.
    /// See [`Committed::read`](crate::client::Committed::read).
    ///
    /// # Errors
    /// The database's schema has no such table.
    pub fn read<T: TableRow>(&mut self, row: Ref<T>) -> Result<(), BuildError> {
        self.read_row(T::TABLE, row.uuid, T::COLUMNS.iter().copied())
    }
}

fn set_of<V: Value>(elements: impl IntoIterator<Item = V>) -> Datum {
    let atoms = elements.into_iter().map(|element| element.to_atom());
    Datum::Set(Set::from_vec(atoms.collect()))
}
