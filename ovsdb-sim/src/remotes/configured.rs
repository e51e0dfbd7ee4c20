//! Remotes that a database names: `db:OVN_Northbound,NB_Global,connections`, whose rows `ovn-nbctl set-connection` writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{Constraint, TableId, TableSchema};
use patchbay_schemas::wire::DecodedTransaction;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::hosted::Hosted;
use crate::listen::{self, ListenError};
use crate::server::Server;

use super::Remote;
use super::status::Status;

/// What cannot be opened is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);
/// The rows are told so often how it is with their connections, as by ovsdb-server.
const STATUS: Duration = Duration::from_millis(2500);

/// The remotes that a column names. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Configured {
    target: String,
    task: JoinHandle<()>,
}

/// Targets with their probe intervals.
type Wanted = BTreeMap<String, Option<Duration>>;

/// What was opened for a target, with its probe interval.
type Open = BTreeMap<String, (Option<Duration>, Remote)>;

impl Configured {
    /// Begins to follow a column.
    pub(super) fn start(server: &Arc<Server>, target: &str) -> Result<Self, ListenError> {
        let column = Column::find(server, target).map_err(|problem| ListenError::Column {
            target: target.to_owned(),
            problem,
        })?;
        Ok(Self {
            target: target.to_owned(),
            task: tokio::spawn(follow(server.clone(), column)),
        })
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(server: Arc<Server>, column: Column) {
    let mut databases = server.databases().watch();
    let mut open = Open::new();
    let mut status = interval(STATUS);
    status.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // It may be removed, and another one of its name be added.
        let database = databases.borrow_and_update().get(&column.database).cloned();
        // Before the content is looked at, so that nothing is missed.
        let mut commits = database.as_ref().map(|database| database.commits_watch());
        let wanted = database.as_ref().map(|database| column.wanted(database));
        let wanted = wanted.unwrap_or_default();
        open.retain(|target, (probe, remote)| {
            let Some(wanted) = wanted.get(target) else {
                return false;
            };
            if wanted != probe {
                remote.set_probe(*wanted);
                *probe = *wanted;
            }
            true
        });
        let mut is_complete = true;
        for (target, probe) in wanted {
            if open.contains_key(&target) {
                continue;
            }
            match Remote::open(&server, &target, probe).await {
                Ok(remote) => drop(open.insert(target, (probe, remote))),
                Err(error) => {
                    tracing::warn!(%error, "cannot serve what a database says");
                    is_complete = false;
                }
            }
        }
        let committed = async {
            match &mut commits {
                Some(commits) => commits.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = committed => {}
            changed = databases.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep(RETRY), if !is_complete => {}
            _ = status.tick() => {
                if let Some(database) = database && server.is_up() {
                    column.tell(&database, &open);
                }
            }
        }
    }
}

/// A column, by its names: the database and its schema may change.
#[derive(Debug)]
struct Column {
    database: String,
    table: String,
    name: String,
}

impl Column {
    /// Looks for `db:DATABASE,TABLE,COLUMN`, or says in ovsdb-server's words what is wrong.
    fn find(server: &Server, target: &str) -> Result<Self, String> {
        let names = target.strip_prefix("db:").unwrap_or(target);
        let mut names = names.split(',').filter(|name| !name.is_empty());
        let (Some(database), Some(table), Some(column)) =
            (names.next(), names.next(), names.next())
        else {
            return Err("invalid syntax".to_owned());
        };
        let hosted = server.database(database);
        let hosted = hosted.ok_or_else(|| format!("no database named {database}"))?;
        let schema = hosted.schema();
        let (_, found) = schema
            .table_by_name(table)
            .ok_or_else(|| format!("no table named {table}"))?;
        if found.column_id(column).is_none() {
            return Err(format!("table \"{table}\" has no column \"{column}\""));
        }
        Ok(Self {
            database: database.to_owned(),
            table: table.to_owned(),
            name: column.to_owned(),
        })
    }

    /// What it names now.
    fn wanted(&self, database: &Hosted) -> Wanted {
        let snapshot = database.snapshot();
        let named = self.named(&snapshot).into_iter();
        let targets = named.filter_map(|(referred, atom)| {
            if let Atom::String(target) = &atom {
                let target = target.to_string();
                return Some((listen::default_probe(&target), target));
            }
            let (table, row) = referred_row(&snapshot, referred, &atom)?;
            connection(snapshot.schema().table(table), row)
        });
        targets.map(|(probe, target)| (target, probe)).collect()
    }

    /// Writes into the rows that it refers to how it is with their connections.
    fn tell(&self, database: &Arc<Hosted>, open: &Open) {
        // As ovsdb-server: there it would be an entry of the log for all members, which have other connections.
        if database.is_clustered() {
            return;
        }
        let snapshot = database.snapshot();
        let mut operations = Vec::new();
        for (referred, atom) in self.named(&snapshot) {
            let Some((id, row)) = referred_row(&snapshot, referred, &atom) else {
                continue;
            };
            let table = snapshot.schema().table(id);
            let Some((_, target)) = connection(table, row) else {
                continue;
            };
            let status = Status::of(&target, open.get(&target).map(|(_, remote)| remote));
            operations.extend(status.operation(id, table, row));
        }
        if operations.is_empty() {
            return;
        }
        let transaction = DecodedTransaction {
            total: operations.len(),
            operations,
            failure: None,
        };
        if let Err(error) = database.execute(transaction, snapshot.schema()) {
            let (database, table) = (&self.database, &self.table);
            tracing::warn!(database, table, %error, "cannot write the status of connections");
        }
    }

    /// The elements of the column in all rows, and the table that they refer to if they do.
    fn named(&self, snapshot: &Snapshot) -> Vec<(Option<TableId>, Atom)> {
        let mut named = Vec::new();
        let Some((id, table)) = snapshot.schema().table_by_name(&self.table) else {
            return named;
        };
        let Some(column) = table.column_id(&self.name) else {
            return named;
        };
        let referred = match &table.column_type(column).key.constraint {
            Constraint::Reference(reference) => Some(reference.table),
            _ => None,
        };
        for row in snapshot.table(id).iter() {
            if let Datum::Set(atoms) = &*row.get(column) {
                named.extend(atoms.iter().map(|atom| (referred, atom.clone())));
            }
        }
        named
    }
}

/// The row that an element of a column refers to.
fn referred_row<'s>(
    snapshot: &'s Snapshot,
    table: Option<TableId>,
    atom: &Atom,
) -> Option<(TableId, &'s Row)> {
    let (Some(table), Atom::Uuid(uuid)) = (table, atom) else {
        return None;
    };
    Some((table, snapshot.table(table).get(*uuid)?))
}

/// The target of a row of a table such as `Connection`, and its probe interval.
fn connection(table: &TableSchema, row: &Row) -> Option<(Option<Duration>, String)> {
    let Some(Atom::String(target)) = scalar(table, row, "target", AtomType::String) else {
        tracing::info!(table = &*table.name, "a row has no target");
        return None;
    };
    let probe = match scalar(table, row, "inactivity_probe", AtomType::Integer) {
        Some(Atom::Integer(milliseconds)) => {
            let milliseconds = u64::try_from(milliseconds).unwrap_or_default();
            Some(Duration::from_millis(milliseconds)).filter(|probe| !probe.is_zero())
        }
        _ => listen::default_probe(&target),
    };
    Some((probe, target.to_string()))
}

/// The only element of a column that a table may have.
fn scalar(table: &TableSchema, row: &Row, column: &str, ty: AtomType) -> Option<Atom> {
    let column = table.column_id(column)?;
    let value = row.get(column);
    match &*value {
        Datum::Set(set) if set.len() == 1 && table.column_type(column).key.atom == ty => {
            set.iter().next().cloned()
        }
        _ => None,
    }
}
