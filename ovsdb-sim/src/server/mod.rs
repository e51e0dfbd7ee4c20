//! The state that all sessions of a server share: databases, locks, faults and the sessions'
//! handles.

mod add_remove;
mod replication;
pub(crate) mod server_database;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use patchbay_schemas::uuids::UuidSource;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use uuid::Uuid;

use crate::budget::ByteBudget;
use crate::fault::{ConnectionId, Connections, Fault, FaultId, FaultRule, Faults, MAX_FAULTS};
use crate::file::DatabaseSource;
use crate::limits::Limits;
use crate::locks::Locks;
use crate::model::Model;
use crate::peers::{Peer, Peers, Place};
use crate::remotes::options::RemoteOptions;
use crate::served_database::ServedDatabase;
use crate::served_database::set::DatabaseSet;
use crate::session::handle::SessionHandle;
use crate::session::id::SessionId;
use crate::settings::RemoteSettings;
#[cfg(feature = "tls")]
use crate::target::needs_tls;
#[cfg(feature = "tls")]
use crate::tls::Tls;

pub use add_remove::{AddDatabaseError, RemoveDatabaseError};
use replication::Replication;

/// Time in which clients can read their last messages when the server shuts down.
const SHUT_DOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Error: there is no such connection, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no connection {0}")]
pub struct NoConnection(pub ConnectionId);

/// Reason why a fault cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetFaultError {
    /// The fault is for one connection, which does not exist.
    #[error(transparent)]
    NoConnection(#[from] NoConnection),
    /// Each fault costs every request a check.
    #[error("{limit} faults are set, and no more can be")]
    TooMany {
        /// Number of faults that may be set.
        limit: usize,
    },
}

/// Databases, locks and sessions of one server.
#[derive(Debug)]
pub(crate) struct Server {
    id: Mutex<Uuid>,
    /// Source of the server's ids.
    uuids: Mutex<UuidSource>,
    databases: DatabaseSet,
    model: Model,
    /// `true` once there has been a clustered database.
    has_had_cluster: AtomicBool,
    locks: Arc<Mutex<Locks>>,
    /// Changed by sessions as they begin and end, read by other tasks meanwhile.
    sessions: DashMap<SessionId, Arc<SessionHandle>>,
    next_session: AtomicU64,
    /// Number of the next transaction of the server's owner.
    next_owner_transaction: AtomicU64,
    faults: Arc<Faults>,
    /// False during an outage: clients cannot connect.
    is_up: AtomicBool,
    /// `true` if the server knows `monitor_cond` and `monitor_cond_since`, as since Open vSwitch
    /// 2.6.
    supports_monitor_cond: AtomicBool,
    /// Notified when a session has ended.
    session_ended: Notify,
    /// One permit for each connection that may still be made.
    connection_permits: Arc<Semaphore>,
    peers: Arc<Peers>,
    budget: Arc<ByteBudget>,
    seed: Option<u64>,
    limits: Arc<Limits>,
    settings: RemoteSettings,
    replication: Replication,
    #[cfg(feature = "tls")]
    tls: Tls,
}

impl Server {
    /// Makes a server with these databases and `_Server`.
    pub(crate) fn new(
        sources: Vec<DatabaseSource>,
        model: Model,
        seed: Option<u64>,
        limits: Limits,
        settings: RemoteSettings,
    ) -> Result<Self, AddDatabaseError> {
        let mut uuids = uuid_source(seed, 0);
        let locks = Arc::<Mutex<Locks>>::default();
        let id = uuids.next_uuid();
        let server_database =
            server_database::create(uuid_source(seed, 4 << 32), uuid_source(seed, 5 << 32));
        let server_database = ServedDatabase::reserved(server_database, locks.clone());
        let server = Self {
            id: Mutex::new(id),
            uuids: Mutex::new(uuids),
            databases: DatabaseSet::new(Arc::new(server_database)),
            model,
            has_had_cluster: AtomicBool::new(model == Model::Clustered),
            locks,
            sessions: DashMap::new(),
            next_session: AtomicU64::new(1),
            next_owner_transaction: AtomicU64::new(1),
            faults: Arc::default(),
            is_up: AtomicBool::new(true),
            supports_monitor_cond: AtomicBool::new(true),
            session_ended: Notify::new(),
            connection_permits: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            peers: Arc::default(),
            budget: ByteBudget::new(limits.memory),
            seed,
            limits: Arc::new(limits),
            #[cfg(feature = "tls")]
            tls: Tls::new(settings.tls.clone()),
            replication: Replication::default(),
            settings,
        };
        for source in sources {
            server.add_database(source)?;
        }
        server.databases.end_start();
        Ok(server)
    }

