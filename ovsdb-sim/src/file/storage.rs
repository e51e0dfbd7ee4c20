//! Storage of a database: where its commits are kept, and for a cluster the position in its log.

use std::io;
use std::path::Path;

use patchbay_engine::db::{ChangeSet, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::Operations;
use uuid::Uuid;

use crate::cluster::{Cluster, ClusterMember};
use crate::history::History;

use super::transaction::FileTransaction;
use super::{ClusterJournal, FileError, Journal, writer};

/// Storage of a database.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Standalone database. `None`: it is kept in memory only.
    Standalone(Option<Journal>),
    /// Clustered database.
    Clustered {
        cluster: Box<Cluster>,
        /// `None`: the database is kept in memory only.
        journal: Option<ClusterJournal>,
    },
    /// Database of a relay, which is kept in memory only. `None`: its source has no history.
    Relay(Option<History>),
}

impl Storage {
    /// Makes the storage of a standalone database, with a new journal at `path` if there is one.
    pub(crate) fn begin_standalone(
        path: Option<&Path>,
        snapshot: &Snapshot,
    ) -> Result<Self, FileError> {
        let journal = path.map(|path| Journal::create(path, snapshot)).transpose()?;
        Ok(Self::Standalone(journal))
    }

    /// Makes the storage of a cluster that begins with the content of `snapshot`, with a new
    /// journal at `path` if there is one. `ids` are those of its transactions. The server is
    /// elected.
    pub(crate) fn begin_cluster(
        path: Option<&Path>,
        snapshot: &Snapshot,
        member: ClusterMember,
        ids: UuidSource,
    ) -> Result<Self, FileError> {
        let cluster = Cluster::begin(member, ids, snapshot);
        let journal =
            path.map(|path| ClusterJournal::create(path, &cluster, snapshot)).transpose()?;
        Self::resume_cluster(cluster, journal)
    }

    /// Makes the storage of a cluster, and elects the server.
    pub(super) fn resume_cluster(
        cluster: Cluster,
        journal: Option<ClusterJournal>,
    ) -> Result<Self, FileError> {
        let mut storage = Self::Clustered { cluster: Box::new(cluster), journal };
        let elected = storage.elect();
        elected.map_err(|source| FileError::io(storage.path().unwrap_or(Path::new("")), source))?;
        Ok(storage)
    }

