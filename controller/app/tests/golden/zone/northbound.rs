//! The Northbound database of a scenario: rows as scenarios write them, and as scenarios expect them.

use std::collections::BTreeMap;

use patchbay_connects::ZonePlan;
use patchbay_engine::db::{Database, Snapshot};
use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnType, TableId, TableSchema};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Condition, InsertRow, Operation};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::report::Difference;

/// Columns by which rows that carry no identity are named.
const NAMING_COLUMNS: [&str; 3] = ["name", "match", "ip_prefix"];

pub(super) struct Northbound {
    database: Database,
    /// New rows.
    uuids: UuidSource,
    /// What labels stand for.
    labels: BTreeMap<String, Uuid>,
}

impl Northbound {
    pub(super) fn new(rows: &[Map<String, Value>]) -> Result<Self, String> {
        let mut northbound = Self {
            database: Database::new(nb::schema()),
            uuids: UuidSource::seeded(1),
            labels: BTreeMap::new(),
        };
        for row in rows {
            if let Some(label) = row.get("_uuid").and_then(Value::as_str) {
                let uuid = northbound.uuids.next_uuid();
                northbound.labels.insert(label.to_owned(), uuid);
            }
        }
        let operations = rows
            .iter()
            .map(|row| {
                let table = row.get("_table").and_then(Value::as_str);
                northbound.insertion(table.ok_or("a row without _table")?, row)
            })
            .collect::<Result<Vec<_>, String>>()?;
        northbound.transact(&operations)?;
        Ok(northbound)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    pub(super) fn commit(&mut self, plan: &ZonePlan) -> Result<(), String> {
        for connect in &plan.connects {
            let change = connect.change.as_ref().map_err(ToString::to_string)?;
            if let Some(transaction) = &change.transaction {
                self.transact(transaction.operations())?;
            }
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, table: &str, row: &Map<String, Value>) -> Result<(), String> {
        let operation = self.insertion(table, row)?;
        self.transact(&[operation])
    }

    pub(super) fn delete(&mut self, table: &str, name: &str) -> Result<(), String> {
        let snapshot = self.snapshot();
        let (table, schema) = table_named(&snapshot, table)?;
        let column = schema.column_id("name").ok_or("no name")?;
        let rows = snapshot.table(table).iter();
        let named = rows.filter(|row| *row.get(column) == Datum::scalar(name));
        let operations: Vec<Operation> = named
            .map(|row| Operation::Delete {
                table,
                condition: Condition::uuid(row.uuid),
            })
            .collect();
        self.transact(&operations)
    }

    fn transact(&mut self, operations: &[Operation]) -> Result<(), String> {
        let done = self.database.transact(operations);
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    fn insertion(&mut self, table: &str, row: &Map<String, Value>) -> Result<Operation, String> {
        let snapshot = self.snapshot();
        let (table, schema) = table_named(&snapshot, table)?;
        let label = row.get("_uuid").and_then(Value::as_str);
        let uuid = match label.and_then(|label| self.labels.get(label)) {
            Some(uuid) => *uuid,
            None => self.uuids.next_uuid(),
        };
        let columns = row.iter().filter(|(column, _)| !column.starts_with('_'));
        let values = columns
            .map(|(column, value)| {
                let id = schema
                    .column_id(column)
                    .ok_or_else(|| format!("{} has no column {column}", schema.name))?;
                let datum = self.datum(schema.column_type(id), value)?;
                Ok((id, datum))
            })
            .collect::<Result<Vec<_>, String>>()?;
        Ok(Operation::Insert {
            table,
            uuid,
            given: None,
            row: InsertRow::new(schema, values),
        })
    }

    fn datum(&self, ty: &ColumnType, value: &Value) -> Result<Datum, String> {
        match (&ty.value, value) {
            (Some(value_type), Value::Object(pairs)) => {
                let pair = |(key, value): (&String, &Value)| {
                    let key = self.atom(&ty.key, &json!(key))?;
                    Ok((key, self.atom(value_type, value)?))
                };
                let pairs = pairs.iter().map(pair).collect::<Result<Vec<_>, String>>()?;
                Ok(Datum::Map(pairs.into_iter().collect()))
            }
            (None, Value::Array(items)) => {
                let atoms = items.iter().map(|item| self.atom(&ty.key, item));
                let atoms = atoms.collect::<Result<Vec<_>, String>>()?;
                Ok(Datum::Set(atoms.into_iter().collect()))
            }
            (None, value) => Ok(Datum::scalar(self.atom(&ty.key, value)?)),
            (Some(_), value) => Err(format!("{value} is not a map")),
        }
    }

    fn atom(&self, ty: &BaseType, value: &Value) -> Result<Atom, String> {
        let atom = match (ty.atom, value) {
            (AtomType::String, Value::String(text)) => Some(Atom::from(text.as_str())),
            (AtomType::Integer, Value::Number(number)) => number.as_i64().map(Atom::Integer),
            (AtomType::Boolean, Value::Bool(value)) => Some(Atom::Boolean(*value)),
            (AtomType::Uuid, Value::String(label)) => {
                self.labels.get(label).copied().map(Atom::Uuid)
            }
            _ => None,
        };
        atom.ok_or_else(|| format!("{value} is not a {}", ty.atom.name()))
    }

    /// What differs in one table, if anything does.
    pub(super) fn compare(
        &self,
        table: &str,
        expected: &[Map<String, Value>],
    ) -> Result<Option<Difference>, String> {
        let snapshot = self.snapshot();
        let (id, schema) = table_named(&snapshot, table)?;
        let rows = snapshot.table(id).iter();
        let mut extra: Vec<String> = rows
            .map(|row| canonical(recorded(&snapshot, schema, row)))
            .collect();
        extra.sort();
        let mut missing = Vec::new();
        for row in expected {
            let row = canonical(row.clone());
            match extra.iter().position(|have| *have == row) {
                Some(at) => {
                    extra.remove(at);
                }
                None => missing.push(row),
            }
        }
        let differs = !missing.is_empty() || !extra.is_empty();
        Ok(differs.then(|| Difference {
            place: table.to_owned(),
            missing,
            extra,
        }))
    }
}

pub(crate) fn table_named<'a>(
    snapshot: &'a Snapshot,
    name: &str,
) -> Result<(TableId, &'a TableSchema), String> {
    let found = snapshot.schema().table_by_name(name);
    found.ok_or_else(|| format!("there is no table {name}"))
}

/// One text for each row, whatever the order of its keys and sets.
pub(crate) fn canonical(mut row: Map<String, Value>) -> String {
    for value in row.values_mut() {
        if let Value::Array(items) = value {
            items.sort_by_key(Value::to_string);
        }
    }
    let sorted: BTreeMap<_, _> = row.into_iter().collect();
    json!(sorted).to_string()
}

/// A row as scenarios record it: without defaults, references by name.
fn recorded(snapshot: &Snapshot, schema: &TableSchema, row: &Row) -> Map<String, Value> {
    schema
        .column_ids()
        .filter_map(|column| {
            let (ty, datum) = (schema.column_type(column), row.get(column));
            if ty.is_default(&datum) {
                return None;
            }
            let value = match &*datum {
                Datum::Map(map) => map
                    .iter()
                    .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), plain(value)))
                    .collect::<Map<_, _>>()
                    .into(),
                Datum::Set(set) => {
                    let mut items = set.iter().map(|atom| named(snapshot, &ty.key, atom));
                    if ty.max == 1 {
                        items.next().unwrap_or_default()
                    } else {
                        items.collect()
                    }
                }
            };
            Some((schema.column_name(column).to_owned(), value))
        })
        .collect()
}

