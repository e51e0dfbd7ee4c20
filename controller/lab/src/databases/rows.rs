//! Values and rows of tables of which there are no generated types.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::typed::Column;
use uuid::Uuid;

/// Row of a table of which there are no generated types.
pub(crate) struct Lookup<'a> {
    row: &'a Row,
    table: &'a TableSchema,
}

impl Lookup<'_> {
    /// Value of a column. `None`: the schema lacks it, or it has another type.
    pub(crate) fn get<T: Column>(&self, column: &str) -> Option<T> {
        let column = self.table.column_id(column)?;
        T::from_datum(&self.row.get(column))
    }
}

/// A text as a column's value.
pub(crate) fn text(text: impl Into<String>) -> Datum {
    text.into().to_datum()
}

/// Texts as the value of a map column.
pub(crate) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Datum {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    BTreeMap::from(pairs).to_datum()
}

/// References as the value of a set column.
pub(crate) fn rows(rows: impl IntoIterator<Item = Uuid>) -> Datum {
    rows.into_iter().collect::<BTreeSet<_>>().to_datum()
}

/// Value of a column of the first row of a table that `is_wanted`. `None`: there is no such row or
/// column, or it has another type.
pub(crate) fn value_of<T: Column>(
    snapshot: &Snapshot,
    table: &str,
    column: &str,
    is_wanted: impl Fn(&Lookup<'_>) -> bool,
) -> Option<T> {
    let schema = snapshot.schema();
    let (id, table_schema) = schema.table_by_name(table)?;
    let table = snapshot.table(id);
    let mut found = table.iter().map(|row| Lookup { row, table: table_schema });
    let found = found.find(|row| is_wanted(row))?;
    found.get(column)
}

/// The rows of a table that `is_wanted`.
pub(crate) fn rows_where(
    snapshot: &Snapshot,
    table: &str,
    is_wanted: impl Fn(&Lookup<'_>) -> bool,
) -> Vec<Uuid> {
    let Some((id, table)) = snapshot.schema().table_by_name(table) else {
        return Vec::new();
    };
    let rows = snapshot.table(id).iter();
    let wanted = rows.filter(|row| is_wanted(&Lookup { row, table }));
    wanted.map(|row| row.uuid).collect()
}
