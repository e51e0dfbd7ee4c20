//! Reading of a clustered database's file.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, Database};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Reader, TextBuf, ValueKind};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Condition, Operation};
use uuid::Uuid;

use crate::cluster::{Cluster, LogEntry, LogPosition, check_persistent_columns};
use crate::history::History;

use super::cluster_record::{self, ClusterHeader, ClusterRecord, MemberError, SnapshotHeader};
use super::growth::Extent;
use super::reader::{FILE_READ_BYTES, ReplayError, display_path, replay_transaction};
use super::record::{FileKind, RecordError, Records};
use super::{Damage, FileError};

/// Error: the file of a clustered database cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterLogError {
    /// The cluster has more servers, which the simulator cannot reach.
    #[error("it belongs to a cluster of {0} servers, and only clusters of one server are served")]
    OtherServers(usize),
    /// The server is not the one that is left of its cluster.
    #[error("its server is not a member of its cluster")]
    NotAMember,
    /// The file is of `ovsdb-tool join-cluster`, and has no content yet.
    #[error(
        "its server has not joined its cluster yet, and only clusters of one server are served"
    )]
    NotJoined,
    /// The server has left the cluster.
    #[error(
        "record {0} indicates server has left the cluster; it cannot be added back (use \
         \"ovsdb-tool join-cluster\" to add a new server)"
    )]
    Left(u64),
    /// A record is malformed, or does not fit to those before it.
    #[error("error reading record {record}: {problem}")]
    Record {
        /// Number of the record. The header has number 0.
        record: u64,
        /// The problem.
        problem: String,
    },
    /// The schema of the database cannot be served.
    #[error(transparent)]
    Schema(#[from] OvsdbError),
}

impl ClusterLogError {
    pub(super) fn record(record: u64, problem: &dyn ToString) -> Self {
        Self::Record { record, problem: problem.to_string() }
    }
}

/// Content of a clustered database's file, whose server is the only member of its cluster.
#[derive(Debug)]
pub(super) struct ClusterLog {
    header: ClusterHeader,
    header_text: TextBuf,
    /// Schema at the end of the log.
    schema: Arc<DatabaseSchema>,
    /// Entries with data, and the texts of their records.
    entries: Vec<(LogEntry, TextBuf)>,
    /// Position at the end of the log.
    position: LogPosition,
    /// Intact records of the file.
    extent: Extent,
}

/// Entries of a log that is being read.
#[derive(Debug)]
struct ReadEntries {
    /// Position of the snapshot.
    snapshot: LogPosition,
    /// Term of the last record.
    term: u64,
    commit_index: u64,
    /// Entries after the snapshot, with the texts of those that have data.
    entries: Vec<(ClusterEntry, Option<TextBuf>)>,
}

#[derive(Debug)]
struct ClusterEntry {
    entry: LogEntry,
    servers: Option<Vec<Uuid>>,
    election_timer_ms: Option<u64>,
}

impl ClusterLog {
    /// Reads a file. Like ovsdb-server, stops at the first damaged record, which is logged.
    pub(super) fn read(path: &Path, file: File) -> Result<Self, FileError> {
        let refused = |problem| FileError::Cluster { path: path.to_owned(), problem };
        let reader = BufReader::with_capacity(FILE_READ_BYTES, file);
        let mut records = Records::new(reader, FileKind::Clustered);
        let header_text = match records.next() {
            Ok(Some(text)) => text,
            // The caller knows the kind of the file.
            Ok(None) | Err(RecordError::OtherKind) => {
                return Err(FileError::not_a_database(path, Damage::Empty));
            }
            Err(RecordError::Io(source)) => return Err(FileError::io(path, source)),
            Err(RecordError::Damaged(damage)) => {
                return Err(FileError::not_a_database(path, damage));
            }
        };
        let mut extent = Extent { base: records.offset(), ..Extent::default() };
        let header = ClusterHeader::parse(header_text.as_text())
            .map_err(|error| refused(ClusterLogError::record(0, &error)))?;
        let Some(snapshot) = &header.snapshot else {
            return Err(refused(ClusterLogError::NotJoined));
        };
        let mut read = ReadEntries {
            snapshot: snapshot.position,
            term: 0,
            commit_index: snapshot.position.index,
            entries: Vec::new(),
        };
        for number in 1_u64.. {
            let offset = records.offset();
            match records.next() {
                Ok(Some(text)) => {
                    read.add(number, text).map_err(refused)?;
                    extent.records += 1;
                }
                Ok(None) => break,
                Err(RecordError::Io(source)) => return Err(FileError::io(path, source)),
                Err(RecordError::OtherKind) => {
                    tracing::warn!(
                        path = display_path(path),
                        record = number,
                        offset,
                        "ignoring a record of a standalone database and all after it"
                    );
                    break;
                }
                Err(RecordError::Damaged(damage)) => {
                    let problem = damage.of_record(&display_path(path), offset);
                    tracing::warn!("{problem}: ignoring the record and all after it");
                    break;
                }
            }
        }
        read.check_servers(&header, snapshot).map_err(refused)?;
        let position = read.position();
        let entries: Vec<_> =
            read.entries.into_iter().filter_map(|(read, text)| Some((read.entry, text?))).collect();
        let schema = last_schema(&header_text, &entries).map_err(refused)?;
        Ok(Self {
            header,
            header_text,
            schema,
            entries,
            position,
            extent: Extent { end: records.offset(), ..extent },
        })
    }