    /// The server's id (`get_server_id` in ovsdb-server(7)).
    pub(crate) fn id(&self) -> Uuid {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the server another id, as after a restart, and returns it.
    pub(crate) fn renew_id(&self) -> Uuid {
        let id = self.next_uuid();
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
        id
    }

    /// Draws an id from the server's source.
    fn next_uuid(&self) -> Uuid {
        let mut uuids = self.uuids.lock().unwrap_or_else(PoisonError::into_inner);
        uuids.next_uuid()
    }

    /// `true` if clients may connect.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// Refuses new connections, or accepts them again.
    pub(crate) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Release);
    }

    /// Ends all sessions at once, and returns when they have ended.
    pub(crate) async fn cut_off_sessions(&self) {
        loop {
            let ended = self.session_ended.notified();
            if self.sessions.is_empty() {
                return;
            }
            for session in &self.sessions {
                session.outbox().cut_off();
            }
            ended.await;
        }
    }

    /// Cancels all monitors and waiting transactions, and closes all connections. Returns when they
    /// are closed, or after [`SHUT_DOWN_TIMEOUT`].
    pub(crate) async fn shut_down(&self) {
        for name in self.databases.names_in_hash_order() {
            if let Some(database) = self.databases.get(&name) {
                database.remove().reply_to_transactions();
            }
        }
        self.close_sessions(|_| true);
        let all = self.limits.connections.min(Semaphore::MAX_PERMITS);
        let places = u32::try_from(all).unwrap_or(u32::MAX);
        let closed = self.connection_permits.acquire_many(places);
        // A client that does not read its messages keeps its connection until the process ends.
        drop(timeout(SHUT_DOWN_TIMEOUT, closed).await);
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn settings(&self) -> &RemoteSettings {
        &self.settings
    }

    /// Logs the reason if a remote needs keys that cannot be used.
    #[cfg(feature = "tls")]
    pub(crate) fn check_keys(&self, target: &str) {
        if needs_tls(target) {
            let is_listener = target.starts_with("pssl:");
            self.tls.log_unusable_keys(&self.databases, is_listener);
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Admits a connection of a peer. `None`: the server is down, or the server or the peer has as
    /// many connections as it may.
    pub(crate) fn admit(&self, peer: Peer) -> Option<Place> {
        if !self.is_up() {
            return None;
        }
        let Ok(permit) = self.connection_permits.clone().try_acquire_owned() else {
            let limit = self.limits.connections;
            tracing::warn!(limit, "too many connections: refusing one");
            return None;
        };
        let limit = self.limits.connections_per_peer;
        let Some(counted) = self.peers.add(peer, limit) else {
            tracing::warn!(?peer, limit, "too many connections of one peer: refusing one");
            return None;
        };
        Some(Place { _permit: permit, _peer: counted })
    }

    /// The budget in bytes of all connections.
    pub(crate) fn budget(&self) -> &Arc<ByteBudget> {
        &self.budget
    }

    pub(crate) fn database(&self, name: &str) -> Option<Arc<ServedDatabase>> {
        self.databases.get(name)
    }

    pub(crate) fn databases(&self) -> &DatabaseSet {
        &self.databases
    }

    /// The model of databases that have no file.
    pub(crate) fn model(&self) -> Model {
        self.model
    }

    /// `true` once there has been a clustered database: the commands of clusters are known.
    #[cfg(feature = "unixctl")]
    pub(crate) fn has_had_cluster(&self) -> bool {
        self.has_had_cluster.load(Ordering::Relaxed)
    }

    fn locks(&self) -> &Arc<Mutex<Locks>> {
        &self.locks
    }

    pub(crate) fn lock_table(&self) -> MutexGuard<'_, Locks> {
        // Each change of the table is one call that does not panic after a part of it.
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(any(feature = "control-api", feature = "unixctl"))]
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<SessionHandle>> {
        self.sessions.get(&id).map(|session| session.clone())
    }

    /// The open connections, in the order in which they were made.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<_> =
            self.sessions.iter().map(|session| ConnectionId(session.id())).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Sets a fault.
    pub(crate) fn set_fault(&self, rule: FaultRule) -> Result<FaultId, SetFaultError> {
        if let Connections::One(connection) = rule.connections
            && !self.sessions.contains_key(&connection.0)
        {
            return Err(NoConnection(connection).into());
        }
        let is_drop = rule.fault == Fault::Drop;
        let too_many = SetFaultError::TooMany { limit: MAX_FAULTS };
        let id = self.faults.set(rule).ok_or(too_many)?;
        if is_drop {
            self.sessions
                .iter()
                .filter(|session| self.faults.drops_connection(session.id()))
                .for_each(|session| session.outbox().cut_off());
        }
        Ok(id)
    }

    /// Registers a new session of a remote with these options, with a client whose certificate has
    /// this common name.
    pub(crate) fn connect(
        &self,
        options: watch::Receiver<RemoteOptions>,
        peer_name: Option<String>,
    ) -> Arc<SessionHandle> {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(SessionHandle::new(
            SessionId(number),
            self.faults.clone(),
            self.limits.clone(),
            &self.budget,
            self.settings.release,
            options,
            peer_name,
        ));
        self.sessions.insert(session.id(), session.clone());
        self.faults.add_connection(session.id());
        session
    }

    /// Removes a session's monitors and waiting transactions, when it is the session's turn.
    pub(crate) async fn leave_databases(&self, session: SessionId) {
        for database in self.databases.all().values() {
            let leave = || database.remove_session(session);
            database.in_turn(|_| false, leave).await;
        }
    }

    /// Unregisters a session and releases what it holds. `has_left`: it has
    /// [left the databases](Self::leave_databases).
    pub(crate) fn disconnect(&self, session: SessionId, has_left: bool) {
        self.sessions.remove(&session);
        self.faults.remove_connection(session);
        if has_left {
            self.release_locks(session);
        } else {
            self.release(session);
        }
        self.session_ended.notify_waiters();
    }

    /// Ends a session's monitors and waiting transactions, and gives its locks to the next
    /// sessions.
    fn release(&self, session: SessionId) {
        for database in self.databases.all().values() {
            database.remove_session(session);
        }
        self.release_locks(session);
    }

    /// Gives a session's locks to the next sessions.
    fn release_locks(&self, session: SessionId) {
        // Locked until the owners are notified, so that notifications are in the order of events.
        let mut locks = self.lock_table();
        for (lock, owner) in locks.remove_session(session) {
            if let Some(owner) = self.session(owner) {
                owner.notify_lock("locked", &lock);
            }
        }
    }

    /// Closes the connections of all clients that are not aware of changes of databases.
    pub(crate) fn close_unaware_sessions(&self) {
        self.close_sessions(|session| !session.is_change_aware());
    }

    /// Closes all connections.
    #[cfg(feature = "unixctl")]
    pub(crate) fn close_all_sessions(&self) {
        self.close_sessions(|_| true);
    }

    /// Closes the connections of selected sessions, in the order in which they were made. When this
    /// returns, their locks have other owners.
    pub(crate) fn close_sessions(&self, is_selected: impl Fn(&SessionHandle) -> bool) {
        for session in self.select_sessions(is_selected) {
            self.close_session(&session);
        }
    }

    /// Returns selected sessions in the order in which they were made.
    pub(crate) fn select_sessions(
        &self,
        is_selected: impl Fn(&SessionHandle) -> bool,
    ) -> Vec<Arc<SessionHandle>> {
        let mut selected: Vec<_> = self
            .sessions
            .iter()
            .map(|session| session.clone())
            .filter(|session| is_selected(session))
            .collect();
        selected.sort_unstable_by_key(|session| session.id());
        selected
    }

    /// Closes the connection of a session. When this returns, its locks have other owners.
    pub(crate) fn close_session(&self, session: &SessionHandle) {
        session.outbox().close();
        self.release(session.id());
    }

    /// `true` if the server knows `monitor_cond` and `monitor_cond_since`.
    pub(crate) fn supports_monitor_cond(&self) -> bool {
        self.supports_monitor_cond.load(Ordering::Relaxed)
    }

    /// Makes the server answer like one without `monitor_cond` and `monitor_cond_since`, and closes
    /// all connections.
    #[cfg(feature = "unixctl")]
    pub(crate) fn disable_monitor_cond(&self) {
        self.supports_monitor_cond.store(false, Ordering::Relaxed);
        self.close_all_sessions();
    }

    /// The source of the UUIDs of row versions in a database.
    fn database_uuids(&self, number: u64) -> UuidSource {
        uuid_source(self.seed, number)
    }

    /// The source of the ids of a database's transactions.
    fn history_uuids(&self, number: u64) -> UuidSource {
        uuid_source(self.seed, 2 << 32 | number)
    }

    /// The source of the UUID of a database's row in `_Server`.
    fn server_row_uuids(&self, number: u64) -> UuidSource {
        uuid_source(self.seed, 5 << 32 | number)
    }

    /// The source of UUIDs for the next transaction of the server's owner.
    pub(crate) fn owner_uuids(&self) -> UuidSource {
        let number = self.next_owner_transaction.fetch_add(1, Ordering::Relaxed);
        uuid_source(self.seed, 3 << 32 | number)
    }

    /// The source of UUIDs for the rows that a session inserts.
    pub(crate) fn session_uuids(&self, session: SessionId) -> UuidSource {
        uuid_source(self.seed, 1 << 32 | session.0)
    }
}

/// Makes a source of UUIDs. Different users of one seed get different sequences.
fn uuid_source(seed: Option<u64>, user: u64) -> UuidSource {
    seed.map_or_else(UuidSource::random, |seed| {
        UuidSource::seeded(seed ^ user.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}
