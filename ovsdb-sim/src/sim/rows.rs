//! Rows in YAML or JSON, by table and name, with references by name.

use std::collections::{BTreeMap, HashMap, HashSet};

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::BuildError;
use patchbay_schemas::atom::{Atom, AtomType, parse_uuid};
use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::schema::{BaseType, ColumnId, ColumnType, RefType, TableId, TableSchema};
use serde_json::Value;
use uuid::Uuid;

use crate::sim::database::{SimDatabase, TransactError};

/// Column that has the name of a row, if the row does not say otherwise.
const NAME: &str = "name";

/// Rows by table and name, as a document of YAML or JSON has them.
///
/// ```yaml
/// Logical_Switch:
///   sw0:
///     ports: [sw0-p1]
///     other_config: {subnet: 10.0.0.0/24}
/// Logical_Switch_Port:
///   sw0-p1:
///     addresses: ["0a:00:00:00:00:01 10.0.0.2"]
/// ```
///
/// The name of a row is the value of its column `name`, if the table has such a column of one
/// string and the row does not set it. A reference is the name of a row of the document, the name
/// of a row that the database has, or a UUID. A set may be a list or one value, a map is a map, and
/// what is `null` or missing has its default.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDocument(BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>);

/// UUIDs of the rows of a [`RowDocument`], by table and name.
pub type RowUuids = BTreeMap<String, BTreeMap<String, Uuid>>;

/// Error: rows of a document cannot be inserted. Nothing changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The text is neither YAML nor JSON, or repeats a name.
    #[error("{0}")]
    Syntax(String),
    /// The document is not made of tables with rows by name.
    #[error("{place}: {expected}, not {found}")]
    Shape {
        /// Table, or table and row, or `the document`.
        place: String,
        /// Shape that has to be there.
        expected: &'static str,
        /// Shape that is there.
        found: &'static str,
    },
    /// The schema has no such table.
    #[error("database {database} has no table {table}")]
    Table {
        /// Name of the database.
        database: String,
        /// Name of the table.
        table: String,
    },
    /// A row cannot be inserted.
    #[error("{table} {row}: {problem}")]
    Row {
        /// Name of the table.
        table: String,
        /// Name of the row in the document.
        row: String,
        /// The problem.
        problem: String,
    },
    /// A column cannot have its value.
    #[error("{table} {row}, column {column}: {problem}")]
    Column {
        /// Name of the table.
        table: String,
        /// Name of the row in the document.
        row: String,
        /// Name of the column.
        column: String,
        /// The problem.
        problem: String,
    },
    /// The database rejected the transaction.
    #[error(transparent)]
    Commit(#[from] TransactError),
}

impl RowDocument {
    /// Parses a document of YAML or JSON. An empty one has no rows.
    ///
    /// # Errors
    /// The text is neither, or does not have tables with rows by name.
    pub fn parse(text: &str) -> Result<Self, RowsError> {
        let value: Option<Value> =
            serde_saphyr::from_str(text).map_err(|error| RowsError::Syntax(error.to_string()))?;
        Self::from_tables(value.unwrap_or_default())
    }

    /// Reads a document from its JSON value, or from a string with the text of one.
    ///
    /// # Errors
    /// It does not have tables with rows by name.
    pub fn from_json(value: Value) -> Result<Self, RowsError> {
        match value {
            Value::String(text) => Self::parse(&text),
            value => Self::from_tables(value),
        }
    }

    fn from_tables(value: Value) -> Result<Self, RowsError> {
        let tables = members(value, "the document", "tables by name are expected")?;
        let rows = tables.into_iter().map(|(table, rows)| {
            let rows = members(rows, &table, "rows by name are expected")?;
            let rows = rows.into_iter().map(|(name, columns)| {
                let place = format!("{table} {name}");
                let columns = members(columns, &place, "values by column are expected")?;
                Ok((name, columns.into_iter().collect()))
            });
            let rows = rows.collect::<Result<_, RowsError>>()?;
            Ok((table, rows))
        });
        Ok(Self(rows.collect::<Result<_, RowsError>>()?))
    }
}

