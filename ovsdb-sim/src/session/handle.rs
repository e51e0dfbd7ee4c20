//! The part of a session that its server, databases and other sessions use.

use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchbay_engine::db::ServerRelease;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::budget::{ByteBudget, ConnectionBudget, HeldBytes};
use crate::chunk::Chunk;
use crate::fault::Faults;
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::rbac::RestrictedClient;
use crate::remotes::options::RemoteOptions;
use crate::reply;
use crate::session::id::SessionId;
use crate::session::monitors::SessionMonitors;

/// Upper bound of an injected delay; `Instant + MAX_FAULT_DELAY` cannot overflow.
const MAX_FAULT_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Handle of a session: its outbox, and the state that a commit, a conversion or another session
/// may change.
///
/// A handle knows neither the server nor a database, so that both can hold handles.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    id: SessionId,
    outbox: Outbox,
    faults: Arc<Faults>,
    limits: Arc<Limits>,
    /// Release of ovsdb-server whose words errors have.
    release: ServerRelease,
    /// Options of the session's remote.
    options: watch::Receiver<RemoteOptions>,
    /// Common name in the client's certificate. `None`: the client has none.
    peer_name: Option<String>,
    monitors: Mutex<SessionMonitors>,
    /// Request ids of the session's waiting transactions in all databases.
    waiting: Mutex<HashSet<Arc<Json>, RandomState>>,
    /// Budget of what the client leaves behind.
    budget: Arc<ConnectionBudget>,
    /// `true` after `set_db_change_aware`: the client is notified of databases that change, and
    /// its connection stays open.
    change_aware: AtomicBool,
}

impl SessionHandle {
    pub(crate) fn new(
        id: SessionId,
        faults: Arc<Faults>,
        limits: Arc<Limits>,
        budget: &Arc<ByteBudget>,
        release: ServerRelease,
        options: watch::Receiver<RemoteOptions>,
        peer_name: Option<String>,
    ) -> Self {
        Self {
            id,
            outbox: Outbox::new(limits.backlog, limits.connection_memory, budget.charge()),
            budget: ConnectionBudget::new(limits.connection_memory, budget),
            faults,
            limits,
            release,
            options,
            peer_name,
            monitors: Mutex::default(),
            waiting: Mutex::default(),
            change_aware: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn release(&self) -> ServerRelease {
        self.release
    }

    /// `true` if the client may neither change databases nor use locks.
    pub(crate) fn is_read_only(&self) -> bool {
        self.options.borrow().is_read_only
    }

    /// The client with its role. `None`: the client may do everything.
    pub(crate) fn restricted_client(&self) -> Option<RestrictedClient<'_>> {
        let role = self.options.borrow().role.clone();
        let role = role.filter(|role| !role.is_empty())?;
        Some(RestrictedClient::new(role, self.peer_name.as_deref(), self.release))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Charges bytes that the client leaves behind.
    ///
    /// # Errors
    /// The client, or all clients together, would leave behind more than they may.
    pub(crate) fn hold(&self, bytes: usize) -> Result<HeldBytes, OvsdbError> {
        self.budget.hold(bytes).map_err(OvsdbError::from)
    }

    /// Sends the reply to a request.
    pub(crate) fn reply(&self, reply: Chunk) {
        self.reply_in_pieces([reply]);
    }

    /// Sends the reply to a request as several chunks.
    pub(crate) fn reply_in_pieces(&self, reply: impl IntoIterator<Item = Chunk>) {
        let delay = self.faults.delay(self.id);
        let begin = delay.map(|by| Chunk::NotBefore(Instant::now() + by.min(MAX_FAULT_DELAY)));
        self.outbox.push(begin.into_iter().chain(reply));
    }

    /// Locks the session's monitors. This lock is taken before the lock of a database.
    pub(crate) fn monitors(&self) -> MutexGuard<'_, SessionMonitors> {
        // Each change is one call.
        self.monitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the request ids of waiting transactions. This lock is taken after the lock of a
    /// database.
    fn waiting(&self) -> MutexGuard<'_, HashSet<Arc<Json>, RandomState>> {
        // Each change is one call.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the transaction of this request id waits.
    pub(crate) fn add_waiting(&self, id: Arc<Json>) {
        self.waiting().insert(id);
    }

    /// Frees the request id of a waiting transaction, before the client can see its end.
    pub(crate) fn remove_waiting(&self, id: &Json) {
        self.waiting().remove(id);
    }

    /// `true` if a transaction of this request id waits in any database.
    pub(crate) fn is_waiting(&self, id: &Json) -> bool {
        self.waiting().contains(id)
    }

    /// The number of waiting transactions in all databases.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting().len()
    }

    /// `true` if any transaction of the session waits.
    pub(crate) fn has_waiting_transactions(&self) -> bool {
        !self.waiting().is_empty()
    }

    pub(crate) fn is_change_aware(&self) -> bool {
        self.change_aware.load(Ordering::Relaxed)
    }

    pub(crate) fn set_change_aware(&self, aware: bool) {
        self.change_aware.store(aware, Ordering::Relaxed);
    }

    /// Removes a monitor that the server canceled, and notifies the client (`monitor_canceled` in
    /// ovsdb-server(7)).
    pub(crate) fn cancel_monitor(&self, id: &Json) {
        self.monitors().remove(id);
        let params = Json::Array(vec![id.clone()]);
        self.outbox.push([reply::notification("monitor_canceled", &params)]);
    }

    /// Notifies the client that it owns a lock now (`locked`) or lost it (`stolen`), RFC 7047
    /// §4.1.9 and §4.1.10.
    pub(crate) fn notify_lock(&self, method: &str, lock: &str) {
        let params = Json::Array(vec![Json::string(lock)]);
        self.outbox.push([reply::notification(method, &params)]);
    }
}
