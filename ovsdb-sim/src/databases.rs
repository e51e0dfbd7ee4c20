//! Databases come and go while the server runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_engine::db::Database;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::uuids::UuidSource;
use tokio::sync::watch;

use crate::file::{FileError, Source};
use crate::history::History;
use crate::hosted::{Hosted, without_ephemeral_columns};
use crate::model::{Model, Role};
use crate::server::Server;
use crate::server_database::{self, DatabaseRow, Listing, Status};

/// Why a database cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddDatabaseError {
    /// Such names are the server's own.
    #[error("{0}: names beginning with \"_\" are reserved")]
    Reserved(String),
    /// There is one of this name.
    #[error("{0}: duplicate database name")]
    Duplicate(String),
    /// The server keeps a database in this file.
    #[error("{}: already open", .0.display())]
    AlreadyOpen(PathBuf),
    /// Its file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its content does not fit into a database as they are in clusters.
    #[error(transparent)]
    Refused(#[from] OvsdbError),
}

/// Why a database cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveDatabaseError {
    /// There is none of this name.
    #[error("there is no database {0}")]
    Unknown(String),
    /// It is the server's own.
    #[error("database {0} is the server's own")]
    Reserved(String),
}

/// Databases by name.
pub(crate) type Served = BTreeMap<String, Arc<Hosted>>;

/// The databases of a server, `_Server` included.
///
/// Requests look a database up and let go of the list at once: one that is executed in a database while that is removed
/// finds out when it has the database's lock ([`Hosted::remove`]).
#[derive(Debug)]
pub(crate) struct Databases {
    served: watch::Sender<Arc<Served>>,
    own: Arc<Hosted>,
    /// Held while one is added or removed, and for all that this entails. How many were added.
    added: Mutex<u64>,
}

impl Databases {
    /// Only `_Server`.
    pub(crate) fn new(own: Arc<Hosted>) -> Self {
        let served = Served::from([(server_database::NAME.to_owned(), own.clone())]);
        Self {
            served: watch::Sender::new(Arc::new(served)),
            own,
            added: Mutex::new(0),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Hosted>> {
        self.served.borrow().get(name).cloned()
    }

    /// Those that are served now.
    pub(crate) fn all(&self) -> Arc<Served> {
        self.served.borrow().clone()
    }

    /// Tells of databases that come and go.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Served>> {
        self.served.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // The number is increased before anything can fail.
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the list. Who has the former one keeps it.
    fn change(&self, change: impl FnOnce(&mut Served)) {
        self.served
            .send_modify(|served| change(Arc::make_mut(served)));
    }
}

impl Server {
    /// Serves another database. Clients that would not understand it are hung up on, so that they look again.
    pub(crate) fn add_database(&self, source: Source) -> Result<Arc<Hosted>, AddDatabaseError> {
        let databases = self.databases();
        let mut added = databases.lock();
        let name = source.schema().name.clone();
        if name.starts_with('_') {
            return Err(AddDatabaseError::Reserved(name));
        }
        if databases.get(&name).is_some() {
            return Err(AddDatabaseError::Duplicate(name));
        }
        *added += 1;
        let number = *added;
        let (mut database, journal) = source.open(self.database_uuids(number))?;
        let (history, row) = match self.model() {
            Model::Standalone => (None, DatabaseRow::standalone(database.schema())),
            Model::Clustered => {
                let history = cluster(&mut database, self.history_uuids(number))?;
                let [cid, sid] = [self.next_uuid(), self.next_uuid()];
                let row = DatabaseRow::clustered(database.schema(), cid, sid, history.index());
                (Some(history), row)
            }
        };
        let status = Status {
            schema: database.schema().clone(),
            role: Role::Leader,
            index: history.as_ref().map(History::index),
        };
        let listing = Listing::new(databases.own.clone(), status);
        let hosted = Arc::new(Hosted::served(database, journal, history, listing));
        databases.change(|served| {
            served.insert(name, hosted.clone());
        });
        self.close_unaware_sessions();
        hosted.list(&row, self.listing_uuids(number));
        Ok(hosted)
    }

    /// Serves the database of a file that exists, and keeps it there.
    pub(crate) fn open_database(&self, path: &Path) -> Result<Arc<Hosted>, AddDatabaseError> {
        // Else its lock would seem to be another program's.
        let mut open = self
            .databases()
            .all()
            .values()
            .cloned()
            .collect::<Vec<_>>()
            .into_iter();
        if open.any(|database| database.is_kept_in(path)) {
            return Err(AddDatabaseError::AlreadyOpen(path.to_owned()));
        }
        self.add_database(Source::resumed(path)?)
    }

    /// Serves a database no more. Its monitors and waiting transactions are canceled, its journal is closed, and
    /// clients that would not understand it are hung up on.
    pub(crate) fn remove_database(&self, name: &str) -> Result<(), RemoveDatabaseError> {
        let databases = self.databases();
        let _changing = databases.lock();
        let Some(hosted) = databases.get(name) else {
            return Err(RemoveDatabaseError::Unknown(name.to_owned()));
        };
        if name.starts_with('_') {
            return Err(RemoveDatabaseError::Reserved(name.to_owned()));
        }
        databases.change(|served| {
            served.remove(name);
        });
        hosted.remove().refuse();
        self.close_unaware_sessions();
        hosted.unlist();
        Ok(())
    }
}

/// Makes a database one of a cluster, which keeps no ephemeral columns.
fn cluster(database: &mut Database, ids: UuidSource) -> Result<History, OvsdbError> {
    if let Some(schema) = without_ephemeral_columns(database.schema()) {
        let database_name = &schema.name;
        tracing::warn!(
            database = database_name,
            "ephemeral columns become persistent: clusters have no others"
        );
        database.convert(Arc::new(schema))?;
    }
    Ok(History::new(ids, &database.snapshot()))
}
