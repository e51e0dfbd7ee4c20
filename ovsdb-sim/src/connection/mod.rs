//! The two tasks of a connection: the reader, which decodes and executes requests in order, and the
//! writer, which empties the session's outbox.

mod client_stream;
mod pace;
mod reader;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::peers::Peer;
use crate::remotes::options::RemoteOptions;
use crate::server::Server;
use crate::session::handle::SessionHandle;
use crate::session::id::SessionId;
use crate::session::{Session, SessionError};

pub(crate) use client_stream::ClientStream;
#[cfg(feature = "tls")]
pub(crate) use client_stream::tcp_remote;
use reader::read_requests;
use writer::write_outbox;

/// Time in which a client has to read the rest and close the connection after its session's end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time in which a client has to read what is more than a connection may leave behind. More than a
/// slow network needs for a long reply.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves one connection until it ends. When one of its two tasks ends, the other does.
///
/// `register` returns `None` to refuse the connection, or a guard that lives as long as the
/// session.
pub(crate) async fn serve<S, G>(
    server: Arc<Server>,
    stream: S,
    options: watch::Receiver<RemoteOptions>,
    register: impl FnOnce(SessionId) -> Option<G>,
) where
    S: ClientStream,
{
    let remote = stream.remote();
    let handle = server.connect(options.clone(), stream.peer_name());
    let registration = Registration { server: &server, session: &handle, has_left: false };
    let Some(guard) = register(handle.id()) else {
        return;
    };
    if !server.is_up() || server.faults().drops_connection(handle.id()) {
        handle.outbox().cut_off();
    }
    let session = Session::new(server.clone(), handle.clone());
    let id = handle.id().0;
    let (mut input, output) = tokio::io::split(stream);
    let mut writer = tokio::spawn(write_outbox(handle.clone(), output));
    tokio::select! {
        ended = read_requests(&session, &mut input, options.clone()) => {
            if let Err(error) = &ended {
                // As ovsdb-server names clients.
                let remote = remote.unwrap_or_else(|| format!("unix#{id}"));
                log_error(&remote, error, &options.borrow());
            }
            if matches!(ended, Err(SessionError::Inactive)) {
                handle.outbox().cut_off();
            }
        }
        () = wait_for_another_role(options.clone()) => {
            tracing::info!(session = id, "closing a connection: the role of its remote has changed");
        }
        () = handle.outbox().wait_until_stuck(UNREAD_TIMEOUT) => {
            let limit = server.limits().connection_memory;
            tracing::warn!(
                session = id,
                limit,
                "closing the connection of a client that does not read its replies"
            );
            handle.outbox().cut_off();
        }
        _ = handle.outbox().wait_for_end() => {}
    }
    registration.end().await;
    drop(guard);
    // A client that does not read its replies, or does not close the connection, must not keep it.
    let close_timeout =
        if handle.outbox().wait_for_end().await { CLOSE_TIMEOUT } else { Duration::ZERO };
    let close = async {
        // A task is cancelled when the runtime of the process ends.
        if let Err(error) = (&mut writer).await
            && !error.is_cancelled()
        {
            tracing::error!(session = id, %error, "the writer of a session failed");
        }
        // If a client is still sending when the connection is closed, the system may discard what
        // it has not read yet.
        tokio::io::copy(&mut input, &mut tokio::io::sink()).await
    };
    if let Ok(Err(error)) = timeout(close_timeout, close).await {
        tracing::debug!(session = id, %error, "the client is gone");
    }
    writer.abort();
}

/// Logs the error that ends a session, in ovsdb-server's words where it has them.
fn log_error(remote: &str, error: &SessionError, options: &RemoteOptions) {
    let dropped = || {
        tracing::warn!(target: "reconnect", "{remote}: connection dropped (Protocol error)");
    };
    match error {
        SessionError::Json(error) => {
            tracing::warn!(target: "jsonrpc", "{remote}: error parsing stream: {error}");
            dropped();
        }
        SessionError::Message(error) => {
            tracing::warn!(target: "jsonrpc", "{remote}: {error}");
            dropped();
        }
        SessionError::UnexpectedReply => {
            tracing::warn!(
                target: "ovsdb_jsonrpc_server",
                "{remote}: received unexpected reply message"
            );
        }
        SessionError::Inactive => {
            let seconds = options.probe_interval.unwrap_or_default().as_secs_f64();
            tracing::error!(
                target: "reconnect",
                "{remote}: no response to inactivity probe after {seconds} seconds, disconnecting"
            );
        }
        error => tracing::info!("{remote}: closing the connection: {error}"),
    }
}

/// Returns when the role of a remote changes.
async fn wait_for_another_role(mut options: watch::Receiver<RemoteOptions>) {
    let role = options.borrow_and_update().role.clone();
    if options.wait_for(|options| options.role != role).await.is_err() {
        // The remote has ended. Its connections end otherwise.
        std::future::pending::<()>().await;
    }
}

/// Serves a connection in a new task, when it is established. `None`: it could not be. Returns
/// false if the server does not admit it.
pub(crate) fn spawn<S, G>(
    server: &Arc<Server>,
    peer: Peer,
    stream: impl Future<Output = Option<S>> + Send + 'static,
    options: watch::Receiver<RemoteOptions>,
    register: impl FnOnce(SessionId) -> Option<G> + Send + 'static,
) -> bool
where
    S: ClientStream,
    G: Send + 'static,
{
    let Some(place) = server.admit(peer) else {
        return false;
    };
    let server = server.clone();
    tokio::spawn(async move {
        if let Some(stream) = stream.await {
            serve(server, stream, options, register).await;
        }
        drop(place);
    });
    true
}

/// Registration of a session with its server. Dropping it unregisters the session, also when the
/// session's task is dropped together with the runtime. Otherwise the server would keep the
/// session's locks, and the session the server with the locks of its files.
struct Registration<'a> {
    server: &'a Server,
    session: &'a SessionHandle,
    /// `true` if the session has left the databases.
    has_left: bool,
}

impl Registration<'_> {
    /// Ends the registration without waiting for a database in the way of other tasks.
    async fn end(mut self) {
        self.server.leave_databases(self.session.id()).await;
        self.has_left = true;
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.server.disconnect(self.session.id(), self.has_left);
        self.session.outbox().close();
    }
}
