//! Journal of a clustered database: its server's RAFT log.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchbay_engine::db::{Database, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;

use crate::cluster::{Cluster, LogEntry};

use super::cluster_log::ClusterLog;
use super::lock_file::LockFile;
use super::record::FileKind;
use super::record_log::RecordLog;
use super::transaction::FileTransaction;
use super::{FileError, cluster_record, writer};

/// Journal of a clustered database, in the form of ovsdb-server's file. It is locked and written
/// like that of a standalone one ([`Journal`](super::Journal)).
#[derive(Debug)]
pub(crate) struct ClusterJournal {
    path: PathBuf,
    log: RecordLog,
    _lock: LockFile,
}

impl ClusterJournal {
    /// Creates a file with the content of a database, whose first leader is not elected yet.
    pub(super) fn create(
        path: &Path,
        cluster: &Cluster,
        snapshot: &Snapshot,
    ) -> Result<Self, FileError> {
        let lock = LockFile::take(path)?;
        let header = header(cluster, snapshot, "");
        let log = RecordLog::create(path, FileKind::Clustered, vec![header])
            .map_err(|source| FileError::io(path, source))?;
        Ok(Self { path: path.to_owned(), log, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a transaction.
    ///
    /// # Errors
    /// The records could not be written. They are cut off now or before the next ones.
    pub(super) fn append(
        &mut self,
        entry: &LogEntry,
        transaction: &FileTransaction,
    ) -> Result<(), OvsdbError> {
        let texts = cluster_record::transaction(entry, None, &transaction.text);
        self.write(texts, transaction.durable)
    }

    /// Appends a conversion to a schema, after which the database has the content of `snapshot`.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub(super) fn append_conversion(
        &mut self,
        entry: &LogEntry,
        snapshot: &Snapshot,
    ) -> Result<(), OvsdbError> {
        let content = content(snapshot, writer::CONVERTED);
        let texts = cluster_record::transaction(entry, Some(snapshot.schema()), &content);
        self.write(texts, false)
    }

    /// Appends an election that this server has won.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub(super) fn append_election(
        &mut self,
        entry: &LogEntry,
        cluster: &Cluster,
    ) -> io::Result<()> {
        let texts = cluster_record::election(entry, cluster.member().server_id);
        self.log.write(texts, false)
    }

    /// Appends a change of the election timer.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    #[cfg(feature = "unixctl")]
    pub(super) fn append_election_timer(
        &mut self,
        entry: &LogEntry,
        election_timer_ms: u64,
    ) -> Result<(), OvsdbError> {
        self.write(cluster_record::election_timer(entry, election_timer_ms), false)
    }

    /// `true` if the file has grown so much that it is to be compacted.
    pub(super) fn is_compaction_due(&self) -> bool {
        self.log.is_compaction_due()
    }

    /// Postpones the next attempt of a compaction that has failed.
    pub(super) fn postpone_compaction(&mut self) {
        self.log.postpone_compaction();
    }

    /// Replaces the file by one whose snapshot has the content of a database.
    ///
    /// # Errors
    /// The file could not be written. The journal is as before.
    pub(super) fn rewrite(
        &mut self,
        cluster: &Cluster,
        snapshot: &Snapshot,
    ) -> Result<(), OvsdbError> {
        let header = header(cluster, snapshot, writer::COMPACTED);
        let vote = cluster_record::vote(cluster.position().term, cluster.member().server_id);
        self.log = RecordLog::replace(&self.path, FileKind::Clustered, vec![header, vote])
            .map_err(|source| FileError::replace(&self.path, source))?;
        Ok(())
    }

    fn write(&mut self, texts: Vec<Vec<u8>>, durable: bool) -> Result<(), OvsdbError> {
        let written = self.log.write(texts, durable);
        written.map_err(|error| FileError::write(&self.path, &error))
    }
}

/// The header of a file whose snapshot has the content of a database.
fn header(cluster: &Cluster, snapshot: &Snapshot, comment: &str) -> Vec<u8> {
    cluster_record::header(
        cluster.member(),
        cluster.position(),
        cluster.last_id(),
        snapshot.schema(),
        &content(snapshot, comment),
    )
}

/// The content of a database as a transaction.
fn content(snapshot: &Snapshot, comment: &str) -> Vec<u8> {
    let content = writer::content(snapshot);
    let text = writer::transaction(snapshot.schema(), &content, comment);
    text.unwrap_or_else(|| b"{}".to_vec())
}

/// Open journal whose content is not in a database yet.
#[derive(Debug)]
pub(super) struct UnreadCluster {
    path: PathBuf,
    file: File,
    lock: LockFile,
    log: ClusterLog,
}

impl UnreadCluster {
    /// Reads an open and locked file.
    pub(super) fn read(path: &Path, file: File, lock: LockFile) -> Result<Self, FileError> {
        let reader = file.try_clone().map_err(|source| FileError::io(path, source))?;
        Ok(Self { path: path.to_owned(), file, lock, log: ClusterLog::read(path, reader)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn schema(&self) -> &Arc<DatabaseSchema> {
        self.log.schema()
    }

    /// Makes the database with its cluster, whose leader is not elected yet. `versions` are those
    /// of its rows, `ids` those of its next transactions.
    pub(super) fn replay(
        self,
        versions: UuidSource,
        ids: UuidSource,
    ) -> Result<(Database, Cluster, ClusterJournal), FileError> {
        let extent = self.log.extent();
        let (database, cluster) = self.log.replay(&self.path, versions, ids)?;
        let journal = ClusterJournal {
            path: self.path,
            log: RecordLog::resume(self.file, FileKind::Clustered, extent),
            _lock: self.lock,
        };
        Ok((database, cluster, journal))
    }
}
