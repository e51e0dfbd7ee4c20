//! What all sessions share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dashmap::DashMap;
use patchbay_schemas::uuids::UuidSource;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use crate::databases::Databases;
use crate::fault::{ConnectionId, Connections, Fault, FaultId, FaultRule, Faults};
use crate::file::Source;
use crate::hosted::Hosted;
use crate::listen::{Endpoint, ListenError};
use crate::lock::Locks;
use crate::model::Model;
use crate::server_database;
use crate::session::{Session, SessionId};

/// Limits that keep a server's memory bounded whatever clients do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest message that is read, in bytes.
    pub message: usize,
    /// So many bytes of replies may wait for a client that reads slowly before its connection is closed; a longer reply
    /// ends the connection too. Changes that its monitors report are not among them: they are merged until it reads.
    pub backlog: usize,
    /// How many connections are served at once.
    pub connections: usize,
    /// How many locks a connection may own or wait for.
    pub locks: usize,
    /// How many monitors a connection may have of all databases.
    pub monitors: usize,
    /// How many transactions of a connection may wait in a database.
    pub blocked: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 1 << 30,
            backlog: 1 << 30,
            connections: 4096,
            locks: 1 << 16,
            monitors: 1 << 16,
            blocked: 1 << 16,
        }
    }
}

/// There is no such connection, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no connection {0}")]
pub struct NoConnection(pub ConnectionId);

/// The databases, locks and sessions of one server.
#[derive(Debug)]
pub(crate) struct Server {
    id: Mutex<Uuid>,
    /// Where the next id comes from.
    uuids: Mutex<UuidSource>,
    databases: Databases,
    model: Model,
    locks: Mutex<Locks>,
    /// Written by sessions as they come and go, read by the control API meanwhile.
    sessions: DashMap<SessionId, Arc<Session>>,
    next_session: AtomicU64,
    /// The number of the next transaction of the server's owner.
    next_owner: AtomicU64,
    faults: Faults,
    endpoints: Mutex<Vec<Weak<Endpoint>>>,
    /// Whether clients may connect.
    up: AtomicBool,
    /// Whether the methods that came with OVS 2.6 are known.
    monitor_cond: AtomicBool,
    /// A session has ended.
    left: Notify,
    /// One for each connection that may still be made.
    places: Arc<Semaphore>,
    seed: Option<u64>,
    limits: Limits,
}

impl Server {
    /// A server of these databases and `_Server`.
    pub(crate) fn new(
        sources: Vec<Source>,
        model: Model,
        seed: Option<u64>,
        limits: Limits,
    ) -> anyhow::Result<Self> {
        let mut uuids = source(seed, 0);
        let server = Self {
            id: Mutex::new(uuids.next_uuid()),
            uuids: Mutex::new(uuids),
            databases: Databases::new(server_database::create(
                source(seed, 4 << 32),
                source(seed, 5 << 32),
            )?),
            model,
            locks: Mutex::default(),
            sessions: DashMap::new(),
            next_session: AtomicU64::new(1),
            next_owner: AtomicU64::new(1),
            faults: Faults::default(),
            endpoints: Mutex::default(),
            up: AtomicBool::new(true),
            monitor_cond: AtomicBool::new(true),
            left: Notify::new(),
            places: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            seed,
            limits,
        };
        for source in sources {
            server.add_database(source)?;
        }
        Ok(server)
    }

