//! Remotes in a column of a database, such as `db:OVN_Northbound,NB_Global,connections`, which
//! `ovn-nbctl set-connection` writes.

use std::collections::BTreeMap;
use std::mem;
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

use crate::remotes::column::DatabaseColumn;
use crate::remotes::options::RemoteOptions;
use crate::served_database::ServedDatabase;
use crate::sim::Sim;
use crate::target::RemoteError;

use super::OpenRemote;
use super::retried::RETRY_INTERVAL;
use super::status::RemoteStatus;

/// Time between two updates of the rows' status, as in ovsdb-server.
const STATUS_INTERVAL: Duration = Duration::from_millis(2500);

/// Remotes in a column of a database. Dropping it ends them.
#[derive(Debug)]
pub(super) struct ConfiguredRemotes {
    target: String,
    task: JoinHandle<()>,
}

/// Open remote for a target in the column.
#[derive(Debug)]
struct ConfiguredRemote {
    options: RemoteOptions,
    remote: OpenRemote,
}

impl ConfiguredRemotes {
    /// Starts the task that follows the column.
    pub(super) fn start(sim: &Sim, target: &str) -> Result<Self, RemoteError> {
        let column = DatabaseColumn::find(sim.server().databases(), target)
            .map_err(|problem| RemoteError::Column { target: target.to_owned(), problem })?;
        Ok(Self {
            target: target.to_owned(),
            task: tokio::spawn(follow(sim.clone(), RemoteColumn(column))),
        })
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }
}

impl Drop for ConfiguredRemotes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens and closes remotes as the column's content changes, and writes their status.
async fn follow(sim: Sim, column: RemoteColumn) {
    let server = sim.server();
    let mut databases = server.databases().watch();
    let mut open = BTreeMap::<String, ConfiguredRemote>::new();
    // The errors of targets that cannot be opened. Each is logged once.
    let mut failures = BTreeMap::<String, String>::new();
    let mut status = interval(STATUS_INTERVAL);
    status.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // The database may be removed, and another one with its name be added.
        let database = databases.borrow_and_update().get(&column.0.database).cloned();
        // Watch before reading the content, so that no commit is missed.
        let mut commits = database.as_ref().map(|database| database.watch_commits());
        let wanted = database.as_ref().map(|database| column.targets(database)).unwrap_or_default();
        open.retain(|target, opened| {
            let Some(wanted) = wanted.get(target) else {
                return false;
            };
            if *wanted != opened.options {
                opened.remote.set_options(wanted.clone());
                opened.options = wanted.clone();
            }
            true
        });
        let former = mem::take(&mut failures);
        for (target, options) in wanted {
            if open.contains_key(&target) {
                continue;
            }
            match OpenRemote::open(&sim, &target, options.clone()).await {
                Ok(remote) => {
                    let opened = ConfiguredRemote { options, remote };
                    open.insert(target, opened);
                }
                Err(error) => {
                    let error = error.to_string();
                    if former.get(&target) != Some(&error) {
                        tracing::warn!(%error, "cannot open a remote that a database names");
                    }
                    failures.insert(target, error);
                }
            }
        }
        let commit = async {
            match &mut commits {
                Some(commits) => commits.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = commit => {}
            changed = databases.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep(RETRY_INTERVAL), if !failures.is_empty() => {}
            _ = status.tick() => {
                if let Some(database) = database && server.is_up() {
                    column.write_status(&database, &open);
                }
            }
        }
    }
}

/// Column with remotes.
#[derive(Debug)]
struct RemoteColumn(DatabaseColumn);

impl RemoteColumn {
    /// The targets in the column, with their options.
    fn targets(&self, database: &ServedDatabase) -> BTreeMap<String, RemoteOptions> {
        let snapshot = database.snapshot();
        self.elements(&snapshot)
            .into_iter()
            .filter_map(|(referred, atom)| {
                if let Atom::String(target) = &atom {
                    let target = target.to_string();
                    let options = RemoteOptions::of_target(&target);
                    return Some((target, options));
                }
                let (table, row) = referred_row(&snapshot, referred, &atom)?;
                read_target(snapshot.schema().table(table), row)
            })
            .collect()
    }

    /// Writes the status of the connections into the rows that the column refers to.
    fn write_status(
        &self,
        database: &Arc<ServedDatabase>,
        open: &BTreeMap<String, ConfiguredRemote>,
    ) {
        // As in ovsdb-server: all members of a cluster share the rows and have other connections.
        // The content of relays and backups is that of their sources.
        if database.is_clustered() || database.is_relay() || database.is_backup() {
            return;
        }
        let snapshot = database.snapshot();
        let mut operations = Vec::new();
        for (referred, atom) in self.elements(&snapshot) {
            let Some((id, row)) = referred_row(&snapshot, referred, &atom) else {
                continue;
            };
            let table = snapshot.schema().table(id);
            let Some((target, _)) = read_target(table, row) else {
                continue;
            };
            let remote = open.get(&target).map(|opened| &opened.remote);
            let status = RemoteStatus::new(&target, remote);
            operations.extend(status.update_operation(id, table, row));
        }
        if operations.is_empty() {
            return;
        }
        let transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        if let Err(error) = database.execute(transaction, snapshot.schema()) {
            let (database, table) = (&self.0.database, &self.0.table);
            tracing::warn!(database, table, %error, "cannot write the status of connections");
        }
    }

    /// The elements of the column in all rows. An element that refers to a row comes with the row's
    /// table.
    fn elements(&self, snapshot: &Snapshot) -> Vec<(Option<TableId>, Atom)> {
        let mut elements = Vec::new();
        let Some((id, table)) = snapshot.schema().table_by_name(&self.0.table) else {
            return elements;
        };
        let Some(column) = table.column_id(&self.0.name) else {
            return elements;
        };
        let referred = match &table.column_type(column).key.constraint {
            Constraint::Reference(reference) => Some(reference.table),
            _ => None,
        };
        for row in snapshot.table(id).iter() {
            if let Datum::Set(atoms) = &*row.get(column) {
                elements.extend(atoms.iter().map(|atom| (referred, atom.clone())));
            }
        }
        elements
    }
}

/// Finds the row that an element of a column refers to.
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

/// Reads the target and its options in a row of a table such as `Connection`.
fn read_target(table: &TableSchema, row: &Row) -> Option<(String, RemoteOptions)> {
    let Some(Atom::String(target)) = scalar(table, row, "target", AtomType::String) else {
        tracing::info!(table = &*table.name, "a row has no target");
        return None;
    };
    let mut options = RemoteOptions::of_target(&target);
    if let Some(Atom::Integer(milliseconds)) =
        scalar(table, row, "inactivity_probe", AtomType::Integer)
    {
        options = options.with_probe_interval(milliseconds);
    }
    if let Some(Atom::Boolean(is_read_only)) = scalar(table, row, "read_only", AtomType::Boolean) {
        options.is_read_only = is_read_only;
    }
    if let Some(Atom::String(role)) = scalar(table, row, "role", AtomType::String) {
        options.role = Some(Arc::from(&*role));
    }
    Some((target.to_string(), options))
}

/// Reads a column with exactly one element of a type. `None`: the table has no such column, or the
/// row another number of elements.
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
