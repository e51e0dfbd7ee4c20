//! Journal of a database: a standalone database file to which every commit is appended.

use std::fs::File;
use std::path::{Path, PathBuf};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_schemas::error::OvsdbError;

use super::lock_file::LockFile;
use super::record::FileKind;
use super::record_log::RecordLog;
use super::transaction::FileTransaction;
use super::{DatabaseFile, FileError, writer};

/// Journal of a database. While it is open, it is locked against other journals and against
/// ovsdb-server.
///
/// Each transaction is one write to the file, before monitors and clients are notified of the
/// commit. A transaction with a `durable` `commit` operation is synced to the disk.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    log: RecordLog,
    _lock: LockFile,
}

impl Journal {
    /// Creates a file with the schema and the content of a database.
    pub(super) fn create(path: &Path, snapshot: &Snapshot) -> Result<Self, FileError> {
        let lock = LockFile::take(path)?;
        let content = writer::content(snapshot);
        let content = writer::transaction(snapshot.schema(), &content, "");
        let records = [schema(snapshot)].into_iter().chain(content);
        let log = RecordLog::create(path, FileKind::Standalone, records.collect())
            .map_err(|source| FileError::io(path, source))?;
        Ok(Self { path: path.to_owned(), log, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a transaction.
    ///
    /// # Errors
    /// The record could not be written. It is cut off now or before the next one.
    pub(super) fn append(&mut self, transaction: FileTransaction) -> Result<(), OvsdbError> {
        self.log
            .write(vec![transaction.text], transaction.durable)
            .map_err(|error| FileError::write(&self.path, &error))
    }

    /// `true` if the file has grown so much that it is to be compacted.
    pub(super) fn is_compaction_due(&self) -> bool {
        self.log.is_compaction_due()
    }

    /// Postpones the next attempt of a compaction that has failed.
    pub(super) fn postpone_compaction(&mut self) {
        self.log.postpone_compaction();
    }

    /// Replaces the journal by a file with only the schema and the content of a database, whose
    /// comment has the reason. Its lock stays valid, because the new file has the same name.
    ///
    /// # Errors
    /// The file could not be written. The journal is as before.
    pub(super) fn rewrite(&mut self, snapshot: &Snapshot, reason: &str) -> Result<(), OvsdbError> {
        let content = writer::commented_content(snapshot, reason);
        let records = vec![schema(snapshot), content];
        self.log = RecordLog::replace(&self.path, FileKind::Standalone, records)
            .map_err(|source| FileError::replace(&self.path, source))?;
        Ok(())
    }
}

/// Record with the schema of a database.
fn schema(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.schema().to_text().as_text().bytes().to_vec()
}

/// Open journal whose content is not in a database yet.
#[derive(Debug)]
pub(super) struct UnreadStandalone {
    file: File,
    lock: LockFile,
    content: DatabaseFile,
}

impl UnreadStandalone {
    /// Reads the schema of an open and locked file.
    pub(super) fn read(path: &Path, file: File, lock: LockFile) -> Result<Self, FileError> {
        let reader = file.try_clone().map_err(|source| FileError::io(path, source))?;
        Ok(Self { file, lock, content: DatabaseFile::from_file(path, reader)? })
    }

    pub(super) fn content(&self) -> &DatabaseFile {
        &self.content
    }

    /// Executes the file's transactions on an empty database. New records follow the last intact
    /// one, and replace anything else behind it.
    pub(super) fn replay(self, database: &mut Database) -> Result<Journal, FileError> {
        let path = self.content.path().to_owned();
        let extent = self.content.replay(database)?;
        Ok(Journal {
            path,
            log: RecordLog::resume(self.file, FileKind::Standalone, extent),
            _lock: self.lock,
        })
    }
}
