//! Database schemas (RFC 7047 section 3.2).
//!
//! Tables and columns are addressed by small integers ([`TableId`], [`ColumnId`]), so that the
//! values of a row are an array. Every table has the implicit columns `_uuid` and `_version` in
//! addition to its own. They have ids ([`ColumnId::UUID`], [`ColumnId::VERSION`]), but are stored
//! as fields of the row.

mod column_type;
mod members;
mod order;
mod parse;
mod parse_type;
mod print;

pub use column_type::{BaseType, ColumnType, Constraint, RefType, Reference};
pub use members::Members;
pub(crate) use members::unknown_members;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::datum::Datum;

/// Index of a table in [`DatabaseSchema::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

impl TableId {
    /// Returns the index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Index of a column in [`TableSchema::columns`], or one of the two implicit columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

impl ColumnId {
    /// `_uuid`
    pub const UUID: ColumnId = ColumnId(u16::MAX);
    /// `_version`
    pub const VERSION: ColumnId = ColumnId(u16::MAX - 1);

    /// Returns the index in the values of a row; out of range for the implicit columns.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// `true` for `_uuid` and `_version`.
    pub fn is_implicit(self) -> bool {
        self >= Self::VERSION
    }
}

/// The schema of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseSchema {
    /// Name of the database, e.g. `OVN_Northbound`.
    pub name: String,
    /// Version in the form `x.y.z`, as written in the schema; empty if the schema has none.
    pub version: String,
    /// Checksum as written in the schema; empty if the schema has none.
    pub cksum: String,
    /// Tables, sorted by name.
    pub tables: Vec<TableSchema>,
    tables_by_name: HashMap<Arc<str>, TableId, RandomState>,
    /// Iteration order of ovsdb-server's hash table of the tables.
    table_order: Vec<TableId>,
}

/// The schema of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// Name, e.g. `Logical_Router`.
    pub name: Arc<str>,
    /// Columns, sorted by name, without `_uuid` and `_version`.
    pub columns: Vec<ColumnSchema>,
    /// Member `mutable`, which only `get_schema` returns; ovsdb-server does not enforce it.
    pub mutable: bool,
    /// Maximum number of rows after a commit; `u32::MAX`: unlimited.
    pub max_rows: u32,
    /// `true` if rows exist without strong references to them.
    pub is_root: bool,
    /// Unique indexes: sets of columns whose combined values are unique.
    pub indexes: Vec<Vec<ColumnId>>,
    columns_by_name: HashMap<Arc<str>, ColumnId, RandomState>,
    /// Iteration order of ovsdb-server's hash table of the columns, including the implicit ones.
    column_order: Vec<ColumnId>,
    pub(crate) defaults: Arc<Defaults>,
    /// Columns whose defaults violate the constraints of the columns.
    refused_defaults: Vec<ColumnId>,
}

/// Default of each column of a table, shared by all rows of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Defaults(pub(crate) Box<[Datum]>);

/// The schema of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSchema {
    /// Name, e.g. `external_ids`.
    pub name: Arc<str>,
    /// Type of the values.
    pub ty: ColumnType,
    /// `true` if `update` and `mutate` may change the column.
    pub mutable: bool,
    /// `true` if the value is lost when the server restarts.
    pub ephemeral: bool,
}

impl DatabaseSchema {
    /// A schema without tables and version.
    pub fn empty(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: String::new(),
            cksum: String::new(),
            tables: Vec::new(),
            tables_by_name: HashMap::default(),
            table_order: Vec::new(),
        }
    }

    /// Returns the id of the table with this name.
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        self.tables_by_name.get(name).copied()
    }

    /// Returns the schema of a table.
    ///
    /// # Panics
    /// The id is that of another schema.
    pub fn table(&self, table: TableId) -> &TableSchema {
        &self.tables[table.index()]
    }

    /// Returns id and schema of the table with this name.
    pub fn table_by_name(&self, name: &str) -> Option<(TableId, &TableSchema)> {
        let id = self.table_id(name)?;
        Some((id, self.table(id)))
    }

    /// Iterates over the ids of all tables.
    pub fn table_ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (0..self.tables.len() as u16).map(TableId)
    }
}

impl TableSchema {
    /// Returns the id of the column with this name, including `_uuid` and `_version`.
    pub fn column_id(&self, name: &str) -> Option<ColumnId> {
        match name {
            "_uuid" => Some(ColumnId::UUID),
            "_version" => Some(ColumnId::VERSION),
            name => self.columns_by_name.get(name).copied(),
        }
    }

    /// Returns the schema of a column. `None`: the column is implicit, or the table lacks it.
    pub fn column(&self, column: ColumnId) -> Option<&ColumnSchema> {
        self.columns.get(column.index())
    }

    /// Returns the type of a column, also of `_uuid` and `_version`.
    pub fn column_type(&self, column: ColumnId) -> &ColumnType {
        self.column(column).map_or(ColumnType::uuid(), |column| &column.ty)
    }

    /// Returns the name of a column, also of `_uuid` and `_version`.
    pub fn column_name(&self, column: ColumnId) -> &str {
        match column {
            ColumnId::UUID => "_uuid",
            ColumnId::VERSION => "_version",
            column => self.column(column).map_or("", |column| &column.name),
        }
    }

    /// `true` if `update` and `mutate` may change the column.
    pub fn is_mutable(&self, column: ColumnId) -> bool {
        self.column(column).is_some_and(|column| column.mutable)
    }

    /// Returns the default of each column, by [`ColumnId`].
    pub fn defaults(&self) -> &[Datum] {
        &self.defaults.0
    }

    /// Returns the columns that an `insert` must not omit, because their defaults violate their
    /// constraints.
    pub(crate) fn refused_defaults(&self) -> &[ColumnId] {
        &self.refused_defaults
    }

    /// Returns all columns, including `_uuid` and `_version`, in the order in which ovsdb-server
    /// compares rows.
    ///
    /// This is the iteration order of its [hash table](crate::hash_order), which depends on the order
    /// of the columns in the text of the schema.
    pub fn columns_in_hash_order(&self) -> &[ColumnId] {
        &self.column_order
    }

    /// Iterates over the ids of the columns, without `_uuid` and `_version`.
    pub fn column_ids(&self) -> impl Iterator<Item = ColumnId> + use<> {
        (0..self.columns.len() as u16).map(ColumnId)
    }
}

/// `true` if `name` is an `<id>`: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_id(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
