//! Requests that a client forwards for other programs, such as the clients of a relay. Neither the
//! parameters nor the replies are interpreted.

use std::collections::BTreeMap;

use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::wire::{Message, Reply};
use tokio::sync::mpsc;

use super::error::SessionError;
use super::outgoing::{MAX_UNSENT_BYTES, request_head};
use super::session::Session;

/// Sends requests on the connection of a [`Client`](super::Client), in the order of the calls.
/// Clones send to the same [`ForwardedReplies`].
///
/// The queue is not bounded; the caller bounds what waits for replies.
#[derive(Clone, Debug)]
pub struct Forwarder {
    requests: mpsc::UnboundedSender<ForwardedRequest>,
    replies: mpsc::UnboundedSender<ForwardedReply>,
}

/// Receives the replies to the requests of a [`Forwarder`], in the order of their arrival. A reply
/// comes when the client's snapshot and subscriptions show the transactions that the server
/// reported before it.
#[derive(Debug)]
pub struct ForwardedReplies(mpsc::UnboundedReceiver<ForwardedReply>);

/// Reply to a forwarded request.
#[derive(Debug)]
pub struct ForwardedReply {
    /// The request's token.
    pub token: u64,
    /// Outcome of the request.
    pub outcome: ForwardOutcome,
}

/// Outcome of a forwarded request.
#[derive(Debug, PartialEq, Eq)]
pub enum ForwardOutcome {
    /// JSON text of the reply's `result`.
    Result(Vec<u8>),
    /// JSON text of the reply's `error`.
    Error(Vec<u8>),
    /// The client has no connection. The request was not sent; these are its parameters.
    NotSent(Vec<u8>),
    /// The connection was lost before the reply. The server may have executed the request.
    Lost,
}

/// A request in the client's queue.
#[derive(Debug)]
pub(super) struct ForwardedRequest {
    token: u64,
    method: &'static str,
    /// JSON text of the parameters.
    params: Vec<u8>,
    replies: mpsc::UnboundedSender<ForwardedReply>,
}

/// A request without a reply.
#[derive(Debug)]
struct Unanswered {
    token: u64,
    replies: mpsc::UnboundedSender<ForwardedReply>,
}

/// The forwarded requests of one connection.
#[derive(Debug, Default)]
pub(super) struct ForwardedRequests {
    /// Requests without a reply, by id.
    unanswered: BTreeMap<i64, Unanswered>,
}

impl Forwarder {
    pub(super) fn new(
        requests: mpsc::UnboundedSender<ForwardedRequest>,
    ) -> (Self, ForwardedReplies) {
        let (replies, received) = mpsc::unbounded_channel();
        (Self { requests, replies }, ForwardedReplies(received))
    }

    /// Queues a request. `params` is the JSON text of its parameters, `token` names it in its
    /// reply.
    ///
    /// # Errors
    /// The client is closed or [embedded](super::Client::embedded). Returns the parameters.
    pub fn send(&self, token: u64, method: &'static str, params: Vec<u8>) -> Result<(), Vec<u8>> {
        let request = ForwardedRequest { token, method, params, replies: self.replies.clone() };
        let sent = self.requests.send(request);
        sent.map_err(|error| error.0.params)
    }
}

impl ForwardedReplies {
    /// Waits for the next reply. `None`: no forwarder is left, and all replies were received.
    ///
    /// # Cancel safety
    /// Dropping the future loses no reply.
    pub async fn next(&mut self) -> Option<ForwardedReply> {
        self.0.recv().await
    }
}

impl ForwardedRequest {
    /// Returns the request to its sender, because there is no connection.
    pub(super) fn refuse(self) {
        let outcome = ForwardOutcome::NotSent(self.params);
        deliver(&self.replies, self.token, outcome);
    }
}

impl ForwardedRequests {
    /// `true` if another request can be taken from the queue.
    pub(super) fn can_take(session: &Session) -> bool {
        session.is_live() && session.unsent_bytes() < MAX_UNSENT_BYTES
    }

    pub(super) fn send(&mut self, request: ForwardedRequest, session: &mut Session) {
        let mut text = request_head(request.method);
        text.extend_from_slice(&request.params);
        let (id, _) = session.transact(text);
        let unanswered = Unanswered { token: request.token, replies: request.replies };
        self.unanswered.insert(id, unanswered);
    }

    /// Delivers the reply to a request. Returns `false` if the id belongs to none.
    ///
    /// # Errors
    /// The reply is malformed.
    pub(super) fn handle_reply(&mut self, id: i64, reply: &TextBuf) -> Result<bool, SessionError> {
        let Some(Unanswered { token, replies }) = self.unanswered.remove(&id) else {
            return Ok(false);
        };
        let text = |mut at: Reader<'_>| at.skip().bytes().to_vec();
        let outcome = match Message::decode(reply)? {
            Message::Reply(Reply { outcome, .. }) => match outcome {
                Ok(result) => ForwardOutcome::Result(text(result)),
                Err(error) => ForwardOutcome::Error(text(error)),
            },
            Message::Request { .. } | Message::Notification { .. } => ForwardOutcome::Lost,
        };
        deliver(&replies, token, outcome);
        Ok(true)
    }
}

impl Drop for ForwardedRequests {
    /// Reports the end of the connection to the requests that wait for replies.
    fn drop(&mut self) {
        for Unanswered { token, replies } in std::mem::take(&mut self.unanswered).into_values() {
            deliver(&replies, token, ForwardOutcome::Lost);
        }
    }
}

fn deliver(replies: &mpsc::UnboundedSender<ForwardedReply>, token: u64, outcome: ForwardOutcome) {
    // Nobody may wait for replies any more.
    let _ = replies.send(ForwardedReply { token, outcome });
}
