//! Cancellation of monitors and waiting transactions, when their database is converted or removed.

use std::sync::Arc;

use patchbay_schemas::json::Json;

use crate::session::handle::SessionHandle;
use crate::session::id::SessionId;

use super::DatabaseState;
use super::relay::RelayState;
use super::transact::ClientTransaction;

/// Canceled monitors and waiting transactions. The database does not have them any more. Their
/// clients are to be notified while the database's state is not locked.
#[must_use]
pub(crate) struct Cancellation {
    /// Sessions and ids of the monitors.
    monitors: Vec<(Arc<SessionHandle>, Arc<Json>)>,
    transactions: Vec<ClientTransaction>,
}

impl DatabaseState {
    /// Removes all monitors and waiting transactions.
    pub(super) fn cancel_all(&mut self) -> Cancellation {
        #[cfg(feature = "unixctl")]
        self.transaction_log.clear();
        let forwarded = self.relay.as_mut().map(RelayState::take_forwarded);
        let transactions: Vec<_> = std::mem::take(&mut self.waiting)
            .into_transactions()
            .map(|waiting| waiting.client)
            .chain(forwarded.into_iter().flatten())
            .collect();
        transactions.iter().for_each(ClientTransaction::free_id);
        Cancellation { monitors: self.monitors.remove_all(), transactions }
    }
}

impl Cancellation {
    /// Notifies the monitors' clients, if they are aware of changes.
    pub(super) fn notify_monitors(&mut self) {
        for (session, id) in self.monitors.drain(..) {
            if session.is_change_aware() {
                session.cancel_monitor(&id);
            }
        }
    }

    /// Replies to the waiting transactions of a session, if its client is aware of changes.
    pub(crate) fn reply_to_session(&mut self, session: SessionId) {
        let is_its = |client: &mut ClientTransaction| client.session.id() == session;
        for transaction in self.transactions.extract_if(.., is_its) {
            transaction.reply_canceled();
        }
    }

    /// Replies to the waiting transactions, if their clients are aware of changes.
    pub(crate) fn reply_to_transactions(self) {
        for transaction in self.transactions {
            transaction.reply_canceled();
        }
    }
}
