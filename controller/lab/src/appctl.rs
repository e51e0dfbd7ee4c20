//! Commands to a running program, as ovs-appctl sends them: JSON-RPC 1.0 on a unix socket.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Size of a read from the socket in bytes.
const READ_BYTES: usize = 4096;

/// Error: a command was not executed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AppctlError {
    /// The program does not answer.
    #[error("{}: {source}", .socket.display())]
    Socket {
        /// Path of the program's socket.
        socket: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The program refused the command.
    #[error("{command}: {reason}")]
    Refused {
        /// The command with its arguments.
        command: String,
        /// Reply of the program.
        reason: String,
    },
}

/// Reply of JSON-RPC 1.0.
#[derive(Deserialize)]
struct Reply {
    result: Option<String>,
    error: Option<Value>,
}

/// Sends a command and returns the text of the reply.
pub(crate) async fn call(
    socket: &Path,
    command: &str,
    arguments: &[&str],
) -> Result<String, AppctlError> {
    let reply = exchange(socket, command, arguments)
        .await
        .map_err(|source| AppctlError::Socket { socket: socket.to_owned(), source })?;
    match (reply.result, reply.error) {
        (Some(text), None) => Ok(text),
        (_, error) => Err(AppctlError::Refused {
            command: format!("{command} {}", arguments.join(" ")),
            reason: error.map_or_else(String::new, |error| {
                error.as_str().map_or_else(|| error.to_string(), str::to_owned)
            }),
        }),
    }
}

async fn exchange(socket: &Path, command: &str, arguments: &[&str]) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket).await?;
    let request = json!({"id": 0, "method": command, "params": arguments});
    stream.write_all(request.to_string().as_bytes()).await?;
    let mut received = Vec::new();
    loop {
        let mut part = [0; READ_BYTES];
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&part[..count]);
        match serde_json::from_slice(&received) {
            Ok(reply) => return Ok(reply),
            Err(error) if error.is_eof() => {}
            Err(error) => return Err(error.into()),
        }
    }
}
