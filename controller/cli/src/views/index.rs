//! Rows with their names, owners, and the rows that refer to them.

use std::collections::HashMap;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::owner::Owner;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{TableId, TableSchema};
use uuid::Uuid;

/// Tables whose rows hold others.
pub(super) const HOLDERS: [&str; 4] =
    ["Logical_Switch", "Logical_Router", "Port_Group", "Load_Balancer_Group"];
/// Columns that identify a row without a name, best first.
const IDENTIFYING_COLUMNS: [&str; 6] =
    ["ip_prefix", "external_ip", "match", "cidr", "chassis_name", "ip"];
/// Number of digits of a UUID that stand for a row without a name.
const SHORT_UUID_DIGITS: usize = 8;

/// Rows of a database.
pub(super) struct Index<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Rows of `HOLDERS` that refer to a row.
    holders: HashMap<Uuid, Vec<RowView<'a>>>,
}

/// Row with its table.
#[derive(Clone, Copy)]
pub(super) struct RowView<'a> {
    pub(super) table: TableId,
    pub(super) schema: &'a TableSchema,
    pub(super) row: &'a Arc<Row>,
}

impl<'a> Index<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut holders: HashMap<Uuid, Vec<RowView<'a>>> = HashMap::new();
        let mut index = Self { snapshot, holders: HashMap::new() };
        for table in HOLDERS {
            for row in index.rows(table) {
                for uuid in row.references() {
                    holders.entry(uuid).or_default().push(row);
                }
            }
        }
        for rows in holders.values_mut() {
            rows.sort_by_key(|row| (row.table, row.name()));
        }
        index.holders = holders;
        index
    }

    /// Rows of a table, by name.
    pub(super) fn rows(&self, table: &str) -> Vec<RowView<'a>> {
        let Some((table, schema)) = self.snapshot.schema().table_by_name(table) else {
            return Vec::new();
        };
        let rows = self.snapshot.table(table).iter();
        let mut rows: Vec<_> = rows.map(|row| RowView { table, schema, row }).collect();
        rows.sort_by_cached_key(|row| (row.name(), row.row.uuid));
        rows
    }

    /// A row that a reference of a table names.
    pub(super) fn row(&self, table: &str, uuid: Uuid) -> Option<RowView<'a>> {
        let (table, schema) = self.snapshot.schema().table_by_name(table)?;
        Some(RowView { table, schema, row: self.snapshot.row(table, uuid)? })
    }

    /// Switches, routers and groups that refer to a row.
    pub(super) fn holders(&self, uuid: Uuid) -> &[RowView<'a>] {
        self.holders.get(&uuid).map(Vec::as_slice).unwrap_or_default()
    }
}

impl<'a> RowView<'a> {
    pub(super) fn uuid(&self) -> Uuid {
        self.row.uuid
    }

    pub(super) fn table_name(&self) -> &'a str {
        &self.schema.name
    }

    /// Name, or what identifies the row best.
    pub(super) fn name(&self) -> String {
        let columns = ["name"].into_iter().chain(IDENTIFYING_COLUMNS);
        let texts = columns.map(|column| self.text(column));
        let short = || self.row.uuid.to_string().chars().take(SHORT_UUID_DIGITS).collect();
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_else(short)
    }

    /// The object for which the row exists.
    pub(super) fn owner(&self) -> Option<Owner> {
        let column = self.schema.column_id("external_ids")?;
        let datum = self.row.get(column);
        let ids = datum.as_map()?;
        Owner::of(&self.text("name"), |key| ids.get_str(key))
    }

    /// A scalar column as text; empty if it is not set, or the schema has no such column.
    pub(super) fn text(&self, column: &str) -> String {
        self.texts(column).into_iter().next().unwrap_or_default()
    }

    /// Elements of a column as texts, without quotes.
    pub(super) fn texts(&self, column: &str) -> Vec<String> {
        let Some(column) = self.schema.column_id(column) else {
            return Vec::new();
        };
        match &*self.row.get(column) {
            Datum::Set(set) => set.iter().map(plain).collect(),
            Datum::Map(map) => {
                map.iter().map(|(key, value)| format!("{}={}", plain(key), plain(value))).collect()
            }
        }
    }

    /// Pairs of a column.
    pub(super) fn pairs(&self, column: &str) -> Vec<(String, String)> {
        let Some(column) = self.schema.column_id(column) else {
            return Vec::new();
        };
        match &*self.row.get(column) {
            Datum::Set(_) => Vec::new(),
            Datum::Map(map) => map.iter().map(|(key, value)| (plain(key), plain(value))).collect(),
        }
    }

    /// The value of a key; empty if there is none.
    pub(super) fn value(&self, column: &str, key: &str) -> String {
        let pairs = self.pairs(column).into_iter();
        pairs.filter(|(own, _)| own == key).map(|(_, value)| value).next().unwrap_or_default()
    }

    /// UUIDs that the columns of the row refer to.
    pub(super) fn references(&self) -> Vec<Uuid> {
        let mut found = Vec::new();
        for column in self.schema.column_ids() {
            if self.schema.column_type(column).key.reference().is_none() {
                continue;
            }
            if let Datum::Set(set) = &*self.row.get(column) {
                found.extend(set.iter().filter_map(Atom::as_uuid));
            }
        }
        found
    }
}

fn plain(atom: &Atom) -> String {
    match atom {
        Atom::String(text) => text.to_string(),
        other => other.to_string(),
    }
}
