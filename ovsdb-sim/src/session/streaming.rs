//! Decodes the operations of a long transaction while its request is being received, on all cores.
//!
//! The decoded operations are kept until the request has ended and is known to be valid, so that a
//! request that breaks off has no effect. See [`patchbay_schemas::streaming`].

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use patchbay_schemas::json::{Framer, Reader};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::streaming::{DecodedOperations, OpenElements, StreamedOperations};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Message, Operation};
use tokio::sync::oneshot;

use super::{Session, SessionError};

/// Minimum length in bytes of a part of a request. Smaller parts would cost more in hand-over
/// between threads than they gain.
const MIN_PART_BYTES: usize = 1 << 19;
/// Maximum number of parts that are being decoded, which bounds the memory for their text. Reading
/// waits at this number.
const MAX_PENDING_PARTS: usize = 4;

/// Decoding state of the request that is being received.
#[derive(Debug, Default)]
pub(crate) enum IncomingRequest {
    /// The content is not known yet.
    #[default]
    Unknown,
    /// The request is decoded as a whole.
    Whole,
    /// The request is a transaction, and its operations are being decoded.
    Transaction(Box<IncomingTransaction>),
}

/// A transaction whose request is being received.
#[derive(Debug)]
pub(crate) struct IncomingTransaction {
    operations: StreamedOperations,
    /// Parts that are being decoded, in the order of the request.
    pending: VecDeque<oneshot::Receiver<thread::Result<DecodedOperations>>>,
}

/// A transaction that was decoded while its request was being received.
#[derive(Debug)]
pub(crate) struct StreamedTransaction {
    pub(crate) transaction: DecodedTransaction,
    /// Schema by which it was decoded.
    pub(crate) schema: Arc<DatabaseSchema>,
}

impl IncomingRequest {
    /// Starts to decode the complete operations of a long request.
    pub(crate) async fn decode_received(
        &mut self,
        framer: &mut Framer,
        session: &Session,
        uuids: &UuidSource,
    ) {
        let Some(elements) = framer.open_elements(MIN_PART_BYTES) else {
            return;
        };
        if let Self::Unknown = self {
            let transaction = IncomingTransaction::new(session, uuids, &elements);
            *self = transaction
                .map_or(Self::Whole, |transaction| Self::Transaction(Box::new(transaction)));
        }
        if let Self::Transaction(transaction) = self {
            transaction.spawn_decoding(elements);
            if transaction.pending.len() >= MAX_PENDING_PARTS {
                transaction.append_next().await;
            }
        }
    }

    /// The memory of the decoded operations beside their text, in bytes.
    pub(crate) fn decoded_bytes(&self) -> usize {
        match self {
            Self::Unknown | Self::Whole => 0,
            Self::Transaction(transaction) => {
                transaction.operations.operation_count() * size_of::<Operation>()
            }
        }
    }

    /// Ends the request with its complete message, and starts the next one.
    ///
    /// Returns the transaction. `None`: no operation has been decoded, or the transaction is a
    /// notification, which has no effect.
    ///
    /// # Errors
    /// The end of the request contradicts its start.
    pub(crate) async fn finish(
        &mut self,
        message: &Message<'_>,
    ) -> Result<Option<StreamedTransaction>, SessionError> {
        let Self::Transaction(transaction) = std::mem::take(self) else {
            return Ok(None);
        };
        match message {
            Message::Request { method, params, .. }
                if method == "transact" && transaction.operations.continues_in(*params) =>
            {
                Ok(Some(transaction.finish(*params).await))
            }
            Message::Notification { method, params }
                if method == "transact" && transaction.operations.continues_in(*params) =>
            {
                Ok(None)
            }
            _ => Err(SessionError::OtherEnd),
        }
    }
}

impl IncomingTransaction {
    /// `None`: the message is not a transaction, or one that must be decoded as a whole.
    fn new(session: &Session, uuids: &UuidSource, elements: &OpenElements<'_>) -> Option<Self> {
        let head = elements.head().ok()?;
        let (Message::Request { method, mut params, .. }
        | Message::Notification { method, mut params }) = Message::decode(&head).ok()?
        else {
            return None;
        };
        let is_name = method == "transact" && params.enter_array() && params.next_element();
        let name = params.string().filter(|_| is_name)?;
        let server = session.server();
        let database = server.database(&String::from_utf8_lossy(&name))?;
        // A relay needs the complete text.
        if database.is_relay() {
            return None;
        }
        // The error of a request id that is in use contains the text of the complete request.
        if session.has_waiting_transactions() {
            return None;
        }
        Some(Self {
            operations: StreamedOperations::new(database.schema(), uuids, elements)?,
            pending: VecDeque::new(),
        })
    }

    /// Removes the complete operations from the request and decodes them on another thread.
    fn spawn_decoding(&mut self, elements: OpenElements<'_>) {
        let part = self.operations.take(elements);
        let (sender, receiver) = oneshot::channel();
        rayon::spawn(move || {
            let decoded = catch_unwind(AssertUnwindSafe(|| part.decode()));
            // The session may have ended meanwhile.
            drop(sender.send(decoded));
        });
        self.pending.push_back(receiver);
    }

    /// Waits for the first pending part and appends it.
    async fn append_next(&mut self) {
        let Some(part) = self.pending.pop_front() else {
            return;
        };
        let part = part.await.expect("the decoding thread sends its result, even after a panic");
        self.operations.append(part.unwrap_or_else(|panic| resume_unwind(panic)));
    }

    /// Decodes the remaining operations and waits for all parts.
    async fn finish(mut self, params: Reader<'_>) -> StreamedTransaction {
        let rest = self.operations.decode_rest(params);
        while !self.pending.is_empty() {
            self.append_next().await;
        }
        StreamedTransaction {
            schema: self.operations.schema().clone(),
            transaction: self.operations.finish(rest),
        }
    }
}
