//! Transactions whose `wait` is not satisfied: they are tried again, from their first operation, after every
//! change to the tables that they name and at their deadline.

mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patchbay_engine::db::{Access, ChangeSet, Execution};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::wire::{DecodedTransaction, Operation};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::lock::Locks;
use crate::reply;
use crate::request::exhausted;
use crate::session::{Session, SessionId};

use super::{Answered, Hosted, State};

pub(super) use line::Line;

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
    /// It is answered, and has changed rows of these tables.
    Done {
        changed: BTreeSet<TableId>,
    },
    Blocked {
        deadline: Option<u64>,
    },
}

impl Blocked {
    /// Answers that the transaction is not executed: a client that is aware of changes may try again.
    pub(super) fn refuse(&self) {
        if self.session.is_change_aware() {
            let error = Json::string("canceled");
            self.session.reply(reply::failure(&self.id, &error));
        }
    }

    /// The tables whose rows decide what comes of it; none when there is more to it.
    fn tables(&self) -> Option<BTreeSet<TableId>> {
        let mut tables = BTreeSet::new();
        for operation in &self.transaction.operations {
            if matches!(operation, Operation::Assert { .. }) {
                return None;
            }
            tables.extend(operation.table());
        }
        Some(tables)
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
        let mut transaction = Blocked {
            session: session.clone(),
            id,
            transaction,
            arrived: Instant::now(),
            timer: None,
        };
        let mut state = self.state();
        if let Err(error) = state.served() {
            session.reply(reply::failure(&transaction.id, &error.to_json()));
            return;
        }
        if !Arc::ptr_eq(schema, state.database.schema()) {
            transaction.refuse();
            return;
        }
        match self.attempt(&mut state, &mut transaction) {
            Attempt::Done { changed } => self.retry_blocked(&mut state, changed),
            Attempt::Blocked { deadline } => {
                let limit = session.server().limits().blocked;
                if state.blocked.count(session.id()) >= limit {
                    let error = exhausted("waiting transactions", limit).to_json();
                    session.reply(reply::failure(&transaction.id, &error));
                } else {
                    self.set_timer(&mut transaction, deadline);
                    state.blocked.join(transaction);
                }
            }
        }
        drop(state);
        self.update_listing_of_member();
    }

    /// Whether a request of this id of this session is still waiting.
    pub(crate) fn is_blocked(&self, session: SessionId, id: &Json) -> bool {
        self.state().blocked.place(session, id).is_some()
    }

    /// Whether any request of this session is still waiting.
    pub(crate) fn has_blocked(&self, session: SessionId) -> bool {
        self.state().blocked.count(session) > 0
    }

    /// Forgets a waiting transaction; whether there was one.
    pub(crate) fn cancel(&self, session: SessionId, id: &Json) -> bool {
        let mut state = self.state();
        let place = state.blocked.place(session, id);
        let Some(blocked) = place.and_then(|place| state.blocked.leave(place)) else {
            return false;
        };
        blocked.refuse();
        true
    }

    /// Tries the transactions that wait for changes to these tables, over and over in their order, until none of them
    /// changes anything.
    pub(super) fn retry_blocked(self: &Arc<Self>, state: &mut State, changed: BTreeSet<TableId>) {
        let mut due = BTreeSet::new();
        for table in &changed {
            due.extend(state.blocked.waiting_for(*table, ..));
        }
        // The tables whose waiters are all due, as far as they are still ahead.
        let mut all_due = changed;
        while !due.is_empty() {
            let mut last_change = BTreeMap::new();
            while let Some(place) = due.pop_first() {
                for table in self.retry(state, place) {
                    last_change.insert(table, place);
                    if all_due.insert(table) {
                        due.extend(state.blocked.waiting_for(table, place..));
                    }
                }
            }
            for (table, place) in last_change {
                due.extend(state.blocked.waiting_for(table, ..place));
            }
            all_due.clear();
        }
    }

    /// Tries a waiting transaction again: what it changed, if its `wait` is over.
    fn retry(self: &Arc<Self>, state: &mut State, place: u64) -> BTreeSet<TableId> {
        let Some(mut blocked) = state.blocked.leave(place) else {
            return BTreeSet::new();
        };
        match self.attempt(state, &mut blocked) {
            Attempt::Done { changed } => changed,
            Attempt::Blocked { deadline } => {
                self.set_timer(&mut blocked, deadline);
                state.blocked.put_back(place, blocked);
                BTreeSet::new()
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

    /// A deadline has come.
    fn wake(self: &Arc<Self>, session: SessionId, id: &Json) {
        let mut state = self.state();
        if let Some(place) = state.blocked.place(session, id) {
            let changed = self.retry(&mut state, place);
            self.retry_blocked(&mut state, changed);
        }
        drop(state);
        self.update_listing_of_member();
    }

    fn attempt(&self, state: &mut State, blocked: &mut Blocked) -> Attempt {
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
            read_only: self.listing.is_none().then_some(&*reason),
            owns_lock: &owns_lock,
            elapsed_ms: arrived.elapsed().as_millis() as u64,
        };
        // Execution takes rows out of a transaction, and without a leader it is executed once more.
        let again = (!state.role.is_connected()).then(|| transaction.clone());
        let execution = state.database.execute(transaction, &access);
        let (results, error, changed) = match execution {
            Execution::Committed { results, changes } => {
                // A client sees its own changes before the reply.
                let changed = tables(&changes);
                if let Some(again) = again
                    && !changed.is_empty()
                {
                    // As on a real member, which knows only by executing it whether a transaction needs the leader.
                    state.undo(&changes);
                    *transaction = again;
                    return Attempt::Blocked { deadline: None };
                }
                let published = if changed.is_empty() {
                    Ok(Answered::Yes)
                } else {
                    state.committed_for(session, transaction, &changes)
                };
                match published {
                    Ok(Answered::Yes) => (results, None, changed),
                    Ok(Answered::No) => return Attempt::Done { changed },
                    Err(error) => (results, Some(error), BTreeSet::new()),
                }
            }
            Execution::Failed { results, error } => (results, Some(error), BTreeSet::new()),
            Execution::Waiting {
                deadline_ms: deadline,
            } => return Attempt::Blocked { deadline },
        };
        let schema = state.database.schema();
        let total = transaction.total;
        let limit = session.outbox().limit();
        let reply = reply::transaction(id, schema, &results, error.as_ref(), total, limit);
        if let Some(reply) = reply {
            session.reply(reply);
        } else {
            tracing::warn!(limit, "a reply is too long: closing the connection");
            session.outbox().cut_off();
        }
        Attempt::Done { changed }
    }
}

/// The tables of changed rows.
pub(super) fn tables(changes: &ChangeSet) -> BTreeSet<TableId> {
    changes.rows.iter().map(|change| change.table).collect()
}
