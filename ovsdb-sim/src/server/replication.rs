//! Relays and backups of a server, and the server's settings of replication (ovsdb-server(1),
//! "Active-Backup Options").

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::following::{FollowPhase, Follower, SourceOptions};
use crate::served_database::ServedDatabase;

use super::add_remove::AddDatabaseError;
use super::{RemoveDatabaseError, Server};

/// Settings of replication for all databases of a server, and what follows a source.
#[derive(Debug, Default)]
pub(super) struct Replication(Mutex<ReplicationState>);

#[derive(Debug, Default)]
struct ReplicationState {
    /// Source of all databases. `None`: none was named.
    source: Option<String>,
    /// Excluded tables in ovsdb-server's notation: `DATABASE:TABLE,...`.
    excluded_tables: String,
    /// Probe intervals that were set, of backups and of relays.
    backup_probe_interval: Option<ProbeSetting>,
    relay_probe_interval: Option<ProbeSetting>,
    /// Followers of relays, by the names of their databases.
    relays: BTreeMap<String, Follower>,
    /// Databases that can be backups, by their names.
    backups: BTreeMap<String, Backup>,
}

/// Probe interval that was set. `None`: sources are not probed.
#[derive(Clone, Copy, Debug)]
struct ProbeSetting(Option<Duration>);

/// Database that can be a backup.
#[derive(Debug)]
struct Backup {
    excluded_tables: Vec<String>,
    /// `None`: the database is active.
    follower: Option<Follower>,
}

/// Error: no source was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unable to connect: active server is not specified.")]
pub(crate) struct NoSource;

impl Replication {
    fn state(&self) -> MutexGuard<'_, ReplicationState> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Adds the database of a relay, which follows its source from then on.
    pub(crate) fn add_relay(
        self: &Arc<Self>,
        name: &str,
        mut source: SourceOptions,
    ) -> Result<Arc<ServedDatabase>, AddDatabaseError> {
        let served = self.insert_relay(name)?;
        let mut replication = self.replication.state();
        if let Some(ProbeSetting(interval)) = replication.relay_probe_interval {
            source.probe_interval = interval;
        }
        let follower = Follower::relay(self, &served, &source);
        replication.relays.insert(name.to_owned(), follower);
        Ok(served)
    }

    /// Changes the source of a relay, which keeps its content.
    #[cfg(feature = "unixctl")]
    pub(crate) fn set_relay_source(
        self: &Arc<Self>,
        database: &Arc<ServedDatabase>,
        source: &SourceOptions,
    ) {
        let mut replication = self.replication.state();
        let follower = replication.relays.get_mut(database.name());
        if let Some(follower) = follower.filter(|one| one.source() != source) {
            *follower = Follower::relay(self, database, source);
        }
    }

    /// The source of a relay. `None`: the database is none.
    #[cfg(feature = "unixctl")]
    pub(crate) fn relay_source(&self, name: &str) -> Option<SourceOptions> {
        let replication = self.replication.state();
        Some(replication.relays.get(name)?.source().clone())
    }

    /// Removes a database like [`remove_database`](Self::remove_database), and ends its connection
    /// to a source.
    pub(crate) fn remove_following_database(&self, name: &str) -> Result<(), RemoveDatabaseError> {
        self.remove_database(name)?;
        let mut replication = self.replication.state();
        replication.relays.remove(name);
        replication.backups.remove(name);
        Ok(())
    }

    /// Names the source of all databases for [`connect_to_source`](Self::connect_to_source).
    pub(crate) fn set_source(&self, source: &str) {
        let mut replication = self.replication.state();
        // An empty text is a source that cannot be reached, as in ovsdb-server.
        replication.source = Some(source.to_owned());
    }

    /// Declares that all standalone databases can be backups. They are active at first.
    pub(crate) fn declare_backups(&self) {
        let mut replication = self.replication.state();
        for database in self.databases().all().values() {
            if can_be_backup(database) {
                replication.add_backup(database.name());
            }
        }
    }

