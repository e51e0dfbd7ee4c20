//! A small blocking JSON-RPC client: sends text, hears everything that comes back.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use patchbay_schemas::json::{Framer, Json};

/// Longer than any server takes, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// What stands in the log of a connection for its end.
const CLOSED: &str = "connection closed";
/// What stands there for a server that does not answer any more.
const SILENT: &str = "no answer";

/// One connection to one server.
pub(crate) struct Client {
    /// None when the connection has ended.
    stream: Option<UnixStream>,
    framer: Framer,
    barriers: u64,
    /// What came and was not taken yet.
    heard: Vec<Json>,
    heard_len: usize,
}

impl Client {
    /// Connects; a server that crashed looks like one that hung up.
    pub(crate) fn connect(socket: &Path) -> Self {
        let mut client = Self {
            stream: UnixStream::connect(socket).ok(),
            framer: Framer::new(usize::MAX),
            barriers: 0,
            heard: Vec::new(),
            heard_len: 0,
        };
        match &client.stream {
            Some(stream) => stream
                .set_read_timeout(Some(PATIENCE))
                .expect("a duration that is not zero"),
            None => client.heard.push(Json::string(CLOSED)),
        }
        client
    }

    /// Sends bytes, whatever they are. Whether the server has hung up is for the reading to find, after all that it said
    /// before.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream
            && let Err(error) = stream.write_all(bytes)
        {
            assert!(is_end(&error), "writing to a server: {error}");
        }
    }

    /// Asks for an echo, whose reply comes after everything that the server has for this connection.
    pub(crate) fn barrier(&mut self) {
        self.barriers += 1;
        let id = barrier_id(self.barriers);
        self.send(format!("{{\"method\":\"echo\",\"params\":[],\"id\":\"{id}\"}}").as_bytes());
    }

    /// Reads until the reply to the last barrier, or the end of the connection.
    pub(crate) fn read_to_barrier(&mut self) {
        let last = Json::string(barrier_id(self.barriers));
        while let Some((message, len)) = self.read() {
            if message.get("id") == Some(&last) {
                return;
            }
            self.heard.push(message);
            self.heard_len += len;
        }
    }

    /// How many messages came since they were last taken, and how many of these are replies.
    pub(crate) fn heard_count(&self) -> (usize, usize) {
        let is_reply = |message: &&Json| message.get("method").is_none();
        (self.heard.len(), self.heard.iter().filter(is_reply).count())
    }

    /// What came since the last call, and how many bytes it took.
    pub(crate) fn take_heard(&mut self) -> (Vec<Json>, usize) {
        (
            std::mem::take(&mut self.heard),
            std::mem::take(&mut self.heard_len),
        )
    }

    /// The next message and how many bytes it is.
    fn read(&mut self) -> Option<(Json, usize)> {
        loop {
            if let Some(text) = self.framer.next_text().expect("a server sends JSON") {
                let text = text.as_text();
                return Some((Json::from_text(text), text.bytes().len()));
            }
            let mut bytes = [0; 1 << 13];
            match self.stream.as_mut()?.read(&mut bytes) {
                Ok(0) => self.end(CLOSED),
                Ok(count) => self.framer.push(&bytes[..count]),
                Err(error) if is_end(&error) => self.end(CLOSED),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.end(SILENT),
                Err(error) => panic!("waiting for a server: {error}"),
            }
        }
    }

    fn end(&mut self, how: &str) {
        if self.stream.take().is_some() {
            self.heard.push(Json::string(how));
        }
    }
}

fn barrier_id(number: u64) -> String {
    format!("barrier {number}")
}

fn is_end(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}
