//! The `_Server` database: its schema, and the rows in which a server describes its databases
//! (ovsdb-server(5)).

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Column, TableRow, TypeError, read_column};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Clause, Condition, Function, Operation};
use uuid::Uuid;

use crate::cluster::Cluster;
use crate::model::{Model, Role};

/// Name of the database.
pub(crate) const NAME: &str = "_Server";

/// Schema of `_Server`, version 1.2.0, as in ovsdb-server.
const SCHEMA: &str = r#"{"name":"_Server","version":"1.2.0","cksum":"3009684573 744","tables":{"Database":{"columns":{
    "name":{"type":"string"},
    "model":{"type":{"key":{"type":"string","enum":["set",["clustered","relay","standalone"]]}}},
    "connected":{"type":"boolean"},
    "leader":{"type":"boolean"},
    "schema":{"type":{"key":"string","min":0}},
    "cid":{"type":{"key":"uuid","min":0}},
    "sid":{"type":{"key":"uuid","min":0}},
    "index":{"type":{"key":"integer","min":0}}}}}}"#;

/// Variable part of a database's row in `_Server`.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseStatus {
    /// `None`: a relay's database that its source has not sent yet.
    pub(crate) schema: Option<Arc<DatabaseSchema>>,
    pub(crate) role: Role,
    /// Index of the last entry in the RAFT log. `None`: standalone database.
    pub(crate) index: Option<u64>,
}

impl DatabaseStatus {
    /// The columns that differ from those of `before`.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<(&'static str, Datum)> {
        let mut columns = Vec::new();
        if let Some(schema) = &self.schema
            && !before.schema.as_ref().is_some_and(|former| Arc::ptr_eq(schema, former))
        {
            let text = schema.to_json().to_text();
            columns.push(("schema", Datum::scalar(text)));
        }
        if self.role != before.role {
            columns.push(("leader", self.role.is_leader().to_datum()));
            columns.push(("connected", self.role.is_connected().to_datum()));
        }
        if self.index != before.index {
            columns.push(("index", index_column(self.index).to_datum()));
        }
        columns
    }
}

fn index_column(index: Option<u64>) -> BTreeSet<i64> {
    index.into_iter().map(|index| index as i64).collect()
}

/// Finds the row of a database: its table, and a condition for its name.
fn row_condition(own: &DatabaseSchema, name: &str) -> Option<(TableId, Condition)> {
    let (id, table) = own.table_by_name(DatabaseRow::TABLE)?;
    let has_name = Clause::Column {
        column: table.column_id("name")?,
        function: Function::Equal,
        argument: Datum::scalar(name),
    };
    Some((id, Condition::new(vec![has_name])))
}

/// The operation that deletes the row of a database.
pub(crate) fn delete_row(own: &DatabaseSchema, name: &str) -> Vec<Operation> {
    row_condition(own, name)
        .map(|(table, condition)| Operation::Delete { table, condition })
        .into_iter()
        .collect()
}

/// The operation that writes columns of the row of a database.
pub(crate) fn update_row(
    own: &DatabaseSchema,
    name: &str,
    columns: Vec<(&'static str, Datum)>,
) -> Vec<Operation> {
    let Some((id, condition)) = row_condition(own, name) else {
        return Vec::new();
    };
    let table = own.table(id);
    let value = |(column, value)| Some((table.column_id(column)?, value));
    vec![Operation::Update {
        table: id,
        condition,
        row: columns.into_iter().filter_map(value).collect(),
    }]
}

/// Makes the `_Server` database with the row of itself. `versions` is the source of its rows'
/// versions, `rows` the source of the row's UUID.
pub(crate) fn create(versions: UuidSource, rows: UuidSource) -> Database {
    let text = TextBuf::parse(SCHEMA.as_bytes().to_vec()).expect("the text is valid");
    let schema =
        DatabaseSchema::read(&mut Reader::new(text.as_text())).expect("the schema is valid");
    let row = DatabaseRow::standalone(&schema);
    let mut database = Database::with_uuids(Arc::new(schema), versions);
    let mut txn = TxnBuilder::with_uuids(&database.snapshot(), rows);
    txn.insert(&row).expect("the schema has the row's columns");
    database.transact(txn.finish().operations()).expect("the row satisfies the schema");
    database
}

/// Row of the table `Database`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DatabaseRow {
    pub(crate) name: String,
    model: String,
    pub(crate) connected: bool,
    pub(crate) leader: bool,
    schema: Option<String>,
    pub(crate) cid: Option<Uuid>,
    pub(crate) sid: Option<Uuid>,
    pub(crate) index: BTreeSet<i64>,
}

impl DatabaseRow {
    /// The row of a standalone database.
    pub(crate) fn standalone(schema: &DatabaseSchema) -> Self {
        Self {
            name: schema.name.clone(),
            model: Model::Standalone.name().to_owned(),
            connected: true,
            leader: true,
            schema: Some(schema.to_json().to_text()),
            ..Self::default()
        }
    }

    /// The row of a relay's database that its source has not sent yet.
    pub(crate) fn relay(name: &str) -> Self {
        Self { name: name.to_owned(), model: "relay".to_owned(), ..Self::default() }
    }

    /// The row of a clustered database whose leader is this server.
    pub(crate) fn clustered(schema: &DatabaseSchema, cluster: &Cluster) -> Self {
        let member = cluster.member();
        Self {
            model: Model::Clustered.name().to_owned(),
            cid: Some(member.cluster_id),
            sid: Some(member.server_id),
            index: index_column(Some(cluster.position().index)),
            ..Self::standalone(schema)
        }
    }
}

impl TableRow for DatabaseRow {
    const TABLE: &'static str = "Database";
    const COLUMNS: &'static [&'static str] =
        &["name", "model", "connected", "leader", "schema", "cid", "sid", "index"];

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
            name: read_column(get(0), Self::TABLE, "name")?,
            model: read_column(get(1), Self::TABLE, "model")?,
            connected: read_column(get(2), Self::TABLE, "connected")?,
            leader: read_column(get(3), Self::TABLE, "leader")?,
            schema: read_column(get(4), Self::TABLE, "schema")?,
            cid: read_column(get(5), Self::TABLE, "cid")?,
            sid: read_column(get(6), Self::TABLE, "sid")?,
            index: read_column(get(7), Self::TABLE, "index")?,
        })
    }
}
