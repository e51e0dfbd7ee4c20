//! Immutable states of a database, for readers.

use std::cmp::Reverse;
use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use super::change::{ChangeSet, RowChange};
use super::declared_index::DeclaredIndex;
use super::history::History;
use super::index_spec::IndexSpec;
use super::table::Table;
use super::typed_table::TypedTable;
use super::unique_index::KeyHashes;

/// Least number of row changes for which a commit changes the tables in parallel. Smaller commits
/// take less time than handing them to other threads.
pub(super) const PARALLEL_MIN_CHANGES: usize = 4096;

/// Committed state of a database.
///
/// Clones are cheap, and no later transaction changes a snapshot.
///
/// ```
/// use patchbay_engine::db::Database;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter};
///
/// let mut database = Database::new(nb::schema());
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
/// database.transact(txn.finish().operations())?;
///
/// let snapshot = database.snapshot();
/// assert_eq!(snapshot.get(router)?.unwrap().name, "lr0");
/// for row in snapshot.typed::<LogicalRouter>().iter() {
///     let (reference, row) = row?;
///     assert_eq!((reference, row.name.as_str()), (router, "lr0"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    schema: Arc<DatabaseSchema>,
    pub(super) tables: Arc<Vec<Table>>,
    declarations: Arc<Vec<IndexDeclaration>>,
    history: History,
}

/// An index that a user of the database declared.
#[derive(Clone, Debug)]
pub(super) struct IndexDeclaration {
    spec: IndexSpec,
    /// `None`: the schema lacks the table or a column of the index.
    pub(super) position: Option<IndexPosition>,
}

/// Table of a declared index and its place in [`Table::declared_indexes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexPosition {
    pub(super) table: TableId,
    pub(super) place: usize,
}

impl Snapshot {
    /// Creates the snapshot of an empty database.
    pub fn empty(schema: Arc<DatabaseSchema>) -> Self {
        let tables = Arc::new(schema.tables.iter().map(Table::new).collect());
        Self { schema, tables, declarations: Arc::default(), history: History::default() }
    }

    /// Returns the same state with one more index.
    ///
    /// An index that was declared before costs nothing; a new one costs O(rows). Later snapshots of
    /// a database have the index only if [`Database::add_index`](super::Database::add_index)
    /// declared it.
    #[must_use]
    pub fn with_index(&self, spec: impl Into<IndexSpec>) -> Self {
        let mut this = self.clone();
        this.declare_index(spec.into());
        this
    }

    /// Creates the snapshot of an empty database of another schema with the same declared indexes.
    pub(crate) fn empty_like(&self, schema: Arc<DatabaseSchema>) -> Self {
        let mut this = Self::empty(schema);
        for spec in self.indexes() {
            this.declare_index(spec.clone());
        }
        this
    }

    pub(super) fn declare_index(&mut self, spec: IndexSpec) {
        if self.find_declaration(&spec).is_some() {
            return;
        }
        let table = self.schema.table_by_name(spec.table());
        let index = table.and_then(|(id, table)| Some((id, DeclaredIndex::new(&spec, table)?)));
        let position = index.map(|(id, index)| {
            let table = &mut Arc::make_mut(&mut self.tables)[id.index()];
            table.declare_index(index);
            IndexPosition { table: id, place: table.declared_indexes.len() - 1 }
        });
        Arc::make_mut(&mut self.declarations).push(IndexDeclaration { spec, position });
    }

    /// Declaration of an index with the same keys; `None` if there is none.
    pub(super) fn find_declaration(&self, spec: &IndexSpec) -> Option<&IndexDeclaration> {
        self.declarations.iter().find(|declared| declared.spec.has_same_keys(spec))
    }

    /// Declared indexes in the order of their declaration.
    pub fn indexes(&self) -> impl Iterator<Item = &IndexSpec> {
        self.declarations.iter().map(|declared| &declared.spec)
    }

    /// Schema of the database.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// A table by its id.
    ///
    /// # Panics
    /// The schema has no table with this id, because the id is of another schema.
    pub fn table(&self, table: TableId) -> &Table {
        &self.tables[table.index()]
    }

    /// A row by its table and UUID. O(1).
    pub fn row(&self, table: TableId, uuid: Uuid) -> Option<&Arc<Row>> {
        self.table(table).get(uuid)
    }

