//! Cluster of a database with this server as its only member: ids, position in the RAFT log, and
//! the history of transactions.

#[cfg(feature = "unixctl")]
use std::time::Instant;

use patchbay_engine::db::{ChangeSet, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;
use uuid::Uuid;

use crate::history::History;

/// Time without a leader after which a member of a new cluster starts an election, in milliseconds,
/// as in ovsdb-server.
pub(crate) const DEFAULT_ELECTION_TIMER_MS: u64 = 1000;

/// Index of the first content in the RAFT log of a new cluster. The election of its leader follows.
pub(crate) const FIRST_INDEX: u64 = 1;

/// Ids of a cluster and of its only member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterMember {
    pub(crate) cluster_id: Uuid,
    pub(crate) server_id: Uuid,
    /// Address for other members in the database file. `None`: there is no file.
    pub(crate) address: Option<String>,
}

/// Position in the RAFT log: the last entry, with the fields that a snapshot after it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) term: u64,
    /// Index of the last entry.
    pub(crate) index: u64,
    /// Index of the first entry after the snapshot.
    pub(crate) start: u64,
    pub(crate) election_timer_ms: u64,
}

/// Entry of the RAFT log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) term: u64,
    pub(crate) index: u64,
    /// Id of its transaction. `None`: the entry has no transaction.
    pub(crate) id: Option<Uuid>,
}

/// Last election, which this server has won.
#[cfg(feature = "unixctl")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Election {
    pub(crate) time: Instant,
    /// Index of its entry.
    pub(crate) index: u64,
}

#[cfg(feature = "unixctl")]
impl Election {
    fn now(index: u64) -> Self {
        Self { time: Instant::now(), index }
    }
}

/// Cluster of a database, whose only member is this server.
#[derive(Debug)]
pub(crate) struct Cluster {
    member: ClusterMember,
    position: LogPosition,
    #[cfg(feature = "unixctl")]
    elected: Election,
    history: History,
    ids: UuidSource,
    /// Id of the next transaction, once it is drawn.
    next_id: Option<Uuid>,
}

impl Cluster {
    /// Begins a cluster with the content of `snapshot`. `ids` are those of its transactions.
    pub(crate) fn begin(member: ClusterMember, mut ids: UuidSource, snapshot: &Snapshot) -> Self {
        let history = History::new(ids.next_uuid(), snapshot);
        let position = LogPosition {
            term: 0,
            index: FIRST_INDEX,
            start: FIRST_INDEX + 1,
            election_timer_ms: DEFAULT_ELECTION_TIMER_MS,
        };
        Self::resume(member, position, history, ids)
    }

    /// Resumes a cluster at a position in its RAFT log, where its history ends. Its leader is to be
    /// elected.
    pub(crate) fn resume(
        member: ClusterMember,
        position: LogPosition,
        history: History,
        ids: UuidSource,
    ) -> Self {
        Self {
            member,
            position,
            #[cfg(feature = "unixctl")]
            elected: Election::now(position.index),
            history,
            ids,
            next_id: None,
        }
    }

    pub(crate) fn member(&self) -> &ClusterMember {
        &self.member
    }

    pub(crate) fn position(&self) -> &LogPosition {
        &self.position
    }

    /// `true` if no entry of the log is behind the snapshot.
    pub(crate) fn has_snapshot_of_all(&self) -> bool {
        self.position.start > self.position.index
    }

    #[cfg(feature = "unixctl")]
    pub(crate) fn last_election(&self) -> Election {
        self.elected
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The id of the last transaction.
    pub(crate) fn last_id(&self) -> Uuid {
        self.history.last_id()
    }

    /// Removes all transactions but the last from the history.
    pub(crate) fn truncate_history(&mut self) {
        self.history.truncate();
    }

    /// The entry of the next transaction, the same until it is recorded.
    pub(crate) fn next_entry(&mut self) -> LogEntry {
        let ids = &mut self.ids;
        let id = *self.next_id.get_or_insert_with(|| ids.next_uuid());
        LogEntry { id: Some(id), ..self.next_entry_without_data() }
    }

    /// The entry of the next change of the election timer.
    pub(crate) fn next_entry_without_data(&self) -> LogEntry {
        LogEntry { term: self.position.term, index: self.position.index + 1, id: None }
    }

    /// The entry of the next election.
    pub(crate) fn next_election(&self) -> LogEntry {
        LogEntry { term: self.position.term + 1, ..self.next_entry_without_data() }
    }

    /// Records a transaction at the [next entry](Self::next_entry).
    pub(crate) fn record(&mut self, changes: &ChangeSet) {
        let id = self.take_next_id();
        self.history.record(id, changes);
    }

    /// Records a conversion, after which the database has the content of `snapshot`, at the
    /// [next entry](Self::next_entry).
    pub(crate) fn record_conversion(&mut self, snapshot: &Snapshot) {
        let id = self.take_next_id();
        self.history.restart(id, snapshot);
    }

    /// Records the [next election](Self::next_election), which this server has won.
    pub(crate) fn record_election(&mut self) {
        self.position.term += 1;
        self.position.index += 1;
        #[cfg(feature = "unixctl")]
        {
            self.elected = Election::now(self.position.index);
        }
    }

    /// Records a change of the election timer.
    #[cfg(feature = "unixctl")]
    pub(crate) fn record_election_timer(&mut self, election_timer_ms: u64) {
        self.position.index += 1;
        self.position.election_timer_ms = election_timer_ms;
    }

    /// Records that the log begins with a snapshot of the present content.
    pub(crate) fn record_snapshot(&mut self) {
        self.position.start = self.position.index + 1;
    }

    fn take_next_id(&mut self) -> Uuid {
        self.position.index += 1;
        let drawn = self.next_id.take();
        drawn.unwrap_or_else(|| self.ids.next_uuid())
    }
}

/// Checks that a schema has no ephemeral columns, which clusters do not support.
///
/// # Errors
/// It has one. The text is ovsdb-server's.
pub(crate) fn check_persistent_columns(schema: &DatabaseSchema) -> Result<(), OvsdbError> {
    let columns = schema.tables.iter().flat_map(|table| {
        let columns = table.columns.iter();
        columns.map(move |column| (&table.name, column))
    });
    let mut ephemeral = columns.filter(|(_, column)| column.ephemeral);
    ephemeral.next().map_or(Ok(()), |(table, column)| {
        let details = format!(
            "Table {table} column {} is ephemeral but clustered databases do not support \
             ephemeral columns.",
            column.name
        );
        Err(OvsdbError::new("ovsdb error", details))
    })
}

/// The schema with all columns persistent, as in clusters. `None`: they are persistent already.
pub(crate) fn without_ephemeral_columns(schema: &DatabaseSchema) -> Option<DatabaseSchema> {
    if check_persistent_columns(schema).is_ok() {
        return None;
    }
    let mut schema = schema.clone();
    for table in &mut schema.tables {
        for column in &mut table.columns {
            column.ephemeral = false;
        }
    }
    Some(schema)
}
