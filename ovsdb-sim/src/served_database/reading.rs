//! Long transactions that only read: they work on a snapshot, beside the writers.

use std::sync::Arc;

use patchbay_engine::db::{Access, Rehearsal, Snapshot};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{DecodedTransaction, Operation};
use tokio::time::Instant;

use crate::long_work::run_long;
use crate::session::handle::SessionHandle;

use super::ServedDatabase;
use super::transact::ClientTransaction;

/// `true` if the transaction only reads, and its result depends on nothing but the content.
fn only_reads(transaction: &DecodedTransaction) -> bool {
    let is_read = |operation: &Operation| {
        matches!(operation, Operation::Select { .. } | Operation::Comment(_))
    };
    transaction.operations.iter().all(is_read)
}

impl ServedDatabase {
    /// Executes a long transaction that only reads and sends the reply, one after the other, while
    /// others write. Returns the transaction if it is another one, or if it is to be executed in a
    /// [turn](Self::begin_turn).
    ///
    /// The content is that after all requests of the session before, and after the commits of others
    /// when this one begins to read. Updates of later commits may precede the reply.
    pub(crate) async fn read_beside_writers(
        &self,
        session: &Arc<SessionHandle>,
        id: &Json,
        transaction: DecodedTransaction,
        schema: &Arc<DatabaseSchema>,
    ) -> Option<DecodedTransaction> {
        if self.is_relay || !only_reads(&transaction) {
            return Some(transaction);
        }
        // A state that is locked is being used for long work; then reading it may be long, too.
        let is_long = self.try_state().is_none_or(|state| state.is_long(&transaction));
        if !is_long {
            return Some(transaction);
        }
        // One after the other, because each may need much memory.
        let _reading = self.turns.reading.lock().await;
        let snapshot = {
            let _turn = self.turn().await;
            let state = self.state();
            let is_usable = state.check_not_removed().is_ok() && state.has_schema(schema);
            is_usable.then(|| state.database.snapshot())
        };
        let Some(snapshot) = snapshot else {
            return Some(transaction);
        };
        let client = ClientTransaction::new(session, id.clone(), transaction, Instant::now());
        run_long(|| read(&snapshot, client));
        None
    }
}

fn read(snapshot: &Snapshot, mut client: ClientTransaction) {
    let access = Access {
        release: client.session.release(),
        selected_bytes: client.session.limits().backlog,
        ..Access::unrestricted()
    };
    let (results, error) = match snapshot.rehearse(&mut client.transaction, &access) {
        Rehearsal::Succeeded(results) => (results, None),
        Rehearsal::Failed { results, error } => (results, Some(error)),
        // Nothing in it waits.
        Rehearsal::Waiting { .. } => return,
    };
    let reply = client.reply_results(snapshot.schema(), &results, error.as_ref());
    if !reply.is_empty() {
        client.session.reply_in_pieces(reply);
    }
}
