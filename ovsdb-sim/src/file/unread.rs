//! Open file of any kind, whose content is not in a database yet.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use patchbay_engine::db::Database;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;

use crate::model::Model;

use super::cluster_journal::UnreadCluster;
use super::journal::UnreadStandalone;
use super::lock_file::LockFile;
use super::record::FileKind;
use super::{FileError, Storage};

/// Open and locked file whose content is not in a database yet.
#[derive(Debug)]
pub(super) enum UnreadJournal {
    Standalone(UnreadStandalone),
    Clustered(Box<UnreadCluster>),
}

impl UnreadJournal {
    /// Opens an existing file and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let io = |source| FileError::io(path, source);
        // Lock first, because the program that has the lock may be replacing the file.
        let lock = LockFile::take(path)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(path).map_err(io)?;
        Ok(match FileKind::read(&file).map_err(io)? {
            FileKind::Standalone => Self::Standalone(UnreadStandalone::read(path, file, lock)?),
            FileKind::Clustered => {
                Self::Clustered(Box::new(UnreadCluster::read(path, file, lock)?))
            }
        })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Standalone(unread) => unread.content().path(),
            Self::Clustered(unread) => unread.path(),
        }
    }

    pub(super) fn model(&self) -> Model {
        match self {
            Self::Standalone(_) => Model::Standalone,
            Self::Clustered(_) => Model::Clustered,
        }
    }

    pub(super) fn schema(&self) -> &Arc<DatabaseSchema> {
        match self {
            Self::Standalone(unread) => unread.content().schema(),
            Self::Clustered(unread) => unread.schema(),
        }
    }

    /// Makes the database. `versions` are those of its rows, `ids` those of its next transactions.
    pub(super) fn replay(
        self,
        versions: UuidSource,
        ids: UuidSource,
    ) -> Result<(Database, Storage), FileError> {
        match self {
            Self::Standalone(unread) => {
                let schema = unread.content().schema().clone();
                let mut database = Database::with_uuids(schema, versions);
                let journal = unread.replay(&mut database)?;
                Ok((database, Storage::Standalone(Some(journal))))
            }
            Self::Clustered(unread) => {
                let (database, cluster, journal) = unread.replay(versions, ids)?;
                let storage = Storage::resume_cluster(cluster, Some(journal))?;
                Ok((database, storage))
            }
        }
    }
}
