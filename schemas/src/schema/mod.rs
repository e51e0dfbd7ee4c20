//! Database schemas (RFC 7047 §3.2).
//!
//! Tables and columns are addressed by small integers ([`TableId`], [`ColumnId`]), so that a row is an
//! array. Every table has `_uuid` and `_version` besides its own columns; they have ids too
//! ([`ColumnId::UUID`], [`ColumnId::VERSION`]), but live in the row itself.

mod column_type;
mod members;
mod parse;
mod print;

pub use column_type::{BaseType, ColumnType, Constraint, RefType, Reference};
pub use members::Members;
pub(crate) use members::unknown_members;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::datum::Datum;
use crate::hash_order;

/// A table's place in [`DatabaseSchema::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

impl TableId {
    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A column's place in [`TableSchema::columns`], or one of the two implicit columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

impl ColumnId {
    /// `_uuid`
    pub const UUID: ColumnId = ColumnId(u16::MAX);
    /// `_version`
    pub const VERSION: ColumnId = ColumnId(u16::MAX - 1);

    /// As an index into a row; meaningless for the implicit columns.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether this is `_uuid` or `_version`.
    pub fn is_implicit(self) -> bool {
        self >= Self::VERSION
    }
}

/// The schema of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseSchema {
    /// Name of the database, e.g. `OVN_Northbound`.
    pub name: String,
    /// `x.y.z`, kept as written; empty when absent.
    pub version: String,
    /// Checksum, kept as written; empty when absent.
    pub cksum: String,
    /// The tables, sorted by name.
    pub tables: Vec<TableSchema>,
    tables_by_name: HashMap<Arc<str>, TableId, RandomState>,
}

/// The schema of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// Name, e.g. `Logical_Router`.
    pub name: Arc<str>,
    /// The columns, sorted by name; `_uuid` and `_version` are not among them.
    pub columns: Vec<ColumnSchema>,
    /// Kept for `get_schema`; ovsdb-server does not enforce it.
    pub mutable: bool,
    /// How many rows may be there after a commit; `u32::MAX` for any number.
    pub max_rows: u32,
    /// Whether rows live without being referred to.
    pub is_root: bool,
    /// Sets of columns whose values together are unique.
    pub indexes: Vec<Vec<ColumnId>>,
    columns_by_name: HashMap<Arc<str>, ColumnId, RandomState>,
    pub(crate) defaults: Arc<Defaults>,
    /// The columns whose defaults break the columns' own constraints.
    refused_defaults: Vec<ColumnId>,
}

/// The default of each column of a table. The table's rows share them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Defaults(pub(crate) Box<[Datum]>);

/// The schema of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSchema {
    /// Name, e.g. `external_ids`.
    pub name: Arc<str>,
    /// Type.
    pub ty: ColumnType,
    /// Whether `update` and `mutate` may change it.
    pub mutable: bool,
    /// Whether it is lost when a server restarts.
    pub ephemeral: bool,
}

impl DatabaseSchema {
    /// The table of a name.
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        self.tables_by_name.get(name).copied()
    }

    /// The schema of a table.
    ///
    /// # Panics
    /// When the id is of another schema.
    pub fn table(&self, table: TableId) -> &TableSchema {
        &self.tables[table.index()]
    }

    /// The schema of the table of a name, with its id.
    pub fn table_by_name(&self, name: &str) -> Option<(TableId, &TableSchema)> {
        let id = self.table_id(name)?;
        Some((id, self.table(id)))
    }

    /// The ids of all tables.
    pub fn table_ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (0..self.tables.len() as u16).map(TableId)
    }
}

impl TableSchema {
    /// The column of a name, `_uuid` and `_version` included.
    pub fn column_id(&self, name: &str) -> Option<ColumnId> {
        match name {
            "_uuid" => Some(ColumnId::UUID),
            "_version" => Some(ColumnId::VERSION),
            name => self.columns_by_name.get(name).copied(),
        }
    }

    /// The schema of a column, none for the implicit ones.
    pub fn column(&self, column: ColumnId) -> Option<&ColumnSchema> {
        self.columns.get(column.index())
    }

    /// The type of a column, the implicit ones included.
    pub fn column_type(&self, column: ColumnId) -> &ColumnType {
        self.column(column)
            .map_or(ColumnType::uuid(), |column| &column.ty)
    }

    /// The name of a column, the implicit ones included.
    pub fn column_name(&self, column: ColumnId) -> &str {
        match column {
            ColumnId::UUID => "_uuid",
            ColumnId::VERSION => "_version",
            column => self.column(column).map_or("", |column| &column.name),
        }
    }

    /// Whether `update` and `mutate` may change a column.
    pub fn is_mutable(&self, column: ColumnId) -> bool {
        self.column(column).is_some_and(|column| column.mutable)
    }

    /// The default of each column, by [`ColumnId`].
    pub fn defaults(&self) -> &[Datum] {
        &self.defaults.0
    }

    /// The columns that must be given when a row is inserted, because their defaults break their own constraints.
    pub(crate) fn refused_defaults(&self) -> &[ColumnId] {
        &self.refused_defaults
    }

    /// All columns, `_uuid` and `_version` included, in the order in which ovsdb-server compares whole rows: that of
    /// its [hash tables](crate::hash_order). O(columns).
    pub fn columns_in_hash_order(&self) -> Vec<ColumnId> {
        let names = hash_order::columns(self.columns.iter().map(|column| &*column.name));
        names
            .into_iter()
            .filter_map(|name| self.column_id(name))
            .collect()
    }

    /// The ids of the columns, `_uuid` and `_version` excluded.
    pub fn column_ids(&self) -> impl Iterator<Item = ColumnId> + use<> {
        (0..self.columns.len() as u16).map(ColumnId)
    }
}

/// Whether `name` is an `<id>`: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_id(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
