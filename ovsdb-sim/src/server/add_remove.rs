//! Addition and removal of databases while the server runs (`ovsdb-server/add-db` and `remove-db`
//! in ovsdb-server(1)).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use patchbay_engine::db::Database;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;

use crate::cluster::{ClusterMember, without_ephemeral_columns};
use crate::file::{DatabaseSource, FileError, OpenedDatabase, Storage};
use crate::model::Model;
use crate::served_database::ServedDatabase;
use crate::server::server_database::DatabaseRow;

use super::Server;

/// Error: a database cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddDatabaseError {
    /// Names that begin with an underscore are reserved for the server.
    #[error("{0}: names beginning with \"_\" are reserved")]
    Reserved(String),
    /// The server has a database of this name.
    #[error("{0}: duplicate database name")]
    Duplicate(String),
    /// The file is the journal of a database of this server.
    #[error("{}: already open", .0.display())]
    AlreadyOpen(PathBuf),
    /// The file has a database of another model than the expected one.
    #[error("database is {} and not {}", found.name(), expected.name())]
    OtherModel {
        /// Model of the file.
        found: Model,
        /// Model that is expected.
        expected: Model,
    },
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The content cannot be converted to that of a clustered database.
    #[error(transparent)]
    Refused(#[from] OvsdbError),
}

/// Error: a database cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveDatabaseError {
    /// The server has no database of this name.
    #[error("there is no database {0}")]
    Unknown(String),
    /// The database is `_Server`.
    #[error("database {0} is the server's own")]
    Reserved(String),
}

impl Server {
    /// Adds a database. Closes the connections of clients that are not aware of changes, so that
    /// they list the databases again.
    pub(crate) fn add_database(
        &self,
        source: DatabaseSource,
    ) -> Result<Arc<ServedDatabase>, AddDatabaseError> {
        let databases = self.databases();
        let mut added = databases.lock_changes();
        let name = source.schema().name.clone();
        if name.starts_with('_') {
            return Err(AddDatabaseError::Reserved(name));
        }
        if databases.get(&name).is_some() {
            return Err(AddDatabaseError::Duplicate(name));
        }
        *added += 1;
        let number = *added;
        let opened = source.open(self.database_uuids(number), self.history_uuids(number))?;
        let (database, storage) = self.begin_storage(opened, number)?;
        if storage.cluster().is_some() {
            self.has_had_cluster.store(true, Ordering::Relaxed);
        }
        let row = match storage.cluster() {
            None => DatabaseRow::standalone(database.schema()),
            Some(cluster) => DatabaseRow::clustered(database.schema(), cluster),
        };
        let served = Arc::new(ServedDatabase::new(
            database,
            storage,
            databases.server_database().clone(),
            self.locks().clone(),
        ));
        databases.change(|by_name| {
            by_name.insert(name, served.clone());
        });
        self.close_unaware_sessions();
        served.insert_server_row(&row, self.server_row_uuids(number));
        Ok(served)
    }

    /// Adds the database of a relay, which has no source yet.
    pub(super) fn insert_relay(&self, name: &str) -> Result<Arc<ServedDatabase>, AddDatabaseError> {
        let databases = self.databases();
        let mut added = databases.lock_changes();
        if name.starts_with('_') {
            return Err(AddDatabaseError::Reserved(name.to_owned()));
        }
        if databases.get(name).is_some() {
            return Err(AddDatabaseError::Duplicate(name.to_owned()));
        }
        *added += 1;
        let number = *added;
        let placeholder = Database::with_uuids(
            Arc::new(DatabaseSchema::empty(name)),
            self.database_uuids(number),
        );
        let served = ServedDatabase::relay(
            placeholder,
            databases.server_database().clone(),
            self.locks().clone(),
        );
        let served = Arc::new(served);
        databases.change(|by_name| {
            by_name.insert(name.to_owned(), served.clone());
        });
        self.close_unaware_sessions();
        served.insert_server_row(&DatabaseRow::relay(name), self.server_row_uuids(number));
        Ok(served)
    }

    /// Adds the database of an existing file, which becomes its journal. It must have the model
    /// `expected`, if there is one.
    pub(crate) fn open_database(
        &self,
        path: &Path,
        expected: Option<Model>,
    ) -> Result<Arc<ServedDatabase>, AddDatabaseError> {
        // Otherwise the error would be that another program has locked the file.
        if self.databases().all().values().any(|database| database.is_kept_in(path)) {
            return Err(AddDatabaseError::AlreadyOpen(path.to_owned()));
        }
        let source = DatabaseSource::from_journal(path)?;
        if let (Some(found), Some(expected)) = (source.model(), expected)
            && found != expected
        {
            return Err(AddDatabaseError::OtherModel { found, expected });
        }
        self.add_database(source)
    }

    /// Removes a database. Cancels its monitors and waiting transactions, closes its journal, and
    /// closes the connections of clients that are not aware of changes.
    pub(crate) fn remove_database(&self, name: &str) -> Result<(), RemoveDatabaseError> {
        let databases = self.databases();
        let _changing = databases.lock_changes();
        let Some(served) = databases.get(name) else {
            return Err(RemoveDatabaseError::Unknown(name.to_owned()));
        };
        if name.starts_with('_') {
            return Err(RemoveDatabaseError::Reserved(name.to_owned()));
        }
        databases.change(|by_name| {
            by_name.remove(name);
        });
        served.remove().reply_to_transactions();
        self.close_unaware_sessions();
        served.remove_server_row();
        Ok(())
    }

    /// Makes the storage of the database with a number, unless it has a file. Then it has the
    /// server's model.
    fn begin_storage(
        &self,
        opened: OpenedDatabase,
        number: u64,
    ) -> Result<(Database, Storage), AddDatabaseError> {
        let OpenedDatabase { mut database, storage, new_journal } = opened;
        if let Some(storage) = storage {
            return Ok((database, storage));
        }
        let path = new_journal.as_deref();
        let storage = match self.model() {
            Model::Standalone => Storage::begin_standalone(path, &database.snapshot())?,
            Model::Clustered => {
                persist_ephemeral_columns(&mut database)?;
                let member = ClusterMember {
                    cluster_id: self.next_uuid(),
                    server_id: self.next_uuid(),
                    address: path.map(|path| format!("unix:{}.raft", path.display())),
                };
                let ids = self.history_uuids(number);
                Storage::begin_cluster(path, &database.snapshot(), member, ids)?
            }
        };
        Ok((database, storage))
    }
}

/// Makes the ephemeral columns of a database persistent, because clusters do not support them.
fn persist_ephemeral_columns(database: &mut Database) -> Result<(), OvsdbError> {
    if let Some(schema) = without_ephemeral_columns(database.schema()) {
        let database_name = &schema.name;
        tracing::warn!(
            database = database_name,
            "making ephemeral columns persistent: clusters do not support them"
        );
        database.convert(Arc::new(schema))?;
    }
    Ok(())
}
