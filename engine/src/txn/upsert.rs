//! Rows that are to be there, whether they are or not.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use crate::db::{Index, IndexKey};

use super::{BuildError, TxnBuilder};

/// What became of a row that was to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upsert {
    /// It was not there; the transaction inserts it.
    Inserted,
    /// It was there and is changed.
    Updated,
    /// It was there as wanted.
    Unchanged,
}

/// Rows that a transaction inserts, by their keys in an index.
#[derive(Debug, Default)]
pub(super) struct InsertedKeys {
    /// The place up to which operations were looked at.
    up_to: usize,
    rows: HashMap<IndexKey, Uuid, RandomState>,
}

impl TxnBuilder {
    /// Makes a row be there: inserts it, or changes the row that has the same key in a declared index, one of the snapshot
    /// or one that this transaction has inserted. Only columns that differ are sent; those in `keep` stay as they are in a
    /// row that is there.
    ///
    /// A row without a key (whose map lacks it) is always inserted. Rows that this transaction gives another key than they
    /// had are not found by the new one.
    ///
    /// ```
    /// # use patchbay_engine::db::{Database, Index};
    /// # use patchbay_engine::txn::{TxnBuilder, Upsert};
    /// # use patchbay_schemas::nb::{self, LogicalRouter};
    /// let by_name = Index::by(LogicalRouter::NAME).unique();
    /// let mut database = Database::new(nb::schema());
    /// database.add_index(&by_name);
    /// let wanted = LogicalRouter { name: "lr0".into(), enabled: Some(true), ..Default::default() };
    /// for expected in [Upsert::Inserted, Upsert::Unchanged] {
    ///     let mut txn = TxnBuilder::new(&database.snapshot());
    ///     let (_, upsert) = txn.upsert(&by_name, &wanted, &[])?;
    ///     assert_eq!(upsert, expected);
    ///     database.transact(txn.finish().operations())?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The index was not declared, several rows have the key, or the database's schema cannot express the row.
    pub fn upsert<T: TableRow>(
        &mut self,
        index: &Index<T>,
        row: &T,
        keep: &[&str],
    ) -> Result<(Ref<T>, Upsert), BuildError> {
        self.snapshot.index(index.spec())?;
        let Some(key) = index.key_of(row) else {
            return Ok((self.insert(row)?, Upsert::Inserted));
        };
        let Some((found, current)) = self.find(index, &key)? else {
            let place = self.operations.end();
            let inserted = self.insert(row)?;
            let known = self.inserted.entry(index.spec().clone()).or_default();
            if known.up_to == place {
                known.up_to = self.operations.end();
                known.rows.insert(key, inserted.uuid);
            }
            return Ok((inserted, Upsert::Inserted));
        };
        let data = current.to_data().into_iter().zip(row.to_data());
        let columns = T::COLUMNS.iter().zip(data);
        let columns = columns
            .filter(|(name, _)| !keep.contains(name))
            .map(|(name, (current, wanted))| (*name, current, wanted));
        let changed = self.update_row(T::TABLE, found.uuid, columns)?;
        let upsert = if changed {
            Upsert::Updated
        } else {
            Upsert::Unchanged
        };
        Ok((found, upsert))
    }

    /// The row that has a key, as the transaction has it so far.
    fn find<T: TableRow>(
        &mut self,
        index: &Index<T>,
        key: &IndexKey,
    ) -> Result<Option<(Ref<T>, T)>, BuildError> {
        let existing = self.snapshot.index(index.spec())?.one(key.clone())?;
        let existing = existing.map(|row| row.uuid);
        let inserted = self.find_inserted(index, key)?;
        let (table, _) = self.columns_of::<T>()?;
        for found in existing.into_iter().chain(inserted) {
            if self.operations.is_deleted(table, found) {
                continue;
            }
            let current = match self.current(Ref::<T>::new(found)) {
                // It was inserted and is not any more.
                Err(BuildError::NoRow { .. }) => continue,
                current => current?,
            };
            // It may have been given another key.
            if index.key_of(&current).as_ref() == Some(key) {
                return Ok(Some((Ref::new(found), current)));
            }
        }
        Ok(None)
    }

    /// The row that this transaction has inserted with a key.
    fn find_inserted<T: TableRow>(
        &mut self,
        index: &Index<T>,
        key: &IndexKey,
    ) -> Result<Option<Uuid>, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        let known = match self.inserted.get_mut(index.spec()) {
            Some(known) => known,
            None => self.inserted.entry(index.spec().clone()).or_default(),
        };
        for (uuid, row) in self.operations.inserted_from(table, known.up_to) {
            let typed = T::from_data(|place| row.value(columns.get(place).copied().flatten()?))?;
            if let Some(key) = index.key_of(&typed) {
                known.rows.insert(key, uuid);
            }
        }
        known.up_to = self.operations.end();
        Ok(known.rows.get(key).copied())
    }
}
