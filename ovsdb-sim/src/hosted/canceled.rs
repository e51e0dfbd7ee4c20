//! What ends when a database gets another schema or is removed.

use std::sync::Arc;

use patchbay_schemas::json::Json;

use crate::session::Session;

use super::State;
use super::blocked::Blocked;

/// The monitors and waiting transactions of a database that is not what they were made for any more. The database has
/// forgotten them already; their clients are to be told, when its state is not locked.
#[must_use]
pub(crate) struct Canceled {
    monitors: Vec<(Arc<Session>, Json)>,
    transactions: Vec<Blocked>,
}

impl State {
    /// Ends all monitors and takes all transactions out of the line.
    pub(super) fn cancel_all(&mut self) -> Canceled {
        let blocked = std::mem::take(&mut self.blocked);
        Canceled {
            monitors: self.monitors.remove_all(),
            transactions: blocked.into_transactions().collect(),
        }
    }
}

impl Canceled {
    /// Tells clients that are aware of changes that their monitors are over.
    pub(super) fn end_monitors(&mut self) {
        for (session, id) in self.monitors.drain(..) {
            if session.is_change_aware() {
                session.monitor_canceled(&id);
            }
        }
    }

    /// Tells clients that are aware of changes that their transactions are not executed.
    pub(crate) fn refuse(self) {
        for transaction in self.transactions {
            transaction.refuse();
        }
    }
}
