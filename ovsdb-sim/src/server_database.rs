//! The `_Server` database, in which a server describes its databases (ovsdb-server(5)).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Column, TableRow, TypeError, read_column};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Clause, Condition, DecodedTransaction, Function, Operation};
use uuid::Uuid;

use crate::hosted::Hosted;
use crate::model::Role;

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
fn schema() -> Result<DatabaseSchema, OvsdbError> {
    DatabaseSchema::parse(SCHEMA.as_bytes())
}

/// What clients read about a database and what may change.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) schema: Arc<DatabaseSchema>,
    pub(crate) role: Role,
    /// The number of the last entry of the RAFT log; none of standalone databases.
    pub(crate) index: Option<u64>,
}

impl Status {
    /// The columns that differ from those of `before`.
    fn changes(&self, before: &Self) -> Vec<(&'static str, Datum)> {
        let mut columns = Vec::new();
        if !Arc::ptr_eq(&self.schema, &before.schema) {
            let text = self.schema.to_json().to_text();
            columns.push(("schema", Datum::scalar(text)));
        }
        if self.role != before.role {
            columns.push(("leader", self.role.is_leader().to_datum()));
            columns.push(("connected", self.role.is_connected().to_datum()));
        }
        if self.index != before.index {
            columns.push(("index", row_index(self.index).to_datum()));
        }
        columns
    }
}

fn row_index(index: Option<u64>) -> BTreeSet<i64> {
    index.into_iter().map(|index| index as i64).collect()
}

/// A database's row in `_Server`.
#[derive(Debug)]
pub(crate) struct Listing {
    own: Arc<Hosted>,
    /// What the row says; none when there is no row any more, nor will be one: another database may have its name.
    told: Mutex<Option<Status>>,
}

impl Listing {
    /// Of a database whose row will [say this](Self::insert).
    pub(crate) fn new(own: Arc<Hosted>, status: Status) -> Self {
        Self {
            own,
            told: Mutex::new(Some(status)),
        }
    }

    /// Writes the row.
    pub(crate) fn insert(&self, row: &DatabaseRow, uuids: UuidSource) {
        let mut txn = TxnBuilder::with_uuids(&self.own.snapshot(), uuids);
        match txn.insert(row) {
            Ok(_) => self.execute(&row.name, txn.finish().operations().to_vec()),
            Err(error) => cannot_tell(&row.name, &error),
        }
    }

    /// Whether a commit is to be seen in the row.
    pub(crate) fn shows_commits(&self) -> bool {
        self.lock()
            .as_ref()
            .is_some_and(|told| told.index.is_some())
    }

    /// Writes what has changed in the row of the database `name`.
    pub(crate) fn update(&self, name: &str, current: impl FnOnce() -> Status) {
        let mut told = self.lock();
        let Some(told) = &mut *told else {
            return;
        };
        // Asked for now, so that nothing newer is there already.
        let current = current();
        let changes = current.changes(told);
        *told = current;
        if !changes.is_empty() {
            self.execute(name, row_update(&self.own.schema(), name, changes));
        }
    }

    /// Removes the row of the database `name`.
    pub(crate) fn remove(&self, name: &str) {
        if self.lock().take().is_some() {
            let schema = self.own.schema();
            let operation = row_of(&schema, name)
                .map(|(table, condition)| Operation::Delete { table, condition });
            self.execute(name, operation.into_iter().collect());
        }
    }

    fn execute(&self, name: &str, operations: Vec<Operation>) {
        let transaction = DecodedTransaction {
            total: operations.len(),
            operations,
            failure: None,
        };
        if let Err(error) = self.own.execute(transaction, &self.own.schema()) {
            cannot_tell(name, &error);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Status>> {
        // It is replaced as a whole.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cannot_tell(name: &str, error: &dyn std::error::Error) {
    tracing::error!(database = name, %error, "{NAME} does not tell of a change");
}

/// The row of a database.
fn row_of(own: &DatabaseSchema, name: &str) -> Option<(TableId, Condition)> {
    let (id, table) = own.table_by_name(DatabaseRow::TABLE)?;
    let is_it = Clause::Column {
        column: table.column_id("name")?,
        function: Function::Equal,
        argument: Datum::scalar(name),
    };
    Some((id, Condition(vec![is_it])))
}

/// What writes columns of the row of a database.
fn row_update(
    own: &DatabaseSchema,
    name: &str,
    columns: Vec<(&'static str, Datum)>,
) -> Vec<Operation> {
    let Some((id, condition)) = row_of(own, name) else {
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

/// The `_Server` database with the row of itself. The versions of its rows are drawn from `versions`, the UUID of the row
/// from `rows`.
pub(crate) fn create(versions: UuidSource, rows: UuidSource) -> anyhow::Result<Arc<Hosted>> {
    let schema = Arc::new(schema()?);
    let row = DatabaseRow::standalone(&schema);
    let mut database = Database::with_uuids(schema, versions);
    let mut txn = TxnBuilder::with_uuids(&database.snapshot(), rows);
    txn.insert(&row)?;
    database.transact(txn.finish().operations())?;
    Ok(Arc::new(Hosted::own(database)))
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

    /// The row of a database of a cluster that this server leads.
    pub(crate) fn clustered(schema: &DatabaseSchema, cid: Uuid, sid: Uuid, index: u64) -> Self {
        Self {
            model: "clustered".to_owned(),
            cid: Some(cid),
            sid: Some(sid),
            index: row_index(Some(index)),
            ..Self::standalone(schema)
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
