//! One client's connection: reads messages, answers requests.

mod streaming;

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Message, Reply};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::fault::Direction;
use crate::hosted::Hosted;
use crate::outbox::{Batch, Chunk, Outbox};
use crate::pace::Pace;
use crate::reply;
use crate::request::Request;
use crate::server::Server;

use streaming::IncomingRequest;
pub(crate) use streaming::StreamedTransaction;

/// Requests are not read while more than this waits to be written to the client.
const READ_BELOW: usize = 1 << 20;
/// How much is read at once.
const READ_SIZE: usize = 1 << 18;

/// So long after the end of a session its client may take to read what is left and to hang up.
const LINGER: Duration = Duration::from_secs(5);

/// After updates were written, further ones may wait so long to be written together, if there are [many](Pace).
const GATHER: Duration = Duration::from_millis(1);

/// Pieces of output are written together up to this size.
const WRITE_SIZE: usize = 1 << 16;

/// Longer than anybody waits, and short enough to be added to a time.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Tells sessions of one server apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SessionId(pub(crate) u64);

/// What others may know of a session.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    server: Arc<Server>,
    outbox: Outbox,
    /// The databases of the session's monitors by the monitors' names, whatever their databases.
    monitors: Mutex<HashMap<Json, Arc<Hosted>, RandomState>>,
    /// Whether the client wants to hear of databases that change instead of being cut off.
    change_aware: AtomicBool,
}

