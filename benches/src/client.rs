//! A blocking OVSDB client that costs far less CPU than a server. Its requests are prepared before
//! the measurement; it finds the ends of replies by counting braces in blocks and does not keep
//! their text.
//!
//! Strings in the data must not contain braces. Those of the data sets here do not.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

/// Size of the read buffer in bytes, large enough that system calls do not matter.
const READ_BUFFER_BYTES: usize = 1 << 18;

/// Bytes whose braces are counted at once: as many as the compiler turns into few vector
/// instructions.
const SCAN_BLOCK_BYTES: usize = 64;

/// A connection to a server.
#[derive(Debug)]
pub struct RawClient {
    stream: UnixStream,
    /// The unread bytes are `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    scanner: Scanner,
}

/// Finds the ends of JSON objects by counting braces.
#[derive(Debug, Default)]
struct Scanner {
    depth: usize,
}

impl RawClient {
    /// Connects to a unix socket.
    ///
    /// # Errors
    /// No server listens there.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self {
            stream,
            buffer: vec![0; READ_BUFFER_BYTES],
            start: 0,
            end: 0,
            scanner: Scanner::default(),
        })
    }

    /// Sends all requests without waiting, and receives one message for each.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn pipeline(&mut self, requests: &[String]) -> Result<()> {
        let mut sender = self.stream.try_clone()?;
        let all = requests.concat();
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || sender.write_all(all.as_bytes()));
            for _ in requests {
                self.skip_message()?;
            }
            let sent = sending.join();
            Ok(sent.map_err(|_| anyhow!("the sender failed"))??)
        })
    }

    /// Sends a request and returns the next message.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn call(&mut self, request: &str) -> Result<String> {
        self.stream.write_all(request.as_bytes())?;
        self.receive()
    }

    /// Sends a request and returns the length of the next message in bytes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn call_and_skip(&mut self, request: &str) -> Result<usize> {
        self.stream.write_all(request.as_bytes())?;
        self.skip_message()
    }

    /// Receives a message.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn receive(&mut self) -> Result<String> {
        let mut message = Vec::new();
        self.read_message(|part| message.extend_from_slice(part))?;
        Ok(String::from_utf8(message)?)
    }

    /// Receives a message without keeping it, and returns its length in bytes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn skip_message(&mut self) -> Result<usize> {
        let mut len = 0;
        self.read_message(|part| len += part.len())?;
        Ok(len)
    }

    fn read_message(&mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        loop {
            let pending = &self.buffer[self.start..self.end];
            if let Some(len) = self.scanner.find_end(pending) {
                take(&pending[..len]);
                self.start += len;
                return Ok(());
            }
            take(pending);
            self.start = 0;
            self.end = self.stream.read(&mut self.buffer)?;
            ensure!(self.end > 0, "the server closed the connection");
        }
    }
}

impl Scanner {
    /// Returns the length of the next bytes up to the end of the object; `None`: the object goes
    /// on.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        for block in bytes.chunks(SCAN_BLOCK_BYTES) {
            let (opened, closed) = (count_byte(block, b'{'), count_byte(block, b'}'));
            if closed < self.depth {
                self.depth = self.depth + opened - closed;
                at += block.len();
                continue;
            }
            for byte in block {
                at += 1;
                match byte {
                    b'{' => self.depth += 1,
                    b'}' if self.depth == 1 => {
                        self.depth = 0;
                        return Some(at);
                    }
                    b'}' => self.depth -= 1,
                    _ => {}
                }
            }
        }
        None
    }
}

/// Counts a byte in a block of at most 255 bytes; the compiler vectorizes it.
fn count_byte(block: &[u8], wanted: u8) -> usize {
    let count: u8 = block.iter().map(|byte| u8::from(*byte == wanted)).sum();
    usize::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_braces_do() {
        let long = format!("{{\"a\":{{\"x\":\"{}\"}},\"b\":[{{}},{{}}]}}", "y".repeat(1000));
        let stream = ["{}", &long, "{\"c\":{\"d\":{}}}", &long].concat();
        for split in 1..stream.len() {
            let mut scanner = Scanner::default();
            let (mut lens, mut len) = (Vec::new(), 0);
            for part in [&stream[..split], &stream[split..]] {
                let mut part = part.as_bytes();
                while let Some(end) = scanner.find_end(part) {
                    lens.push(len + end);
                    len = 0;
                    part = &part[end..];
                }
                len += part.len();
            }
            assert_eq!(lens, [2, long.len(), 14, long.len()], "split at {split}");
        }
    }
}
