//! Transactions whose `wait` is not satisfied: they are tried again, from their first operation, after every
//! change and at their deadline.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patchbay_engine::db::{Access, Execution};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::DecodedTransaction;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::lock::Locks;
use crate::reply;
use crate::session::{Session, SessionId};

use super::{Hosted, State};

/// A transaction that waits.
#[derive(Debug)]
pub(super) struct Blocked {
    session: Arc<Session>,
    id: Json,
    transaction: DecodedTransaction,
    arrived: Instant,
    /// When it is tried again even if nothing changes.
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    /// Milliseconds after the arrival.
    deadline: u64,
    task: AbortHandle,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an attempt at a transaction came to.
enum Attempt {
    Done { changed: bool },
    Blocked { deadline: Option<u64> },
}

impl Blocked {
    /// Answers that the transaction is not executed: a client that is aware of changes may try again.
    pub(super) fn refuse(&self) {
        if self.session.is_change_aware() {
            let error = Json::string("canceled");
            self.session
                .outbox()
                .push([reply::failure(&self.id, &error)]);
        }
    }

    fn is(&self, session: SessionId, id: &Json) -> bool {
        self.session.id() == session && self.id == *id
    }
}

impl Hosted {
    /// Executes a client's transaction and sends the reply, now or when its `wait` is over. It was decoded for
    /// `schema`, which must still be the database's.
    pub(crate) fn transact(
        self: &Arc<Self>,
        session: &Arc<Session>,
        id: Json,
        transaction: DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
    ) {
        let transaction = Blocked {
            session: session.clone(),
            id,
            transaction,
            arrived: Instant::now(),
            timer: None,
        };
        let mut state = self.state();
        if !Arc::ptr_eq(schema, state.database.schema()) {
            transaction.refuse();
            return;
        }
        if self.attempt_or_block(&mut state, transaction) {
            self.retry_blocked(&mut state);
        }
    }

    /// Whether a request of this id of this session is still waiting.
    pub(crate) fn is_blocked(&self, session: SessionId, id: &Json) -> bool {
        self.state()
            .blocked
            .iter()
            .any(|blocked| blocked.is(session, id))
    }

    /// Forgets a waiting transaction; whether there was one.
    pub(crate) fn cancel(&self, session: SessionId, id: &Json) -> bool {
        let mut state = self.state();
        let at = state
            .blocked
            .iter()
            .position(|blocked| blocked.is(session, id));
        let Some(at) = at else { return false };
        state.blocked.remove(at).refuse();
        true
    }

    /// Tries all waiting transactions again, until none of them changes anything.
    pub(super) fn retry_blocked(self: &Arc<Self>, state: &mut State) {
        loop {
            let mut changed = false;
            for blocked in std::mem::take(&mut state.blocked) {
                changed |= self.attempt_or_block(state, blocked);
            }
            if !changed {
                return;
            }
        }
    }

    /// Executes a transaction, or puts it at the end of the line. Whether it changed something.
    fn attempt_or_block(self: &Arc<Self>, state: &mut State, mut transaction: Blocked) -> bool {
        match self.attempt(state, &transaction) {
            Attempt::Done { changed } => changed,
            Attempt::Blocked { deadline } => {
                self.set_timer(&mut transaction, deadline);
                state.blocked.push(transaction);
                false
            }
        }
    }

    fn set_timer(self: &Arc<Self>, blocked: &mut Blocked, deadline: Option<u64>) {
        if blocked.timer.as_ref().map(|timer| timer.deadline) == deadline {
            return;
        }
        blocked.timer = deadline.and_then(|deadline| {
            // What lies beyond the clock's end never comes.
            let at = blocked
                .arrived
                .checked_add(Duration::from_millis(deadline))?;
            let (hosted, session, id) = (self.clone(), blocked.session.id(), blocked.id.clone());
            let task = tokio::spawn(async move {
                sleep_until(at).await;
                hosted.wake(session, &id);
            });
            Some(Timer {
                deadline,
                task: task.abort_handle(),
            })
        });
    }

    /// Tries one waiting transaction again.
    fn wake(self: &Arc<Self>, session: SessionId, id: &Json) {
        let mut state = self.state();
        let Some(at) = state
            .blocked
            .iter()
            .position(|blocked| blocked.is(session, id))
        else {
            return;
        };
        let mut blocked = state.blocked.remove(at);
        match self.attempt(&mut state, &blocked) {
            Attempt::Done { changed: true } => self.retry_blocked(&mut state),
            Attempt::Done { changed: false } => {}
            Attempt::Blocked { deadline } => {
                self.set_timer(&mut blocked, deadline);
                state.blocked.insert(at, blocked);
            }
        }
    }

    fn attempt(&self, state: &mut State, blocked: &Blocked) -> Attempt {
        let Blocked {
            session,
            id,
            transaction,
            arrived,
            ..
        } = blocked;
        let locks: &Mutex<Locks> = session.server().locks();
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
        let (results, error, changed) = match execution {
            Execution::Committed { results, changes } => {
                // A client sees its own changes before the reply.
                let changed = !changes.rows.is_empty();
                let published = if changed {
                    state.committed(transaction, &changes)
                } else {
                    Ok(())
                };
                let changed = changed && published.is_ok();
                (results, published.err(), changed)
            }
            Execution::Failed { results, error } => (results, Some(error), false),
            Execution::Blocked { deadline } => return Attempt::Blocked { deadline },
        };
        let schema = state.database.schema();
        let total = transaction.total;
        let reply = reply::transaction(id, schema, &results, error.as_ref(), total);
        session.outbox().push([reply]);
        Attempt::Done { changed }
    }
}

impl State {
    /// Forgets the waiting transactions of a session.
    pub(super) fn forget_blocked(&mut self, session: SessionId) {
        self.blocked
            .retain(|blocked| blocked.session.id() != session);
    }
}
