//! Addition and removal of databases while the server runs (`ovsdb-server/add-db` and `remove-db`
//! in ovsdb-server(1)).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchbay_engine::db::Database;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::uuids::UuidSource;

use crate::file::{DatabaseSource, FileError};
use crate::history::History;
use crate::model::Model;
use crate::served_database::{ServedDatabase, without_ephemeral_columns};
use crate::server_database::DatabaseRow;

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
        let (mut database, journal) = source.open(self.database_uuids(number))?;
        let (history, row) = match self.model() {
            Model::Standalone => (None, DatabaseRow::standalone(database.schema())),
            Model::Clustered => {
                let history = begin_history(&mut database, self.history_uuids(number))?;
                let [cid, sid] = [self.next_uuid(), self.next_uuid()];
                let row = DatabaseRow::clustered(database.schema(), cid, sid, history.index());
                (Some(history), row)
            }
        };
        let served = Arc::new(ServedDatabase::new(
            database,
            journal,
            history,
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

    /// Adds the database of an existing file, which becomes its journal.
    pub(crate) fn open_database(
        &self,
        path: &Path,
    ) -> Result<Arc<ServedDatabase>, AddDatabaseError> {
        // Otherwise the error would be that another program has locked the file.
        if self
            .databases()
            .all()
            .values()
            .any(|database| database.is_kept_in(path))
        {
            return Err(AddDatabaseError::AlreadyOpen(path.to_owned()));
        }
        self.add_database(DatabaseSource::from_journal(path)?)
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
}

/// Makes a database clustered: begins its history, and makes its ephemeral columns persistent.
fn begin_history(database: &mut Database, ids: UuidSource) -> Result<History, OvsdbError> {
    if let Some(schema) = without_ephemeral_columns(database.schema()) {
        let database_name = &schema.name;
        tracing::warn!(
            database = database_name,
            "making ephemeral columns persistent: clusters do not support them"
        );
        database.convert(Arc::new(schema))?;
    }
    Ok(History::new(ids, &database.snapshot()))
}
