//! Named snapshots of all databases, and the way back to them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use patchbay_engine::db::{DatabaseError, Snapshot};
use patchbay_schemas::error::OvsdbError;

use crate::model::Role;
use crate::sim::Sim;
use crate::target::RemoteError;

/// Number of snapshots that a simulator keeps. Each keeps the rows that have changed since.
const MAX_SNAPSHOTS: usize = 1_000;
/// Number of characters of a name that an error repeats.
const MAX_QUOTED_CHARACTERS: usize = 100;

/// Error: a snapshot was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MAX_SNAPSHOTS} snapshots are kept, and no more can be: take one under a name that exists"
)]
pub struct TooManySnapshots;

/// Error: the databases cannot be given another content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// There is no snapshot of this name.
    #[error("there is no snapshot {0}")]
    NoSnapshot(String),
    /// A database rejected its former content, because its schema has changed or its file cannot be
    /// written.
    #[error("database {database}: {error}")]
    Rejected {
        /// Name of the database.
        database: String,
        /// The error.
        error: OvsdbError,
    },
    /// An address cannot be bound any more, at the end of an outage.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// Snapshots of a simulator by name; each has those of the databases by name.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<String, BTreeMap<String, Snapshot>>>);

impl Snapshots {
    fn by_name(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, Snapshot>>> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sim {
    /// Keeps the present content of all databases under a name, in the place of what had this name
    /// before. This copies no rows.
    ///
    /// # Errors
    /// Too many snapshots are kept.
    pub fn take_snapshot(&self, name: impl Into<String>) -> Result<(), TooManySnapshots> {
        let databases = self.database_names().into_iter().filter_map(|database| {
            let snapshot = self.database(&database)?.snapshot();
            Some((database, snapshot))
        });
        let (name, databases) = (name.into(), databases.collect());
        let mut snapshots = self.snapshots().by_name();
        if snapshots.len() >= MAX_SNAPSHOTS && !snapshots.contains_key(&name) {
            return Err(TooManySnapshots);
        }
        snapshots.insert(name, databases);
        Ok(())
    }

    /// The names of the snapshots, sorted.
    pub fn snapshot_names(&self) -> Vec<String> {
        self.snapshots().by_name().keys().cloned().collect()
    }

    /// Gives the databases the content of a snapshot, in one transaction for each database.
    /// Connections stay, and their monitors report the differences. A database that is newer than
    /// the snapshot becomes empty; relays and backups stay as they are.
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_schemas::nb::LogicalSwitch;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// sim.take_snapshot("empty")?;
    /// let database = sim.database("OVN_Northbound").ok_or("served by default")?;
    /// let mut txn = database.txn();
    /// txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    /// database.transact(&txn.finish())?;
    /// sim.restore_snapshot("empty")?;
    /// assert_eq!(database.snapshot().row_count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such snapshot, or a database rejected the content. Databases before it, by name,
    /// have theirs.
    pub fn restore_snapshot(&self, name: &str) -> Result<(), ResetError> {
        let wanted = self.snapshots().by_name().get(name).cloned();
        let quoted = || name.chars().take(MAX_QUOTED_CHARACTERS).collect();
        let wanted = wanted.ok_or_else(|| ResetError::NoSnapshot(quoted()))?;
        self.set_content(&wanted)
    }

    /// Begins again, as for the next test: removes all rows or, with the name of a snapshot, has
    /// its rows; clears all faults; ends an outage; makes the server the leader of clusters.
    /// Connections stay, with their monitors and locks, and monitors report the differences.
    ///
    /// ```
    /// use ovsdb_sim::{Fault, Sim};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// sim.set_fault(Fault::StopReading)?;
    /// sim.reset(None).await?;
    /// assert!(sim.faults().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of [`restore_snapshot`](Self::restore_snapshot), or an address cannot be bound any more.
    pub async fn reset(&self, snapshot: Option<&str>) -> Result<(), ResetError> {
        self.clear_faults();
        for name in self.database_names() {
            if let Some(database) = self.server().database(&name)
                && database.is_clustered()
                && !database.is_relay()
            {
                // A database that is clustered has roles.
                database.set_role(Role::Leader).unwrap_or_default();
            }
        }
        match snapshot {
            Some(name) => self.restore_snapshot(name)?,
            None => self.set_content(&BTreeMap::new())?,
        }
        self.come_back().await?;
        Ok(())
    }

    /// Gives each database its snapshot, or no rows.
    fn set_content(&self, wanted: &BTreeMap<String, Snapshot>) -> Result<(), ResetError> {
        for name in self.database_names() {
            let Some(database) = self.server().database(&name) else {
                continue;
            };
            if database.is_relay() || database.is_backup() {
                continue;
            }
            let restored = match wanted.get(&name) {
                Some(snapshot) => database.restore(snapshot),
                None => database.clear(),
            };
            restored.map_err(|error: DatabaseError| ResetError::Rejected {
                database: name,
                error: error.into(),
            })?;
        }
        Ok(())
    }
}
