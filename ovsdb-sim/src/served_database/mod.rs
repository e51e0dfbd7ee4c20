//! A database that the server serves: transactions of clients and of the server's owner, monitors,
//! journal and history.
//!
//! | file | subject |
//! | --- | --- |
//! | `transact.rs` | execution and commit of a transaction |
//! | `waiting.rs`, `waiting_queue.rs` | transactions whose `wait` is not satisfied |
//! | `reading.rs` | long transactions that only read |
//! | `conversion.rs` | `convert` |
//! | `compaction.rs` | compaction of the file |
//! | `cluster_role.rs` | leader, follower or disconnected member of a cluster |
//! | `relay.rs` | database of a relay, transactions that are forwarded |
//! | `backup.rs` | backup of another server's database |
//! | `removal.rs`, `cancellation.rs` | end of the database, of its monitors and waiting transactions |
//! | `restoring.rs` | return to an earlier content |
//! | `transaction_log.rs` | log of changed rows |
//! | `turns.rs` | turns of the sessions, long requests |
//! | `server_row.rs` | the database's row in `_Server` |

mod backup;
mod cancellation;
mod cluster_role;
mod compaction;
mod conversion;
mod reading;
mod relay;
mod removal;
mod restoring;
mod server_row;
pub(crate) mod set;
mod transact;
#[cfg(feature = "unixctl")]
mod transaction_log;
mod turns;
mod waiting;
mod waiting_queue;

#[cfg(feature = "unixctl")]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_schemas::schema::DatabaseSchema;
use tokio::sync::watch;
use uuid::Uuid;

use crate::cluster::Cluster;
use crate::file::Storage;
use crate::history::History;
use crate::locks::Locks;
use crate::model::Role;
use crate::monitors::{MonitorView, Monitors};
use crate::server::server_database::DatabaseStatus;
use crate::session::id::SessionId;
use crate::update::NetChanges;

pub use cluster_role::NotClustered;
use relay::RelayState;
use server_row::ServerRow;
pub(crate) use transact::RequestParams;
#[cfg(feature = "unixctl")]
use transaction_log::TransactionLog;
use turns::Turns;
use waiting_queue::WaitingQueue;

/// Database with everything that depends on its commits.
///
/// A session takes its [turn](Self::turn) before it uses the state. Others, such as the server's
/// owner, only lock the state.
///
/// **Lock order.** A thread that holds several locks has taken them in this order:
///
/// 1. additions and removals of databases ([`DatabaseSet`](crate::served_database::set::DatabaseSet)),
/// 2. the server's relays and backups,
/// 3. the monitors of a session ([`SessionHandle`](crate::session::handle::SessionHandle)),
/// 4. the content of a row in `_Server` ([`ServerRow`]),
/// 5. the state of one database,
/// 6. the server's lock table,
/// 7. the schema of a database,
/// 8. the waiting request ids of a session, faults, and outboxes.
///
/// So the database's state must not be locked when its row in `_Server` is written or when its
/// monitors are removed from their sessions.
#[derive(Debug)]
pub(crate) struct ServedDatabase {
    name: String,
    /// Row in `_Server`. `None`: this is `_Server`, which clients can only read.
    server_row: Option<ServerRow>,
    /// The server's lock table, for `assert` operations.
    locks: Arc<Mutex<Locks>>,
    /// Schema of the database, which is read without waiting for the state.
    schema: Mutex<Arc<DatabaseSchema>>,
    is_relay: bool,
    /// False until the source of a relay has sent its content.
    is_available: AtomicBool,
    turns: Turns,
    state: Mutex<DatabaseState>,
}

/// Part of a served database that is under its lock.
#[derive(Debug)]
pub(crate) struct DatabaseState {
    database: Database,
    storage: Storage,
    role: Role,
    /// `None`: the database is not a relay's.
    relay: Option<RelayState>,
    /// `true` while the database is the backup of another server's, which clients cannot change.
    is_backup: bool,
    /// `true` after the removal from the server. Users of an older handle can only read.
    is_removed: bool,
    pub(crate) monitors: Monitors,
    waiting: WaitingQueue,
    #[cfg(feature = "unixctl")]
    transaction_log: TransactionLog,
    /// Number of transactions that changed something. Watched by embedded clients and `db:`
    /// remotes.
    commits: watch::Sender<u64>,
}

impl ServedDatabase {
    /// Makes the `_Server` database.
    pub(crate) fn reserved(database: Database, locks: Arc<Mutex<Locks>>) -> Self {
        Self::with_row(database, Storage::Standalone(None), None, locks)
    }

    /// Makes a database that clients can change. The database's row in `server_database`, which is
    /// `_Server`, is added later.
    pub(crate) fn new(
        database: Database,
        storage: Storage,
        server_database: Arc<ServedDatabase>,
        locks: Arc<Mutex<Locks>>,
    ) -> Self {
        let status = DatabaseStatus {
            schema: Some(database.schema().clone()),
            role: Role::Leader,
            index: storage.cluster().map(|cluster| cluster.position().index),
        };
        let row = ServerRow::new(server_database, status);
        Self::with_row(database, storage, Some(row), locks)
    }

