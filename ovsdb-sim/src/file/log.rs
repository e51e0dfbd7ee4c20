//! History in a database file: its transactions, one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Chain, Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use patchbay_engine::db::{ChangeSet, Database, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, TextBuf, ValueKind};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;

use super::cluster_log::{ClusterLogError, clear, entry_data, header_data, read_schema};
use super::cluster_record::{ClusterHeader, ClusterRecord};
use super::reader::{FILE_READ_BYTES, ReplayError, replay_transaction};
use super::record::{FileKind, KIND_BYTES, RecordError, Records};
use super::{Damage, FileError};

/// Reader of the transactions in a database file (ovsdb(5)), of a standalone database or of one
/// server of a clustered database.
///
/// The file is only read, and may belong to a running server. Memory holds the database at one
/// moment and one record, for a clustered database also the entries that are not committed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ovsdb_sim::{DatabaseLog, Sim};
/// use patchbay_schemas::nb::LogicalSwitch;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("nb.db");
/// let sim = Sim::builder().journal(&path).build()?;
/// let database = sim.database("OVN_Northbound").ok_or("served by default")?;
/// let mut txn = database.txn();
/// txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
/// database.transact(&txn.finish())?;
///
/// let mut log = DatabaseLog::open(&path)?;
/// let mut rows = Vec::new();
/// while let Some(transaction) = log.next()? {
///     rows.push((transaction.record, transaction.changes.rows.len()));
/// }
/// assert_eq!(rows, [(1, 1)]);
/// assert_eq!(log.snapshot().row_count(), 1);
/// # Ok(())
/// # }
/// ```
pub struct DatabaseLog<R> {
    path: PathBuf,
    records: Records<Chain<Cursor<Vec<u8>>, R>>,
    database: Database,
    strings: StringCache,
    /// Number of the next record.
    record: u64,
    pending: Pending,
    /// Time of the last transaction that has one.
    time: Option<SystemTime>,
    end: Option<LogEnd>,
}

/// What is read and not executed yet.
enum Pending {
    /// Content of a standalone database: each record is executed at once.
    None,
    /// Entries of a clustered database that may still be replaced by another leader's.
    Cluster {
        /// Index of the next entry that is executed.
        next: u64,
        /// Index of the last committed entry.
        committed: u64,
        /// Entries from `next` on. Elections and other entries have no data.
        entries: VecDeque<Option<(u64, TextBuf)>>,
    },
}

/// Transaction of a database file.
#[derive(Clone, Debug)]
pub struct LoggedTransaction {
    /// Number of its record, as `ovsdb-tool show-log` counts. The schema, or the header of a
    /// clustered database, is number 0. The snapshot in such a header has number 0, too.
    pub record: u64,
    /// Time of the commit according to the server that wrote the record. Clocks may run backward. A
    /// record without a time has that of the record before it. `None`: no record has one yet.
    pub time: Option<SystemTime>,
    /// Comments of the client (RFC 7047, section 5.2.10), or that of a compaction.
    pub comment: String,
    /// Changed rows.
    pub changes: ChangeSet,
    /// Reason why the record changes nothing: it is malformed or violates a constraint. Servers
    /// leave such a record out as well.
    pub problem: Option<String>,
    /// `true` if another schema begins here: all rows count as changed, and `changes` lists none.
    pub is_conversion: bool,
    /// `false` if the file does not show that the cluster has committed the transaction.
    pub is_committed: bool,
}

/// End of the readable part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Number of the first record that is not read.
    pub record: u64,
    /// Its offset in the unpacked file, in bytes.
    pub offset: u64,
    /// Damage of that record. `None`: the file ends there.
    pub damage: Option<String>,
}

impl LogEnd {
    /// What is lost, in words. `None`: nothing is.
    pub fn problem(&self) -> Option<String> {
        let Self { record, offset, damage } = self;
        let damage = damage.as_ref()?;
        Some(format!(
            "record {record} at byte {offset}, and all after it, cannot be read: {damage}"
        ))
    }
}

impl<R> fmt::Debug for DatabaseLog<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseLog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DatabaseLog<BufReader<File>> {
    /// Opens a file and reads its schema.
    ///
    /// # Errors
    /// The file cannot be read, or its first record is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| FileError::io(path, source))?;
        Self::read(path, BufReader::with_capacity(FILE_READ_BYTES, file))
    }
}

