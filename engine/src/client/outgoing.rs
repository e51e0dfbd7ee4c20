//! What is sent on a connection, and how far that has come.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::txn::Transaction;

use super::rpc::request_head;

/// Short messages are gathered in chunks of this size; a longer one is a chunk of its own.
const CHUNK: usize = 16 << 10;

/// A transaction of more operations than this is encoded while it is sent.
const LONG: usize = 1024;

/// So many bytes of it at once: less than a socket takes, so that more is encoded while the server reads.
const PIECE: usize = 128 << 10;

/// A message to be sent, whole or up to where the rest follows.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) text: Vec<u8>,
    pub(super) rest: Option<Rest>,
}

/// What is encoded when all before it has been sent: the server reads the beginning meanwhile, and the text is never there
/// as a whole.
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

    /// Makes the text what follows it.
    pub(super) fn go_on(&mut self) {
        self.text.clear();
        let Some(rest) = &mut self.rest else { return };
        let transaction = &rest.transaction;
        rest.encoded += transaction.write_operations(rest.encoded, PIECE, &mut self.text);
        if rest.encoded == transaction.operations().len() {
            self.text.append(&mut rest.end);
            self.rest = None;
        }
    }
}

/// All of it is there.
impl From<Vec<u8>> for Outgoing {
    fn from(text: Vec<u8>) -> Self {
        Self { text, rest: None }
    }
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
    /// The length of all texts, without what has been sent.
    unsent: usize,
}

impl Outbox {
    /// Returns the place at the message's end.
    pub(super) fn push(&mut self, message: Outgoing) -> Place {
        self.unsent += message.text.len();
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
            // The end of a chunk that is not encoded to its end is the place before the next.
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
        if first.rest.is_some() {
            first.go_on();
            self.unsent += first.text.len();
        } else {
            self.chunks.pop_front();
            self.first += 1;
        }
    }

    /// How many bytes wait, without those that are not encoded yet.
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

    /// Sends up to so many bytes at once; the text, and where each message ended in it.
    fn send(messages: Vec<Outgoing>, at_once: usize) -> (Vec<u8>, Vec<usize>) {
        let mut outbox = Outbox::default();
        let places: Vec<_> = messages.into_iter().map(|one| outbox.push(one)).collect();
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        while !outbox.next().is_empty() {
            let next = outbox.next();
            assert!(next.len() <= outbox.unsent() && next.len() < 2 * PIECE);
            let len = next.len().min(at_once);
            text.extend_from_slice(&next[..len]);
            outbox.sent(len);
            let done = outbox.sent_up_to();
            ends.resize(
                places.iter().filter(|end| **end <= done).count(),
                text.len(),
            );
        }
        assert_eq!(outbox.unsent(), 0);
        (text, ends)
    }

    #[test]
    fn long_transactions_are_encoded_while_they_are_sent() {
        let (short, long) = (transaction(LONG), transaction(5 * LONG));
        let note = || Outgoing::from(b"{}".to_vec());
        let mut whole = Vec::new();
        let mut ends = Vec::new();
        for message in [None, Some(&short), None, Some(&long), None, None] {
            match message {
                Some(transaction) => {
                    whole.append(&mut request_head("transact"));
                    transaction.write_params(&mut whole);
                }
                None => whole.extend_from_slice(b"{}"),
            }
            ends.push(whole.len());
        }
        for at_once in [10_007, usize::MAX] {
            let messages = vec![
                note(),
                Outgoing::transact(&short),
                note(),
                Outgoing::transact(&long),
                note(),
                note(),
            ];
            let (text, seen) = send(messages, at_once);
            assert!(text == whole);
            assert_eq!(seen.len(), ends.len());
            for (seen, end) in seen.iter().zip(&ends) {
                // It is known to be sent with the first bytes sent after it, at the latest.
                assert!(
                    end <= seen && seen - end < at_once.min(CHUNK),
                    "{seen} {end}"
                );
            }
        }
    }

    #[test]
    fn what_ends_a_request_follows_its_operations() {
        for rows in [1, 2 * LONG] {
            let transaction = transaction(rows);
            let mut request = Outgoing::transact(&transaction);
            request.end().extend_from_slice(b",\"id\":7}");
            let mut whole = request_head("transact");
            transaction.write_params(&mut whole);
            whole.extend_from_slice(b",\"id\":7}");
            assert!(send(vec![request], usize::MAX).0 == whole);
        }
    }
}
