//! A server that a test plays, message by message, and a relay to a real one that a test can cut.

use std::path::{Path, PathBuf};

use patchbay_schemas::json::{Framer, Json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::soon;

pub(crate) const ROW: &str = "00000000-0000-4000-8000-000000000001";
pub(crate) const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// The schema of the database `D` that test servers have.
pub(crate) const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"Logical_Switch":{"isRoot":true,
    "columns":{"name":{"type":"string"},"ports":{"type":{"key":"uuid","min":0,"max":"unlimited"}}}}}}"#;

/// What they say of it.
pub(crate) const SERVER: &str = r#"{"Database":{"00000000-0000-4000-8000-00000000000d":{"initial":
    {"name":"D","model":"standalone","connected":true,"leader":true}}}}"#;

/// Where a client finds a server that a test plays.
pub(crate) struct FakeServer {
    listener: UnixListener,
    path: PathBuf,
    _dir: TempDir,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        Self {
            listener: UnixListener::bind(&path).unwrap(),
            path,
            _dir: dir,
        }
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.path
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        Peer::new(stream)
    }

    /// The next connection, whose client has got the contents of the database.
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
    /// The id of the last request.
    pub(crate) id: Json,
}

impl Peer {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            framer: Framer::new(usize::MAX),
            id: Json::Null,
        }
    }

    /// The next message as text; none when the other side is gone.
    pub(crate) async fn next_text(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.framer.next_text().unwrap() {
                return Some(String::from_utf8(text.as_text().bytes().to_vec()).unwrap());
            }
            if soon(self.stream.read_buf(self.framer.buffer_mut()))
                .await
                .unwrap_or(0)
                == 0
            {
                return None;
            }
        }
    }

    /// The method of the next request.
    pub(crate) async fn request(&mut self) -> String {
        let text = self.next_text().await.expect("a request");
        let request = Json::parse(text.as_bytes()).unwrap();
        self.id = request.get("id").unwrap().clone();
        request
            .get("method")
            .and_then(Json::as_str)
            .unwrap()
            .to_owned()
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Answers the last request: `answer` is the members besides the id.
    pub(crate) async fn answer(&mut self, answer: &str) {
        let id = self.id.to_text();
        self.send(&format!(r#"{{"id":{id},{answer}}}"#)).await;
    }

    /// Answers what a client asks before it asks for contents, which it then has.
    pub(crate) async fn serve_until_monitor(&mut self) {
        assert_eq!(self.request().await, "monitor_cond");
        self.answer(&format!(r#""result":{SERVER},"error":null"#))
            .await;
        assert_eq!(self.request().await, "lock");
        self.answer(r#""result":{"locked":true},"error":null"#)
            .await;
        assert_eq!(self.request().await, "set_db_change_aware");
        self.answer(r#""result":{},"error":null"#).await;
        self.answer_schema(SCHEMA).await;
        assert_eq!(self.request().await, "monitor_cond_since");
    }

    /// Gives a client contents, and the same schema again when it asks whether that was still in force.
    pub(crate) async fn answer_monitor(&mut self, contents: &str) {
        self.send_contents(contents).await;
        self.answer_schema(SCHEMA).await;
    }

    pub(crate) async fn send_contents(&mut self, contents: &str) {
        self.answer(&format!(
            r#""result":[false,"{ZERO}",{contents}],"error":null"#
        ))
        .await;
    }

    pub(crate) async fn answer_schema(&mut self, schema: &str) {
        assert_eq!(self.request().await, "get_schema");
        self.answer(&format!(r#""result":{schema},"error":null"#))
            .await;
    }

    /// Waits until the other side is gone.
    pub(crate) async fn until_gone(&mut self) {
        while self.next_text().await.is_some() {}
    }
}

/// The contents of a database with one switch.
pub(crate) fn one_switch(name: &str) -> String {
    format!(r#"{{"Logical_Switch":{{"{ROW}":{{"initial":{{"name":"{name}"}}}}}}}}"#)
}

/// A connection through to a real server, under a test's control.
pub(crate) struct Relay {
    pub(crate) client: Peer,
    pub(crate) server: Peer,
}

impl Relay {
    /// Takes the next client of `front` and connects it to `server`.
    pub(crate) async fn accept(front: &FakeServer, server: &Path) -> Self {
        let client = front.accept().await;
        let server = Peer::new(UnixStream::connect(server).await.unwrap());
        Self { client, server }
    }

    /// Passes messages on, in both directions, up to the first request of a method, which is returned.
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
