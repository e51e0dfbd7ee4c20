//! One hosted database: executes transactions one at a time and tells the monitors.

mod blocked;
mod canceled;
mod cluster;
mod convert;
mod remove;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_engine::db::{
    Access, ChangeSet, Database, DatabaseError, Execution, OperationResult, Snapshot,
};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::DecodedTransaction;
use tokio::sync::watch;
use uuid::Uuid;

use crate::fault::Loss;
use crate::file::{self, Journal};
use crate::history::History;
use crate::model::Role;
use crate::monitor::{Monitors, NetChanges, View};
use crate::server_database::Listing;
use crate::session::{Session, SessionId};

use blocked::Line;
pub use cluster::NotClustered;
pub(crate) use convert::without_ephemeral_columns;

/// A database and everything that hangs on its commits.
#[derive(Debug)]
pub(crate) struct Hosted {
    name: String,
    /// What clients read about it; none of `_Server` itself, which they can only read.
    listing: Option<Listing>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    database: Database,
    journal: Option<Journal>,
    /// None of a standalone database.
    history: Option<History>,
    role: Role,
    /// The server has it no more; who still holds it can only look at it.
    is_removed: bool,
    pub(crate) monitors: Monitors,
    /// Transactions whose `wait` is not satisfied, in order of arrival.
    blocked: Line,
    /// Transactions that changed something.
    commits: watch::Sender<u64>,
}

impl Hosted {
    /// The `_Server` database.
    pub(crate) fn own(database: Database) -> Self {
        Self::new(database, None, None, None)
    }

    /// A database for clients to change; with a history if it is clustered.
    pub(crate) fn served(
        database: Database,
        journal: Option<Journal>,
        history: Option<History>,
        listing: Listing,
    ) -> Self {
        Self::new(database, journal, history, Some(listing))
    }

    fn new(
        database: Database,
        journal: Option<Journal>,
        history: Option<History>,
        listing: Option<Listing>,
    ) -> Self {
        let name = database.schema().name.clone();
        let state = State {
            database,
            journal,
            history,
            role: Role::Leader,
            is_removed: false,
            monitors: Monitors::default(),
            blocked: Line::default(),
            commits: watch::Sender::new(0),
        };
        Self {
            name,
            listing,
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
        *self.state().commits.borrow()
    }

    /// Tells of transactions that change something.
    pub(crate) fn commits_watch(&self) -> watch::Receiver<u64> {
        self.state().commits.subscribe()
    }

    /// The state, for as long as the guard lives. Nothing is executed meanwhile.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic inside a transaction would leave its overlay unpublished: the state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes operations for the owner of the server. They are about tables and columns of `schema`, which must be
    /// the database's.
    pub(crate) fn execute(
        self: &Arc<Self>,
        mut transaction: DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
    ) -> Result<(Vec<OperationResult>, ChangeSet), DatabaseError> {
        let mut state = self.state();
        let executed = self.execute_at_once(&mut state, &mut transaction, schema);
        drop(state);
        self.update_listing_of_member();
        executed
    }

    fn execute_at_once(
        self: &Arc<Self>,
        state: &mut State,
        transaction: &mut DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
    ) -> Result<(Vec<OperationResult>, ChangeSet), DatabaseError> {
        state.served().map_err(DatabaseError::Commit)?;
        let own = state.database.schema();
        if !Arc::ptr_eq(own, schema) && own != schema {
            let details = format!(
                "the transaction is for another schema than that of {}",
                self.name
            );
            let error = OvsdbError::new("unknown schema", details);
            return Err(DatabaseError::Commit(error));
        }
        match state.database.execute(transaction, &Access::unrestricted()) {
            Execution::Committed { results, changes } => {
                if !changes.rows.is_empty() {
                    let committed = state.committed(transaction, &changes);
                    committed.map_err(DatabaseError::Commit)?;
                    self.retry_blocked(state, blocked::tables(&changes));
                }
                Ok((results, changes))
            }
            Execution::Failed { results, error } => {
                let operations = &transaction.operations;
                Err(DatabaseError::after(results.len(), operations, error))
            }
            Execution::Waiting { .. } => Err(DatabaseError::WaitUnsatisfied),
        }
    }

    /// Writes the journal anew, if there is one: the content in one transaction.
    ///
    /// # Errors
    /// It could not be written. The former one stays.
    pub(crate) fn compact(&self) -> Result<(), OvsdbError> {
        let mut state = self.state();
        let snapshot = state.database.snapshot();
        let journal = state.journal.as_mut();
        journal.map_or(Ok(()), |journal| journal.rewrite(&snapshot))
    }

    /// How many transactions wait.
    pub(crate) fn blocked_count(&self) -> usize {
        self.state().blocked.len()
    }

    /// Forgets all that belongs to a session.
    pub(crate) fn disconnect(&self, session: SessionId) {
        let mut state = self.state();
        state.blocked.leave_all(session);
        state.monitors.remove_session(session);
    }
}

impl State {
    /// What monitors see.
    pub(crate) fn view(&self) -> View {
        View {
            snapshot: self.database.snapshot(),
            last_id: self.last_id(),
        }
    }

