//! What is sent on a connection, and how far that has come.

use std::collections::VecDeque;
use std::sync::Arc;

use patchbay_schemas::json::write;

use crate::txn::Transaction;

/// Short messages are gathered in chunks of this size; a longer one is a chunk of its own.
const CHUNK: usize = 16 << 10;

/// A transaction of more operations than this is encoded while it is sent.
const LONG: usize = 1024;

/// So many bytes of it at once: less than a socket takes, so that more is encoded while the server reads.
const PIECE: usize = 128 << 10;

/// What an operation that is not encoded yet counts among the bytes that wait.
const OPERATION_WEIGHT: usize = 256;

/// A message to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// All of it, or what is sent next.
    pub(super) text: Vec<u8>,
    /// None when the message was there as a whole from the beginning.
    pub(super) rest: Option<Rest>,
}

/// What is encoded when all before it has been sent: the server reads the beginning meanwhile, and the text is never there
/// as a whole. Nothing is left of it in the end.
#[derive(Debug)]
pub(super) struct Rest {
    transaction: Arc<Transaction>,
    /// How many of its operations are encoded.
    encoded: usize,
    /// What follows the operations.
    end: Vec<u8>,
}

impl Outgoing {
    /// A request for a transaction.
    pub(super) fn transact(transaction: &Arc<Transaction>) -> Self {
        let mut text = request_head("transact");
        if transaction.operations().len() <= LONG {
            transaction.write_params(&mut text);
            return text.into();
        }
        transaction.write_database(&mut text);
        let rest = Rest {
            transaction: transaction.clone(),
            encoded: 0,
            end: b"]".to_vec(),
        };
        let rest = Some(rest);
        Self { text, rest }
    }

    /// Where the message ends.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        match &mut self.rest {
            Some(rest) => &mut rest.end,
            None => &mut self.text,
        }
    }

    /// Makes the text what follows it: nothing behind the end.
    fn go_on(&mut self) {
        self.text.clear();
        let Some(rest) = &mut self.rest else { return };
        rest.encoded += rest
            .transaction
            .write_operations(rest.encoded, PIECE, &mut self.text);
        if rest.operations() == 0 {
            self.text.append(&mut rest.end);
        }
    }

    /// What it counts among the bytes that wait.
    fn weight(&self) -> usize {
        let operations = self.rest.as_ref().map_or(0, Rest::operations);
        self.text.len() + operations * OPERATION_WEIGHT
    }
}

impl Rest {
    /// How many operations are not encoded yet.
    fn operations(&self) -> usize {
        self.transaction.operations().len() - self.encoded
    }
}

/// All of it is there.
impl From<Vec<u8>> for Outgoing {
    fn from(text: Vec<u8>) -> Self {
        Self { text, rest: None }
    }
}

/// The beginning of a request; its parameters follow.
pub(super) fn request_head(method: &str) -> Vec<u8> {
    let mut head = b"{\"method\":".to_vec();
    write::string(&mut head, method.as_bytes());
    head.extend_from_slice(b",\"params\":");
    head
}

/// A place in what is sent on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    chunk: u64,
    /// Of the chunk.
    byte: usize,
}

/// What waits to be sent. Chunks have texts that are not empty.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    chunks: VecDeque<Outgoing>,
    /// The number of the first chunk.
    first: u64,
    /// How much of the first chunk's text has been sent.
    first_sent: usize,
    /// The weight of all chunks, without what has been sent.
    unsent: usize,
}

impl Outbox {
    /// Returns the place at the message's end.
    pub(super) fn push(&mut self, message: Outgoing) -> Place {
        self.unsent += message.weight();
        match self.chunks.back_mut() {
            Some(last)
                if last.rest.is_none()
                    && message.rest.is_none()
                    && last.text.len() + message.text.len() <= CHUNK =>
            {
                last.text.extend_from_slice(&message.text);
            }
            _ => self.chunks.push_back(message),
        }
        let last = self.chunks.back();
        let whole = last.filter(|last| last.rest.is_none());
        Place {
            chunk: self.first + self.chunks.len() as u64 - 1,
            // Nothing is gathered behind a message that is encoded while it is sent, so it ends where its chunk does.
            byte: whole.map_or(usize::MAX, |last| last.text.len()),
        }
    }

    /// What is sent next.
    pub(super) fn next(&self) -> &[u8] {
        self.chunks
            .front()
            .map_or(&[], |first| &first.text[self.first_sent..])
    }

    /// So many bytes of that have been sent.
    pub(super) fn sent(&mut self, len: usize) {
        self.unsent -= len;
        self.first_sent += len;
        let Some(first) = self.chunks.front_mut() else {
            return;
        };
        if first.text.len() > self.first_sent {
            return;
        }
        self.first_sent = 0;
        let weight = first.weight() - first.text.len();
        first.go_on();
        self.unsent = self.unsent - weight + first.weight();
        if first.text.is_empty() {
            self.chunks.pop_front();
            self.first += 1;
        }
    }