    /// The source of all databases, as it was named.
    #[cfg(feature = "unixctl")]
    pub(crate) fn source(&self) -> Option<String> {
        self.replication.state().source.clone()
    }

    /// Names the tables that no backup follows.
    pub(crate) fn set_excluded_tables(self: &Arc<Self>, tables: &str) {
        let mut replication = self.replication.state();
        tables.clone_into(&mut replication.excluded_tables);
        let running = replication.backups.values();
        let is_connected = running.into_iter().any(|one| one.follower.is_some());
        drop(replication);
        if is_connected {
            // The tables count from now on; a source is known.
            self.connect_to_source().unwrap_or_default();
        }
    }

    /// The tables that no backup follows, as they were named.
    #[cfg(feature = "unixctl")]
    pub(crate) fn excluded_tables(&self) -> String {
        self.replication.state().excluded_tables.clone()
    }

    /// Makes all databases that can be backups follow the named source.
    ///
    /// # Errors
    /// No source was named.
    pub(crate) fn connect_to_source(self: &Arc<Self>) -> Result<(), NoSource> {
        let replication = self.replication.state();
        let mut source = SourceOptions::of_backup(replication.source.clone().ok_or(NoSource)?);
        if let Some(ProbeSetting(interval)) = replication.backup_probe_interval {
            source.probe_interval = interval;
        }
        let excluded = replication.excluded_tables.clone();
        drop(replication);
        for database in self.databases().all().values() {
            if can_be_backup(database) {
                let tables = tables_of(&excluded, database.name());
                self.start_backup(database, &source, tables);
            }
        }
        Ok(())
    }

    /// Makes a database follow a source. The tables of these names keep their content.
    pub(crate) fn start_backup(
        self: &Arc<Self>,
        database: &Arc<ServedDatabase>,
        source: &SourceOptions,
        excluded_tables: Vec<String>,
    ) {
        let mut replication = self.replication.state();
        let backup = replication.add_backup(database.name());
        backup.excluded_tables.clone_from(&excluded_tables);
        // The former task ends first.
        backup.follower = None;
        database.set_backup(true);
        let follower = Follower::backup(self, database, source, excluded_tables);
        backup.follower = Some(follower);
    }

    /// Makes a database the backup of a source, or active without one, unless it is that already.
    #[cfg(feature = "unixctl")]
    pub(crate) fn configure_backup(
        self: &Arc<Self>,
        database: &Arc<ServedDatabase>,
        source: Option<&SourceOptions>,
        excluded_tables: &[String],
    ) {
        let mut replication = self.replication.state();
        let backup = replication.add_backup(database.name());
        let follower = backup.follower.as_ref();
        let is_same = follower.map(Follower::source) == source
            && (source.is_none() || backup.excluded_tables == excluded_tables);
        drop(replication);
        match source {
            _ if is_same => {}
            Some(source) => self.start_backup(database, source, excluded_tables.to_vec()),
            None => self.stop_backup(database),
        }
    }

    /// Makes a database active that can not be a backup any more.
    #[cfg(feature = "unixctl")]
    pub(crate) fn end_backup(&self, database: &Arc<ServedDatabase>) {
        self.stop_backup(database);
        self.replication.state().backups.remove(database.name());
    }

    /// Makes all backups active.
    pub(crate) fn disconnect_from_source(&self) {
        let all = self.databases().all();
        for database in all.values() {
            self.stop_backup(database);
        }
    }

    /// Makes a database active that can be a backup.
    pub(crate) fn stop_backup(&self, database: &Arc<ServedDatabase>) {
        let mut replication = self.replication.state();
        if let Some(backup) = replication.backups.get_mut(database.name()) {
            backup.follower = None;
            drop(replication);
            database.set_backup(false);
        }
    }