impl SimDatabase {
    /// Inserts the rows of a document in one transaction, and returns their UUIDs.
    ///
    /// ```
    /// use ovsdb_sim::{RowDocument, Sim};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// let database = sim.database("OVN_Northbound").ok_or("served by default")?;
    /// let rows = "
    /// Logical_Switch: {sw0: {ports: [sw0-p1]}}
    /// Logical_Switch_Port: {sw0-p1: {addresses: dynamic}}
    /// ";
    /// let uuids = database.insert_rows(&RowDocument::parse(rows)?)?;
    /// assert_eq!(uuids["Logical_Switch"].len(), 1);
    /// assert_eq!(database.snapshot().row_count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The schema has no such table or column, a value does not fit its column, a reference leads
    /// nowhere, or the database rejects the rows. Nothing changed.
    pub fn insert_rows(&self, document: &RowDocument) -> Result<RowUuids, RowsError> {
        let mut txn = self.txn();
        let snapshot = txn.snapshot().clone();
        let schema = snapshot.schema();
        let mut names = Names { snapshot: &snapshot, given: HashMap::new() };
        let mut uuids = RowUuids::new();
        for (table, rows) in &document.0 {
            let Some(id) = schema.table_id(table) else {
                let (database, table) = (schema.name.clone(), table.clone());
                return Err(RowsError::Table { database, table });
            };
            let of_table = rows.keys().map(|name| (name.clone(), txn.reserve()));
            let of_table: BTreeMap<_, _> = of_table.collect();
            names.given.extend(of_table.iter().map(|(name, uuid)| ((id, name.clone()), *uuid)));
            uuids.insert(table.clone(), of_table);
        }
        let mut referenced = HashSet::new();
        let mut inserts = Vec::new();
        for (table, rows) in &document.0 {
            let Some((id, table_schema)) = schema.table_by_name(table) else { continue };
            for (name, columns) in rows {
                let place = RowPlace { table, table_schema, name };
                let values = place.values(columns, &names, &mut referenced)?;
                inserts.push((id, place, values));
            }
        }
        for (id, place, values) in inserts {
            let uuid = uuids[place.table][place.name];
            if !place.table_schema.is_root && !referenced.contains(&uuid) {
                let table = place.table;
                return Err(place.row_error(format!(
                    "no row of the document refers to it, and a row of {table} without a reference is deleted at once"
                )));
            }
            let values = values
                .into_iter()
                .map(|(column, datum)| (column, place.table_schema.column_id(column), datum));
            txn.insert_reserved(uuid, id, values).map_err(|error| place.build_error(&error))?;
        }
        self.transact(&txn.finish())?;
        Ok(uuids)
    }
}

/// Rows that references can name.
struct Names<'a> {
    snapshot: &'a Snapshot,
    given: HashMap<(TableId, String), Uuid>,
}

impl Names<'_> {
    /// The row that a text names: one of the document, one of the database, or a UUID.
    fn find(&self, table: TableId, text: &str) -> Option<Uuid> {
        let given = || self.given.get(&(table, text.to_owned())).copied();
        let present = || {
            let column = self.snapshot.schema().table(table).column_id(NAME)?;
            let name = Datum::scalar(text);
            let mut rows = self.snapshot.table(table).iter();
            rows.find(|row| *row.get(column) == name).map(|row| row.uuid)
        };
        given().or_else(present).or_else(|| parse_uuid(text.as_bytes()))
    }
}

/// Row of a document.
struct RowPlace<'a> {
    table: &'a str,
    table_schema: &'a TableSchema,
    name: &'a str,
}

impl RowPlace<'_> {
    /// The values of the row. Strong references are added to `referenced`.
    fn values<'c>(
        &self,
        columns: &'c BTreeMap<String, Value>,
        names: &Names<'_>,
        referenced: &mut HashSet<Uuid>,
    ) -> Result<Vec<(&'c str, Datum)>, RowsError> {
        let mut values = Vec::with_capacity(columns.len() + 1);
        let name_column = self.table_schema.column_id(NAME);
        let has_name = name_column.is_some_and(|column| {
            let ty = self.table_schema.column_type(column);
            ty.is_scalar() && ty.key.atom == AtomType::String
        });
        if has_name && !columns.contains_key(NAME) {
            values.push((NAME, Datum::scalar(self.name)));
        }
        for (column, value) in columns {
            let id = self.table_schema.column_id(column).filter(|id| !id.is_implicit());
            let Some(id) = id else {
                return Err(self.column_error(column, "the table has no such column".to_owned()));
            };
            if value.is_null() {
                continue;
            }
            let ty = self.table_schema.column_type(id);
            let datum = datum(ty, value, names, referenced)
                .map_err(|problem| self.column_error(column, problem))?;
            values.push((column, datum));
        }
        // The default would refer to a row that does not exist.
        let lacks_reference = |id: &ColumnId| {
            let ty = self.table_schema.column_type(*id);
            let is_given = columns.contains_key(self.table_schema.column_name(*id));
            ty.min > 0 && ty.key.reference().is_some() && !is_given
        };
        if let Some(id) = self.table_schema.column_ids().find(lacks_reference) {
            let problem = "it must refer to a row".to_owned();
            return Err(self.column_error(self.table_schema.column_name(id), problem));
        }
        Ok(values)
    }

    fn row_error(&self, problem: String) -> RowsError {
        RowsError::Row { table: self.table.to_owned(), row: self.name.to_owned(), problem }
    }

    fn column_error(&self, column: &str, problem: String) -> RowsError {
        RowsError::Column {
            table: self.table.to_owned(),
            row: self.name.to_owned(),
            column: column.to_owned(),
            problem,
        }
    }

    fn build_error(&self, error: &BuildError) -> RowsError {
        match error {
            BuildError::Value { column, source, .. } => {
                self.column_error(column, source.to_string())
            }
            error => self.row_error(error.to_string()),
        }
    }
}

