//! Execution and commit of transactions (RFC 7047 §4.1.3).

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use patchbay_engine::db::{
    Access, ChangeSet, DatabaseError, Execution, OperationResult, ServerRelease,
};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::wire::{DecodedTransaction, Operation, Operations};
use tokio::time::Instant;
use uuid::Uuid;

use crate::budget::HeldBytes;
use crate::chunk::Chunk;
use crate::fault::Loss;
use crate::held_size::{ENTRY_BYTES, json_bytes, transaction_bytes};
use crate::reply;
use crate::session::handle::SessionHandle;

use super::{DatabaseState, ServedDatabase};

/// Transaction of a client, with what its reply needs.
#[derive(Debug)]
pub(super) struct ClientTransaction {
    pub(super) session: Arc<SessionHandle>,
    /// The request's id.
    pub(super) id: Arc<Json>,
    pub(super) transaction: DecodedTransaction,
    /// JSON text of the request's parameters, which only a relay needs. Empty: it was forwarded.
    pub(super) params: Vec<u8>,
    /// Bytes of that text.
    pub(super) _params_held: Option<HeldBytes>,
    /// Bytes of the transaction while it waits. `None`: it has not waited.
    held: Option<HeldBytes>,
    pub(super) arrived: Instant,
}

/// JSON text of a request's parameters, with its bytes in the budget of the connection.
#[derive(Debug)]
pub(crate) struct RequestParams {
    pub(crate) text: Vec<u8>,
    pub(crate) held: HeldBytes,
}

/// Outcome of one execution of a client's transaction.
pub(super) enum RunOutcome {
    /// The transaction is committed or has failed.
    Finished {
        /// Tables with changed rows.
        changed: BTreeSet<TableId>,
        /// Chunks of the reply. Empty: no reply is sent.
        reply: Vec<Chunk>,
        /// The changes, if rows changed. They are dropped after the reply is sent, because freeing
        /// old rows takes time.
        changes: ChangeSet,
    },
    /// A relay forwards the transaction.
    Forward,
    /// A `wait` is not satisfied, or there is no leader, or no source.
    Waits {
        /// Milliseconds between the arrival and the next execution. `None`: only a change or a new
        /// leader causes it.
        deadline: Option<u64>,
    },
}

impl ClientTransaction {
    pub(super) fn new(
        session: &Arc<SessionHandle>,
        id: Json,
        transaction: DecodedTransaction,
        arrived: Instant,
    ) -> Self {
        Self {
            session: session.clone(),
            id: Arc::new(id),
            transaction,
            params: Vec::new(),
            _params_held: None,
            held: None,
            arrived,
        }
    }

    /// Begins to wait: charges the transaction to its session, unless it has waited before, and
    /// takes the request id.
    ///
    /// # Errors
    /// The session, or all sessions together, would leave behind more than they may.
    pub(super) fn hold(&mut self) -> Result<(), OvsdbError> {
        if self.held.is_none() {
            let bytes = json_bytes(&self.id) + transaction_bytes(&self.transaction);
            self.held = Some(self.session.hold(ENTRY_BYTES + bytes)?);
        }
        self.session.add_waiting(self.id.clone());
        Ok(())
    }

    /// Frees the request id. The client may use it again as soon as it can see the reply.
    pub(super) fn free_id(&self) {
        self.session.remove_waiting(&self.id);
    }

    /// Encodes the reply with the results of the operations. Empty: it is too long, and the
    /// connection is closed.
    pub(super) fn reply_results(
        &self,
        schema: &DatabaseSchema,
        results: &[OperationResult],
        error: Option<&OvsdbError>,
    ) -> Vec<Chunk> {
        let limit = self.session.outbox().limit();
        let total = self.transaction.total;
        let reply = reply::transaction(&self.id, schema, results, error, total, limit);
        if reply.is_none() {
            tracing::warn!(limit, "a reply is too long: closing the connection");
            self.session.outbox().cut_off();
        }
        reply.unwrap_or_default()
    }

    /// Replies that the transaction is canceled. Only clients that are aware of changes get the
    /// reply; they may try again.
    pub(super) fn reply_canceled(&self) {
        if self.session.is_change_aware() {
            let error = Json::string("canceled");
            self.session.reply(reply::failure(&self.id, &error));
        }
    }

    pub(super) fn reply_error(&self, error: &OvsdbError) {
        self.session.reply(reply::failure(&self.id, &error.to_json()));
    }
}

