//! What tells that nothing of a former connection is still under way in the server.
//!
//! All connections of one client ask for the same lock. A server keeps it for a connection until it is done with all
//! requests of that connection, and sends what they changed before it gives the lock to the next. So whoever owns it
//! on a later connection has seen all that the former ones did, and will do.

use std::sync::Arc;

use patchbay_schemas::json::{Json, Reader, write};

use super::error::{SessionError, reply_error, unexpected};
use super::rpc::Rpc;

/// The lock of one client's connections.
#[derive(Debug)]
pub(super) struct Fence {
    lock: Arc<str>,
    request: i64,
    is_up: bool,
}

impl Fence {
    /// Asks for the lock.
    pub(super) fn new(lock: Arc<str>, rpc: &mut Rpc) -> Self {
        let request = rpc.request("lock", |out| {
            out.push(b'[');
            write::string(out, lock.as_bytes());
            out.push(b']');
        });
        Self {
            lock,
            request,
            is_up: false,
        }
    }

    /// Whether the server is done with all former connections.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether this is the request for the lock.
    pub(super) fn awaits(&self, request: i64) -> bool {
        self.request == request
    }

    /// The request for the lock was answered; true if it is up now.
    pub(super) fn answered(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
    ) -> Result<bool, SessionError> {
        self.is_up = match outcome.map_err(reply_error) {
            Ok(mut at) => match Json::read(&mut at).get("locked") {
                Some(Json::Bool(locked)) => *locked,
                _ => return Err(unexpected("lock", "it does not say whether it is locked")),
            },
            Err(error) => {
                // Without locks there is no better sign than the new connection itself.
                tracing::debug!(%error, "the server has no locks");
                true
            }
        };
        Ok(self.is_up)
    }

    /// The client owns a lock; true if that is about this one.
    pub(super) fn locked(&mut self, name: &[u8]) -> bool {
        let ours = name == self.lock.as_bytes();
        self.is_up |= ours;
        ours
    }
}
