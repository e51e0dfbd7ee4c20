//! Database files with the rows of dumps.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read as _};

use ovsdb_sim::database_file;
use patchbay_schemas::nb;
use patchbay_schemas::schema::{ColumnType, DatabaseSchema, TableSchema};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::datum::to_json;
use super::tables::{Cell, DumpedTable, Tables};

/// Column with the UUIDs of rows.
const UUID: &str = "_uuid";
/// Column with the versions of rows.
const VERSION: &str = "_version";
/// Maximum length of a dump, in bytes. Reading takes about ten times as much memory.
const MAX_DUMP_BYTES: u64 = 1 << 30;
/// Maximum number of names in a message.
const MAX_NAMED: usize = 5;
/// Maximum number of messages about what is lost.
const MAX_LOST: usize = 100;
/// Tables that Northbound databases alone have.
const OWN_TABLES: [&str; 4] = ["ACL", "Logical_Router", "Logical_Switch", "NB_Global"];
/// Tables that each Northbound database has since OVN 20.03. A dump without one of them is not whole.
const COMMON_TABLES: [&str; 16] = [
    "ACL",
    "Address_Set",
    "Connection",
    "DHCP_Options",
    "DNS",
    "Gateway_Chassis",
    "Load_Balancer",
    "Logical_Router",
    "Logical_Router_Port",
    "Logical_Router_Static_Route",
    "Logical_Switch",
    "Logical_Switch_Port",
    "NAT",
    "NB_Global",
    "Port_Group",
    "SSL",
];

/// Error: a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a dump of more than {} MiB", MAX_DUMP_BYTES >> 20)]
    TooLong,
    #[error("a dump without a whole table: {}", lost.first().map_or("it is empty", String::as_str))]
    NoTable { lost: Vec<String> },
    #[error("a dump, but not of a Northbound database: its tables are {tables}")]
    OtherDatabase { tables: String },
    #[error("table {table} has no column {UUID}: a dump of all columns is needed")]
    NoUuids { table: String },
}

/// A dump as a database file.
pub(crate) struct Dump {
    /// Content of a file of a standalone database.
    pub(crate) file: Vec<u8>,
    /// What is lost.
    pub(crate) lost: Vec<String>,
}

/// Reads a dump.
///
/// # Errors
/// The text cannot be read, is too long, or is of another database.
pub(crate) fn read_dump(input: Box<dyn BufRead + '_>) -> Result<Dump, DumpError> {
    let mut text = Vec::new();
    input.take(MAX_DUMP_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_DUMP_BYTES {
        return Err(DumpError::TooLong);
    }
    let text = String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let Tables { tables, lost } = Tables::read(&text);
    if tables.is_empty() {
        return Err(DumpError::NoTable { lost });
    }
    let schema = nb::schema();
    check_database(&tables, &schema)?;
    let mut rows = Rows { schema: &schema, transaction: Map::new(), lost };
    for table in &tables {
        rows.add(table)?;
    }
    rows.note_missing(&tables);
    Ok(rows.into_dump(&tables))
}

/// Fails if the tables are those of another database.
fn check_database(tables: &[DumpedTable], schema: &DatabaseSchema) -> Result<(), DumpError> {
    let is_own = tables.iter().any(|table| OWN_TABLES.contains(&&*table.name));
    let is_known = tables.iter().all(|table| schema.table_id(&table.name).is_some());
    if is_own || is_known {
        return Ok(());
    }
    let names = tables.iter().map(|table| &*table.name).collect::<Vec<_>>();
    Err(DumpError::OtherDatabase { tables: named(&names) })
}

/// Names in a sentence.
fn named(names: &[&str]) -> String {
    let first: Vec<&str> = names.iter().take(MAX_NAMED).copied().collect();
    match names.len().checked_sub(MAX_NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", first.join(", ")),
        _ => first.join(", "),
    }
}

/// Rows of a dump.
struct Rows<'a> {
    schema: &'a DatabaseSchema,
    /// Rows by table and UUID.
    transaction: Map<String, Value>,
    lost: Vec<String>,
}

