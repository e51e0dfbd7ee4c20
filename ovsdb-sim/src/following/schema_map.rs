//! Tables and columns of a source in the schema of the database that follows it.

use patchbay_schemas::schema::{ColumnId, ColumnType, DatabaseSchema, TableId};

/// Tables and columns of a source, by those of the database that follows it.
#[derive(Debug)]
pub(super) struct SchemaMap {
    /// By tables of the source. `None`: the table is not followed.
    tables: Vec<Option<TableMap>>,
}

/// Place of a source's table.
#[derive(Debug)]
pub(super) struct TableMap {
    pub(super) table: TableId,
    /// Columns of the source, with those of the same names.
    pub(super) columns: Vec<(ColumnId, ColumnId)>,
}

/// Error: the follower's schema lacks something that the source's has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SchemaMismatch {
    #[error("Table {0} not present in the local db schema")]
    Table(String),
    #[error("Column {column} not present in the local db schema table {table}.")]
    Column { table: String, column: String },
    #[error("Table {table} column {column} has another type in the local db schema.")]
    Type { table: String, column: String },
}

impl SchemaMap {
    /// Finds the tables and columns of the source by their names, without those of some tables.
    ///
    /// # Errors
    /// There is no such table or column, or it has another type. The texts are those of
    /// ovsdb-server's log.
    pub(super) fn new(
        source: &DatabaseSchema,
        own: &DatabaseSchema,
        is_excluded: impl Fn(&str) -> bool,
    ) -> Result<Self, SchemaMismatch> {
        let map_table = |id: TableId| {
            let table = source.table(id);
            if is_excluded(&table.name) {
                return Ok(None);
            }
            let name = || table.name.to_string();
            let (own_id, own_table) =
                own.table_by_name(&table.name).ok_or_else(|| SchemaMismatch::Table(name()))?;
            let map_column = |column: ColumnId| {
                let column_name = table.column_name(column).to_owned();
                let Some(own_column) = own_table.column_id(&column_name) else {
                    let table = name();
                    let column = column_name;
                    return Err(SchemaMismatch::Column { table, column });
                };
                if !has_same_type(table.column_type(column), own_table.column_type(own_column)) {
                    let table = name();
                    let column = column_name;
                    return Err(SchemaMismatch::Type { table, column });
                }
                Ok((column, own_column))
            };
            let columns = table.column_ids().map(map_column).collect::<Result<_, _>>();
            Ok(Some(TableMap { table: own_id, columns: columns? }))
        };
        let tables = source.table_ids().map(map_table).collect::<Result<_, _>>();
        Ok(Self { tables: tables? })
    }

    /// The place of a source's table. `None`: it is not followed.
    pub(super) fn table(&self, source: TableId) -> Option<&TableMap> {
        self.tables.get(source.index())?.as_ref()
    }

    /// The tables of the source that are followed, with their places.
    pub(super) fn tables<'a>(
        &'a self,
        source: &'a DatabaseSchema,
    ) -> impl Iterator<Item = (TableId, &'a TableMap)> {
        source.table_ids().filter_map(|id| Some((id, self.table(id)?)))
    }
}

/// `true` if two columns hold the same values. Ranges, enums and referenced tables are not
/// compared.
fn has_same_type(one: &ColumnType, other: &ColumnType) -> bool {
    let shape = |ty: &ColumnType| {
        let value = ty.value.as_ref().map(|value| value.atom);
        (ty.key.atom, value, ty.min, ty.max)
    };
    shape(one) == shape(other)
}
