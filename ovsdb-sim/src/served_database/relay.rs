//! Database of a relay: its content comes from a source, to which transactions that write are
//! forwarded (ovsdb(7), "Relay Service Model").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use patchbay_engine::client::{ForwardOutcome, ForwardedReply, Forwarder};
use patchbay_engine::db::{Access, ChangeSet, Database, DatabaseError, Rehearsal, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Operation};
use uuid::Uuid;

use crate::file::Storage;
use crate::history::History;
use crate::limits::resources_exhausted;
use crate::model::Role;
use crate::reply;
use crate::session::id::SessionId;

use super::cancellation::Cancellation;
use super::transact::{ClientTransaction, RunOutcome};
use super::{DatabaseState, ServedDatabase};

/// Connection of a relay to its source, and the transactions that it has forwarded.
#[derive(Debug, Default)]
pub(super) struct RelayState {
    /// `None`: there is no connection to the source.
    link: Option<Forwarder>,
    /// Forwarded transactions without a reply, by token.
    forwarded: BTreeMap<u64, ClientTransaction>,
    next_token: u64,
}

impl RelayState {
    /// Takes all forwarded transactions. Their replies will be ignored.
    pub(super) fn take_forwarded(&mut self) -> impl Iterator<Item = ClientTransaction> {
        std::mem::take(&mut self.forwarded).into_values()
    }

    /// Takes the forwarded transaction of a session with this request id.
    pub(super) fn take(&mut self, session: SessionId, id: &Json) -> Option<ClientTransaction> {
        let is_wanted =
            |client: &ClientTransaction| client.session.id() == session && *client.id == *id;
        let (token, _) = self.forwarded.iter().find(|(_, one)| is_wanted(one))?;
        let token = *token;
        self.forwarded.remove(&token)
    }

    /// Forgets the forwarded transactions of a session.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        self.forwarded.retain(|_, client| {
            let stays = client.session.id() != session;
            if !stays {
                client.free_id();
            }
            stays
        });
    }
}

/// `true` if a relay forwards the operation.
fn is_forwarded(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Insert { .. }
            | Operation::Update { .. }
            | Operation::Mutate { .. }
            | Operation::Delete { .. }
    )
}

impl ServedDatabase {
    /// `true` if the database is a relay's.
    pub(crate) fn is_relay(&self) -> bool {
        self.is_relay
    }