/// The members of an object; `null` has none.
fn members(
    value: Value,
    place: &str,
    expected: &'static str,
) -> Result<serde_json::Map<String, Value>, RowsError> {
    match value {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(serde_json::Map::new()),
        other => Err(RowsError::Shape { place: place.to_owned(), expected, found: shape(&other) }),
    }
}

fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// The value of a column, or what is wrong with it.
fn datum(
    ty: &ColumnType,
    value: &Value,
    names: &Names<'_>,
    referenced: &mut HashSet<Uuid>,
) -> Result<Datum, String> {
    let Some(value_type) = &ty.value else {
        let mut atoms = match value {
            Value::Array(elements) => {
                let atoms =
                    elements.iter().map(|element| atom(&ty.key, element, names, referenced));
                atoms.collect::<Result<Vec<_>, _>>()?
            }
            one => vec![atom(&ty.key, one, names, referenced)?],
        };
        let count = u32::try_from(atoms.len()).unwrap_or(u32::MAX);
        if count < ty.min || count > ty.max {
            return Err(format!("{} is expected, not {count} values", ty.to_english()));
        }
        let set = Set::from_distinct(&mut atoms);
        return set.map(Datum::Set).ok_or_else(|| "a value occurs twice".to_owned());
    };
    let Value::Object(pairs) = value else {
        return Err(format!("{} is expected, not {}", ty.to_english(), shape(value)));
    };
    let pairs = pairs.iter().map(|(key, value)| {
        let key = match ty.key.atom {
            AtomType::String | AtomType::Uuid => Value::String(key.clone()),
            // Keys are texts in JSON.
            _ => serde_json::from_str(key).unwrap_or_else(|_| Value::String(key.clone())),
        };
        Ok((atom(&ty.key, &key, names, referenced)?, atom(value_type, value, names, referenced)?))
    });
    let mut pairs = pairs.collect::<Result<Vec<_>, String>>()?;
    let map = Map::from_distinct(&mut pairs);
    map.map(Datum::Map).ok_or_else(|| "a key occurs twice".to_owned())
}

fn atom(
    base: &BaseType,
    value: &Value,
    names: &Names<'_>,
    referenced: &mut HashSet<Uuid>,
) -> Result<Atom, String> {
    let found = match (base.atom, value) {
        (AtomType::String, Value::String(text)) => Some(Atom::from(text.as_str())),
        (AtomType::Integer, Value::Number(number)) => number.as_i64().map(Atom::from),
        (AtomType::Real, Value::Number(number)) => number.as_f64().map(Atom::from),
        (AtomType::Boolean, Value::Bool(is_true)) => Some(Atom::from(*is_true)),
        (AtomType::Uuid, Value::String(text)) => match base.reference() {
            None => parse_uuid(text.as_bytes()).map(Atom::from),
            Some(reference) => {
                let table = &reference.table_name;
                let uuid = names
                    .find(reference.table, text)
                    .ok_or_else(|| format!("there is no {table} {text:?}"))?;
                if reference.ref_type == RefType::Strong {
                    referenced.insert(uuid);
                }
                Some(Atom::from(uuid))
            }
        },
        _ => None,
    };
    found.ok_or_else(|| {
        let hint = match (base.atom, value) {
            (AtomType::String, Value::Number(_) | Value::Bool(_)) => ": write it in quotes",
            _ => "",
        };
        format!("{value} is no {}{hint}", base.atom.name())
    })
}
