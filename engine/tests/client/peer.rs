//! A server that a test scripts message by message, and a relay to a real server that a test can
//! cut.

use std::path::{Path, PathBuf};

use patchbay_schemas::json::{Framer, Json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::soon;

pub(crate) const ROW: &str = "00000000-0000-4000-8000-000000000001";
pub(crate) const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// Schema of the database `D` of scripted servers.
pub(crate) const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"Logical_Switch":{"isRoot":true,
    "columns":{"name":{"type":"string"},"ports":{"type":{"key":"uuid","min":0,"max":"unlimited"}}}}}}"#;

/// Contents of their `_Server` database.
pub(crate) const SERVER: &str = r#"{"Database":{"00000000-0000-4000-8000-00000000000d":{"initial":
    {"name":"D","model":"standalone","connected":true,"leader":true}}}}"#;

/// Socket of a scripted server.
pub(crate) struct FakeServer {
    listener: UnixListener,
    path: PathBuf,
    _dir: TempDir,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        Self { listener: UnixListener::bind(&path).unwrap(), path, _dir: dir }
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection.
    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        Peer::new(stream)
    }

    /// Accepts the next connection and completes its setup with these contents.
    pub(crate) async fn accept_live(&self, contents: &str) -> Peer {
        let mut peer = self.accept().await;
        peer.serve_until_monitor().await;
        peer.answer_monitor(contents).await;
        peer
    }
}

/// One end of a connection.
pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    framer: Framer,
    /// Id of the last request.
    pub(crate) id: Json,
}

impl Peer {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, framer: Framer::new(usize::MAX), id: Json::Null }
    }

    /// Receives the next message as text. `None`: the other side has closed the connection.
    pub(crate) async fn next_text(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.framer.next_text().unwrap() {
                return Some(String::from_utf8(text.as_text().bytes().to_vec()).unwrap());
            }
            if soon(self.stream.read_buf(self.framer.buffer_mut())).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Receives the next request and returns its method.
    pub(crate) async fn request(&mut self) -> String {
        let text = self.next_text().await.expect("a request");
        let request = Json::parse(text.as_bytes()).unwrap();
        self.id = request.get("id").unwrap().clone();
        request.get("method").and_then(Json::as_str).unwrap().to_owned()
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Replies to the last request. `answer` holds the members besides the id.
    pub(crate) async fn answer(&mut self, answer: &str) {
        let id = self.id.to_text();
        self.send(&format!(r#"{{"id":{id},{answer}}}"#)).await;
    }

    /// Replies to the requests of the setup, up to the monitor request.
    pub(crate) async fn serve_until_monitor(&mut self) {
        assert_eq!(self.request().await, "monitor_cond");
        self.answer(&format!(r#""result":{SERVER},"error":null"#)).await;
        assert_eq!(self.request().await, "lock");
        self.answer(r#""result":{"locked":true},"error":null"#).await;
        assert_eq!(self.request().await, "set_db_change_aware");
        self.answer(r#""result":{},"error":null"#).await;
        self.answer_schema(SCHEMA).await;
        assert_eq!(self.request().await, "monitor_cond_since");
    }

    /// Replies to the monitor request with these contents, and to the second request for the
    /// schema.
    pub(crate) async fn answer_monitor(&mut self, contents: &str) {
        self.send_contents(contents).await;
        self.answer_schema(SCHEMA).await;
    }

    pub(crate) async fn send_contents(&mut self, contents: &str) {
        self.answer(&format!(r#""result":[false,"{ZERO}",{contents}],"error":null"#)).await;
    }

    pub(crate) async fn answer_schema(&mut self, schema: &str) {
        assert_eq!(self.request().await, "get_schema");
        self.answer(&format!(r#""result":{schema},"error":null"#)).await;
    }

    /// Waits until the other side closes the connection.
    pub(crate) async fn until_gone(&mut self) {
        while self.next_text().await.is_some() {}
    }
}

/// Contents of a database with one switch.
pub(crate) fn one_switch(name: &str) -> String {
    format!(r#"{{"Logical_Switch":{{"{ROW}":{{"initial":{{"name":"{name}"}}}}}}}}"#)
}

/// A connection to a real server that a test controls.
pub(crate) struct Relay {
    pub(crate) client: Peer,
    pub(crate) server: Peer,
}

impl Relay {
    /// Accepts the next client of `front` and connects it to `server`.
    pub(crate) async fn accept(front: &FakeServer, server: &Path) -> Self {
        let client = front.accept().await;
        let server = Peer::new(UnixStream::connect(server).await.unwrap());
        Self { client, server }
    }

    /// Relays messages in both directions, up to the first request of a method, which is returned.
    pub(crate) async fn until_request(&mut self, method: &str) -> String {
        loop {
            tokio::select! {
                text = self.client.next_text() => {
                    let text = text.expect("the client is there");
                    if text.contains(&format!(r#""method":"{method}""#)) {
                        return text;
                    }
                    self.server.send(&text).await;
                }
                text = self.server.next_text() => {
                    self.client.send(&text.expect("the server is there")).await;
                }
            }
        }
    }
}
