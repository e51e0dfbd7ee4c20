//! The reader of a connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::wire::{Message, Reply};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::chunk::Chunk;
use crate::fault::Direction;
use crate::remotes::options::RemoteOptions;
use crate::request::{self, Request};
use crate::session::{DecodeContext, IncomingRequest, Session, SessionError};

/// Unwritten bytes from which no requests are read: the client has to read its replies first.
const MAX_UNWRITTEN_BYTES: usize = 1 << 20;
/// Bytes that are read from the socket at once.
const SOCKET_READ_BYTES: usize = 1 << 18;

/// Time in which a message that is longer than what a connection may leave behind has to be
/// complete. More than a slow network needs for a message of the longest length.
const LONG_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Capacity in bytes that the buffer of an idle connection keeps.
const IDLE_BUFFER_BYTES: usize = 1 << 10;

thread_local! {
    /// Bytes that the connections of a thread read before they keep them.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Ends after a probe interval; never if there is none.
async fn wait_for_silence(interval: Option<Duration>) {
    match interval {
        Some(interval) => sleep(interval).await,
        None => std::future::pending().await,
    }
}

/// Ends when a long message has to be complete; never if there is none.
async fn wait_for_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Appends received bytes to a buffer, and returns their number: 0 at the end of the stream.
///
/// While a connection is idle, it has no memory for bytes that are to come. Only a long message is
/// read into its own buffer.
async fn read_some(
    input: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> std::io::Result<usize> {
    if buffer.len() >= SOCKET_READ_BYTES {
        buffer.reserve(SOCKET_READ_BYTES);
        return input.read_buf(buffer).await;
    }
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(SOCKET_READ_BYTES, 0);
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut *input).poll_read(context, &mut read))?;
            buffer.extend_from_slice(read.filled());
            Poll::Ready(Ok(read.filled().len()))
        })
    })
    .await
}

/// Reads and executes requests until the connection ends.
pub(super) async fn read_requests(
    session: &Session,
    input: &mut (impl AsyncRead + Unpin),
    mut options: watch::Receiver<RemoteOptions>,
) -> Result<(), SessionError> {
    let mut framer = Framer::new(session.limits().message);
    let uuids = session.server().session_uuids(session.id());
    let mut context = DecodeContext::new(uuids);
    let faults = session.faults();
    let mut is_probed = false;
    let mut is_cut = false;
    let mut incoming = IncomingRequest::default();
    let mut charge = session.server().budget().charge();
    // Bytes of the text that is not complete, those that were decoded already included.
    let mut unfinished = 0;
    let long = session.limits().connection_memory;
    // Time by which a long text has to be complete. `None`: it is not long.
    let mut deadline = None;
    loop {
        while let Some(text) = framer.next_text()? {
            unfinished = framer.buffer_mut().len();
            deadline = None;
            faults.wait_while_reading_is_stopped(session.id()).await;
            let message = Message::decode(&text)?;
            let streamed = incoming.finish(&message).await?;
            if session.outbox().is_closing() {
                // The end of the session drops this task. Sessions end in order, as do their locks.
                std::future::pending::<()>().await;
            }
            match message {
                Message::Request { method, params, id } => {
                    Request {
                        session,
                        method: &method,
                        params,
                        id,
                        streamed,
                        len: text.as_text().bytes().len(),
                    }
                    .answer(&mut context)
                    .await;
                }
                Message::Notification { method, params } if method == "cancel" => {
                    request::cancel(session, params).await;
                }
                Message::Notification { .. } => {}
                Message::Reply(Reply { id, outcome: Ok(_) }) if id == Json::string("echo") => {}
                Message::Reply(_) => return Err(SessionError::UnexpectedReply),
            }
            if !session.outbox().wait_below(MAX_UNWRITTEN_BYTES).await {
                return Ok(());
            }
        }
        if is_cut {
            return Ok(());
        }
        incoming.decode_received(&mut framer, session, &context.uuids).await;
        faults.wait_while_reading_is_stopped(session.id()).await;
        let buffer = framer.buffer_mut();
        if buffer.is_empty() && buffer.capacity() > IDLE_BUFFER_BYTES {
            *buffer = Vec::new();
        }
        let interval = options.borrow_and_update().probe_interval;
        let count = tokio::select! {
            biased;
            count = read_some(input, buffer) => count?,
            () = wait_for_silence(interval) => {
                if is_probed {
                    return Err(SessionError::Inactive);
                }
                is_probed = true;
                session.outbox().push([Chunk::Bytes(
                    br#"{"id":"echo","method":"echo","params":[]}"#.to_vec(),
                )]);
                continue;
            }
            () = wait_for_deadline(deadline) => {
                return Err(SessionError::IncompleteMessage { limit: long });
            }
            // The interval may have changed.
            Ok(()) = options.changed() => continue,
        };
        is_probed = false;
        if count == 0 {
            return Ok(());
        }
        unfinished += count;
        charge.resize(unfinished + incoming.decoded_bytes())?;
        if unfinished > long {
            deadline.get_or_insert_with(|| Instant::now() + LONG_MESSAGE_TIMEOUT);
        }
        let passage = faults.pass(session.id(), Direction::Received, count);
        let buffer = framer.buffer_mut();
        buffer.truncate(buffer.len() - (count - passage.bytes));
        is_cut = passage.cut;
    }
}
