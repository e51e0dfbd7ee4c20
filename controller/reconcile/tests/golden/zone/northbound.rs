//! The Northbound database of a scenario: rows as scenarios write them, and as scenarios expect
//! them.

use std::collections::BTreeMap;

use patchbay_connects::ZonePlan;
use patchbay_engine::db::{Database, Snapshot};
use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnType, TableSchema};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Condition, InsertRow, Operation};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::report::Difference;
use crate::rows::{self, table_named};

/// Columns by which rows that carry no identity are named.
const NAMING_COLUMNS: [&str; 3] = ["name", "match", "ip_prefix"];

pub(super) struct Northbound {
    database: Database,
    /// New rows.
    uuids: UuidSource,
    /// UUIDs of the rows that labels name.
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
            .map(|row| Operation::Delete { table, condition: Condition::uuid(row.uuid) })
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
        Ok(Operation::Insert { table, uuid, given: None, row: InsertRow::new(schema, values) })
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

    /// Differences in one table. `None`: there are none.
    pub(super) fn compare(
        &self,
        table: &str,
        expected: &[Map<String, Value>],
    ) -> Result<Option<Difference>, String> {
        rows::compare(&self.snapshot(), table, expected, |_, _| true, name)
    }
}

/// Name or identity of a row, by which the scenarios record references to it.
fn name(schema: &TableSchema, row: &Row) -> Option<String> {
    let column = |name| schema.column_id(name).map(|column| row.get(column));
    let text = |column_name| {
        let datum = column(column_name)?;
        Some(datum.as_scalar()?.as_str()?.to_owned())
    };
    let identity = || {
        let ids = column("external_ids")?;
        ids.as_map()?.get_str("k8s.ovn.org/id").map(str::to_owned)
    };
    // Rows with a name may have an identity, too; then the name counts.
    text("name")
        .filter(|_| &*schema.name != "ACL")
        .or_else(identity)
        .or_else(|| NAMING_COLUMNS.into_iter().find_map(text))
}
