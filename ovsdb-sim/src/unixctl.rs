//! The socket of `ovs-appctl`: commands for whoever runs the server (ovs-appctl(8), ovsdb-server(1)).
//!
//! A request's method is the command, its parameters are strings; the result, or the error, is a text for people.

mod commands;
mod log;
mod vlog;
mod words;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::wire::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::listen;
use crate::remotes::Remotes;
use crate::reply;
use crate::server::Server;

use commands::{Commands, Outcome};
pub use log::Log;

/// Longer than any command.
const LONGEST: usize = 1 << 20;
/// How much is read at once.
const READ_SIZE: usize = 1 << 12;

/// A socket for `ovs-appctl`. Dropping it closes and removes it.
#[derive(Debug)]
pub struct Unixctl {
    path: PathBuf,
    exit: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Unixctl {
    /// Returns when the command `exit` was given.
    pub async fn exit_asked(&self) {
        self.exit.notified().await;
    }
}

impl Drop for Unixctl {
    fn drop(&mut self) {
        self.task.abort();
        // Somebody may have removed it already.
        std::fs::remove_file(&self.path).unwrap_or_default();
    }
}

pub(crate) fn serve(
    server: Arc<Server>,
    path: PathBuf,
    remotes: Remotes,
    log: Log,
) -> io::Result<Unixctl> {
    listen::remove_stale(&path)?;
    let listener = UnixListener::bind(&path)?;
    let exit = Arc::new(Notify::new());
    let socket = Socket {
        commands: Commands::new(server, remotes, log),
        exit: exit.clone(),
    };
    let task = tokio::spawn(accept(listener, Arc::new(socket)));
    Ok(Unixctl { path, exit, task })
}

/// What all connections share.
struct Socket {
    commands: Commands,
    exit: Arc<Notify>,
}

async fn accept(listener: UnixListener, socket: Arc<Socket>) {
    // With this task all connections end.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let socket = socket.clone();
                connections.spawn(async move {
                    if let Err(error) = converse(stream, &socket).await {
                        tracing::info!(%error, "closing a connection of ovs-appctl");
                    }
                });
            }
            Err(error) => listen::pause(&error).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(mut stream: UnixStream, socket: &Socket) -> anyhow::Result<()> {
    let mut framer = Framer::new(LONGEST);
    loop {
        while let Some(text) = framer.next_text()? {
            let (method, arguments, id) = match Message::decode(&text)? {
                Message::Request {
                    method,
                    mut params,
                    id,
                } => (method, Json::read(&mut params), id),
                other => anyhow::bail!("unexpected message: {other:?}"),
            };
            let said = |text| reply::success(&id, |out| ended(text).write(out));
            let (reply, exits) = match socket.commands.execute(&method, &arguments).await {
                Ok(Outcome::Said(text)) => (said(text), false),
                Ok(Outcome::Exit) => (said(String::new()), true),
                Err(text) => (reply::failure(&id, &ended(text)), false),
            };
            stream.write_all(reply.bytes()).await?;
            if exits {
                socket.exit.notify_one();
            }
        }
        let buffer = framer.buffer_mut();
        buffer.reserve(READ_SIZE);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// A text that ends with the end of a line, if it is any.
fn ended(mut text: String) -> Json {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Json::string(text)
}
