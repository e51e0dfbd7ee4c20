//! Remotes that a database names: `db:OVN_Northbound,NB_Global,connections`, whose rows `ovn-nbctl set-connection` writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{Constraint, TableId, TableSchema};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::hosted::Hosted;
use crate::listen::{self, ListenError};
use crate::server::Server;

use super::Remote;

/// What cannot be opened is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// The remotes that a column names. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Configured {
    target: String,
    task: JoinHandle<()>,
}

/// Targets with their probe intervals.
type Wanted = BTreeMap<String, Option<Duration>>;

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
    let mut commits = column.database.commits_watch();
    let mut open: BTreeMap<(String, Option<Duration>), Remote> = BTreeMap::new();
    loop {
        commits.borrow_and_update();
        let wanted = column.wanted();
        open.retain(|(target, probe), _| wanted.get(target) == Some(probe));
        let mut is_complete = true;
        for (target, probe) in wanted {
            if open.contains_key(&(target.clone(), probe)) {
                continue;
            }
            match Remote::open(&server, &target, probe).await {
                Ok(remote) => drop(open.insert((target, probe), remote)),
                Err(error) => {
                    tracing::warn!(%error, "cannot serve what a database says");
                    is_complete = false;
                }
            }
        }
        tokio::select! {
            changed = commits.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep(RETRY), if !is_complete => {}
        }
    }
}

/// A column, by its name: the schema may change.
#[derive(Debug)]
struct Column {
    database: Arc<Hosted>,
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
            database: hosted.clone(),
            table: table.to_owned(),
            name: column.to_owned(),
        })
    }

    /// What it names now.
    fn wanted(&self) -> Wanted {
        let snapshot = self.database.snapshot();
        let mut wanted = Wanted::new();
        let Some((id, table)) = snapshot.schema().table_by_name(&self.table) else {
            return wanted;
        };
        let Some(column) = table.column_id(&self.name) else {
            return wanted;
        };
        let key = &table.column_type(column).key;
        let referred = match &key.constraint {
            Constraint::Reference(reference) => Some(reference.table),
            _ => None,
        };
        for row in snapshot.table(id).iter() {
            let value = row.get(column);
            let Datum::Set(atoms) = &*value else {
                return wanted;
            };
            for atom in atoms {
                let connection = match (atom, referred) {
                    (Atom::String(target), _) => {
                        let target = target.to_string();
                        Some((listen::default_probe(&target), target))
                    }
                    (Atom::Uuid(uuid), Some(table)) => {
                        let row = snapshot.table(table).get(*uuid);
                        row.and_then(|row| connection(&snapshot, table, row))
                    }
                    _ => None,
                };
                if let Some((probe, target)) = connection {
                    wanted.insert(target, probe);
                }
            }
        }
        wanted
    }
}

/// The target of a row of a table such as `Connection`, and its probe interval.
fn connection(
    snapshot: &Snapshot,
    table: TableId,
    row: &Row,
) -> Option<(Option<Duration>, String)> {
    let table = snapshot.schema().table(table);
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
