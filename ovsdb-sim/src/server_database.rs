//! The `_Server` database, in which a server describes its databases (ovsdb-server(5)).

use std::collections::BTreeSet;

use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::{Column, TableRow, TypeError, read};
use patchbay_schemas::wire::{Clause, Condition, Function, Operation};
use uuid::Uuid;

/// What the database is called.
pub(crate) const NAME: &str = "_Server";

/// Version 1.2.0, as ovsdb-server has it.
const SCHEMA: &str = r#"{"name":"_Server","version":"1.2.0","cksum":"3009684573 744","tables":{"Database":{"columns":{
    "name":{"type":"string"},
    "model":{"type":{"key":{"type":"string","enum":["set",["clustered","relay","standalone"]]}}},
    "connected":{"type":"boolean"},
    "leader":{"type":"boolean"},
    "schema":{"type":{"key":"string","min":0}},
    "cid":{"type":{"key":"uuid","min":0}},
    "sid":{"type":{"key":"uuid","min":0}},
    "index":{"type":{"key":"integer","min":0}}}}}}"#;

/// The schema of `_Server`.
pub(crate) fn schema() -> Result<DatabaseSchema, OvsdbError> {
    DatabaseSchema::parse(SCHEMA.as_bytes())
}

/// What to do when a database gets another schema.
pub(crate) fn schema_changed(own: &DatabaseSchema, schema: &DatabaseSchema) -> Vec<Operation> {
    let Some((id, table)) = own.table_by_name(DatabaseRow::TABLE) else {
        return Vec::new();
    };
    let (Some(name), Some(text)) = (table.column_id("name"), table.column_id("schema")) else {
        return Vec::new();
    };
    let is_it = Clause::Column {
        column: name,
        function: Function::Equal,
        argument: Datum::scalar(&*schema.name),
    };
    vec![Operation::Update {
        table: id,
        condition: Condition(vec![is_it]),
        row: vec![(text, Datum::scalar(schema.to_json().to_text()))],
    }]
}

/// A row of `Database`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DatabaseRow {
    name: String,
    model: String,
    connected: bool,
    leader: bool,
    schema: Option<String>,
    cid: Option<Uuid>,
    sid: Option<Uuid>,
    index: BTreeSet<i64>,
}

impl DatabaseRow {
    /// The row of a database that this server alone holds.
    pub(crate) fn standalone(schema: &DatabaseSchema) -> Self {
        Self {
            name: schema.name.clone(),
            model: "standalone".to_owned(),
            connected: true,
            leader: true,
            schema: Some(schema.to_json().to_text()),
            ..Self::default()
        }
    }
}

impl TableRow for DatabaseRow {
    const TABLE: &'static str = "Database";
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "model",
        "connected",
        "leader",
        "schema",
        "cid",
        "sid",
        "index",
    ];

    fn to_data(&self) -> Vec<Datum> {
        vec![
            self.name.to_datum(),
            self.model.to_datum(),
            self.connected.to_datum(),
            self.leader.to_datum(),
            self.schema.to_datum(),
            self.cid.to_datum(),
            self.sid.to_datum(),
            self.index.to_datum(),
        ]
    }

    fn from_data<'a>(mut get: impl FnMut(usize) -> Option<&'a Datum>) -> Result<Self, TypeError> {
        Ok(Self {
            name: read(get(0), Self::TABLE, "name")?,
            model: read(get(1), Self::TABLE, "model")?,
            connected: read(get(2), Self::TABLE, "connected")?,
            leader: read(get(3), Self::TABLE, "leader")?,
            schema: read(get(4), Self::TABLE, "schema")?,
            cid: read(get(5), Self::TABLE, "cid")?,
            sid: read(get(6), Self::TABLE, "sid")?,
            index: read(get(7), Self::TABLE, "index")?,
        })
    }
}