    /// The schema of the database, after all conversions.
    pub(super) fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Intact records of the file.
    pub(super) fn extent(&self) -> Extent {
        self.extent
    }

    /// Makes the database with its history. `versions` are those of its rows, `ids` those of its
    /// next transactions.
    pub(super) fn replay(
        self,
        path: &Path,
        versions: UuidSource,
        ids: UuidSource,
    ) -> Result<(Database, Cluster), FileError> {
        let refused = |problem| FileError::Cluster { path: path.to_owned(), problem };
        let invalid = |error: OvsdbError| refused(error.into());
        let mut strings = StringCache::default();
        let (schema, content) = header_data(&self.header_text).map_err(refused)?;
        let schema = read_schema(schema).map_err(invalid)?;
        let mut database = Database::with_uuids(schema, versions);
        replay_data(&mut database, content, &mut strings, path);
        let id = self.header.snapshot.map(|snapshot| snapshot.id);
        let mut history = History::new(id.unwrap_or_default(), &database.snapshot());
        for (entry, text) in self.entries {
            let (mut schema, mut transaction) = entry_data(&text).map_err(refused)?;
            let id = entry.id.unwrap_or_default();
            if schema.kind() == ValueKind::Null {
                let changes = replay_data(&mut database, transaction, &mut strings, path);
                history.record(id, &changes);
                continue;
            }
            let schema = read_schema(schema).map_err(invalid)?;
            let has_content = transaction.kind() != ValueKind::Null;
            if has_content {
                clear(&mut database).map_err(invalid)?;
            }
            database.convert(schema).map_err(invalid)?;
            if has_content {
                replay_data(&mut database, transaction, &mut strings, path);
            }
            history.restart(id, &database.snapshot());
        }
        let cluster = Cluster::resume(self.header.member, self.position, history, ids);
        Ok((database, cluster))
    }
}

impl ReadEntries {
    /// Adds the record of a number.
    fn add(&mut self, number: u64, text: TextBuf) -> Result<(), ClusterLogError> {
        let parsed = ClusterRecord::parse(text.as_text())
            .map_err(|error| ClusterLogError::record(number, &error))?;
        let refuse = |problem: String| Err(ClusterLogError::record(number, &problem));
        match parsed {
            ClusterRecord::Note(note) if note == "left" => Err(ClusterLogError::Left(number)),
            ClusterRecord::Note(_) => Ok(()),
            ClusterRecord::Term(term) => {
                self.term = self.term.max(term);
                Ok(())
            }
            ClusterRecord::CommitIndex(index) => {
                let last = self.last_index();
                if index < self.commit_index {
                    let before = self.commit_index;
                    return refuse(format!("it regresses commit index from {before} to {index}"));
                }
                if index > last {
                    return refuse(format!(
                        "it advances commit index to {index} but last log index is {last}"
                    ));
                }
                self.commit_index = index;
                Ok(())
            }
            ClusterRecord::Entry { entry, servers, election_timer_ms } => {
                let expected = self.last_index() + 1;
                if entry.index <= self.commit_index {
                    let committed = self.commit_index;
                    return refuse(format!(
                        "its index is {} but commit index is already {committed}",
                        entry.index
                    ));
                }
                if entry.index > expected {
                    let index = entry.index;
                    return refuse(format!(
                        "its index {index} skips past expected index {expected}"
                    ));
                }
                // It may replace entries that were never committed.
                let kept = entry.index - self.snapshot.index - 1;
                self.entries.truncate(kept as usize);
                self.term = self.term.max(entry.term);
                let text = entry.id.map(|_| text);
                let entry = ClusterEntry { entry, servers, election_timer_ms };
                self.entries.push((entry, text));
                Ok(())
            }
        }
    }