    /// The database's cluster. `None`: standalone database.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Standalone(_) | Self::Relay(_) => None,
            Self::Clustered { cluster, .. } => Some(cluster),
        }
    }

    /// The database's cluster. `None`: standalone database.
    pub(crate) fn cluster_mut(&mut self) -> Option<&mut Cluster> {
        match self {
            Self::Standalone(_) | Self::Relay(_) => None,
            Self::Clustered { cluster, .. } => Some(cluster),
        }
    }

    /// The path of the file. `None`: there is none.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Standalone(journal) => journal.as_ref().map(Journal::path),
            Self::Clustered { journal, .. } => journal.as_ref().map(ClusterJournal::path),
            Self::Relay(_) => None,
        }
    }

    /// The last transactions of the database. `None`: it has no history.
    pub(crate) fn history(&self) -> Option<&History> {
        match self {
            Self::Standalone(_) => None,
            Self::Clustered { cluster, .. } => Some(cluster.history()),
            Self::Relay(history) => history.as_ref(),
        }
    }

    /// Closes the file, which other programs can then open.
    pub(crate) fn close(&mut self) {
        match self {
            Self::Standalone(journal) => *journal = None,
            Self::Clustered { journal, .. } => *journal = None,
            Self::Relay(_) => {}
        }
    }

    /// Appends the changes of a transaction to the file, before they are
    /// [recorded](Self::record_commit).
    ///
    /// # Errors
    /// The file could not be written. The transaction fails.
    pub(crate) fn append(
        &mut self,
        schema: &DatabaseSchema,
        operations: &Operations,
        changes: &ChangeSet,
    ) -> Result<(), OvsdbError> {
        let transaction = || FileTransaction::new(schema, operations, changes);
        match self {
            Self::Standalone(Some(journal)) => {
                transaction().map_or(Ok(()), |transaction| journal.append(transaction))
            }
            Self::Clustered { cluster, journal: Some(journal) } => {
                // Without an entry for each transaction, the next one would skip an index.
                let transaction = transaction().unwrap_or_else(FileTransaction::without_changes);
                journal.append(&cluster.next_entry(), &transaction)
            }
            Self::Standalone(None) | Self::Clustered { journal: None, .. } | Self::Relay(_) => {
                Ok(())
            }
        }
    }

    /// Records a transaction in the history. `followed`: the id that the source of a relay has
    /// given it.
    pub(crate) fn record_commit(&mut self, changes: &ChangeSet, followed: Option<Uuid>) {
        match (self, followed) {
            (Self::Clustered { cluster, .. }, _) => cluster.record(changes),
            (Self::Relay(Some(history)), Some(id)) => history.record(id, changes),
            (Self::Standalone(_) | Self::Relay(_), _) => {}
        }
    }

    /// Writes a conversion, after which the database has the schema and content of `snapshot`.
    ///
    /// # Errors
    /// The file could not be written. It is as before.
    pub(crate) fn convert(&mut self, snapshot: &Snapshot) -> Result<(), OvsdbError> {
        match self {
            Self::Standalone(journal) => rewrite(journal.as_mut(), snapshot, writer::CONVERTED),
            // It follows its source.
            Self::Relay(_) => Ok(()),
            Self::Clustered { cluster, journal } => {
                if let Some(journal) = journal {
                    journal.append_conversion(&cluster.next_entry(), snapshot)?;
                }
                cluster.record_conversion(snapshot);
                Ok(())
            }
        }
    }

    /// `true` if the file has grown so much that it is to be [compacted](Self::compact).
    pub(crate) fn is_compaction_due(&self) -> bool {
        match self {
            Self::Standalone(Some(journal)) => journal.is_compaction_due(),
            Self::Clustered { journal: Some(journal), .. } => journal.is_compaction_due(),
            Self::Standalone(None) | Self::Clustered { journal: None, .. } | Self::Relay(_) => {
                false
            }
        }
    }

    /// Postpones the next attempt of a compaction that has failed.
    pub(crate) fn postpone_compaction(&mut self) {
        match self {
            Self::Standalone(Some(journal)) => journal.postpone_compaction(),
            Self::Clustered { journal: Some(journal), .. } => journal.postpone_compaction(),
            Self::Standalone(None) | Self::Clustered { journal: None, .. } | Self::Relay(_) => {}
        }
    }

    /// Replaces the file by one that has only the present content.
    ///
    /// # Errors
    /// The file could not be written, or that of a cluster has no entry behind its snapshot. It is
    /// as before.
    pub(crate) fn compact(&mut self, snapshot: &Snapshot) -> Result<(), OvsdbError> {
        match self {
            Self::Standalone(journal) => rewrite(journal.as_mut(), snapshot, writer::COMPACTED),
            Self::Relay(_) => Ok(()),
            Self::Clustered { cluster, journal } => {
                // A file that was unlinked is written again.
                let is_gone = journal.as_ref().is_some_and(|file| !file.path().exists());
                if cluster.has_snapshot_of_all() && !is_gone {
                    // ovsdb-server's error, which has no tag.
                    let details = "not storing a duplicate snapshot";
                    return Err(OvsdbError::new("ovsdb error", details));
                }
                if let Some(journal) = journal {
                    journal.rewrite(cluster, snapshot)?;
                }
                cluster.record_snapshot();
                Ok(())
            }
        }
    }

    /// Elects the server as the leader of its cluster.
    ///
    /// # Errors
    /// The file could not be written. The term stays.
    pub(crate) fn elect(&mut self) -> io::Result<()> {
        if let Self::Clustered { cluster, journal } = self {
            if let Some(journal) = journal {
                journal.append_election(&cluster.next_election(), cluster)?;
            }
            cluster.record_election();
        }
        Ok(())
    }

    /// Changes the election timer of a cluster.
    ///
    /// # Errors
    /// The file could not be written. The timer stays.
    #[cfg(feature = "unixctl")]
    pub(crate) fn change_election_timer(
        &mut self,
        election_timer_ms: u64,
    ) -> Result<(), OvsdbError> {
        let Self::Clustered { cluster, journal } = self else {
            return Ok(());
        };
        if let Some(journal) = journal {
            let entry = cluster.next_entry_without_data();
            journal.append_election_timer(&entry, election_timer_ms)?;
        }
        cluster.record_election_timer(election_timer_ms);
        Ok(())
    }
}

/// Replaces the file of a standalone database, if there is one, by one with the content of
/// `snapshot`, whose comment has the reason.
fn rewrite(
    journal: Option<&mut Journal>,
    snapshot: &Snapshot,
    reason: &str,
) -> Result<(), OvsdbError> {
    journal.map_or(Ok(()), |journal| journal.rewrite(snapshot, reason))
}
