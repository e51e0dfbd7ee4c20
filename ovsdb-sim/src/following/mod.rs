//! Databases that follow those of another server: relays and backups (ovsdb(7), "Service Models").
//!
//! A task (`Follower`) has a client of the source, whose replica is the source's database. It
//! replaces the content of the served database by the replica's when it connects, and then applies
//! transaction after transaction.
//!
//! | file | subject |
//! | --- | --- |
//! | `source.rs` | remotes of the source, and the client's settings |
//! | `source_listener.rs` | sources that connect to this server |
//! | `source_log.rs` | log of the connections to the source |
//! | `changes.rs` | changes of the replica as operations on the served database |
//! | `relay.rs` | task of a relay |
//! | `backup.rs` | task of a backup |
//! | `schema_map.rs` | tables and columns of the source in a backup's schema |

mod backup;
mod changes;
mod relay;
mod schema_map;
mod source;
mod source_listener;
mod source_log;

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use patchbay_engine::client::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::served_database::ServedDatabase;
use crate::server::Server;

pub(crate) use changes::content_operations;
pub(crate) use source::SourceOptions;
use source_log::log_reconnects;

/// Number of changed rows that wait to be applied. Beyond it the whole content is compared.
const MAX_WAITING_ROWS: usize = 10_000;

/// Task that lets a database follow its source. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Follower {
    #[cfg(feature = "unixctl")]
    source: SourceOptions,
    /// Probe interval, which can be changed. `None`: the source is not probed.
    #[cfg(feature = "unixctl")]
    probe_interval: watch::Sender<Option<Duration>>,
    phase: watch::Receiver<FollowPhase>,
    task: JoinHandle<()>,
}

/// State of a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FollowPhase {
    /// The first attempt to connect has not ended.
    #[default]
    Connecting,
    /// The first attempt to connect has failed. There was no connection yet.
    Retrying,
    /// The database has had the content of the source.
    Following,
    /// The follower has given up: the source cannot be followed.
    Failed,
}

impl FollowPhase {
    /// Records that an attempt has failed. Returns `true` if it was the first.
    fn retry(&mut self) -> bool {
        let is_first = *self == Self::Connecting;
        if is_first {
            *self = Self::Retrying;
        }
        is_first
    }
}

impl Follower {
    /// Starts the task of a relay.
    pub(crate) fn relay(
        server: &Arc<Server>,
        database: &Arc<ServedDatabase>,
        source: &SourceOptions,
    ) -> Self {
        let (phase, seen) = watch::channel(FollowPhase::default());
        let probe_interval = watch::Sender::new(source.probe_interval);
        let target = target(server, database, &probe_interval);
        let task = relay::follow(target, source.clone(), phase);
        Self {
            #[cfg(feature = "unixctl")]
            source: source.clone(),
            #[cfg(feature = "unixctl")]
            probe_interval,
            phase: seen,
            task: tokio::spawn(task),
        }
    }

    /// Starts the task of a backup. The tables of these names keep their content.
    pub(crate) fn backup(
        server: &Arc<Server>,
        database: &Arc<ServedDatabase>,
        source: &SourceOptions,
        excluded_tables: Vec<String>,
    ) -> Self {
        let (phase, seen) = watch::channel(FollowPhase::default());
        let probe_interval = watch::Sender::new(source.probe_interval);
        let target = target(server, database, &probe_interval);
        let task = backup::follow(target, source.clone(), excluded_tables, phase);
        Self {
            #[cfg(feature = "unixctl")]
            source: source.clone(),
            #[cfg(feature = "unixctl")]
            probe_interval,
            phase: seen,
            task: tokio::spawn(task),
        }
    }

    /// Changes the probe interval of the source. `None`: it is not probed.
    #[cfg(feature = "unixctl")]
    pub(crate) fn set_probe_interval(&self, interval: Option<Duration>) {
        self.probe_interval.send_replace(interval);
    }

    #[cfg(feature = "unixctl")]
    pub(crate) fn source(&self) -> &SourceOptions {
        &self.source
    }

    /// Watches the state.
    pub(crate) fn phase(&self) -> watch::Receiver<FollowPhase> {
        self.phase.clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Database that follows, with its server.
#[derive(Clone, Debug)]
struct FollowTarget {
    /// Weak, because the server holds the follower.
    server: Weak<Server>,
    database: Arc<ServedDatabase>,
    probe_interval: watch::Receiver<Option<Duration>>,
}

fn target(
    server: &Arc<Server>,
    database: &Arc<ServedDatabase>,
    probe_interval: &watch::Sender<Option<Duration>>,
) -> FollowTarget {
    FollowTarget {
        server: Arc::downgrade(server),
        database: database.clone(),
        probe_interval: probe_interval.subscribe(),
    }
}

impl FollowTarget {
    /// Applies changes of the probe interval to a client, and logs its connections.
    async fn attend_client(&self, client: &Client) -> Infallible {
        tokio::select! {
            never = self.update_probe_interval(client) => never,
            never = log_reconnects(client) => never,
        }
    }

    async fn update_probe_interval(&self, client: &Client) -> Infallible {
        let mut interval = self.probe_interval.clone();
        loop {
            // A removed follower ends with its task.
            if interval.changed().await.is_err() {
                return std::future::pending().await;
            }
            client.set_probe_interval(*interval.borrow_and_update());
        }
    }
}