    /// Makes the database of a relay, which is not available until it gets the content of its
    /// source. `placeholder` has its name and nothing else.
    pub(crate) fn relay(
        placeholder: Database,
        server_database: Arc<ServedDatabase>,
        locks: Arc<Mutex<Locks>>,
    ) -> Self {
        let status = DatabaseStatus { schema: None, role: Role::Disconnected, index: None };
        let row = ServerRow::new(server_database, status);
        let mut relay = Self::with_row(placeholder, Storage::Relay(None), Some(row), locks);
        relay.is_relay = true;
        relay.is_available = AtomicBool::new(false);
        let state = relay.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.role = Role::Disconnected;
        state.relay = Some(RelayState::default());
        relay
    }

    fn with_row(
        database: Database,
        storage: Storage,
        server_row: Option<ServerRow>,
        locks: Arc<Mutex<Locks>>,
    ) -> Self {
        let name = database.schema().name.clone();
        let schema = Mutex::new(database.schema().clone());
        let state = DatabaseState {
            database,
            storage,
            role: Role::Leader,
            relay: None,
            is_backup: false,
            is_removed: false,
            monitors: Monitors::default(),
            waiting: WaitingQueue::default(),
            #[cfg(feature = "unixctl")]
            transaction_log: TransactionLog::default(),
            commits: watch::Sender::new(0),
        };
        Self {
            name,
            server_row,
            locks,
            schema,
            is_relay: false,
            is_available: AtomicBool::new(true),
            turns: Turns::default(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The schema. This does not wait for a transaction that is being executed.
    pub(crate) fn schema(&self) -> Arc<DatabaseSchema> {
        // Each change is one assignment.
        let schema = self.schema.lock();
        schema.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_schema(&self, schema: &Arc<DatabaseSchema>) {
        let mut own = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        own.clone_from(schema);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().database.snapshot()
    }

    /// The path of the file to which transactions are appended. `None`: there is none.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.state().storage.path().map(Path::to_owned)
    }

    /// The number of transactions that changed something.
    #[cfg(feature = "control-api")]
    pub(crate) fn commit_count(&self) -> u64 {
        *self.state().commits.borrow()
    }

    /// Watches the number of transactions that changed something.
    pub(crate) fn watch_commits(&self) -> watch::Receiver<u64> {
        self.state().commits.subscribe()
    }

    /// Locks the state. Nothing is executed while the guard lives.
    pub(crate) fn state(&self) -> MutexGuard<'_, DatabaseState> {
        // A panic inside a transaction leaves its overlay unpublished, so the state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rewrites the file, if there is one: the content in one transaction.
    ///
    /// # Errors
    /// The file could not be written. The former one stays.
    #[cfg(feature = "unixctl")]
    pub(crate) fn compact(&self) -> Result<(), patchbay_schemas::error::OvsdbError> {
        self.state().compact()
    }

    /// Removes the monitors and waiting transactions of a session.
    pub(crate) fn remove_session(&self, session: SessionId) {
        let mut state = self.state();
        state.waiting.remove_session(session);
        if let Some(relay) = &mut state.relay {
            relay.remove_session(session);
        }
        state.monitors.remove_session(session);
    }
}

impl DatabaseState {
    /// The database's cluster. `None`: standalone database.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        self.storage.cluster()
    }

    /// The server's role in the database's cluster.
    #[cfg(feature = "unixctl")]
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Switches the log of a table's changed rows on or off, until the schema is replaced. Returns
    /// `false` if there is no such table.
    #[cfg(feature = "unixctl")]
    pub(crate) fn log_table(&mut self, table: &str, on: bool) -> bool {
        let table = self.database.schema().table_id(table);
        if let Some(table) = table {
            self.transaction_log.set(table, on);
        }
        table.is_some()
    }

    /// The names of all tables, sorted, with `true` if their changed rows are logged.
    #[cfg(feature = "unixctl")]
    pub(crate) fn logged_tables(&self) -> BTreeMap<String, bool> {
        let schema = self.database.schema();
        let table = |id| {
            let name = schema.table(id).name.to_string();
            (name, self.transaction_log.has(id))
        };
        schema.table_ids().map(table).collect()
    }

    /// The content that a new monitor reports.
    pub(crate) fn monitor_view(&self) -> MonitorView {
        MonitorView { snapshot: self.database.snapshot(), last_id: self.last_id() }
    }

    /// The net changes after the transaction `id`. `None`: the history does not reach it.
    pub(crate) fn changes_since(&self, id: Uuid) -> Option<NetChanges> {
        self.storage.history()?.changes_since(id)
    }

    /// The id of the last transaction. Nil: there is no history.
    fn last_id(&self) -> Uuid {
        self.storage.history().map_or(Uuid::nil(), History::last_id)
    }
}