impl<R: BufRead> DatabaseLog<R> {
    /// Reads a schema from the unpacked content of a file. `path` names the file in errors.
    ///
    /// # Errors
    /// The content cannot be read, or its first record is damaged.
    pub fn read(path: impl Into<PathBuf>, mut input: R) -> Result<Self, FileError> {
        let path = path.into();
        let mut begin = Vec::with_capacity(KIND_BYTES);
        let mut first = input.by_ref().take(KIND_BYTES as u64);
        first.read_to_end(&mut begin).map_err(|source| FileError::io(&path, source))?;
        let kind = FileKind::of(&begin);
        let mut records = Records::new(Cursor::new(begin).chain(input), kind);
        let not_a_database = |problem| FileError::not_a_database(&path, problem);
        let text = match records.next() {
            Ok(Some(text)) => text,
            Ok(None) | Err(RecordError::OtherKind) => return Err(not_a_database(Damage::Empty)),
            Err(RecordError::Io(source)) => return Err(FileError::io(&path, source)),
            Err(RecordError::Damaged(problem)) => return Err(not_a_database(problem)),
        };
        let (schema, pending) = match kind {
            FileKind::Standalone => {
                let schema = DatabaseSchema::read(&mut Reader::new(text.as_text()))
                    .map_err(|error| not_a_database(error.into()))?;
                (Arc::new(schema), Pending::None)
            }
            FileKind::Clustered => {
                let refused = |problem| FileError::Cluster { path: path.clone(), problem };
                let header = ClusterHeader::parse(text.as_text())
                    .map_err(|error| refused(ClusterLogError::record(0, &error)))?;
                let Some(snapshot) = header.snapshot else {
                    return Err(refused(ClusterLogError::NotJoined));
                };
                let (schema, _) = header_data(&text).map_err(refused)?;
                let schema = read_schema(schema).map_err(|error| refused(error.into()))?;
                let index = snapshot.position.index;
                let entries = VecDeque::from([Some((0, text))]);
                (schema, Pending::Cluster { next: index, committed: index, entries })
            }
        };
        Ok(Self {
            path,
            records,
            database: Database::new(schema),
            strings: StringCache::default(),
            record: 1,
            pending,
            time: None,
            end: None,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schema at this moment of the history.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        self.database.schema()
    }

    /// The rows at this moment of the history: after the last transaction that
    /// [`next`](Self::next) returned.
    pub fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// The end of the readable part. `None`: it is not reached yet.
    pub fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    /// Executes the next transaction. `None`: there is no further intact record, and
    /// [`end`](Self::end) shows why.
    ///
    /// Like ovsdb-server, this stops at the first damaged record.
    ///
    /// # Errors
    /// The file cannot be read, or an entry of a clustered database does not fit to those before
    /// it.
    #[expect(clippy::should_implement_trait, reason = "an item of the iterator can be an error")]
    pub fn next(&mut self) -> Result<Option<LoggedTransaction>, FileError> {
        loop {
            if let Some((record, text, is_committed)) = self.pending.take(self.end.is_some()) {
                let executed = self.execute_entry(record, &text, is_committed)?;
                return Ok(Some(self.with_time(executed)));
            }
            let Some((record, text)) = self.next_record()? else {
                if self.pending.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            match &mut self.pending {
                Pending::None => {
                    let executed = self.execute(record, Reader::new(text.as_text()));
                    return Ok(Some(self.with_time(executed)));
                }
                Pending::Cluster { .. } => self.add_entry(record, text)?,
            }
        }
    }

    /// Executes all further transactions, and returns their number.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn replay(&mut self) -> Result<u64, FileError> {
        let mut count = 0;
        while self.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// The transaction with the time of the one before it if it has none.
    fn with_time(&mut self, executed: LoggedTransaction) -> LoggedTransaction {
        self.time = executed.time.or(self.time);
        LoggedTransaction { time: self.time, ..executed }
    }

    /// The text and the number of the next record. `None`: the readable part ends here.
    fn next_record(&mut self) -> Result<Option<(u64, TextBuf)>, FileError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.records.offset();
        let damage = match self.records.next() {
            Ok(Some(text)) => {
                self.record += 1;
                return Ok(Some((self.record - 1, text)));
            }
            Ok(None) => None,
            Err(RecordError::Io(source)) => return Err(FileError::io(&self.path, source)),
            Err(RecordError::OtherKind) => {
                Some("it belongs to a database of another kind".to_owned())
            }
            Err(RecordError::Damaged(damage)) => Some(damage.to_string()),
        };
        self.end = Some(LogEnd { record: self.record, offset, damage });
        Ok(None)
    }

    /// Adds a record of a clustered database to the entries that are not executed.
    fn add_entry(&mut self, record: u64, text: TextBuf) -> Result<(), FileError> {
        let problem = |problem: &dyn ToString| FileError::Cluster {
            path: self.path.clone(),
            problem: ClusterLogError::record(record, problem),
        };
        let parsed = ClusterRecord::parse(text.as_text()).map_err(|error| problem(&error))?;
        let Pending::Cluster { next, committed, entries } = &mut self.pending else {
            return Ok(());
        };
        match parsed {
            ClusterRecord::Note(_) | ClusterRecord::Term(_) => {}
            ClusterRecord::CommitIndex(index) => *committed = index.max(*committed),
            ClusterRecord::Entry { entry, .. } => {
                let place = entry.index.checked_sub(*next);
                let place = place.and_then(|place| usize::try_from(place).ok());
                let Some(place) = place.filter(|place| *place <= entries.len()) else {
                    let expected = *next + entries.len() as u64;
                    let index = entry.index;
                    return Err(problem(&format!("its index is {index} instead of {expected}")));
                };
                // It replaces entries of another leader that were never committed.
                entries.truncate(place);
                entries.push_back(entry.id.map(|_| (record, text)));
            }
        }
        Ok(())
    }

    /// Executes an entry of a clustered database, or the snapshot in its header.
    fn execute_entry(
        &mut self,
        record: u64,
        text: &TextBuf,
        is_committed: bool,
    ) -> Result<LoggedTransaction, FileError> {
        let refused = |problem| FileError::Cluster { path: self.path.clone(), problem };
        if record == 0 {
            let (_, content) = header_data(text).map_err(refused)?;
            return Ok(self.execute(record, content));
        }
        let (mut schema, mut transaction) = entry_data(text).map_err(refused)?;
        if schema.kind() == ValueKind::Null {
            let executed = self.execute(record, transaction);
            return Ok(LoggedTransaction { is_committed, ..executed });
        }
        let invalid = |error: OvsdbError| {
            let problem = ClusterLogError::record(record, &error);
            FileError::Cluster { path: self.path.clone(), problem }
        };
        let schema = read_schema(schema).map_err(invalid)?;
        let has_content = transaction.kind() != ValueKind::Null;
        if has_content {
            clear(&mut self.database).map_err(invalid)?;
        }
        self.database.convert(schema).map_err(invalid)?;
        let mut executed = LoggedTransaction::new(record);
        if has_content {
            executed = self.execute(record, transaction);
            executed.changes = ChangeSet::default();
        }
        Ok(LoggedTransaction { is_conversion: true, is_committed, ..executed })
    }

    fn execute(&mut self, record: u64, transaction: Reader<'_>) -> LoggedTransaction {
        let mut logged = LoggedTransaction::new(record);
        logged.read_note(transaction);
        match replay_transaction(&mut self.database, transaction, &mut self.strings) {
            Ok(changes) => logged.changes = changes,
            Err(ReplayError::Malformed(error) | ReplayError::Refused(error)) => {
                logged.problem = Some(error.with_syntax_first());
            }
        }
        logged
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Cluster { entries, .. } => entries.is_empty(),
        }
    }

    /// Takes the next entry with data that is committed, or at the end of the file any.
    fn take(&mut self, is_at_end: bool) -> Option<(u64, TextBuf, bool)> {
        let Self::Cluster { next, committed, entries } = self else {
            return None;
        };
        loop {
            let is_committed = *next <= *committed;
            if !is_committed && !is_at_end {
                return None;
            }
            let entry = entries.pop_front()?;
            *next += 1;
            if let Some((record, text)) = entry {
                return Some((record, text, is_committed));
            }
        }
    }
}

impl LoggedTransaction {
    fn new(record: u64) -> Self {
        Self {
            record,
            time: None,
            comment: String::new(),
            changes: ChangeSet::default(),
            problem: None,
            is_conversion: false,
            is_committed: true,
        }
    }

    /// Reads the time and the comment of a transaction.
    fn read_note(&mut self, mut transaction: Reader<'_>) {
        if transaction.kind() != ValueKind::Object || !transaction.enter_object() {
            return;
        }
        while let Some(name) = transaction.next_member() {
            match &*name {
                b"_date" => {
                    let Json::Integer(milliseconds) = Json::read(&mut transaction) else {
                        continue;
                    };
                    let since_epoch = u64::try_from(milliseconds).ok().map(Duration::from_millis);
                    self.time =
                        since_epoch.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
                }
                b"_comment" => {
                    let comment = Json::read(&mut transaction);
                    comment.as_str().unwrap_or_default().clone_into(&mut self.comment);
                }
                _ => {
                    transaction.skip();
                }
            }
        }
    }
}
