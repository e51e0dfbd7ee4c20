//! A lock that proves that the server has finished with all former connections of this client.
//!
//! All connections of one client request the same lock. A server keeps the lock for a connection
//! until it has executed all requests of that connection, and sends their updates before it passes
//! the lock on. A later connection that owns the lock has therefore seen every change of the former
//! ones.
//!
//! Members of a cluster have separate locks, so this holds only for connections to the same server.

use std::sync::Arc;

use patchbay_schemas::json::{Json, Reader, write};

use super::error::{SessionError, reply_error, unexpected};
use super::rpc::Rpc;

/// The fence of one connection.
#[derive(Debug)]
pub(super) struct Fence {
    lock: Arc<str>,
    request: i64,
    is_held: bool,
}

impl Fence {
    /// Requests the lock.
    pub(super) fn new(lock: Arc<str>, rpc: &mut Rpc) -> Self {
        let request = rpc.request("lock", |out| {
            out.push(b'[');
            write::string(out, lock.as_bytes());
            out.push(b']');
        });
        Self { lock, request, is_held: false }
    }

    /// `true` once the server has finished with all former connections.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// `true` if `request` is the id of the request for the lock.
    pub(super) fn awaits(&self, request: i64) -> bool {
        self.request == request
    }

    /// Handles the reply to the request for the lock. Returns [`is_held`](Self::is_held).
    pub(super) fn handle_reply(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
    ) -> Result<bool, SessionError> {
        self.is_held = match outcome.map_err(reply_error) {
            Ok(mut at) => match Json::read(&mut at).get("locked") {
                Some(Json::Bool(locked)) => *locked,
                _ => return Err(unexpected("lock", "it has no boolean member `locked`")),
            },
            Err(error) => {
                // Without locks there is no other evidence than the new connection itself.
                tracing::debug!(%error, "the server does not support locks");
                true
            }
        };
        Ok(self.is_held)
    }

    /// Handles a `locked` notification. Returns `true` if it is about this lock.
    pub(super) fn handle_locked(&mut self, name: &[u8]) -> bool {
        let is_fence = name == self.lock.as_bytes();
        self.is_held |= is_fence;
        is_fence
    }
}