impl ServedDatabase {
    /// Executes a client's transaction and sends the reply, now or when its `wait` ends. It was
    /// decoded for `schema`. If that is not the database's any more, the transaction is canceled.
    pub(crate) fn transact(
        self: &Arc<Self>,
        session: &Arc<SessionHandle>,
        id: Json,
        transaction: DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
        params: Option<RequestParams>,
    ) {
        let (params, params_held) =
            params.map(|params| (params.text, Some(params.held))).unwrap_or_default();
        let now = Instant::now();
        let mut transaction = ClientTransaction {
            params,
            _params_held: params_held,
            ..ClientTransaction::new(session, id, transaction, now)
        };
        let mut state = self.state();
        if let Err(error) = state.check_not_removed() {
            transaction.reply_error(&error);
            return;
        }
        if !Arc::ptr_eq(schema, state.database.schema()) {
            transaction.reply_canceled();
            return;
        }
        match self.run_once(&mut state, &mut transaction, now) {
            RunOutcome::Finished { changed, reply, changes } => {
                if !reply.is_empty() {
                    session.reply_in_pieces(reply);
                }
                drop(changes);
                self.retry_waiting(&mut state, changed);
                state.compact_if_due();
            }
            RunOutcome::Forward => self.forward(&mut state, transaction),
            RunOutcome::Waits { deadline } => {
                self.begin_waiting(&mut state, transaction, deadline);
            }
        }
        drop(state);
        self.update_raft_index();
    }

    /// Executes operations for the server's owner. Their tables and columns are those of `schema`,
    /// which must be the database's.
    pub(crate) fn execute(
        self: &Arc<Self>,
        mut transaction: DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
    ) -> Result<(Vec<OperationResult>, ChangeSet), DatabaseError> {
        let mut state = self.state();
        let executed = self.execute_locked(&mut state, &mut transaction, schema, None);
        state.compact_if_due();
        drop(state);
        self.update_raft_index();
        executed
    }

    /// Executes operations for the server's owner like those of a client: results of the operations
    /// before a failure are returned with its error.
    ///
    /// # Errors
    /// The database was removed or has another schema, or a `wait` is not satisfied.
    #[cfg(feature = "control-api")]
    pub(crate) fn execute_for_owner(
        self: &Arc<Self>,
        mut transaction: DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
    ) -> Result<(Vec<OperationResult>, Option<OvsdbError>), DatabaseError> {
        let mut state = self.state();
        let execution = self.run_locked(&mut state, &mut transaction, schema, None)?;
        state.compact_if_due();
        drop(state);
        self.update_raft_index();
        match execution {
            Execution::Committed { results, .. } => Ok((results, None)),
            Execution::Failed { results, error } => Ok((results, Some(error))),
            Execution::Waiting { .. } => Err(DatabaseError::WaitUnsatisfied),
        }
    }

    /// Executes operations for the server's owner, or for the source of the database, which has
    /// given them the id `followed`.
    pub(super) fn execute_locked(
        self: &Arc<Self>,
        state: &mut DatabaseState,
        transaction: &mut DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
        followed: Option<Uuid>,
    ) -> Result<(Vec<OperationResult>, ChangeSet), DatabaseError> {
        match self.run_locked(state, transaction, schema, followed)? {
            Execution::Committed { results, changes } => Ok((results, changes)),
            Execution::Failed { results, error } => {
                let operations = &transaction.operations;
                Err(DatabaseError::after(results.len(), operations, error))
            }
            Execution::Waiting { .. } => Err(DatabaseError::WaitUnsatisfied),
        }
    }

    /// Executes operations as [`execute_locked`](Self::execute_locked) does. A commit is published.
    fn run_locked(
        self: &Arc<Self>,
        state: &mut DatabaseState,
        transaction: &mut DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
        followed: Option<Uuid>,
    ) -> Result<Execution, DatabaseError> {
        state.check_not_removed().map_err(DatabaseError::Commit)?;
        let own = state.database.schema();
        if !Arc::ptr_eq(own, schema) && own != schema {
            let details =
                format!("the transaction is for another schema than that of {}", self.name);
            let error = OvsdbError::new("unknown schema", details);
            return Err(DatabaseError::Commit(error));
        }
        let schema = own.clone();
        let storage = &mut state.storage;
        let record = |operations: &Operations, changes: &ChangeSet| {
            storage.append(&schema, operations, changes)
        };
        let access = Access::unrestricted();
        let execution = state.database.execute_recorded(transaction, &access, record);
        if let Execution::Committed { changes, .. } = &execution
            && !changes.rows.is_empty()
        {
            state.count_commit(changes, followed);
            state.notify_monitors(changes);
            self.retry_waiting(state, changed_tables(changes));
        }
        Ok(execution)
    }

