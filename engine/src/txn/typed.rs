//! Builder methods for typed rows.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::schema::TableId;
use patchbay_schemas::typed::{Column, Field, Ref, TableRow, Value};
use patchbay_schemas::wire::{Clause, Condition, Function, Mutator};
use uuid::Uuid;

use super::builder::TxnBuilder;
use super::error::{AffectedRow, BuildError};
use super::typed_columns::TypedColumns;

impl TxnBuilder {
    /// Inserts a row. Columns with default values are not sent. Returns the placeholder of the row.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, or its type does not allow a value.
    pub fn insert<T: TableRow>(&mut self, row: &T) -> Result<Ref<T>, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        self.insert_new(table, columns.values(row)).map(Ref::new)
    }

    /// Inserts a row with a UUID that the caller chose, see [`insert_row_as`](Self::insert_row_as).
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, or its type does not allow a value.
    pub fn insert_as<T: TableRow>(&mut self, uuid: Uuid, row: &T) -> Result<Ref<T>, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        let given = Some(uuid.to_string());
        self.insert_values(table, uuid, given, columns.values(row))?;
        Ok(Ref::new(uuid))
    }

    /// Changes the columns of a row that differ between its current and its wanted state. Of long
    /// sets and maps only the difference is sent. Returns `false` if no column differs.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, its type does not allow a value, or a
    /// column is immutable.
    pub fn update<T: TableRow>(
        &mut self,
        row: Ref<T>,
        current: &T,
        wanted: &T,
    ) -> Result<bool, BuildError> {
        let data = current.to_data().into_iter().zip(wanted.to_data());
        let columns =
            T::COLUMNS.iter().zip(data).map(|(name, (current, wanted))| (*name, current, wanted));
        self.update_row(T::TABLE, row.uuid, columns)
    }

    /// Changes a row with a function that edits a copy of it.
    ///
    /// The copy is the row of the snapshot, or the row that this transaction inserts, with all
    /// changes that the transaction has collected. Only columns that differ are sent. Returns
    /// `false` if no column differs.
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
    /// The row does not exist or `T` cannot represent it, the schema does not allow the change, or
    /// an earlier mutation of the row failed.
    pub fn modify<T: TableRow>(
        &mut self,
        row: Ref<T>,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, BuildError> {
        let current = self.pending(row)?;
        let mut wanted = current.clone();
        change(&mut wanted);
        self.update(row, &current, &wanted)
    }

    /// Table of a row type and the columns of [`TableRow::COLUMNS`].
    pub(super) fn columns_of<T: TableRow>(
        &mut self,
    ) -> Result<(TableId, TypedColumns), BuildError> {
        if let Some((table, columns)) = self.typed_columns.get(&TypeId::of::<T>()) {
            return Ok((*table, columns.clone()));
        }
        let table = self.table(T::TABLE)?;
        let columns = TypedColumns::new::<T>(self.snapshot.schema().table(table));
        self.typed_columns.insert(TypeId::of::<T>(), (table, columns.clone()));
        Ok((table, columns))
    }

    /// A row as the collected operations leave it.
    pub(super) fn pending<T: TableRow>(&mut self, row: Ref<T>) -> Result<T, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        let pending = self.pending_row(table, row.uuid)?;
        Ok(T::from_data(|place| pending.value(columns.get(place)?))?)
    }

    /// Sets a column.
    ///
    /// # Errors
    /// The schema lacks the table or the column, its type does not allow the value, or it is
    /// immutable.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass temporary values")]
    pub fn set<T: TableRow, C: Column>(
        &mut self,
        row: Ref<T>,
        field: Field<T, C>,
        value: C,
    ) -> Result<(), BuildError> {
        self.set_row(T::TABLE, row.uuid, [(field.name(), value.to_datum())])
    }

    /// Adds elements to a set. Concurrent changes of other elements are kept.
    ///
    /// # Errors
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
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
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
    pub fn remove<T: TableRow, V: Value + Ord>(
        &mut self,
        row: Ref<T>,
        field: Field<T, BTreeSet<V>>,
        elements: impl IntoIterator<Item = V>,
    ) -> Result<(), BuildError> {
        self.mutate_delete(row, field.name(), set_of(elements))
    }

    /// Sets keys of a map, and replaces the values of existing keys. Concurrent changes of other
    /// keys are kept.
    ///
    /// # Errors
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
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
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
    pub fn remove_keys<T: TableRow, K: Value + Ord, V: Value>(
        &mut self,
        row: Ref<T>,
        field: Field<T, BTreeMap<K, V>>,
        keys: impl IntoIterator<Item = impl Into<K>>,
    ) -> Result<(), BuildError> {
        let keys = set_of(keys.into_iter().map(Into::into));
        self.mutate_delete(row, field.name(), keys)
    }

    /// Adds a number to a column. Several clients may increase one counter concurrently.
    ///
    /// # Errors
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
    pub fn increase<T: TableRow>(
        &mut self,
        row: Ref<T>,
        field: Field<T, i64>,
        by: i64,
    ) -> Result<(), BuildError> {
        let by = Datum::scalar(by);
        self.mutate_row(T::TABLE, row.uuid, field.name(), Mutator::Add, by)
    }

    /// Adds elements or pairs to a column. Existing keys of a map keep their values.
    ///
    /// # Errors
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
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
    /// The schema lacks the table or the column, its type does not allow the change, or it is
    /// immutable.
    pub fn mutate_delete<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.mutate_row(T::TABLE, row.uuid, column, Mutator::Delete, value)
    }

    /// Deletes a row. The server deletes rows of non-root tables by itself when no row refers to
    /// them.
    ///
    /// # Errors
    /// The schema lacks the table.
    pub fn delete<T: TableRow>(&mut self, row: Ref<T>) -> Result<(), BuildError> {
        self.delete_row(T::TABLE, row.uuid)
    }

    /// Makes the transaction fail unless a column of a row has this value at this point.
    ///
    /// # Errors
    /// The schema lacks the table or the column, or its type does not allow the value.
    pub fn expect<T: TableRow>(
        &mut self,
        row: Ref<T>,
        column: &str,
        value: Datum,
    ) -> Result<(), BuildError> {
        self.expect_row(T::TABLE, row.uuid, [(column, value)])
    }

    /// Makes the transaction fail unless a column of a row still has its value of the snapshot.
    ///
    /// Use it for a column that the transaction does not change but depends on.
    ///
    /// # Errors
    /// The snapshot does not contain the row, or the transaction deletes it.
    pub fn verify<T: TableRow, C: Column>(
        &mut self,
        row: Ref<T>,
        field: Field<T, C>,
    ) -> Result<(), BuildError> {
        let table = self.table(T::TABLE)?;
        let schema = self.snapshot.schema().table(table);
        match schema.column_id(field.name()) {
            Some(column) => self.expect_unchanged(table, row.uuid, column),
            None => self.pending_row(table, row.uuid).map(drop),
        }
    }

    /// Makes the transaction fail if a row has this value in a column at this point.
    ///
    /// Use it to insert a row only if no other client has inserted one like it.
    ///
    /// # Errors
    /// The schema lacks the table or the column.
    pub fn expect_none<T: TableRow, C: Column>(
        &mut self,
        field: Field<T, C>,
        value: &C,
    ) -> Result<(), BuildError> {
        let table = self.table(T::TABLE)?;
        let schema = self.snapshot.schema();
        let column =
            schema.table(table).column_id(field.name()).ok_or_else(|| BuildError::NoColumn {
                database: schema.name.clone(),
                table: T::TABLE.to_owned(),
                column: field.name().to_owned(),
                value: value.to_datum().to_string(),
                row: AffectedRow::New,
            })?;
        let clause =
            Clause::Column { column, function: Function::Equal, argument: value.to_datum() };
        self.expect_no_row(T::TABLE, Condition::new(vec![clause]))
    }

    /// Reads a row with the changes of the transaction up to this point, for instance an increased
    /// counter. [`Committed::read`](crate::client::Committed::read) returns the row.
    ///
    /// # Errors
    /// The schema lacks the table.
    pub fn read<T: TableRow>(&mut self, row: Ref<T>) -> Result<(), BuildError> {
        self.read_row(T::TABLE, row.uuid, T::COLUMNS.iter().copied())
    }
}

fn set_of<V: Value>(elements: impl IntoIterator<Item = V>) -> Datum {
    let atoms = elements.into_iter().map(|element| element.to_atom());
    Datum::Set(Set::from_vec(atoms.collect()))
}