    /// How many bytes wait; what is not encoded yet is counted by operations.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Up to where everything has been sent.
    pub(super) fn sent_up_to(&self) -> Place {
        Place {
            chunk: self.first,
            byte: self.first_sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb::{self, LogicalSwitch};

    use crate::db::Snapshot;
    use crate::txn::TxnBuilder;

    use super::*;

    fn transaction(rows: usize) -> Arc<Transaction> {
        let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
        for i in 0..rows {
            let name = format!("{i:0200}");
            txn.insert(&LogicalSwitch {
                name,
                ..LogicalSwitch::default()
            })
            .unwrap();
        }
        Arc::new(txn.finish())
    }

    /// Sends up to so many bytes at once, each message pushed when that number of sendings has been made; the text, and
    /// where each message was known to have been sent.
    fn send(messages: Vec<(usize, Outgoing)>, at_once: usize) -> (Vec<u8>, Vec<usize>) {
        let mut outbox = Outbox::default();
        let (mut text, mut places, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut messages = messages.into_iter().peekable();
        for sending in 0.. {
            while let Some((_, message)) = messages.next_if(|(when, _)| *when <= sending) {
                places.push(outbox.push(message));
            }
            let next = outbox.next();
            if next.is_empty() && messages.peek().is_none() {
                break;
            }
            assert!(next.len() <= outbox.unsent() && next.len() < 3 * PIECE);
            let len = next.len().min(at_once);
            text.extend_from_slice(&next[..len]);
            if len > 0 {
                outbox.sent(len);
            }
            let done = outbox.sent_up_to();
            ends.resize(
                places.iter().filter(|end| **end <= done).count(),
                text.len(),
            );
        }
        assert_eq!(outbox.unsent(), 0);
        (text, ends)
    }

    fn note() -> Outgoing {
        b"{}".to_vec().into()
    }

    /// The messages, of which those without a transaction are notes, as text, and where each ends.
    fn whole(messages: &[Option<&Arc<Transaction>>]) -> (Vec<u8>, Vec<usize>) {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                Some(transaction) => {
                    text.append(&mut request_head("transact"));
                    transaction.write_params(&mut text);
                }
                None => text.extend_from_slice(b"{}"),
            }
            ends.push(text.len());
        }
        (text, ends)
    }

    fn message(transaction: Option<&Arc<Transaction>>) -> Outgoing {
        transaction.map_or_else(note, Outgoing::transact)
    }

    #[test]
    fn long_transactions_are_encoded_while_they_are_sent() {
        let (short, long) = (transaction(LONG), transaction(5 * LONG));
        let messages = [
            None,
            Some(&short),
            None,
            Some(&long),
            None,
            None,
            Some(&long),
        ];
        let (text, ends) = whole(&messages);
        for at_once in [10_007, usize::MAX] {
            let messages = messages.iter().map(|one| (0, message(*one)));
            let (sent, seen) = send(messages.collect(), at_once);
            assert!(sent == text);
            assert_eq!(seen.len(), ends.len());
            for (seen, end) in seen.iter().zip(&ends) {
                assert!(
                    end <= seen && seen - end < at_once.min(CHUNK),
                    "{seen} {end}"
                );
            }
        }
    }

    #[test]
    fn a_long_transaction_is_known_to_be_sent_with_its_last_byte() {
        // A last piece behind which there would be room in its chunk.
        let mut operation = Vec::new();
        transaction(1).write_operations(0, PIECE, &mut operation);
        let long = transaction(3 * PIECE.div_ceil(operation.len()) + 5);
        assert!(long.operations().len() > LONG && 6 * operation.len() < CHUNK);
        let (text, ends) = whole(&[Some(&long), None]);
        for at_once in [997, 4_001, 65_537, usize::MAX] {
            let sendings = ends[0].div_ceil(at_once.min(PIECE));
            // The note comes while the last pieces are sent.
            for when in sendings.saturating_sub(2)..sendings + 6 {
                let messages = vec![(0, Outgoing::transact(&long)), (when, note())];
                let (sent, seen) = send(messages, at_once);
                assert!(sent == text);
                assert_eq!(
                    seen[0], ends[0],
                    "{at_once} bytes at once, a note after {when}"
                );
            }
        }
    }

    #[test]
    fn long_transactions_weigh_before_they_are_encoded() {
        let long = transaction(20 * LONG);
        let mut outbox = Outbox::default();
        outbox.push(Outgoing::transact(&long));
        assert!(outbox.unsent() > 20 * LONG * OPERATION_WEIGHT);
    }

    #[test]
    fn what_ends_a_request_follows_its_operations() {
        for rows in [1, 2 * LONG] {
            let transaction = transaction(rows);
            let mut request = Outgoing::transact(&transaction);
            request.end().extend_from_slice(b",\"id\":7}");
            let (mut text, _) = whole(&[Some(&transaction)]);
            text.extend_from_slice(b",\"id\":7}");
            assert!(send(vec![(0, request)], usize::MAX).0 == text);
        }
    }
}
