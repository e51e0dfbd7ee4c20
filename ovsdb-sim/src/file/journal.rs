//! A file that every commit is appended to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use patchbay_engine::db::{ChangeSet, Database, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::wire::{Condition, InsertRow, Operation};

use super::lock_file::LockFile;
use super::{DatabaseFile, FileError, record, writer};

/// The file of a database. Locked against other journals and against ovsdb-server for as long as it is open.
///
/// Each transaction is one write to the file, made before anybody hears of the commit; it is forced to the disk where
/// the transaction asks for that (`commit` with `durable`).
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    log: Log,
    _lock: LockFile,
}

/// The records.
#[derive(Debug)]
struct Log {
    file: File,
    /// Where the next record goes.
    end: u64,
    /// Whether something other than intact records may follow.
    tail: bool,
}

impl Journal {
    /// Makes a new file with the schema and the content of a database.
    pub(super) fn create(path: &Path, snapshot: &Snapshot) -> Result<Self, FileError> {
        let lock = LockFile::take(path)?;
        let log = Log::create(path, snapshot).map_err(|source| FileError::io(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            log,
            _lock: lock,
        })
    }

    /// Opens a file that exists; [`UnreadJournal::replay`] has its content.
    pub(super) fn open(path: &Path) -> Result<UnreadJournal, FileError> {
        let io = |source| FileError::io(path, source);
        // First, because whoever has the file may be putting another in its place.
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

    /// Appends what a transaction changed.
    ///
    /// # Errors
    /// It could not be written. The file is as before, or will be once that works again.
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
        let Some(text) = writer::transaction(schema, changes, &comment, now()) else {
            return Ok(());
        };
        self.log.write(text, durable).map_err(|error| {
            let path = self.path.display();
            tracing::error!(%path, %error, "a transaction fails because it cannot be written");
            OvsdbError::new("I/O error", format!("{path}: write failed ({error})"))
        })
    }

    /// Puts a file with only the schema and the content of a database in the place of the journal, which goes on there.
    ///
    /// # Errors
    /// It could not be written. The journal is as before.
    pub(crate) fn rewrite(&mut self, snapshot: &Snapshot) -> Result<(), OvsdbError> {
        let rewritten = self.rewritten(snapshot);
        let rewritten = rewritten.map_err(|source| FileError::io(&self.path, source));
        self.log = rewritten.map_err(|error| OvsdbError::new("I/O error", error.to_string()))?;
        Ok(())
    }

    fn rewritten(&self, snapshot: &Snapshot) -> io::Result<Log> {
        // The file itself is replaced, not a link to it. Its lock goes on: it has the same name.
        let path = self.path.canonicalize()?;
        let mut new_path = path.clone().into_os_string();
        new_path.push(".tmp");
        let new_path = PathBuf::from(new_path);
        match std::fs::remove_file(&new_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let log = Log::create(&new_path, snapshot)?;
        let moved = log.file.sync_all();
        let moved = moved.and_then(|()| std::fs::rename(&new_path, &path));
        if let Err(error) = moved {
            // That it cannot be removed is less of a problem.
            std::fs::remove_file(&new_path).unwrap_or_default();
            return Err(error);
        }
        Ok(log)
    }
}

impl Log {
    /// Makes a new file.
    fn create(path: &Path, snapshot: &Snapshot) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut log = Self {
            file: options.write(true).create_new(true).open(path)?,
            end: 0,
            tail: false,
        };
        let mut schema = Vec::new();
        snapshot.schema().to_json().write(&mut schema);
        let content = writer::content(snapshot);
        let content = writer::transaction(snapshot.schema(), &content, "", now());
        let written = [Some(schema), content]
            .into_iter()
            .flatten()
            .try_for_each(|text| log.write(text, false));
        if let Err(error) = written {
            // It would be in the way of the next attempt. That it cannot be removed is less of a problem than `error`.
            std::fs::remove_file(path).unwrap_or_default();
            return Err(error);
        }
        Ok(log)
    }

    fn write(&mut self, text: Vec<u8>, durable: bool) -> io::Result<()> {
        if self.tail {
            self.file.set_len(self.end)?;
            self.tail = false;
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
            // Cut off now or, when that fails too, before the next record.
            Err(_) => self.tail = self.file.set_len(self.end).is_err(),
        }
        written
    }
}

/// A journal whose content is not in a database yet.
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

    /// Executes the file's transactions on an empty database. New ones will follow the last intact record, and take
    /// the place of what else comes after it.
    pub(super) fn replay(self, database: &mut Database) -> Result<Journal, FileError> {
        let path = self.content.path().to_owned();
        let end = self.content.replay(database)?;
        Ok(Journal {
            path,
            log: Log {
                file: self.file,
                end,
                tail: true,
            },
            _lock: self.lock,
        })
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// The operations that take a commit back. Nothing but the versions of rows tells the difference afterwards.
pub(crate) fn inverse(changes: &ChangeSet) -> Vec<Operation> {
    let inverse = changes.rows.iter().filter_map(|change| {
        let (table, uuid) = (change.table, change.uuid());
        let values = |old: &Row| {
            (0..)
                .map(ColumnId)
                .zip(old.values.iter().cloned())
                .collect()
        };
        match (&change.old, &change.new) {
            (None, None) => None,
            (None, Some(_)) => Some(Operation::Delete {
                table,
                condition: Condition::uuid(uuid),
            }),
            (Some(old), Some(_)) => Some(Operation::Update {
                table,
                condition: Condition::uuid(uuid),
                row: values(old),
            }),
            (Some(old), None) => Some(Operation::Insert {
                table,
                uuid,
                given: None,
                row: InsertRow::from_values(&old.values),
            }),
        }
    });
    inverse.collect()
}
