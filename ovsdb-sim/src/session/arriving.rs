//! The operations of a long transaction are decoded while its request arrives: its text is never there as a whole, and
//! all cores work on it.
//!
//! What was decoded waits for the end of the request. Only there is found whether all of it makes sense, so that one
//! that breaks off changes nothing.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use patchbay_schemas::json::{ArrivingElements, Framer, Reader};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{ArrivingTransaction, DecodedOperations, DecodedTransaction, Message};
use tokio::sync::oneshot;

use super::{Session, SessionError};

/// Operations are taken out of a request in pieces of at least so many bytes.
const PIECE: usize = 1 << 19;
/// So many pieces may wait to be decoded before more is read.
const MAX_PIECES: usize = 4;

/// What is done with a request that is arriving.
#[derive(Debug, Default)]
pub(crate) enum Partial {
    /// It is not known yet what it is.
    #[default]
    Unknown,
    /// It is awaited as a whole.
    Awaited,
    /// It is a transaction.
    Transaction(Box<Arriving>),
}

/// A transaction that is arriving.
#[derive(Debug)]
pub(crate) struct Arriving {
    transaction: ArrivingTransaction,
    /// In their order, those that are being decoded.
    parts: VecDeque<oneshot::Receiver<thread::Result<DecodedOperations>>>,
}

/// A transaction that was decoded while it arrived.
#[derive(Debug)]
pub(crate) struct ArrivedTransaction {
    pub(crate) transaction: DecodedTransaction,
    /// For a database of this schema.
    pub(crate) schema: Arc<DatabaseSchema>,
}

impl Partial {
    /// Takes what can be decoded already out of the text that is arriving.
    pub(crate) async fn take(
        &mut self,
        framer: &mut Framer,
        session: &Session,
        uuids: &UuidSource,
    ) {
        let Some(elements) = framer.arriving_elements(PIECE) else {
            return;
        };
        if let Self::Unknown = self {
            let arriving = Arriving::of(session, uuids, &elements);
            *self = arriving.map_or(Self::Awaited, |arriving| {
                Self::Transaction(Box::new(arriving))
            });
        }
        if let Self::Transaction(arriving) = self {
            arriving.decode(elements);
            if arriving.parts.len() >= MAX_PIECES {
                arriving.append_next().await;
            }
        }
    }

    /// The message has ended: the transaction, if it is one and its operations were decoded while it arrived.
    ///
    /// # Errors
    /// It does not end as what it began as.
    pub(crate) async fn end(
        &mut self,
        message: &Message<'_>,
    ) -> Result<Option<ArrivedTransaction>, SessionError> {
        let Self::Transaction(arriving) = std::mem::take(self) else {
            return Ok(None);
        };
        match message {
            Message::Request { method, params, .. }
                if method == "transact" && arriving.transaction.goes_on_in(*params) =>
            {
                Ok(Some(arriving.end(*params).await))
            }
            // Nobody would hear what becomes of it.
            Message::Notification { method, params }
                if method == "transact" && arriving.transaction.goes_on_in(*params) =>
            {
                Ok(None)
            }
            _ => Err(SessionError::OtherEnd),
        }
    }
}

impl Arriving {
    /// None if the message is no transaction, or one that must be answered as a whole.
    fn of(session: &Session, uuids: &UuidSource, elements: &ArrivingElements<'_>) -> Option<Self> {
        let head = elements.head().ok()?;
        let (Message::Request {
            method, mut params, ..
        }
        | Message::Notification { method, mut params }) = Message::decode(&head).ok()?
        else {
            return None;
        };
        let is_name = method == "transact" && params.enter_array() && params.next_element();
        let name = params.string().filter(|_| is_name)?;
        let server = session.server();
        let database = server.database(&String::from_utf8_lossy(&name))?;
        // An id that is taken is refused with the whole request's text.
        if session.has_waiting_transactions() {
            return None;
        }
        Some(Self {
            transaction: ArrivingTransaction::new(database.schema(), uuids, elements)?,
            parts: VecDeque::new(),
        })
    }

    fn decode(&mut self, elements: ArrivingElements<'_>) {
        let part = self.transaction.part(elements);
        let (decoded, result) = oneshot::channel();
        rayon::spawn(move || {
            let part = catch_unwind(AssertUnwindSafe(|| part.decode()));
            // The session may have ended meanwhile.
            drop(decoded.send(part));
        });
        self.parts.push_back(result);
    }

    async fn append_next(&mut self) {
        let Some(part) = self.parts.pop_front() else {
            return;
        };
        let part = part
            .await
            .expect("the thread of a part sends what became of it");
        self.transaction
            .append(part.unwrap_or_else(|panic| resume_unwind(panic)));
    }

    async fn end(mut self, params: Reader<'_>) -> ArrivedTransaction {
        let rest = self.transaction.rest(params);
        while !self.parts.is_empty() {
            self.append_next().await;
        }
        ArrivedTransaction {
            schema: self.transaction.schema().clone(),
            transaction: self.transaction.finish(rest),
        }
    }
}
