//! Finding rows by declared indexes.

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};

use super::declared::{DeclaredIndex, Rows};
use super::index_spec::{Index, IndexKey, IndexSpec};
use super::snapshot::Snapshot;
use super::table::Table;
use super::typed::TypedTable;

/// Why an index finds nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Nobody declared it for this database.
    #[error("no index of {0} was declared")]
    NotDeclared(IndexSpec),
    /// One row was asked for, and several have the key.
    #[error("{rows} rows of {index} have the key {key}")]
    NotUnique {
        /// The index.
        index: IndexSpec,
        /// The key.
        key: IndexKey,
        /// How many rows have it.
        rows: usize,
    },
    /// A row holds values that its type cannot.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl Snapshot {
    /// An index that was declared for this database. Over columns that its schema lacks it is empty.
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
    /// It was not declared.
    pub fn index<'a>(&'a self, spec: &'a IndexSpec) -> Result<IndexView<'a>, IndexError> {
        let place = self
            .declared(spec)
            .ok_or_else(|| IndexError::NotDeclared(spec.clone()))?;
        let index = place.and_then(|(table, at)| {
            let table = self.table(table);
            Some((table, table.declared.get(at)?))
        });
        Ok(IndexView { spec, index })
    }

    /// A declared index with its rows as `T`s.
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
    /// It was not declared.
    pub fn typed_index<'a, T: TableRow>(
        &'a self,
        index: &'a Index<T>,
    ) -> Result<TypedIndex<'a, T>, IndexError> {
        Ok(TypedIndex {
            view: self.index(index.spec())?,
            table: self.typed(),
        })
    }
}

/// One declared index of one snapshot.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    spec: &'a IndexSpec,
    /// None when the schema lacks what it is over.
    index: Option<(&'a Table, &'a DeclaredIndex)>,
}

impl<'a> IndexView<'a> {
    /// The rows that have a key, by UUID. O(1), and the rows.
    pub fn all(&self, key: impl Into<IndexKey>) -> impl Iterator<Item = &'a Arc<Row>> {
        self.found(&key.into())
            .into_iter()
            .flat_map(|(table, rows)| rows.iter().filter_map(|uuid| table.get(uuid)))
    }

    /// How many rows have a key. O(1).
    pub fn count(&self, key: impl Into<IndexKey>) -> usize {
        self.found(&key.into()).map_or(0, |(_, rows)| rows.len())
    }

    /// The row that has a key. O(1).
    ///
    /// # Errors
    /// Several have it.
    pub fn one(&self, key: impl Into<IndexKey>) -> Result<Option<&'a Arc<Row>>, IndexError> {
        let key = key.into();
        match self.found(&key) {
            None => Ok(None),
            Some((table, Rows::One(uuid))) => Ok(table.get(*uuid)),
            Some((_, many)) => Err(IndexError::NotUnique {
                index: self.spec.clone(),
                rows: many.len(),
                key,
            }),
        }
    }

    /// How many different keys there are.
    pub fn key_count(&self) -> usize {
        self.index.map_or(0, |(_, index)| index.key_count())
    }

    /// How many keys more than one row has: none as long as what was declared unique is so. O(1).
    pub fn shared_key_count(&self) -> usize {
        self.index.map_or(0, |(_, index)| index.shared_keys())
    }

    fn found(&self, key: &IndexKey) -> Option<(&'a Table, &'a Rows)> {
        let (table, index) = self.index?;
        Some((table, index.get(key)?))
    }
}

/// One declared index of one snapshot, its rows as `T`s.
#[derive(Debug)]
pub struct TypedIndex<'a, T> {
    view: IndexView<'a>,
    table: TypedTable<'a, T>,
}

impl<'a, T: TableRow> TypedIndex<'a, T> {
    /// The rows that have a key, by UUID.
    pub fn all(
        &self,
        key: impl Into<IndexKey>,
    ) -> impl Iterator<Item = Result<(Ref<T>, T), TypeError>> {
        let rows = self.view.all(key);
        rows.map(|row| Ok((Ref::new(row.uuid), self.table.read(row)?)))
    }

    /// The row that has a key.
    ///
    /// # Errors
    /// Several have it, or it holds values that `T` cannot.
    pub fn one(&self, key: impl Into<IndexKey>) -> Result<Option<(Ref<T>, T)>, IndexError> {
        let row = self.view.one(key)?;
        row.map(|row| Ok((Ref::new(row.uuid), self.table.read(row)?)))
            .transpose()
    }

    /// The same index, its rows as they are.
    pub fn untyped(&self) -> IndexView<'a> {
        self.view
    }
}
