//! Socket of `ovs-appctl`, with commands for the server's operator (ovs-appctl(8),
//! ovsdb-server(1)).
//!
//! The method of a request is the command, its parameters are strings. The result, or the error, is
//! a text for the user.

mod cluster;
mod commands;
pub(crate) mod error_text;
mod memory;
mod reply_format;
mod transaction_log;
mod usage;
mod vlog;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use patchbay_engine::db::ServerRelease;
use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::wire::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::config_file::ConfigFile;
use crate::listen;
use crate::remotes::Remotes;
use crate::reply;
use crate::sim::Sim;

use commands::{CommandResult, Commands};
pub(crate) use error_text::add_error;
use reply_format::ReplyFormat;
pub use vlog::{Log, LogDestination, LogSink, LogSpecificationError, ReopenLogError, module_of};

/// Length of the longest request, in bytes: more than any command has.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Bytes that are read from the socket at once.
const SOCKET_READ_BYTES: usize = 1 << 12;

/// Place in which the databases and remotes of a server are named.
pub enum Configuration {
    /// Only in the server. Commands add and remove them, and `keep` is called after each change,
    /// before the reply.
    Changeable {
        /// Keeps the change. It must not fail the command.
        keep: Box<dyn Fn() + Send + Sync>,
    },
    /// In a file, which `ovsdb-server/reload` reads. Commands that would change them are refused.
    File(Arc<ConfigFile>),
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changeable { .. } => f.write_str("Changeable"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

/// Socket of `ovs-appctl`. Dropping it closes the socket and removes its file.
#[derive(Debug)]
pub struct Unixctl {
    path: PathBuf,
    exit: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Unixctl {
    /// Waits for the command `exit`.
    pub async fn wait_for_exit(&self) {
        self.exit.notified().await;
    }
}

impl Drop for Unixctl {
    fn drop(&mut self) {
        self.task.abort();
        // Another program may have removed it.
        std::fs::remove_file(&self.path).unwrap_or_default();
    }
}

impl Sim {
    /// Serves `ovs-appctl` at a unix socket. Its commands list and change `remotes`, `vlog/set`
    /// changes `log`, and `version` prints `version`.
    ///
    /// # Errors
    /// The socket cannot be bound.
    pub fn serve_unixctl(
        &self,
        path: impl Into<PathBuf>,
        remotes: &Remotes,
        log: &Arc<Log>,
        version: &str,
        configuration: Configuration,
    ) -> io::Result<Unixctl> {
        let path = path.into();
        listen::remove_stale_socket(&path)?;
        let listener = listen::bind_unix(&path)?;
        let exit = Arc::new(Notify::new());
        let shared = SharedState {
            commands: Commands::new(
                self.server().clone(),
                remotes.clone(),
                log.clone(),
                version,
                configuration,
            ),
            exit: exit.clone(),
        };
        let task = tokio::spawn(accept(listener, Arc::new(shared)));
        Ok(Unixctl { path, exit, task })
    }
}

/// State that all connections share.
struct SharedState {
    commands: Commands,
    exit: Arc<Notify>,
}

/// Reason why a connection ends before its client closes it.
#[derive(Debug, thiserror::Error)]
enum UnixctlError {
    #[error(transparent)]
    Json(#[from] patchbay_schemas::json::JsonError),
    #[error(transparent)]
    Message(#[from] patchbay_schemas::wire::MessageError),
    #[error("a message that is not a request")]
    NotARequest,
    #[error(transparent)]
    Io(#[from] io::Error),
}

async fn accept(listener: UnixListener, shared: Arc<SharedState>) {
    // All connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = shared.clone();
                connections.spawn(async move {
                    if let Err(error) = serve_connection(stream, &shared).await {
                        tracing::info!(%error, "closing a connection of ovs-appctl");
                    }
                });
            }
            Err(error) => listen::pause_after_accept_error(&error).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(
    mut stream: UnixStream,
    shared: &SharedState,
) -> Result<(), UnixctlError> {
    let mut framer = Framer::new(MAX_REQUEST_BYTES);
    let mut format = ReplyFormat::default();
    loop {
        while let Some(text) = framer.next_text()? {
            let (method, arguments, id) = match Message::decode(&text)? {
                Message::Request { method, mut params, id } => {
                    (method, Json::read(&mut params), id)
                }
                Message::Notification { .. } | Message::Reply(_) => {
                    return Err(UnixctlError::NotARequest);
                }
            };
            let executed = shared.commands.execute(&method, &arguments).await;
            let exits = matches!(executed, Ok(CommandResult::Exit));
            if let Ok(CommandResult::Options(Some(set))) = executed {
                format = set;
            }
            let release = shared.commands.release();
            let reply = match executed {
                Ok(result) => reply::success(&id, |out| format.result(result, release).write(out)),
                Err(text) => reply::failure(&id, &end_line(text, release)),
            };
            stream.write_all(reply.bytes()).await?;
            if exits {
                shared.exit.notify_one();
            }
        }
        let buffer = framer.buffer_mut();
        buffer.reserve(SOCKET_READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// A text as ovsdb-server sends it. Up to Open vSwitch 3.1 the server ends the last line, later
/// ovs-appctl does.
fn end_line(mut text: String, release: ServerRelease) -> Json {
    if release < ServerRelease::V3_5 && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Json::string(text)
}
