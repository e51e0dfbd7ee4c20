//! Journal of a database: a file to which every commit is appended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use patchbay_engine::db::{ChangeSet, Database, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::Operation;

use super::lock_file::LockFile;
use super::{DatabaseFile, FileError, record, writer};

/// Mode of a new file, less the umask: databases have secrets, such as keys of tunnels.
const FILE_MODE: u32 = 0o640;

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

/// Records of a journal.
#[derive(Debug)]
struct RecordLog {
    file: File,
    /// Offset of the next record, in bytes.
    end: u64,
    /// True if the file may have other bytes behind `end`, which are cut off before the next
    /// record.
    has_tail: bool,
}

impl Journal {
    /// Creates a file with the schema and the content of a database.
    pub(super) fn create(path: &Path, snapshot: &Snapshot) -> Result<Self, FileError> {
        let lock = LockFile::take(path)?;
        let log =
            RecordLog::create(path, snapshot).map_err(|source| FileError::io(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            log,
            _lock: lock,
        })
    }

    /// Opens an existing file. [`UnreadJournal::replay`] reads its content.
    pub(super) fn open(path: &Path) -> Result<UnreadJournal, FileError> {
        let io = |source| FileError::io(path, source);
        // Lock first, because the program that has the lock may be replacing the file.
        let lock = LockFile::take(path)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(path).map_err(io)?;
        let content = DatabaseFile::from_file(path, file.try_clone().map_err(io)?)?;
        Ok(UnreadJournal {
            file,
            lock,
            content,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the changes of a transaction.
    ///
    /// # Errors
    /// The record could not be written. It is cut off now or before the next one.
    pub(crate) fn append(
        &mut self,
        schema: &DatabaseSchema,
        operations: &[Operation],
        changes: &ChangeSet,
    ) -> Result<(), OvsdbError> {
        let mut comment = String::new();
        let mut durable = false;
        for operation in operations {
            match operation {
                Operation::Comment(text) => {
                    if !comment.is_empty() {
                        comment.push('\n');
                    }
                    comment.push_str(text);
                }
                Operation::Commit { durable: this } => durable |= this,
                _ => {}
            }
        }
        let Some(text) = writer::transaction(schema, changes, &comment, now_ms()) else {
            return Ok(());
        };
        self.log.write(text, durable).map_err(|error| {
            let path = self.path.display();
            tracing::error!(%path, %error, "cannot write a transaction, which fails");
            OvsdbError::new("I/O error", format!("{path}: write failed ({error})"))
        })
    }

    /// Replaces the journal by a file with only the schema and the content of a database.
    ///
    /// # Errors
    /// The file could not be written. The journal is as before.
    pub(crate) fn rewrite(&mut self, snapshot: &Snapshot) -> Result<(), OvsdbError> {
        self.log = self
            .write_replacement(snapshot)
            .map_err(|source| FileError::io(&self.path, source))
            .map_err(|error| OvsdbError::new("I/O error", error.to_string()))?;
        Ok(())
    }

    fn write_replacement(&self, snapshot: &Snapshot) -> io::Result<RecordLog> {
        // The file itself is replaced, not a link to it. The lock stays valid, because the new file
        // has the same name.
        let path = self.path.canonicalize()?;
        let mut new_path = path.clone().into_os_string();
        new_path.push(".tmp");
        let new_path = PathBuf::from(new_path);
        match std::fs::remove_file(&new_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let log = RecordLog::create(&new_path, snapshot)?;
        let moved = log.file.sync_all();
        let moved = moved.and_then(|()| std::fs::rename(&new_path, &path));
        if let Err(error) = moved {
            // The first error is the one to report.
            std::fs::remove_file(&new_path).unwrap_or_default();
            return Err(error);
        }
        Ok(log)
    }
}

impl RecordLog {
    /// Makes a new file.
    fn create(path: &Path, snapshot: &Snapshot) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut log = Self {
            file: options
                .write(true)
                .create_new(true)
                .mode(FILE_MODE)
                .open(path)?,
            end: 0,
            has_tail: false,
        };
        let mut schema = Vec::new();
        snapshot.schema().to_json().write(&mut schema);
        let content = writer::content(snapshot);
        let content = writer::transaction(snapshot.schema(), &content, "", now_ms());
        let written = [Some(schema), content]
            .into_iter()
            .flatten()
            .try_for_each(|text| log.write(text, false));
        if let Err(error) = written {
            // A partial file would prevent the next attempt. `error` is the one to report.
            std::fs::remove_file(path).unwrap_or_default();
            return Err(error);
        }
        Ok(log)
    }

    fn write(&mut self, text: Vec<u8>, durable: bool) -> io::Result<()> {
        if self.has_tail {
            self.file.set_len(self.end)?;
            self.has_tail = false;
        }
        let record = record::encode(text);
        let written = self.file.write_all_at(&record, self.end).and_then(|()| {
            if durable {
                self.file.sync_data()
            } else {
                Ok(())
            }
        });
        match written {
            Ok(()) => self.end += record.len() as u64,
            // Cut the partial record off now or, if that fails, before the next record.
            Err(_) => self.has_tail = self.file.set_len(self.end).is_err(),
        }
        written
    }
}

/// Open journal whose content is not in a database yet.
#[derive(Debug)]
pub(crate) struct UnreadJournal {
    file: File,
    lock: LockFile,
    content: DatabaseFile,
}

impl UnreadJournal {
    pub(super) fn content(&self) -> &DatabaseFile {
        &self.content
    }

    /// Executes the file's transactions on an empty database. New records follow the last intact
    /// one, and replace anything else behind it.
    pub(super) fn replay(self, database: &mut Database) -> Result<Journal, FileError> {
        let path = self.content.path().to_owned();
        let end = self.content.replay(database)?;
        Ok(Journal {
            path,
            log: RecordLog {
                file: self.file,
                end,
                has_tail: true,
            },
            _lock: self.lock,
        })
    }
}

/// The current time in milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