    /// What changed after the transaction of this id; none when that is not known.
    pub(crate) fn changes_since(&self, id: Uuid) -> Option<NetChanges> {
        self.history.as_ref()?.changes_since(id)
    }

    /// The id of the last transaction.
    fn last_id(&self) -> Uuid {
        self.history.as_ref().map_or(Uuid::nil(), History::last_id)
    }

    /// Takes a commit back that nobody has heard of.
    fn undo(&mut self, changes: &ChangeSet) {
        if let Err(error) = self.database.transact(&file::inverse(changes)) {
            let database = &self.database.schema().name;
            tracing::error!(database, %error, "a failed transaction stays in memory");
        }
    }

    /// Makes a commit that changed something known: to the journal, to the history, then to the monitors.
    ///
    /// # Errors
    /// It could not be written and is taken back.
    fn committed(
        &mut self,
        transaction: &DecodedTransaction,
        changes: &ChangeSet,
    ) -> Result<(), OvsdbError> {
        self.record(transaction, changes)?;
        self.publish(changes);
        Ok(())
    }

    fn publish(&mut self, changes: &ChangeSet) {
        let id = self.last_id();
        self.monitors.publish(self.database.schema(), changes, id);
    }

    /// Like [`committed`](Self::committed), for a client, as far as its faults let it.
    fn committed_for(
        &mut self,
        session: &Session,
        transaction: &DecodedTransaction,
        changes: &ChangeSet,
    ) -> Result<Answered, OvsdbError> {
        let faults = session.server().faults();
        if let Some(error) = faults.commit_failure(session.id()) {
            self.undo(changes);
            return Err(error);
        }
        self.record(transaction, changes)?;
        let loss = faults.loss(session.id());
        if loss == Some(Loss::Crashed) {
            session.outbox().cut_off();
        }
        self.publish(changes);
        if loss == Some(Loss::Disconnected) {
            session.outbox().close();
        }
        Ok(if loss.is_some() {
            Answered::No
        } else {
            Answered::Yes
        })
    }

    /// Writes a commit to the journal and the history.
    ///
    /// # Errors
    /// It could not be written and is taken back.
    fn record(
        &mut self,
        transaction: &DecodedTransaction,
        changes: &ChangeSet,
    ) -> Result<(), OvsdbError> {
        let schema = self.database.schema();
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(schema, &transaction.operations, changes)
        {
            self.undo(changes);
            return Err(error);
        }
        self.commits.send_modify(|commits| *commits += 1);
        if let Some(history) = &mut self.history {
            history.record(changes);
        }
        Ok(())
    }
}

/// Whether the client hears of what became of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}