/// Why a session ends before its client hangs up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Json(#[from] patchbay_schemas::json::JsonError),
    #[error(transparent)]
    Message(#[from] patchbay_schemas::wire::MessageError),
    #[error("a reply that nobody asked for")]
    UnexpectedReply,
    #[error("a request that does not end as what it began as, a transaction")]
    OtherEnd,
    #[error("no answer to an inactivity probe")]
    Inactive,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Session {
    pub(crate) fn new(id: SessionId, server: Arc<Server>) -> Self {
        let outbox = Outbox::new(server.limits().backlog);
        Self {
            id,
            server,
            outbox,
            monitors: Mutex::default(),
            change_aware: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Sends the reply to a request.
    pub(crate) fn reply(&self, reply: Chunk) {
        self.reply_in_pieces([reply]);
    }

    pub(crate) fn reply_in_pieces(&self, reply: impl IntoIterator<Item = Chunk>) {
        let delay = self.server.faults().delay(self.id);
        let begin = delay.map(|by| Chunk::NotBefore(Instant::now() + by.min(NEVER)));
        self.outbox.push(begin.into_iter().chain(reply));
    }

    pub(crate) fn monitors(&self) -> MutexGuard<'_, HashMap<Json, Arc<Hosted>, RandomState>> {
        self.monitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_change_aware(&self) -> bool {
        self.change_aware.load(Ordering::Relaxed)
    }

    pub(crate) fn set_change_aware(&self, aware: bool) {
        self.change_aware.store(aware, Ordering::Relaxed);
    }

    /// Forgets a monitor that the server ended and tells the client.
    pub(crate) fn monitor_canceled(&self, id: &Json) {
        self.monitors().remove(id);
        let params = Json::Array(vec![id.clone()]);
        self.outbox
            .push([reply::notification("monitor_canceled", &params)]);
    }

    /// Tells the client of a lock that it got or lost.
    pub(crate) fn notify_lock(&self, method: &str, lock: &str) {
        self.outbox.push([reply::notification(
            method,
            &Json::Array(vec![Json::string(lock)]),
        )]);
    }
}

/// Serves one connection until it ends. Two tasks, the reader and the writer; when one ends the other does.
///
/// `join` says whether it is to be served, and
/// what is kept for as long as it is.
pub(crate) async fn serve<S, K>(
    server: Arc<Server>,
    stream: S,
    probe: Probe,
    join: impl FnOnce(SessionId) -> Option<K>,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let session = server.connect();
    let connected = Connected {
        server: &server,
        session: &session,
    };
    let Some(kept) = join(session.id) else {
        return;
    };
    if !server.is_up() || server.faults().drops(session.id) {
        session.outbox.cut_off();
    }
    let (mut input, output) = tokio::io::split(stream);
    let mut writer = tokio::spawn(write(session.clone(), output));
    tokio::select! {
        ended = read(&session, &mut input, probe) => {
            if let Err(error) = &ended {
                tracing::info!(session = session.id.0, %error, "closing a connection");
            }
            if matches!(ended, Err(SessionError::Inactive)) {
                session.outbox.cut_off();
            }
        }
        _ = session.outbox.ended() => {}
    }
    drop((connected, kept));
    // A client that does not read what it asked for, or does not hang up, must not keep the connection.
    let linger = if session.outbox.ended().await {
        LINGER
    } else {
        Duration::ZERO
    };
    let end = async {
        if let Err(error) = (&mut writer).await {
            tracing::error!(session = session.id.0, %error, "the writer of a session failed");
        }
        // Hanging up on a client that is still sending could take from it what it has not read yet.
        tokio::io::copy(&mut input, &mut tokio::io::sink()).await
    };
    if let Ok(Err(error)) = timeout(linger, end).await {
        tracing::debug!(session = session.id.0, %error, "client is gone");
    }
    writer.abort();
}

/// A session that its server knows. They hold each other, so that it must be forgotten also when its task is dropped,
/// with the runtime: else neither would end, nor the locks of the server's files.
struct Connected<'a> {
    server: &'a Server,
    session: &'a Session,
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.server.disconnect(self.session);
        self.session.outbox.close();
    }
}

async fn write(session: Arc<Session>, mut output: impl AsyncWrite + Unpin) {
    // Small pieces are copied together, so that each wake-up costs one system call.
    let mut batch = Vec::with_capacity(WRITE_SIZE);
    let mut pace = Pace::new();
    while let Some((next, urgent)) = session.outbox.take().await {
        let chunks = match next {
            Batch::Chunks(chunks) => chunks,
            Batch::Collected(updates) => {
                let chunks = updates.encode();
                let len = chunks.iter().map(|chunk| chunk.bytes().len()).sum();
                session.outbox.encoded(len);
                chunks
            }
        };
        for chunk in chunks {
            let bytes = chunk.bytes();
            let goes_alone = bytes.len() >= WRITE_SIZE || !chunk.is_whole();
            let pause = match &chunk {
                Chunk::NotBefore(at) => Some(*at),
                Chunk::Own(_) | Chunk::Update(_) => None,
            };
            if goes_alone || pause.is_some() || batch.len() + bytes.len() > WRITE_SIZE {
                if !send(&session, &mut output, &batch).await {
                    return;
                }
                batch.clear();
            }
            if let Some(at) = pause {
                sleep_until(at).await;
            }
            if !goes_alone {
                batch.extend_from_slice(bytes);
            } else if !send_alone(&session, &mut output, chunk).await {
                return;
            }
        }
        if !send(&session, &mut output, &batch).await {
            return;
        }
        batch.clear();
        if !urgent && !pace.is_one_of_few() {
            session.outbox.rest(GATHER).await;
        }
    }
    output.shutdown().await.unwrap_or_default();
}

/// Writes a chunk piece by piece; false when the connection ends.
async fn send_alone(
    session: &Session,
    output: &mut (impl AsyncWrite + Unpin),
    chunk: Chunk,
) -> bool {
    if !send(session, output, chunk.bytes()).await {
        return false;
    }
    let Chunk::Update(mut text) = chunk else {
        return true;
    };
    while let Some(next) = text.next().cloned() {
        // Whoever holds a piece holds all that is encoded of those behind it.
        text = next;
        session.outbox.encoded(text.piece().len());
        if !send(session, output, text.piece()).await {
            return false;
        }
    }
    true
}

/// Writes bytes; false when the connection ends.
async fn send(session: &Session, output: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    let faults = session.server.faults();
    let passage = faults.pass(session.id, Direction::Sent, bytes.len());
    if let Err(error) = output.write_all(&bytes[..passage.bytes]).await {
        tracing::debug!(session = session.id.0, %error, "client is gone");
        session.outbox.close();
        return false;
    }
    if passage.cut {
        session.outbox.cut_off();
        return false;
    }
    session.outbox.written(bytes.len());
    true
}

/// The time of silence after which a client must prove to be there; none if it need not. It may change.
pub(crate) type Probe = watch::Receiver<Option<Duration>>;

/// Ends after that time; never without one.
async fn silence(interval: Option<Duration>) {
    match interval {
        Some(interval) => sleep(interval).await,
        None => std::future::pending().await,
    }
}

async fn read(
    session: &Arc<Session>,
    input: &mut (impl AsyncRead + Unpin),
    mut probe: Probe,
) -> Result<(), SessionError> {
    let mut framer = Framer::new(session.server.limits().message);
    let mut context = Context {
        strings: StringCache::default(),
        uuids: session.server.uuids(session.id),
    };
    let faults = session.server.faults();
    let mut probed = false;
    let mut is_cut = false;
    let mut incoming = IncomingRequest::default();
    loop {
        while let Some(text) = framer.next_text()? {
            faults.until_reading(session.id).await;
            let message = Message::decode(&text)?;
            let streamed = incoming.finish(&message).await?;
            match message {
                Message::Request { method, params, id } => {
                    Request {
                        session,
                        method: &method,
                        params,
                        id,
                        streamed,
                    }
                    .answer(&mut context);
                }
                Message::Notification { method, params } if method == "cancel" => {
                    crate::request::cancel(session, params);
                }
                Message::Notification { .. } => {}
                Message::Reply(Reply { id, outcome: Ok(_) }) if id == Json::string("echo") => {}
                Message::Reply(_) => return Err(SessionError::UnexpectedReply),
            }
            if !session.outbox.wait_below(READ_BELOW).await {
                return Ok(());
            }
        }
        if is_cut {
            return Ok(());
        }
        incoming
            .decode_received(&mut framer, session, &context.uuids)
            .await;
        faults.until_reading(session.id).await;
        let buffer = framer.buffer_mut();
        buffer.reserve(READ_SIZE);
        let interval = *probe.borrow_and_update();
        let count = tokio::select! {
            biased;
            count = input.read_buf(buffer) => count?,
            () = silence(interval) => {
                if probed {
                    return Err(SessionError::Inactive);
                }
                probed = true;
                session.outbox.push([Chunk::Own(
                    br#"{"id":"echo","method":"echo","params":[]}"#.to_vec(),
                )]);
                continue;
            }
            // From now on another interval counts.
            Ok(()) = probe.changed() => continue,
        };
        probed = false;
        if count == 0 {
            return Ok(());
        }
        let passage = faults.pass(session.id, Direction::Received, count);
        let buffer = framer.buffer_mut();
        buffer.truncate(buffer.len() - (count - passage.bytes));
        is_cut = passage.cut;
    }
}

/// What decoding a session's requests needs.
pub(crate) struct Context {
    pub(crate) strings: StringCache,
    pub(crate) uuids: UuidSource,
}