    /// The table of `T` with typed rows; empty if the schema has no such table.
    pub fn typed<T: TableRow>(&self) -> TypedTable<'_, T> {
        let table = self.schema.table_by_name(T::TABLE);
        TypedTable::new(table.map(|(id, schema)| (schema, self.table(id))))
    }

    /// The typed row that a reference names.
    ///
    /// # Errors
    /// The row holds a value that `T` cannot represent.
    pub fn get<T: TableRow>(&self, reference: Ref<T>) -> Result<Option<T>, TypeError> {
        self.typed::<T>().get(reference.uuid)
    }

    /// Number of rows of all tables.
    pub fn row_count(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// Row changes that lead from an earlier snapshot of the same database to this one, in commit
    /// order.
    ///
    /// A row that changed several times occurs several times. The cost is proportional to the
    /// number of changes. The database keeps them while a clone of the earlier snapshot exists.
    ///
    /// Returns `None` if `earlier` is not an earlier snapshot of this database. It also returns
    /// `None` after more changes than twice the number of rows (1,024 for small databases), because
    /// reading all rows is cheaper then.
    ///
    /// ```
    /// use patchbay_engine::db::Database;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalRouter};
    ///
    /// let mut database = Database::new(nb::schema());
    /// let mut seen = database.snapshot();
    /// let mut names = Vec::new();
    /// for name in ["lr0", "lr1"] {
    ///     let mut txn = TxnBuilder::new(&seen);
    ///     txn.insert(&LogicalRouter { name: name.into(), ..Default::default() })?;
    ///     database.transact(txn.finish().operations())?;
    ///
    ///     let snapshot = database.snapshot();
    ///     let routers = snapshot.typed::<LogicalRouter>();
    ///     match snapshot.changes_since(&seen) {
    ///         // Apply the changes. This database inserts rows only.
    ///         Some(changes) => {
    ///             for row in changes.iter().filter_map(|change| change.new.as_ref()) {
    ///                 names.push(routers.read(row)?.name);
    ///             }
    ///         }
    ///         // Read all rows.
    ///         None => {
    ///             names.clear();
    ///             for row in routers.iter() {
    ///                 names.push(row?.1.name);
    ///             }
    ///         }
    ///     }
    ///     seen = snapshot;
    /// }
    /// assert_eq!(names, ["lr0", "lr1"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changes_since(&self, earlier: &Self) -> Option<Vec<RowChange>> {
        self.history.since(&earlier.history)
    }

    /// Replaces old versions of rows by new ones without any check.
    #[cfg(any(test, feature = "client"))]
    pub(crate) fn apply(&mut self, changes: &ChangeSet) {
        self.apply_beside(changes, &KeyHashes::default(), || {});
    }

    /// Applies changes like [`apply`](Self::apply) and runs `beside`, at the same time if the
    /// changes are many.
    pub(super) fn apply_beside(
        &mut self,
        changes: &ChangeSet,
        key_hashes: &KeyHashes,
        beside: impl FnOnce() + Send,
    ) {
        let tables = Arc::make_mut(&mut self.tables);
        if changes.rows.len() < PARALLEL_MIN_CHANGES {
            for change in &changes.rows {
                tables[change.table.index()].apply(change);
            }
            beside();
        } else {
            apply_in_parallel(tables, &changes.rows, key_hashes, beside);
        }
        let rows = self.row_count();
        self.history.record(&changes.rows, rows);
    }
}

/// Applies the changes of a long transaction, each part of a table in a task of its own.
fn apply_in_parallel(
    tables: &mut [Table],
    changes: &[RowChange],
    key_hashes: &KeyHashes,
    beside: impl FnOnce() + Send,
) {
    let mut by_table: Vec<Vec<&[RowChange]>> = vec![Vec::new(); tables.len()];
    for run in changes.chunk_by(|a, b| a.table == b.table) {
        by_table[run[0].table.index()].push(run);
    }
    let tables = (0..).map(TableId).zip(tables).zip(&by_table);
    let mut parts: Vec<_> = tables
        .flat_map(|((id, table), runs)| {
            let count: usize = runs.iter().map(|run| run.len()).sum();
            let parts = (count > 0).then(|| table.parts()).into_iter().flatten();
            parts.map(move |part| (count, id, runs, part))
        })
        .collect();
    // The last task to begin is a short one. The sort is stable, so that a table's indexes precede
    // its rows.
    parts.sort_by_key(|(count, ..)| Reverse(*count));
    rayon::scope_fifo(|scope| {
        for (_, id, runs, mut part) in parts {
            let changes = runs.iter().copied().flatten();
            scope.spawn_fifo(move |_| part.apply_many(id, changes, key_hashes));
        }
        beside();
    });
}