    /// Sets the probe interval of the sources of backups. `None`: they are not probed.
    #[cfg(feature = "unixctl")]
    pub(crate) fn set_backup_probe_interval(&self, interval: Option<Duration>) {
        let mut replication = self.replication.state();
        replication.backup_probe_interval = Some(ProbeSetting(interval));
        let backups = replication.backups.values();
        let followers = backups.filter_map(|backup| backup.follower.as_ref());
        followers.for_each(|follower| follower.set_probe_interval(interval));
    }

    /// Sets the probe interval of the sources of relays. `None`: they are not probed.
    #[cfg(feature = "unixctl")]
    pub(crate) fn set_relay_probe_interval(&self, interval: Option<Duration>) {
        let mut replication = self.replication.state();
        replication.relay_probe_interval = Some(ProbeSetting(interval));
        let relays = replication.relays.values();
        relays.for_each(|follower| follower.set_probe_interval(interval));
    }

    /// Waits until each relay and backup has the content of its source, or could not connect at
    /// once.
    pub(crate) async fn wait_for_sources(&self) {
        let phases = self.replication.state().phases();
        for mut phase in phases {
            let has_begun = phase.wait_for(|phase| *phase != FollowPhase::Connecting);
            // Fails if the follower has been removed.
            has_begun.await.map(|_| ()).unwrap_or_default();
        }
    }

    /// The state of replication, in ovsdb-server's words.
    #[cfg(feature = "unixctl")]
    pub(crate) fn sync_status(&self) -> String {
        let all = self.databases().all();
        let replication = self.replication.state();
        let mut text = String::new();
        for (number, (name, database)) in all.iter().enumerate() {
            if let Some(backup) = replication.backups.get(name) {
                text += &backup.status(database);
                // Also before databases that are not listed, as in ovsdb-server.
                text += if number + 1 < all.len() { "\n" } else { "" };
            }
        }
        if text.is_empty() {
            text += "state: active\n";
        }
        text
    }
}

/// `true` if a database can be a backup: it is standalone.
fn can_be_backup(database: &ServedDatabase) -> bool {
    !database.name().starts_with('_') && !database.is_relay() && !database.is_clustered()
}

impl ReplicationState {
    /// Watches the states of all followers.
    fn phases(&self) -> Vec<watch::Receiver<FollowPhase>> {
        let backups = self.backups.values().filter_map(|backup| backup.follower.as_ref());
        let followers = self.relays.values().chain(backups);
        followers.map(Follower::phase).collect()
    }

    fn add_backup(&mut self, name: &str) -> &mut Backup {
        self.backups
            .entry(name.to_owned())
            .or_insert_with(|| Backup { excluded_tables: Vec::new(), follower: None })
    }
}

#[cfg(feature = "unixctl")]
impl Backup {
    /// Lines about the database.
    fn status(&self, database: &ServedDatabase) -> String {
        let name = database.name();
        let Some(follower) = self.follower.as_ref().filter(|_| database.is_backup()) else {
            return format!("database: {name}\nstate: active\n");
        };
        let source = &follower.source().remotes;
        let phase = *follower.phase().borrow();
        let what = match phase {
            FollowPhase::Connecting | FollowPhase::Retrying => "connecting:",
            FollowPhase::Following => "replicating:",
            FollowPhase::Failed => "failed:",
        };
        let mut text = format!("database: {name}\nstate: backup\n{what} {source}");
        if phase == FollowPhase::Following {
            text.push('\n');
            if !self.excluded_tables.is_empty() {
                let tables: Vec<_> =
                    self.excluded_tables.iter().map(|table| format!("{name}:{table}")).collect();
                text += "exclude: ";
                text += &tables.join(",");
            }
        }
        text
    }
}

/// The tables of a database in `DATABASE:TABLE,...`.
fn tables_of(excluded: &str, database: &str) -> Vec<String> {
    excluded
        .split(',')
        .filter_map(|one| one.trim().split_once(':'))
        .filter(|(name, _)| *name == database)
        .map(|(_, table)| table.to_owned())
        .collect()
}
