//! Messages to be sent on a connection, and positions in the stream of sent bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use patchbay_schemas::json::write;

use crate::txn::Transaction;

/// Number of unsent bytes above which no further request is taken from a queue.
pub(super) const MAX_UNSENT_BYTES: usize = 4 << 20;

/// Maximum length in bytes of a chunk of several short messages. A longer message is a chunk of its
/// own. One write then sends many small requests.
const SHORT_MESSAGE_CHUNK_BYTES: usize = 16 << 10;

/// Maximum number of operations of a transaction that is encoded as a whole. Larger ones are
/// encoded while they are sent.
const MAX_PREENCODED_OPERATIONS: usize = 1024;

/// Number of bytes of a large transaction that are encoded at a time. Less than a socket buffers,
/// so that the next bytes are encoded while the server reads.
const ENCODE_STEP_BYTES: usize = 128 << 10;

/// Bytes that an operation counts among the unsent bytes while it is not encoded: an estimate of
/// the length of an insert.
const UNENCODED_OPERATION_BYTES: usize = 256;

/// A message that is queued for sending.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The whole message, or the part that is sent next.
    pub(super) text: Vec<u8>,
    /// `None`: `text` is the whole message.
    pub(super) rest: Option<UnencodedOperations>,
}

/// The operations of a large transaction that are encoded once everything before them has been
/// sent. The server reads the beginning meanwhile, and the text never exists as a whole.
#[derive(Debug)]
pub(super) struct UnencodedOperations {
    transaction: Arc<Transaction>,
    /// Number of encoded operations.
    encoded: usize,
    /// Text after the operations.
    end: Vec<u8>,
}

impl Outgoing {
    /// A `transact` request, without the id.
    pub(super) fn transact(transaction: &Arc<Transaction>) -> Self {
        let mut text = request_head("transact");
        if transaction.operations().len() <= MAX_PREENCODED_OPERATIONS {
            transaction.write_params(&mut text);
            return text.into();
        }
        transaction.write_database(&mut text);
        let rest = UnencodedOperations {
            transaction: transaction.clone(),
            encoded: 0,
            end: b"]".to_vec(),
        };
        let rest = Some(rest);
        Self { text, rest }
    }

    /// Buffer for text to append to the message.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        match &mut self.rest {
            Some(rest) => &mut rest.end,
            None => &mut self.text,
        }
    }

    /// Replaces the text, which has been sent, by the next part. Empty at the end of the message.
    fn encode_next(&mut self) {
        self.text.clear();
        let Some(rest) = &mut self.rest else { return };
        rest.encoded +=
            rest.transaction.write_operations(rest.encoded, ENCODE_STEP_BYTES, &mut self.text);
        if rest.unencoded_operations() == 0 {
            self.text.append(&mut rest.end);
        }
    }

    /// Bytes that the message counts among the unsent ones.
    fn queued_bytes(&self) -> usize {
        let operations = self.rest.as_ref().map_or(0, UnencodedOperations::unencoded_operations);
        self.text.len() + operations * UNENCODED_OPERATION_BYTES
    }
}

impl UnencodedOperations {
    /// Number of operations that are not encoded yet.
    fn unencoded_operations(&self) -> usize {
        self.transaction.operations().len() - self.encoded
    }
}

/// A message whose whole text is known.
impl From<Vec<u8>> for Outgoing {
    fn from(text: Vec<u8>) -> Self {
        Self { text, rest: None }
    }
}

/// Returns the beginning of a request, up to its parameters.
pub(super) fn request_head(method: &str) -> Vec<u8> {
    let mut head = b"{\"method\":".to_vec();
    write::string(&mut head, method.as_bytes());
    head.extend_from_slice(b",\"params\":");
    head
}

/// A position in the stream of sent bytes. Positions are ordered and can be compared before the
/// text of a large transaction is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SendPosition {
    chunk: u64,
    /// Offset in the chunk.
    byte: usize,
}

/// Messages that wait to be sent. The text of the first chunk is never empty.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    chunks: VecDeque<Outgoing>,
    /// Number of the first chunk.
    first: u64,
    /// Sent bytes of the first chunk's text.
    first_sent: usize,
    /// Queued bytes of all chunks, without the sent ones.
    unsent: usize,
}

impl Outbox {
    /// Queues a message. Returns the position of its end.
    pub(super) fn push(&mut self, message: Outgoing) -> SendPosition {
        self.unsent += message.queued_bytes();
        match self.chunks.back_mut() {
            Some(last)
                if last.rest.is_none()
                    && message.rest.is_none()
                    && last.text.len() + message.text.len() <= SHORT_MESSAGE_CHUNK_BYTES =>
            {
                last.text.extend_from_slice(&message.text);
            }
            _ => self.chunks.push_back(message),
        }
        let last = self.chunks.back();
        let whole = last.filter(|last| last.rest.is_none());
        SendPosition {
            chunk: self.first + self.chunks.len() as u64 - 1,
            // A message that is encoded while it is sent is never joined by others, so it ends with
            // its chunk.
            byte: whole.map_or(usize::MAX, |last| last.text.len()),
        }
    }

