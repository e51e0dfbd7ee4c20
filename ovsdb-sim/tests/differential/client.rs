//! Small blocking JSON-RPC client that sends text and records all messages.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use patchbay_schemas::json::{Framer, Json};

/// Timeout of a server's message: far more than it needs, even on a loaded machine.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Entry in the log of a connection for its end.
const CLOSED: &str = "connection closed";
/// Entry for a server that does not answer any more.
const SILENT: &str = "no answer";

/// Connection to a server.
pub(crate) struct Client {
    /// `None`: the connection has ended.
    stream: Option<UnixStream>,
    framer: Framer,
    barriers: u64,
    /// Messages that are not taken yet.
    received: Vec<Json>,
    heard_len: usize,
}

impl Client {
    /// Connects. A crashed server looks like one that closes the connection.
    pub(crate) fn connect(socket: &Path) -> Self {
        let mut client = Self {
            stream: UnixStream::connect(socket).ok(),
            framer: Framer::new(usize::MAX),
            barriers: 0,
            received: Vec::new(),
            heard_len: 0,
        };
        match &client.stream {
            Some(stream) => {
                stream
                    .set_read_timeout(Some(MESSAGE_TIMEOUT))
                    .expect("a duration that is not zero");
            }
            None => client.received.push(Json::string(CLOSED)),
        }
        client
    }

    /// Sends any bytes. Reading finds out if the server has closed the connection, after all
    /// messages before.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream
            && let Err(error) = stream.write_all(bytes)
        {
            assert!(is_end(&error), "writing to a server: {error}");
        }
    }

    /// Sends an `echo`, whose reply comes after all messages that the server has for this
    /// connection.
    pub(crate) fn barrier(&mut self) {
        self.barriers += 1;
        let id = barrier_id(self.barriers);
        self.send(format!("{{\"method\":\"echo\",\"params\":[],\"id\":\"{id}\"}}").as_bytes());
    }

    /// Sends a transaction that a relay forwards, whose reply comes after those of all transactions
    /// that were forwarded before. `params` are its parameters.
    pub(crate) fn forwarded_barrier(&mut self, params: &str) {
        self.barriers += 1;
        let id = barrier_id(self.barriers);
        let text = format!("{{\"method\":\"transact\",\"params\":{params},\"id\":\"{id}\"}}");
        self.send(text.as_bytes());
    }

    /// Reads until the reply to the last barrier, or the end of the connection.
    pub(crate) fn read_to_barrier(&mut self) {
        let last = Json::string(barrier_id(self.barriers));
        while let Some((message, len)) = self.read() {
            if message.get("id") == Some(&last) {
                return;
            }
            self.received.push(message);
            self.heard_len += len;
        }
    }

    /// The numbers of messages and of replies that are not taken yet.
    pub(crate) fn received_count(&self) -> (usize, usize) {
        let is_reply = |message: &&Json| message.get("method").is_none();
        (self.received.len(), self.received.iter().filter(is_reply).count())
    }

    /// Takes the messages since the last call, and the number of their bytes.
    pub(crate) fn take_received(&mut self) -> (Vec<Json>, usize) {
        (std::mem::take(&mut self.received), std::mem::take(&mut self.heard_len))
    }

    /// Reads the next message. Returns it with the number of its bytes.
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
            self.received.push(Json::string(how));
        }
    }
}

fn barrier_id(number: u64) -> String {
    format!("barrier {number}")
}

fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
