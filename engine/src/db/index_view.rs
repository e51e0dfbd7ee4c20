//! Look-ups in declared indexes.

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};

use super::declared_index::{DeclaredIndex, IndexedRows};
use super::index_key::IndexKey;
use super::index_spec::{Index, IndexSpec};
use super::snapshot::Snapshot;
use super::table::Table;
use super::typed_table::TypedTable;

/// Reason why a look-up in an index failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The index was not declared for this database.
    #[error("no index of {0} was declared")]
    NotDeclared(IndexSpec),
    /// Several rows have the key of a look-up that wants a single row.
    #[error("{rows} rows of {index} have the key {key}")]
    NotUnique {
        /// Declaration of the index.
        index: IndexSpec,
        /// Requested key.
        key: IndexKey,
        /// Number of rows with the key.
        rows: usize,
    },
    /// A row holds a value that its type cannot represent.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl Snapshot {
    /// View of a declared index. The index is empty if the schema lacks its table or one of its
    /// columns.
    ///
    /// ```
    /// use patchbay_engine::db::{Database, IndexSpec};
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalRouterPort};
    ///
    /// let by_name = IndexSpec::new("Logical_Switch", ["name"]);
    /// let mut database = Database::new(nb::schema());
    /// database.add_index(by_name.clone());
    /// let mut txn = TxnBuilder::new(&database.snapshot());
    /// txn.insert(&nb::LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    /// database.transact(txn.finish().operations())?;
    ///
    /// let snapshot = database.snapshot();
    /// let index = snapshot.index(&by_name)?;
    /// assert_eq!(index.all("sw0").count(), 1);
    /// assert!(index.one("sw1")?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The index was not declared.
    pub fn index<'a>(&'a self, spec: &'a IndexSpec) -> Result<IndexView<'a>, IndexError> {
        let declared =
            self.find_declaration(spec).ok_or_else(|| IndexError::NotDeclared(spec.clone()))?;
        let index = declared.position.and_then(|position| {
            let table = self.table(position.table);
            Some((table, table.declared_indexes.get(position.place)?))
        });
        Ok(IndexView { spec, index })
    }

    /// View of a declared index with rows as `T`s.
    ///
    /// ```
    /// use patchbay_engine::db::{Index, Snapshot};
    /// use patchbay_schemas::nb::{self, LogicalRouterPolicy};
    ///
    /// let by_id = Index::by_key(LogicalRouterPolicy::EXTERNAL_IDS, "k8s.ovn.org/id");
    /// let snapshot = Snapshot::empty(nb::schema()).with_index(&by_id);
    /// assert!(snapshot.typed_index(&by_id)?.one("connect:net1")?.is_none());
    /// # Ok::<(), patchbay_engine::db::IndexError>(())
    /// ```
    ///
    /// # Errors
    /// The index was not declared.
    pub fn typed_index<'a, T: TableRow>(
        &'a self,
        index: &'a Index<T>,
    ) -> Result<TypedIndex<'a, T>, IndexError> {
        Ok(TypedIndex { view: self.index(index.spec())?, table: self.typed() })
    }
}

/// View of a declared index of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    spec: &'a IndexSpec,
    /// `None`: the schema lacks the table or a column of the index.
    index: Option<(&'a Table, &'a DeclaredIndex)>,
}

impl<'a> IndexView<'a> {
    /// Rows with a key in the order of their UUIDs. O(1) and the number of rows.
    pub fn all(&self, key: impl Into<IndexKey>) -> impl Iterator<Item = &'a Arc<Row>> {
        self.find(&key.into())
            .into_iter()
            .flat_map(|(table, rows)| rows.iter().filter_map(|uuid| table.get(uuid)))
    }

    /// Number of rows with a key. O(1).
    pub fn count(&self, key: impl Into<IndexKey>) -> usize {
        self.find(&key.into()).map_or(0, |(_, rows)| rows.len())
    }

    /// The row with a key. O(1).
    ///
    /// # Errors
    /// Several rows have the key.
    pub fn one(&self, key: impl Into<IndexKey>) -> Result<Option<&'a Arc<Row>>, IndexError> {
        let key = key.into();
        match self.find(&key) {
            None => Ok(None),
            Some((table, IndexedRows::One(uuid))) => Ok(table.get(*uuid)),
            Some((_, many)) => {
                Err(IndexError::NotUnique { index: self.spec.clone(), rows: many.len(), key })
            }
        }
    }

    /// Number of different keys.
    pub fn key_count(&self) -> usize {
        self.index.map_or(0, |(_, index)| index.key_count())
    }

    /// Number of keys that more than one row has: 0 if the index is unique. O(1).
    pub fn shared_key_count(&self) -> usize {
        self.index.map_or(0, |(_, index)| index.shared_keys())
    }

    fn find(&self, key: &IndexKey) -> Option<(&'a Table, &'a IndexedRows)> {
        let (table, index) = self.index?;
        Some((table, index.get(key)?))
    }
}

/// View of a declared index of a snapshot with rows as `T`s.
#[derive(Debug)]
pub struct TypedIndex<'a, T> {
    view: IndexView<'a>,
    table: TypedTable<'a, T>,
}

impl<T: TableRow> TypedIndex<'_, T> {
    /// Rows with a key in the order of their UUIDs.
    pub fn all(
        &self,
        key: impl Into<IndexKey>,
    ) -> impl Iterator<Item = Result<(Ref<T>, T), TypeError>> {
        let rows = self.view.all(key);
        rows.map(|row| Ok((Ref::new(row.uuid), self.table.read(row)?)))
    }

    /// The row with a key. O(1).
    ///
    /// # Errors
    /// Several rows have the key, or the row holds a value that `T` cannot represent.
    pub fn one(&self, key: impl Into<IndexKey>) -> Result<Option<(Ref<T>, T)>, IndexError> {
        let row = self.view.one(key)?;
        row.map(|row| Ok((Ref::new(row.uuid), self.table.read(row)?))).transpose()
    }
}