    fn last_index(&self) -> u64 {
        self.snapshot.index + self.entries.len() as u64
    }

    /// Checks that the server is the only member of its cluster, so that all entries are committed.
    fn check_servers(
        &self,
        header: &ClusterHeader,
        snapshot: &SnapshotHeader,
    ) -> Result<(), ClusterLogError> {
        let changes = self.entries.iter().rev();
        let last = changes.flat_map(|(entry, _)| &entry.servers).next();
        match last.unwrap_or(&snapshot.servers).as_slice() {
            [only] if *only == header.member.server_id => Ok(()),
            [_] => Err(ClusterLogError::NotAMember),
            servers => Err(ClusterLogError::OtherServers(servers.len())),
        }
    }

    /// The position at the end.
    fn position(&self) -> LogPosition {
        let mut changes = self.entries.iter().rev();
        let timer = changes.find_map(|(entry, _)| entry.election_timer_ms);
        LogPosition {
            term: self.term,
            index: self.last_index(),
            election_timer_ms: timer.unwrap_or(self.snapshot.election_timer_ms),
            ..self.snapshot
        }
    }
}

/// The schema after all conversions.
fn last_schema(
    header: &TextBuf,
    entries: &[(LogEntry, TextBuf)],
) -> Result<Arc<DatabaseSchema>, ClusterLogError> {
    for (_, text) in entries.iter().rev() {
        let (mut schema, _) = entry_data(text)?;
        if schema.kind() != ValueKind::Null {
            return Ok(read_schema(schema)?);
        }
    }
    let (schema, _) = header_data(header)?;
    Ok(read_schema(schema)?)
}

/// The schema and the content of the snapshot in a header.
pub(super) fn header_data(header: &TextBuf) -> Result<(Reader<'_>, Reader<'_>), ClusterLogError> {
    let found = cluster_record::find_data(header.as_text(), "prev_data");
    found.ok_or_else(|| ClusterLogError::record(0, &MemberError::DATA))
}

/// The schema and the transaction of an entry, each of which may be null.
pub(super) fn entry_data(text: &TextBuf) -> Result<(Reader<'_>, Reader<'_>), ClusterLogError> {
    let found = cluster_record::find_data(text.as_text(), "data");
    // It was found when the record was read.
    found.ok_or_else(|| ClusterLogError::record(0, &MemberError::DATA))
}

pub(super) fn read_schema(mut schema: Reader<'_>) -> Result<Arc<DatabaseSchema>, OvsdbError> {
    let mut schema = DatabaseSchema::read(&mut schema)?;
    schema.reorder_as_copy();
    check_persistent_columns(&schema)?;
    Ok(Arc::new(schema))
}

/// Executes a transaction. One that is malformed or violates a constraint is logged and changes
/// nothing.
fn replay_data(
    database: &mut Database,
    transaction: Reader<'_>,
    strings: &mut StringCache,
    path: &Path,
) -> ChangeSet {
    match replay_transaction(database, transaction, strings) {
        Ok(changes) => changes,
        Err(ReplayError::Malformed(error) | ReplayError::Refused(error)) => {
            let (path, problem) = (display_path(path), error.with_syntax_first());
            tracing::error!(path, "{problem}: leaving out the record");
            ChangeSet::default()
        }
    }
}

/// Deletes all rows.
pub(super) fn clear(database: &mut Database) -> Result<(), OvsdbError> {
    let tables = database.schema().table_ids();
    let operations: Vec<_> = tables
        .map(|table| Operation::Delete { table, condition: Condition::new(Vec::new()) })
        .collect();
    database.transact(&operations)?;
    Ok(())
}
