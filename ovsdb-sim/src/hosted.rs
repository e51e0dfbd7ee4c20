//! One hosted database: executes transactions one at a time and tells the monitors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchbay_engine::db::{Access, ChangeSet, Database, Execution, OperationResult, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::DecodedTransaction;
use tokio::time::Instant;

use crate::file::{self, Journal};
use crate::lock::Locks;
use crate::monitor::Monitors;
use crate::reply;
use crate::session::{Session, SessionId};

/// A database and everything that hangs on its commits.
#[derive(Debug)]
pub(crate) struct Hosted {
    name: String,
    /// `_Server` can only be read.
    reserved: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    database: Database,
    journal: Option<Journal>,
    pub(crate) monitors: Monitors,
    /// Transactions whose `wait` is not satisfied, in order of arrival.
    blocked: Vec<Blocked>,
    /// Transactions that changed something.
    commits: u64,
}

#[derive(Debug)]
struct Blocked {
    session: Arc<Session>,
    id: Json,
    transaction: DecodedTransaction,
    arrived: Instant,
}

impl Hosted {
    pub(crate) fn new(database: Database, journal: Option<Journal>, reserved: bool) -> Self {
        let name = database.schema().name.clone();
        let state = State {
            database,
            journal,
            monitors: Monitors::default(),
            blocked: Vec::new(),
            commits: 0,
        };
        Self {
            name,
            reserved,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn schema(&self) -> Arc<DatabaseSchema> {
        self.state().database.schema().clone()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().database.snapshot()
    }

    /// How many transactions changed something.
    pub(crate) fn commits(&self) -> u64 {
        self.state().commits
    }

    /// The state, for as long as the guard lives. Nothing is executed meanwhile.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic inside a transaction would leave its overlay unpublished: the state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a client's transaction and sends the reply, now or when its `wait` is over.
    pub(crate) fn transact(
        self: &Arc<Self>,
        session: &Arc<Session>,
        locks: &Mutex<Locks>,
        id: Json,
        transaction: DecodedTransaction,
    ) {
        let blocked = Blocked {
            session: session.clone(),
            id,
            transaction,
            arrived: Instant::now(),
        };
        let mut state = self.state();
        match self.attempt(&mut state, locks, &blocked) {
            Attempt::Done { changed: true } => self.retry_blocked(&mut state, locks),
            Attempt::Done { changed: false } => {}
            Attempt::Blocked { deadline } => {
                if let Some(deadline) = deadline {
                    self.wake_at(
                        session,
                        locks,
                        blocked.id.clone(),
                        blocked.arrived + Duration::from_millis(deadline),
                    );
                }
                state.blocked.push(blocked);
            }
        }
    }

    /// Executes operations for the owner of the server.
    pub(crate) fn execute(
        self: &Arc<Self>,
        locks: &Mutex<Locks>,
        transaction: &DecodedTransaction,
    ) -> Result<(Vec<OperationResult>, ChangeSet), Option<OvsdbError>> {
        let mut state = self.state();
        match state.database.execute(transaction, &Access::unrestricted()) {
            Execution::Committed { results, changes } => {
                if !changes.rows.is_empty() {
                    state.committed(transaction, &changes).map_err(Some)?;
                    self.retry_blocked(&mut state, locks);
                }
                Ok((results, changes))
            }
            Execution::Failed { error, .. } => Err(Some(error)),
            Execution::Blocked { .. } => Err(None),
        }
    }

    /// Whether a request of this id of this session is still waiting.
    pub(crate) fn is_blocked(&self, session: SessionId, id: &Json) -> bool {
        self.state()
            .blocked
            .iter()
            .any(|blocked| blocked.session.id() == session && blocked.id == *id)
    }

    /// Forgets a waiting transaction; whether there was one.
    pub(crate) fn cancel(&self, session: SessionId, id: &Json) -> bool {
        let mut state = self.state();
        let before = state.blocked.len();
        state
            .blocked
            .retain(|blocked| blocked.session.id() != session || blocked.id != *id);
        state.blocked.len() < before
    }

    /// Forgets all that belongs to a session.
    pub(crate) fn disconnect(&self, session: SessionId) {
        let mut state = self.state();
        state
            .blocked
            .retain(|blocked| blocked.session.id() != session);
        state.monitors.remove_session(session);
    }

    /// Tries all waiting transactions again, until none of them changes anything.
    fn retry_blocked(self: &Arc<Self>, state: &mut State, locks: &Mutex<Locks>) {
        loop {
            let mut changed = false;
            for blocked in std::mem::take(&mut state.blocked) {
                match self.attempt(state, locks, &blocked) {
                    Attempt::Done { changed: this } => changed |= this,
                    Attempt::Blocked { .. } => state.blocked.push(blocked),
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Tries a waiting transaction again at its deadline.
    fn wake_at(
        self: &Arc<Self>,
        session: &Arc<Session>,
        locks: &Mutex<Locks>,
        id: Json,
        deadline: Instant,
    ) {
        let (hosted, session_id, server) = (self.clone(), session.id(), session.server().clone());
        debug_assert!(
            std::ptr::eq(locks, server.locks()),
            "a session's transactions use its server's locks"
        );
        tokio::spawn(async move {
            tokio::time::sleep_until(deadline).await;
            let mut state = hosted.state();
            let waiting = state
                .blocked
                .iter()
                .position(|b| b.session.id() == session_id && b.id == id);
            let Some(at) = waiting else { return };
            let blocked = state.blocked.remove(at);
            match hosted.attempt(&mut state, server.locks(), &blocked) {
                Attempt::Done { changed: true } => hosted.retry_blocked(&mut state, server.locks()),
                Attempt::Done { changed: false } => {}
                Attempt::Blocked { .. } => state.blocked.insert(at, blocked),
            }
        });
    }

    fn attempt(&self, state: &mut State, locks: &Mutex<Locks>, blocked: &Blocked) -> Attempt {
        let Blocked {
            session,
            id,
            transaction,
            arrived,
        } = blocked;
        let owns_lock = |lock: &str| {
            locks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .owns(session.id(), lock)
        };
        let reason = format!("not allowed on table in reserved database {}", self.name);
        let access = Access {
            read_only: self.reserved.then_some(&*reason),
            owns_lock: &owns_lock,
            elapsed: arrived.elapsed().as_millis() as u64,
        };
        let execution = state.database.execute(transaction, &access);
        let schema = state.database.schema().clone();
        match execution {
            Execution::Committed { results, changes } => {
                // A client sees its own changes before the reply.
                let changed = !changes.rows.is_empty();
                let published = if changed {
                    state.committed(transaction, &changes)
                } else {
                    Ok(())
                };
                session.outbox().push([reply::transaction(
                    id,
                    &schema,
                    &results,
                    published.as_ref().err(),
                    transaction.total,
                )]);
                Attempt::Done {
                    changed: changed && published.is_ok(),
                }
            }
            Execution::Failed { results, error } => {
                session.outbox().push([reply::transaction(
                    id,
                    &schema,
                    &results,
                    Some(&error),
                    transaction.total,
                )]);
                Attempt::Done { changed: false }
            }
            Execution::Blocked { deadline } => Attempt::Blocked { deadline },
        }
    }
}

impl State {
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Makes a commit that changed something known: to the journal, then to the monitors.
    ///
    /// # Errors
    /// It could not be written and is taken back.
    fn committed(
        &mut self,
        transaction: &DecodedTransaction,
        changes: &ChangeSet,
    ) -> Result<(), OvsdbError> {
        let schema = self.database.schema().clone();
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(&schema, &transaction.operations, changes)
        {
            if let Err(error) = self.database.transact(&file::inverse(changes)) {
                tracing::error!(database = schema.name, %error, "a failed transaction stays in memory");
            }
            return Err(error);
        }
        self.commits += 1;
        self.monitors.publish(&schema, changes);
        Ok(())
    }
}

/// What an attempt at a transaction came to.
enum Attempt {
    Done { changed: bool },
    Blocked { deadline: Option<u64> },
}
