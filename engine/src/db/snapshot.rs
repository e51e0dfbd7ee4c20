//! What readers see.

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use rayon::prelude::*;
use uuid::Uuid;

use super::change::{ChangeSet, RowChange};
use super::declared::DeclaredIndex;
use super::history::History;
use super::index_spec::IndexSpec;
use super::table::Table;
use super::typed::TypedTable;

/// From so many changes on, tables are changed at the same time.
pub(super) const MANY: usize = 4096;

/// One committed state of a database. Clones are cheap; nothing changes under a reader.
#[derive(Clone, Debug)]
pub struct Snapshot {
    schema: Arc<DatabaseSchema>,
    pub(super) tables: Arc<Vec<Table>>,
    /// The indexes that users declared, each with its table and its place there; none where the schema lacks what it
    /// is over.
    declared: Arc<Vec<(IndexSpec, IndexPlace)>>,
    history: History,
}

type IndexPlace = Option<(TableId, usize)>;

impl Snapshot {
    /// An empty database.
    pub fn empty(schema: Arc<DatabaseSchema>) -> Self {
        let tables = Arc::new(schema.tables.iter().map(Table::new).collect());
        Self {
            schema,
            tables,
            declared: Arc::default(),
            history: History::default(),
        }
    }

    /// The same state with one more index. Once in the first snapshot of a database, all later ones have it.
    ///
    /// An index that was declared before costs nothing; a new one costs O(rows).
    #[must_use]
    pub fn with_index(&self, spec: impl Into<IndexSpec>) -> Self {
        let mut this = self.clone();
        this.declare(spec.into());
        this
    }

    /// An empty database of another schema with the same indexes.
    pub(crate) fn empty_like(&self, schema: Arc<DatabaseSchema>) -> Self {
        let mut this = Self::empty(schema);
        for (spec, _) in &*self.declared {
            this.declare(spec.clone());
        }
        this
    }

    pub(super) fn declare(&mut self, spec: IndexSpec) {
        if self.declared(&spec).is_some() {
            return;
        }
        let table = self.schema.table_by_name(spec.table());
        let index = table.and_then(|(id, table)| Some((id, DeclaredIndex::new(&spec, table)?)));
        let place = index.map(|(id, index)| {
            let table = &mut Arc::make_mut(&mut self.tables)[id.index()];
            table.declare(index);
            (id, table.declared.len() - 1)
        });
        Arc::make_mut(&mut self.declared).push((spec, place));
    }

    /// Where an index is; none when nobody declared it.
    pub(super) fn declared(&self, spec: &IndexSpec) -> Option<IndexPlace> {
        let found = self.declared.iter().find(|(have, _)| have.same_keys(spec));
        found.map(|(_, place)| *place)
    }

    /// The indexes that were declared.
    pub fn indexes(&self) -> impl Iterator<Item = &IndexSpec> {
        self.declared.iter().map(|(spec, _)| spec)
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// A table.
    ///
    /// # Panics
    /// When the id is of another schema.
    pub fn table(&self, table: TableId) -> &Table {
        &self.tables[table.index()]
    }

    /// A row.
    pub fn row(&self, table: TableId, uuid: Uuid) -> Option<&Arc<Row>> {
        self.table(table).get(uuid)
    }

    /// A table as typed rows; without rows when the schema has no such table.
    pub fn typed<T: TableRow>(&self) -> TypedTable<'_, T> {
        TypedTable::new(self)
    }

    /// The typed row that a reference points at.
    ///
    /// # Errors
    /// The row holds values that `T` cannot.
    pub fn get<T: TableRow>(&self, reference: Ref<T>) -> Result<Option<T>, TypeError> {
        self.typed::<T>().get(reference.uuid)
    }

    /// How many rows all tables hold.
    pub fn row_count(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// The row changes that lead from an earlier snapshot of the same database to this one, in their order; a row that
    /// changed several times is there several times. None when the way is not known: the other is no earlier
    /// snapshot of this database, or so much has changed since that reading all rows takes less.
    ///
    /// The cost is that of the changes. They are kept as long as somebody holds the earlier snapshot.
    ///
    /// ```
    /// use patchbay_engine::db::Database;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalRouter};
    ///
    /// let mut database = Database::new(nb::schema());
    /// let earlier = database.snapshot();
    /// let mut txn = TxnBuilder::new(&earlier);
    /// txn.insert(&LogicalRouter::default())?;
    /// database.transact(txn.finish().operations())?;
    /// let changes = database.snapshot().changes_since(&earlier).unwrap();
    /// assert_eq!(changes.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changes_since(&self, earlier: &Self) -> Option<Vec<RowChange>> {
        self.history.since(&earlier.history)
    }

    /// Puts new versions of rows in the place of old ones, without any check.
    pub(crate) fn apply(&mut self, changes: &ChangeSet) {
        let tables = Arc::make_mut(&mut self.tables);
        if changes.rows.len() < MANY {
            for change in &changes.rows {
                tables[change.table.index()].remove_keys(change);
            }
            for change in &changes.rows {
                tables[change.table.index()].apply(change);
            }
        } else {
            let runs = changes.rows.chunk_by(|a, b| a.table == b.table);
            let runs: Vec<&[RowChange]> = runs.collect();
            tables.par_iter_mut().enumerate().for_each(|(i, table)| {
                let of_table = runs.iter().filter(|run| run[0].table.index() == i);
                let rows = of_table.flat_map(|run| run.iter());
                rows.clone().for_each(|change| table.remove_keys(change));
                rows.for_each(|change| table.apply(change));
            });
        }
        let rows = self.row_count();
        self.history.step(&changes.rows, rows);
    }
}