    /// The bytes to send next.
    pub(super) fn next(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |first| &first.text[self.first_sent..])
    }

    /// Removes `len` sent bytes and encodes the next part if the chunk's text is used up.
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
        let queued_bytes = first.queued_bytes() - first.text.len();
        first.encode_next();
        self.unsent = self.unsent - queued_bytes + first.queued_bytes();
        if first.text.is_empty() {
            self.chunks.pop_front();
            self.first += 1;
        }
    }

    /// Number of bytes that wait to be sent. Operations that are not encoded yet are estimated.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent
    }

    /// Position up to which everything has been sent.
    pub(super) fn sent_position(&self) -> SendPosition {
        SendPosition { chunk: self.first, byte: self.first_sent }
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
            txn.insert(&LogicalSwitch { name, ..LogicalSwitch::default() }).unwrap();
        }
        Arc::new(txn.finish())
    }

    /// Sends at most `at_once` bytes at a time, and pushes each message after the given number of
    /// sends. Returns the sent text, and its length when the end of each message counted as sent.
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
            assert!(next.len() <= outbox.unsent_bytes() && next.len() < 3 * ENCODE_STEP_BYTES);
            let len = next.len().min(at_once);
            text.extend_from_slice(&next[..len]);
            if len > 0 {
                outbox.sent(len);
            }
            let done = outbox.sent_position();
            ends.resize(places.iter().filter(|end| **end <= done).count(), text.len());
        }
        assert_eq!(outbox.unsent_bytes(), 0);
        (text, ends)
    }

    fn note() -> Outgoing {
        b"{}".to_vec().into()
    }

    /// The text of all messages, where `None` stands for a note, and the end of each.
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
    fn large_transactions_are_encoded_while_they_are_sent() {
        let (short, long) =
            (transaction(MAX_PREENCODED_OPERATIONS), transaction(5 * MAX_PREENCODED_OPERATIONS));
        let messages = [None, Some(&short), None, Some(&long), None, None, Some(&long)];
        let (text, ends) = whole(&messages);
        for at_once in [10_007, usize::MAX] {
            let messages = messages.iter().map(|one| (0, message(*one)));
            let (sent, seen) = send(messages.collect(), at_once);
            assert!(sent == text);
            assert_eq!(seen.len(), ends.len());
            for (seen, end) in seen.iter().zip(&ends) {
                assert!(
                    end <= seen && seen - end < at_once.min(SHORT_MESSAGE_CHUNK_BYTES),
                    "{seen} {end}"
                );
            }
        }
    }

    #[test]
    fn a_large_transaction_counts_as_sent_with_its_last_byte() {
        // The last part leaves room in its chunk for the note.
        let mut operation = Vec::new();
        transaction(1).write_operations(0, ENCODE_STEP_BYTES, &mut operation);
        let long = transaction(3 * ENCODE_STEP_BYTES.div_ceil(operation.len()) + 5);
        assert!(
            long.operations().len() > MAX_PREENCODED_OPERATIONS
                && 6 * operation.len() < SHORT_MESSAGE_CHUNK_BYTES
        );
        let (text, ends) = whole(&[Some(&long), None]);
        for at_once in [997, 4_001, 65_537, usize::MAX] {
            let sendings = ends[0].div_ceil(at_once.min(ENCODE_STEP_BYTES));
            // The note is pushed while the last parts are sent.
            for when in sendings.saturating_sub(2)..sendings + 6 {
                let messages = vec![(0, Outgoing::transact(&long)), (when, note())];
                let (sent, seen) = send(messages, at_once);
                assert!(sent == text);
                assert_eq!(seen[0], ends[0], "{at_once} bytes at once, a note after {when}");
            }
        }
    }

    #[test]
    fn operations_count_as_unsent_bytes_before_they_are_encoded() {
        let long = transaction(20 * MAX_PREENCODED_OPERATIONS);
        let mut outbox = Outbox::default();
        outbox.push(Outgoing::transact(&long));
        assert!(outbox.unsent_bytes() > 20 * MAX_PREENCODED_OPERATIONS * UNENCODED_OPERATION_BYTES);
    }

    #[test]
    fn text_appended_to_a_request_follows_its_operations() {
        for rows in [1, 2 * MAX_PREENCODED_OPERATIONS] {
            let transaction = transaction(rows);
            let mut request = Outgoing::transact(&transaction);
            request.end().extend_from_slice(b",\"id\":7}");
            let (mut text, _) = whole(&[Some(&transaction)]);
            text.extend_from_slice(b",\"id\":7}");
            assert!(send(vec![(0, request)], usize::MAX).0 == text);
        }
    }
}
