//! Upserts: insert a row or change the existing one.

use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use crate::db::{Index, IndexKey};

use super::builder::TxnBuilder;
use super::error::BuildError;

/// Outcome of [`TxnBuilder::upsert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsertOutcome {
    /// The row did not exist. The transaction inserts it.
    Inserted,
    /// The row existed and differed. The transaction changes it.
    Updated,
    /// The row existed and did not differ.
    Unchanged,
}

impl TxnBuilder {
    /// Inserts a row, or changes the row that has the same key in a declared index.
    ///
    /// The existing row is one of the snapshot or one that this transaction inserts. Only columns
    /// that differ are sent. Columns in `keep` are set on insertion only.
    ///
    /// A row without a key, because its map lacks it, is always inserted. If this transaction
    /// changes the key of a row, upserts do not find the row by its new key.
    ///
    /// ```
    /// # use patchbay_engine::db::{Database, Index};
    /// # use patchbay_engine::txn::{TxnBuilder, UpsertOutcome};
    /// # use patchbay_schemas::nb::{self, LogicalRouter};
    /// let by_name = Index::by(LogicalRouter::NAME).unique();
    /// let mut database = Database::new(nb::schema());
    /// database.add_index(&by_name);
    /// let wanted = LogicalRouter { name: "lr0".into(), enabled: Some(true), ..Default::default() };
    /// for expected in [UpsertOutcome::Inserted, UpsertOutcome::Unchanged] {
    ///     let mut txn = TxnBuilder::new(&database.snapshot());
    ///     let (_, outcome) = txn.upsert(&by_name, &wanted, &[])?;
    ///     assert_eq!(outcome, expected);
    ///     database.transact(txn.finish().operations())?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The index was not declared, several rows have the key, or the schema does not allow the row
    /// or the change.
    pub fn upsert<T: TableRow>(
        &mut self,
        index: &Index<T>,
        row: &T,
        keep: &[&str],
    ) -> Result<(Ref<T>, UpsertOutcome), BuildError> {
        self.snapshot.index(index.spec())?;
        let Some(key) = index.key_of(row) else {
            return Ok((self.insert(row)?, UpsertOutcome::Inserted));
        };
        let Some((existing, current)) = self.find_by_key(index, &key)? else {
            let place = self.operations.end();
            let inserted = self.insert(row)?;
            let keys = self.inserted_keys.entry(index.spec().clone()).or_default();
            if keys.read_until == place {
                keys.read_until = self.operations.end();
                keys.rows.insert(key, inserted.uuid);
            }
            return Ok((inserted, UpsertOutcome::Inserted));
        };
        let data = current.to_data().into_iter().zip(row.to_data());
        let columns = T::COLUMNS
            .iter()
            .zip(data)
            .filter(|(name, _)| !keep.contains(name))
            .map(|(name, (current, wanted))| (*name, current, wanted));
        let outcome = if self.update_row(T::TABLE, existing.uuid, columns)? {
            UpsertOutcome::Updated
        } else {
            UpsertOutcome::Unchanged
        };
        Ok((existing, outcome))
    }

    /// The row with a key as the collected operations leave it.
    fn find_by_key<T: TableRow>(
        &mut self,
        index: &Index<T>,
        key: &IndexKey,
    ) -> Result<Option<(Ref<T>, T)>, BuildError> {
        let existing = self.snapshot.index(index.spec())?.one(key.clone())?.map(|row| row.uuid);
        let inserted = self.find_inserted(index, key)?;
        let (table, _) = self.columns_of::<T>()?;
        for found in existing.into_iter().chain(inserted) {
            if self.operations.is_deleted(table, found) {
                continue;
            }
            let current = match self.pending(Ref::<T>::new(found)) {
                // The transaction inserted the row and deleted it.
                Err(BuildError::NoRow { .. }) => continue,
                current => current?,
            };
            // The transaction may have changed the key of the row.
            if index.key_of(&current).as_ref() == Some(key) {
                return Ok(Some((Ref::new(found), current)));
            }
        }
        Ok(None)
    }

    /// The row that this transaction inserts with a key.
    fn find_inserted<T: TableRow>(
        &mut self,
        index: &Index<T>,
        key: &IndexKey,
    ) -> Result<Option<Uuid>, BuildError> {
        let (table, columns) = self.columns_of::<T>()?;
        let keys = match self.inserted_keys.get_mut(index.spec()) {
            Some(keys) => keys,
            None => self.inserted_keys.entry(index.spec().clone()).or_default(),
        };
        for (uuid, row) in self.operations.inserted_from(table, keys.read_until) {
            let typed = T::from_data(|position| row.value(columns.get(position)?))?;
            if let Some(key) = index.key_of(&typed) {
                keys.rows.insert(key, uuid);
            }
        }
        keys.read_until = self.operations.end();
        Ok(keys.rows.get(key).copied())
    }
}