pub(crate) fn plain(atom: &Atom) -> Value {
    match atom {
        Atom::Integer(value) => json!(value),
        Atom::Real(value) => json!(value.0),
        Atom::Boolean(value) => json!(value),
        Atom::String(text) => json!(&**text),
        Atom::Uuid(uuid) => json!(uuid.to_string()),
    }
}

/// An atom; a reference as the name or the identity of the row that it refers to.
fn named(snapshot: &Snapshot, ty: &BaseType, atom: &Atom) -> Value {
    let target = ty.reference().zip(atom.as_uuid());
    let Some((reference, uuid)) = target else {
        return plain(atom);
    };
    let schema = snapshot.schema().table(reference.table);
    let Some(row) = snapshot.row(reference.table, uuid) else {
        return plain(atom);
    };
    let column = |name| schema.column_id(name).map(|column| row.get(column));
    let external_ids = column("external_ids");
    let identity = external_ids.as_ref().and_then(|ids| {
        let ids = ids.as_map()?;
        ids.get_str("k8s.ovn.org/id").map(str::to_owned)
    });
    let name = |column_name| {
        let datum = column(column_name)?;
        Some(datum.as_scalar()?.as_str()?.to_owned())
    };
    // Rows with a name may have an identity, too; then the name counts.
    let text = name("name")
        .filter(|_| &*schema.name != "ACL")
        .or(identity)
        .or_else(|| NAMING_COLUMNS.into_iter().find_map(name));
    text.map_or_else(|| plain(atom), Value::String)
}