impl Rows<'_> {
    fn add(&mut self, dumped: &DumpedTable) -> Result<(), DumpError> {
        let name = &dumped.name;
        let Some((_, table)) = self.schema.table_by_name(name) else {
            let count = dumped.rows.len();
            self.lost
                .push(format!("table {name} is unknown here: its rows ({count}) are left out"));
            return Ok(());
        };
        let mut unknown: Vec<&str> = Vec::new();
        let mut damaged = (0, String::new());
        let mut rows = Map::new();
        let columns: Vec<_> =
            dumped.columns.iter().map(|column| (&**column, find(table, column))).collect();
        let has_uuid = columns.iter().any(|(column, _)| *column == UUID);
        if !has_uuid && !dumped.rows.is_empty() {
            return Err(DumpError::NoUuids { table: name.clone() });
        }
        for (column, known) in &columns {
            if known.is_none() && *column != UUID && *column != VERSION {
                unknown.push(column);
            }
        }
        for cells in &dumped.rows {
            match row(&columns, cells) {
                Ok((uuid, row)) => {
                    rows.insert(uuid.to_string(), Value::Object(row));
                }
                Err(problem) => {
                    damaged.0 += 1;
                    if damaged.1.is_empty() {
                        damaged.1 = problem;
                    }
                }
            }
        }
        if !unknown.is_empty() {
            let names = named(&unknown);
            self.lost
                .push(format!("table {name}: columns that are unknown here are left out: {names}"));
        }
        if damaged.0 > 0 {
            let (count, first) = damaged;
            self.lost.push(format!("table {name}: {count} rows are left out: {first}"));
        }
        self.transaction.insert(name.clone(), Value::Object(rows));
        Ok(())
    }

    /// Notes tables that each Northbound database has.
    fn note_missing(&mut self, tables: &[DumpedTable]) {
        let is_there = |name: &&str| tables.iter().any(|table| table.name == **name);
        let missing: Vec<&str> =
            COMMON_TABLES.iter().filter(|name| !is_there(name)).copied().collect();
        if !missing.is_empty() {
            self.lost.push(format!(
                "the dump has no tables {}: their rows are not known",
                named(&missing)
            ));
        }
    }

    fn into_dump(mut self, tables: &[DumpedTable]) -> Dump {
        let is_whole = self.lost.is_empty();
        let schema = schema_of(self.schema, tables, is_whole);
        self.transaction.insert("_comment".to_owned(), "ovsdb-client dump".into());
        let transaction = Value::Object(self.transaction).to_string();
        let file = database_file(&[&schema.to_string(), &transaction]);
        self.lost.truncate(MAX_LOST);
        Dump { file, lost: self.lost }
    }
}

fn find<'a>(table: &'a TableSchema, column: &str) -> Option<&'a ColumnType> {
    let id = table.column_id(column).filter(|id| !id.is_implicit())?;
    Some(table.column_type(id))
}

/// UUID and columns of a row.
fn row(
    columns: &[(&str, Option<&ColumnType>)],
    cells: &[Cell],
) -> Result<(Uuid, Map<String, Value>), String> {
    let (mut uuid, mut row) = (None, Map::new());
    for ((column, known), cell) in columns.iter().zip(cells) {
        let ty = match known {
            Some(ty) => *ty,
            None if *column == UUID => ColumnType::uuid(),
            None => continue,
        };
        let value = match cell {
            Cell::Json(value) => Some(value.clone()),
            // With `--data=json` cells are JSON.
            Cell::Text(text) => to_json(text, ty).or_else(|| serde_json::from_str(text).ok()),
        };
        let value = value.ok_or_else(|| format!("column {column} has no value of its type"))?;
        if *column == UUID {
            uuid = value.get(1).and_then(Value::as_str).and_then(|text| Uuid::try_parse(text).ok());
        } else {
            row.insert((*column).to_owned(), value);
        }
    }
    let uuid = uuid.ok_or_else(|| format!("column {UUID} has no UUID"))?;
    Ok((uuid, row))
}

/// The schema of a dump: the tables and columns that it has, and tables that these refer to. In a
/// dump that is not whole, rows stay without the rows that refer to them, and lost rows are not
/// referred to.
fn schema_of(schema: &DatabaseSchema, dumped: &[DumpedTable], is_whole: bool) -> Value {
    let mut text =
        serde_json::from_slice(schema.to_text().as_text().bytes()).unwrap_or(Value::Null);
    let Some(tables) = text.get_mut("tables").and_then(Value::as_object_mut) else {
        return text;
    };
    for dumped in dumped {
        let Some(table) = tables.get_mut(&dumped.name) else { continue };
        let known: BTreeSet<&str> = dumped.columns.iter().map(String::as_str).collect();
        let Some(columns) = table.get_mut("columns").and_then(Value::as_object_mut) else {
            continue;
        };
        // An empty table of a list names no columns, and a table needs some.
        if !columns.keys().any(|name| known.contains(&**name)) {
            continue;
        }
        columns.retain(|name, _| known.contains(&**name));
        if let Some(indexes) = table.get_mut("indexes").and_then(Value::as_array_mut) {
            let is_known =
                |column: &Value| column.as_str().is_some_and(|name| known.contains(name));
            indexes
                .retain(|index| index.as_array().is_some_and(|index| index.iter().all(is_known)));
        }
    }
    if is_whole {
        loop {
            let mut used: BTreeSet<String> =
                dumped.iter().map(|table| table.name.clone()).collect();
            tables.values().for_each(|table| add_references(table, &mut used));
            let count = tables.len();
            tables.retain(|name, _| used.contains(name));
            if tables.len() == count {
                break;
            }
        }
    } else {
        for table in tables.values_mut() {
            table["isRoot"] = json!(true);
            weaken(table);
        }
    }
    text
}

/// Adds the tables that the columns of a table refer to.
fn add_references(table: &Value, used: &mut BTreeSet<String>) {
    match table {
        Value::Object(members) => {
            let target = members.get("refTable").and_then(Value::as_str);
            used.extend(target.map(str::to_owned));
            members.values().for_each(|member| add_references(member, used));
        }
        Value::Array(items) => items.iter().for_each(|item| add_references(item, used)),
        _ => {}
    }
}

/// Makes references weak.
fn weaken(value: &mut Value) {
    let Value::Object(members) = value else { return };
    if members.contains_key("refTable") {
        members.insert("refType".to_owned(), "weak".into());
    }
    members.values_mut().for_each(weaken);
}