    /// `true` if clients can use the database. A relay's is known by name only until the source has
    /// sent its schema and content.
    pub(crate) fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Acquire)
    }

    /// Replaces schema and content by those of the source. Cancels monitors and notifies their
    /// clients. Cancels transactions, to which the caller replies. `last` is the id of the last
    /// transaction that the content shows; `None`: the source has no history.
    ///
    /// # Errors
    /// The content violates the schema. Nothing changed.
    pub(crate) fn install(
        &self,
        content: &Snapshot,
        last: Option<Uuid>,
        uuids: UuidSource,
    ) -> Result<Cancellation, DatabaseError> {
        // The longest part, without the lock.
        let database = Database::from_snapshot(content, uuids)?;
        let mut state = self.state();
        state.check_not_removed().map_err(DatabaseError::Commit)?;
        state.database = database;
        state.storage = Storage::Relay(None);
        state.follow_history(last);
        self.set_schema(state.database.schema());
        state.role = Role::Follower;
        state.commits.send_modify(|commits| *commits += 1);
        let mut canceled = state.cancel_all();
        self.is_available.store(true, Ordering::Release);
        drop(state);
        self.update_server_row();
        canceled.notify_monitors();
        Ok(canceled)
    }

    /// Sets the connection to the source. With one, the transactions that wait for it are executed
    /// again.
    pub(crate) fn set_link(self: &Arc<Self>, link: Option<Forwarder>) {
        let mut state = self.state();
        let Some(relay) = &mut state.relay else {
            return;
        };
        let is_up = link.is_some();
        relay.link = link;
        if is_up {
            state.role = Role::Follower;
            let tables = state.database.schema().table_ids().collect();
            self.retry_waiting(&mut state, tables);
        }
        drop(state);
        self.update_server_row();
    }

    /// Reports in `_Server` that the relay is not connected.
    pub(crate) fn report_disconnected(&self) {
        self.state().role = Role::Disconnected;
        self.update_server_row();
    }

    /// Executes a transaction on the relay's copy: as a whole if it only reads; otherwise to find
    /// out whether it is to be forwarded, has failed, or waits.
    pub(super) fn run_on_relay(
        state: &mut DatabaseState,
        client: &ClientTransaction,
        access: &Access<'_>,
    ) -> RunOutcome {
        // Execution takes rows out of a transaction, which may be executed again.
        let mut copy = client.transaction.clone();
        let (results, error) = match state.database.rehearse(&mut copy, access) {
            Rehearsal::Waiting { deadline_ms } => {
                return RunOutcome::Waits { deadline: deadline_ms };
            }
            Rehearsal::Failed { results, error } => (results, Some(error)),
            Rehearsal::Succeeded(results) => (results, None),
        };
        let writes = client.transaction.operations.iter().any(is_forwarded);
        if writes && error.is_none() {
            let has_link = state.relay.as_ref().is_some_and(|one| one.link.is_some());
            return if has_link {
                RunOutcome::Forward
            } else {
                RunOutcome::Waits { deadline: None }
            };
        }
        let schema = state.database.schema();
        RunOutcome::Finished {
            changed: BTreeSet::new(),
            reply: client.reply_results(schema, &results, error.as_ref()),
            changes: ChangeSet::default(),
        }
    }

    /// Forwards a transaction to the source.
    pub(super) fn forward(
        self: &Arc<Self>,
        state: &mut DatabaseState,
        mut client: ClientTransaction,
    ) {
        let limit = client.session.limits().waiting_transactions;
        let is_new = !client.session.is_waiting(&client.id);
        if is_new && client.session.waiting_count() >= limit {
            client.reply_error(&resources_exhausted("waiting transactions", limit));
            return;
        }
        if let Err(error) = client.hold() {
            client.reply_error(&error);
            return;
        }
        let params = std::mem::take(&mut client.params);
        let sent = match &mut state.relay {
            Some(RelayState { link: Some(link), next_token, .. }) => {
                *next_token += 1;
                let token = *next_token;
                link.send(token, "transact", params).map(|()| token)
            }
            _ => Err(params),
        };
        match (sent, &mut state.relay) {
            (Ok(token), Some(relay)) => {
                relay.forwarded.insert(token, client);
            }
            (Err(params), _) => {
                client.params = params;
                self.begin_waiting(state, client, None);
            }
            (Ok(_), None) => {}
        }
    }

    /// Sends the source's reply to the client whose transaction was forwarded.
    pub(crate) fn finish_forwarded(self: &Arc<Self>, reply: ForwardedReply) {
        let mut state = self.state();
        let Some(relay) = &mut state.relay else {
            return;
        };
        let Some(mut client) = relay.forwarded.remove(&reply.token) else {
            // The transaction was canceled, or its client has gone.
            return;
        };
        let text = match reply.outcome {
            ForwardOutcome::NotSent(params) => {
                client.params = params;
                self.begin_waiting(&mut state, client, None);
                return;
            }
            ForwardOutcome::Result(text) if text.len() > client.session.outbox().limit() => {
                let limit = client.session.outbox().limit();
                tracing::warn!(limit, "a reply is too long: closing the connection");
                client.session.outbox().cut_off();
                return;
            }
            ForwardOutcome::Result(text) => {
                reply::success(&client.id, |out| out.extend_from_slice(&text))
            }
            ForwardOutcome::Error(text) => reply::failure_text(&client.id, &text),
            // The text of ovsdb-server, for all clients.
            ForwardOutcome::Lost => reply::failure(&client.id, &Json::string("canceled")),
        };
        client.session.remove_waiting(&client.id);
        client.session.reply(text);
    }

    /// Applies changes of the source, which have been committed there, and appends them to the
    /// journal. `last` is the id of the last transaction among them; `None`: the source has no
    /// history.
    ///
    /// # Errors
    /// The content would violate the schema, or the journal cannot be written. Nothing changed.
    pub(crate) fn apply_followed(
        self: &Arc<Self>,
        operations: Vec<Operation>,
        last: Option<Uuid>,
    ) -> Result<(), DatabaseError> {
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        let mut state = self.state();
        if !self.is_relay && !state.is_backup {
            let details = format!("database {} is not a backup any more", self.name);
            let error = OvsdbError::new("not allowed", details);
            return Err(DatabaseError::Commit(error));
        }
        if self.is_relay {
            state.follow_history(last);
        }
        let schema = state.database.schema().clone();
        self.execute_locked(&mut state, &mut transaction, &schema, last)?;
        state.compact_if_due();
        Ok(())
    }
}

impl DatabaseState {
    /// Begins or ends the history of a relay, which has the ids of its source.
    fn follow_history(&mut self, last: Option<Uuid>) {
        match (&self.storage, last) {
            (Storage::Relay(None), Some(last)) => {
                let history = History::new(last, &self.database.snapshot());
                self.storage = Storage::Relay(Some(history));
            }
            (Storage::Relay(Some(_)), None) => self.storage = Storage::Relay(None),
            _ => {}
        }
    }
}
