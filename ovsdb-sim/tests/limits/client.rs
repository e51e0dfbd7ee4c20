//! Client that sends arbitrary bytes.

use std::path::Path;
use std::time::Duration;

use patchbay_schemas::json::{Framer, Json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Timeout of events that should happen at once: far more than they need, even on a loaded machine.
const REACTION_TIMEOUT: Duration = Duration::from_secs(120);

/// Connection of a test.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    framer: Framer,
}

impl Client {
    pub(crate) async fn connect(socket: &Path) -> Self {
        Self { stream: UnixStream::connect(socket).await.unwrap(), framer: Framer::new(usize::MAX) }
    }

    /// Sends bytes, unless the server has closed the connection.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let sent = timeout(REACTION_TIMEOUT, self.stream.write_all(bytes)).await;
        // A closed connection shows when reading.
        sent.expect("the server should take it").unwrap_or_default();
    }

    pub(crate) async fn request(&mut self, method: &str, params: &str, id: impl std::fmt::Display) {
        let text = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
        self.send(text.as_bytes()).await;
    }

    /// Reads the next message. `None`: the server has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Json> {
        loop {
            if let Some(text) = self.framer.next_text().unwrap() {
                return Some(Json::from_text(text.as_text()));
            }
            let read =
                timeout(REACTION_TIMEOUT, self.stream.read_buf(self.framer.buffer_mut())).await;
            if read.expect("the server should say something").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Sends a request and returns its result. Skips notifications before it.
    pub(crate) async fn call(&mut self, method: &str, params: &str) -> Option<Json> {
        self.request(method, params, "\"call\"").await;
        loop {
            let message = self.next().await?;
            if message.get("id").and_then(Json::as_str) == Some("call") {
                return message.get("result").cloned();
            }
        }
    }

    /// `true` if the server still answers.
    pub(crate) async fn is_served(&mut self) -> bool {
        self.call("echo", "[]").await.is_some()
    }

    /// Reads until the server closes the connection.
    pub(crate) async fn until_closed(&mut self) {
        while self.next().await.is_some() {}
    }
}