    pub(crate) fn id(&self) -> Uuid {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws another id, as a server that is started anew does.
    pub(crate) fn renew_id(&self) -> Uuid {
        let id = self.next_uuid();
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
        id
    }

    /// Draws an id that the server gives to something.
    pub(crate) fn next_uuid(&self) -> Uuid {
        let mut uuids = self.uuids.lock().unwrap_or_else(PoisonError::into_inner);
        uuids.next_uuid()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub(crate) fn add_endpoint(&self, endpoint: &Arc<Endpoint>) {
        let mut endpoints = self.endpoint_list();
        endpoints.retain(|known| known.strong_count() > 0);
        endpoints.push(Arc::downgrade(endpoint));
    }

    fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.endpoint_list()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn endpoint_list(&self) -> MutexGuard<'_, Vec<Weak<Endpoint>>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections and lets nobody connect; returns when that is so.
    pub(crate) async fn go_down(&self) {
        self.up.store(false, Ordering::Release);
        for endpoint in self.endpoints() {
            endpoint.close().await;
        }
        loop {
            let left = self.left.notified();
            if self.sessions.is_empty() {
                return;
            }
            for session in &self.sessions {
                session.outbox().cut_off();
            }
            left.await;
        }
    }

    /// Serves clients again, at the same places.
    pub(crate) async fn come_back(self: &Arc<Self>) -> Result<(), ListenError> {
        self.up.store(true, Ordering::Release);
        for endpoint in self.endpoints() {
            endpoint.open(self).await?;
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn places(&self) -> &Arc<Semaphore> {
        &self.places
    }

    pub(crate) fn database(&self, name: &str) -> Option<Arc<Hosted>> {
        self.databases.get(name)
    }

    pub(crate) fn databases(&self) -> &Databases {
        &self.databases
    }

    /// How databases are kept.
    pub(crate) fn model(&self) -> Model {
        self.model
    }

    pub(crate) fn locks(&self) -> &Mutex<Locks> {
        &self.locks
    }

    pub(crate) fn lock_table(&self) -> MutexGuard<'_, Locks> {
        // Each change of the table is one call that does not panic half way.
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn session_count(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        self.sessions.get(&id).map(|session| session.clone())
    }

    /// The open connections, the oldest first.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        let ids = self
            .sessions
            .iter()
            .map(|session| ConnectionId(session.id()));
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Sets a fault.
    pub(crate) fn set_fault(&self, rule: FaultRule) -> Result<FaultId, NoConnection> {
        if let Connections::One(connection) = rule.connections
            && !self.sessions.contains_key(&connection.0)
        {
            return Err(NoConnection(connection));
        }
        let drops = rule.fault == Fault::Drop;
        let id = self.faults.set(rule);
        if drops {
            let to_drop = |session: &Arc<Session>| self.faults.drops(session.id());
            self.sessions
                .iter()
                .filter(|session| to_drop(session))
                .for_each(|session| session.outbox().cut_off());
        }
        Ok(id)
    }

    /// Registers a new session.
    pub(crate) fn connect(self: &Arc<Self>) -> Arc<Session> {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Session::new(SessionId(number), self.clone()));
        self.sessions.insert(session.id(), session.clone());
        self.faults.connected(session.id());
        session
    }

    /// Forgets a session.
    pub(crate) fn disconnect(&self, session: &Session) {
        self.sessions.remove(&session.id());
        self.faults.disconnected(session.id());
        self.release(session.id());
        self.left.notify_waiters();
    }

    /// Ends a session's monitors and waiting transactions and gives its locks to others.
    fn release(&self, session: SessionId) {
        for database in self.databases.all().values() {
            database.disconnect(session);
        }
        let owners = self.lock_table().disconnect(session);
        for (lock, owner) in owners {
            if let Some(owner) = self.session(owner) {
                owner.notify_lock("locked", &lock);
            }
        }
    }

    /// Hangs up on all clients that would not understand that databases change.
    pub(crate) fn close_unaware_sessions(&self) {
        self.close(|session| !session.is_change_aware());
    }

    /// Hangs up on all clients, so that they connect anew.
    pub(crate) fn close_sessions(&self) {
        self.close(|_| true);
    }

    /// Ends sessions, the oldest first; their locks have other owners when this returns.
    pub(crate) fn close(&self, is_meant: impl Fn(&Session) -> bool) {
        let sessions = self.sessions.iter().map(|session| session.clone());
        let mut meant: Vec<_> = sessions.filter(|session| is_meant(session)).collect();
        meant.sort_unstable_by_key(|session| session.id());
        for session in meant {
            session.outbox().close();
            self.release(session.id());
        }
    }

    /// Whether clients may monitor with conditions.
    pub(crate) fn knows_monitor_cond(&self) -> bool {
        self.monitor_cond.load(Ordering::Relaxed)
    }

    /// Answers from now on as an old server that does not know of conditions, for tests of clients.
    pub(crate) fn disable_monitor_cond(&self) {
        self.monitor_cond.store(false, Ordering::Relaxed);
        self.close_sessions();
    }

    /// The source of the UUIDs that a database gives to versions of rows.
    pub(crate) fn database_uuids(&self, number: u64) -> UuidSource {
        source(self.seed, number)
    }

    /// The source of the ids of a database's transactions.
    pub(crate) fn history_uuids(&self, number: u64) -> UuidSource {
        source(self.seed, 2 << 32 | number)
    }

    /// The source of the UUID of a database's row in `_Server`.
    pub(crate) fn listing_uuids(&self, number: u64) -> UuidSource {
        source(self.seed, 5 << 32 | number)
    }

    /// A source of UUIDs for a transaction of the server's owner.
    pub(crate) fn owner_uuids(&self) -> UuidSource {
        let number = self.next_owner.fetch_add(1, Ordering::Relaxed);
        source(self.seed, 3 << 32 | number)
    }

    /// The source of a session's UUIDs.
    pub(crate) fn uuids(&self, session: SessionId) -> UuidSource {
        source(self.seed, 1 << 32 | session.0)
    }
}

/// Different users of one seed get different sequences.
fn source(seed: Option<u64>, user: u64) -> UuidSource {
    seed.map_or_else(UuidSource::random, |seed| {
        UuidSource::seeded(seed ^ user.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}
