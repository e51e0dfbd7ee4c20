//! Waiting transactions: those whose `wait` is not satisfied (RFC 7047 §5.2.6), and those that wait
//! for a leader.
//!
//! They are executed again, from their first operation, after every change to the tables that they
//! name and at their deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use patchbay_schemas::json::Json;
use patchbay_schemas::schema::TableId;
use patchbay_schemas::wire::Operation;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::limits::resources_exhausted;
use crate::long_work::run_long;
use crate::session::id::SessionId;

use super::transact::{ClientTransaction, RunOutcome};
use super::{DatabaseState, ServedDatabase};

/// Transaction in the [`WaitingQueue`](super::WaitingQueue).
#[derive(Debug)]
pub(super) struct WaitingTransaction {
    pub(super) client: ClientTransaction,
    /// Next execution without a change. `None`: the transaction has no deadline.
    timer: Option<DeadlineTimer>,
}

#[derive(Debug)]
struct DeadlineTimer {
    /// Milliseconds after the arrival.
    deadline: u64,
    task: AbortHandle,
}

impl Drop for DeadlineTimer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WaitingTransaction {
    /// The tables whose changes can satisfy its `wait`. `None`: other events can, too.
    pub(super) fn tables(&self) -> Option<BTreeSet<TableId>> {
        let mut tables = BTreeSet::new();
        for operation in &self.client.transaction.operations {
            if matches!(operation, Operation::Assert { .. }) {
                return None;
            }
            tables.extend(operation.table());
        }
        Some(tables)
    }
}

impl ServedDatabase {
    /// The number of waiting transactions.
    #[cfg(feature = "unixctl")]
    pub(crate) fn waiting_count(&self) -> usize {
        self.state().waiting.count_all()
    }

    /// Adds a transaction to the queue, or replies with an error if its session has too many there, or
    /// too many bytes.
    pub(super) fn begin_waiting(
        self: &Arc<Self>,
        state: &mut DatabaseState,
        mut client: ClientTransaction,
        deadline: Option<u64>,
    ) {
        let limit = client.session.limits().waiting_transactions;
        if state.waiting.count(client.session.id()) >= limit {
            client.free_id();
            client.reply_error(&resources_exhausted("waiting transactions", limit));
            return;
        }
        if let Err(error) = client.hold() {
            client.reply_error(&error);
            return;
        }
        let mut waiting = WaitingTransaction { client, timer: None };
        self.set_timer(&mut waiting, deadline);
        state.waiting.push(waiting);
    }

    /// Cancels a waiting transaction (`cancel`, RFC 7047 §4.1.4). Returns `false` if there is none
    /// of this id.
    pub(crate) fn cancel(&self, session: SessionId, id: &Json) -> bool {
        let mut state = self.state();
        let place = state.waiting.place(session, id);
        let waiting = place.and_then(|place| state.waiting.remove(place));
        let client = waiting.map(|waiting| waiting.client);
        let forwarded = || state.relay.as_mut()?.take(session, id);
        let Some(client) = client.or_else(forwarded) else {
            return false;
        };
        client.free_id();
        client.reply_canceled();
        true
    }

    /// Executes the transactions that wait for changes to these tables, in the order of the queue,
    /// again and again until none of them changes anything.
    pub(super) fn retry_waiting(
        self: &Arc<Self>,
        state: &mut DatabaseState,
        changed: BTreeSet<TableId>,
    ) {
        let mut due = BTreeSet::new();
        for table in &changed {
            due.extend(state.waiting.places_for(*table, ..));
        }
        // Tables whose waiting transactions are all due, as far as they are still ahead.
        let mut all_due = changed;
        while !due.is_empty() {
            let mut last_change = BTreeMap::new();
            while let Some(place) = due.pop_first() {
                for table in self.retry(state, place) {
                    last_change.insert(table, place);
                    if all_due.insert(table) {
                        due.extend(state.waiting.places_for(table, place..));
                    }
                }
            }
            for (table, place) in last_change {
                due.extend(state.waiting.places_for(table, ..place));
            }
            all_due.clear();
        }
    }

    /// Executes a waiting transaction once more. Returns the tables that it changed.
    fn retry(self: &Arc<Self>, state: &mut DatabaseState, place: u64) -> BTreeSet<TableId> {
        let Some(mut waiting) = state.waiting.remove(place) else {
            return BTreeSet::new();
        };
        match self.run_once(state, &mut waiting.client, Instant::now()) {
            RunOutcome::Finished { changed, reply, .. } => {
                waiting.client.free_id();
                if !reply.is_empty() {
                    waiting.client.session.reply_in_pieces(reply);
                }
                changed
            }
            RunOutcome::Forward => {
                self.forward(state, waiting.client);
                BTreeSet::new()
            }
            RunOutcome::Waits { deadline } => {
                self.set_timer(&mut waiting, deadline);
                state.waiting.put_back(place, waiting);
                BTreeSet::new()
            }
        }
    }

    fn set_timer(self: &Arc<Self>, waiting: &mut WaitingTransaction, deadline: Option<u64>) {
        if waiting.timer.as_ref().map(|timer| timer.deadline) == deadline {
            return;
        }
        let client = &waiting.client;
        waiting.timer = deadline.and_then(|deadline| {
            // A deadline beyond the clock's range never comes.
            let at = client.arrived.checked_add(Duration::from_millis(deadline))?;
            let (database, session, id) = (self.clone(), client.session.id(), client.id.clone());
            let task = tokio::spawn(async move {
                sleep_until(at).await;
                let _turn = database.turn().await;
                run_long(|| database.retry_at_deadline(session, &id));
            });
            Some(DeadlineTimer { deadline, task: task.abort_handle() })
        });
    }

    fn retry_at_deadline(self: &Arc<Self>, session: SessionId, id: &Json) {
        let mut state = self.state();
        if let Some(place) = state.waiting.place(session, id) {
            let changed = self.retry(&mut state, place);
            self.retry_waiting(&mut state, changed);
        }
        drop(state);
        self.update_raft_index();
    }
}