    /// Executes a client's transaction once, and publishes the commit if rows changed. The caller
    /// sends the reply. The first time, `now` is the arrival: as in ovsdb-server, a `wait` with
    /// timeout 0 has not timed out after some milliseconds, however busy the machine is.
    pub(super) fn run_once(
        &self,
        state: &mut DatabaseState,
        client: &mut ClientTransaction,
        now: Instant,
    ) -> RunOutcome {
        let session = &client.session.clone();
        let elapsed = now.saturating_duration_since(client.arrived);
        let owns_lock = |lock: &str| {
            self.locks.lock().unwrap_or_else(PoisonError::into_inner).owns(session.id(), lock)
        };
        let release = session.release();
        // Reserved databases have a text of their own in older releases.
        let is_read_only = session.is_read_only() || state.is_backup;
        let reason = if is_read_only || release >= ServerRelease::V3_5 {
            "not allowed when database server is in read only mode".to_owned()
        } else {
            format!("not allowed on table in reserved database {}", self.name)
        };
        let is_refused = is_read_only || self.server_row.is_none();
        let restricted = session.restricted_client();
        let access = Access {
            read_only: is_refused.then_some(&*reason),
            rules: restricted.as_ref().map(|client| client as _),
            owns_lock: &owns_lock,
            elapsed_ms: elapsed.as_millis() as u64,
            release,
            selected_bytes: session.limits().backlog,
        };
        if self.is_relay {
            return Self::run_on_relay(state, client, &access);
        }
        // Execution takes rows out of a transaction. Without a leader it is executed once more.
        let transaction = &mut client.transaction;
        let copy = (!state.role.is_connected()).then(|| transaction.clone());
        let mut needs_leader = false;
        let schema = state.database.schema().clone();
        let storage = &mut state.storage;
        let record = |operations: &Operations, changes: &ChangeSet| {
            // As on a real member, only the execution shows that a transaction needs the leader.
            if copy.is_some() {
                needs_leader = true;
                return Err(OvsdbError::new("not leader", "the cluster has no leader"));
            }
            if let Some(error) = session.faults().commit_failure(session.id()) {
                return Err(error);
            }
            storage.append(&schema, operations, changes)
        };
        let execution = state.database.execute_recorded(transaction, &access, record);
        if let Some(copy) = copy
            && needs_leader
        {
            *transaction = copy;
            return RunOutcome::Waits { deadline: None };
        }
        let (results, error, changed, changes) = match execution {
            Execution::Committed { results, changes } => {
                let mut changed = changed_tables(&changes);
                // A client gets updates about its own changes before the reply.
                if !changed.is_empty() && state.publish_client_commit(session, &changes).is_some() {
                    return RunOutcome::Finished { changed, reply: Vec::new(), changes };
                }
                if changed.is_empty() {
                    changed = tables_of_garbage(&transaction.operations, &results);
                }
                (results, None, changed, changes)
            }
            Execution::Failed { results, error } => {
                let (changed, changes) = (BTreeSet::new(), ChangeSet::default());
                (results, Some(error), changed, changes)
            }
            Execution::Waiting { deadline_ms: deadline } => return RunOutcome::Waits { deadline },
        };
        let reply = client.reply_results(&schema, &results, error.as_ref());
        RunOutcome::Finished { changed, reply, changes }
    }
}

impl DatabaseState {
    /// Publishes a client's commit, with the faults of its connection. Returns the injected loss of
    /// the reply, if there is one.
    fn publish_client_commit(
        &mut self,
        session: &SessionHandle,
        changes: &ChangeSet,
    ) -> Option<Loss> {
        self.count_commit(changes, None);
        let loss = session.faults().loss(session.id());
        if loss == Some(Loss::Crashed) {
            session.outbox().cut_off();
        }
        self.notify_monitors(changes);
        if loss == Some(Loss::Disconnected) {
            session.outbox().close();
        }
        loss
    }

    /// Counts a commit that is in the file, and appends it to the history. `followed`: the id that
    /// the source of a relay has given it.
    fn count_commit(&mut self, changes: &ChangeSet, followed: Option<Uuid>) {
        self.commits.send_modify(|commits| *commits += 1);
        self.storage.record_commit(changes, followed);
    }

    fn notify_monitors(&mut self, changes: &ChangeSet) {
        #[cfg(feature = "unixctl")]
        self.transaction_log.write(self.database.schema(), changes);
        let id = self.last_id();
        self.monitors.publish(self.database.schema(), changes, id);
    }
}

/// The tables into which a transaction that has changed nothing inserted rows, if some of them were
/// garbage at once. As in ovsdb-server, waiting transactions are executed again then, and may find
/// that their lock is lost.
fn tables_of_garbage(operations: &Operations, results: &[OperationResult]) -> BTreeSet<TableId> {
    let taken = operations.taken();
    let (mut inserted, mut deleted) = (taken.len(), 0);
    for (operation, result) in operations.iter().zip(results.iter().skip(taken.len())) {
        match (operation, result) {
            (Operation::Insert { .. }, _) => inserted += 1,
            // Nothing has changed, so it has deleted rows that the transaction inserted.
            (Operation::Delete { .. }, OperationResult::Count(count)) => deleted += count,
            _ => {}
        }
    }
    if inserted <= deleted {
        return BTreeSet::new();
    }
    let inserts =
        operations.iter().filter(|operation| matches!(operation, Operation::Insert { .. }));
    inserts.filter_map(Operation::table).chain(taken.iter().copied()).collect()
}

/// The tables with changed rows.
fn changed_tables(changes: &ChangeSet) -> BTreeSet<TableId> {
    // Rows of one table mostly follow each other.
    let runs = changes.rows.chunk_by(|a, b| a.table == b.table);
    runs.map(|run| run[0].table).collect()
}
