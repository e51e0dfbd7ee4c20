//! A plain blocking OVSDB client whose own cost stays far below a server's: it sends bytes that were made beforehand
//! and counts braces in what it receives, in blocks, without keeping it.
//!
//! It is for contents without braces in strings, as the data sets here are.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

/// How much is read at once.
const CHUNK: usize = 1 << 18;

/// How much of a message is looked at by one comparison.
const BLOCK: usize = 64;

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// What was read and not yet returned is `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    scan: Scan,
}

/// Finds the ends of JSON objects by counting braces.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
}

impl Client {
    /// Connects to a unix socket.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self {
            stream,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            scan: Scan::default(),
        })
    }

    /// Sends all requests without waiting, and waits for as many answers.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn pipeline(&mut self, requests: &[String]) -> Result<()> {
        let mut sender = self.stream.try_clone()?;
        let all = requests.concat();
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || sender.write_all(all.as_bytes()));
            for _ in requests {
                self.pass()?;
            }
            let sent = sending.join();
            Ok(sent.map_err(|_| anyhow!("the sender failed"))??)
        })
    }

    /// Sends a request and waits for one message, which is returned.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn call(&mut self, request: &str) -> Result<String> {
        self.stream.write_all(request.as_bytes())?;
        self.receive()
    }

    /// Sends a request and waits for one message, of which only the length is returned.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn call_for_len(&mut self, request: &str) -> Result<usize> {
        self.stream.write_all(request.as_bytes())?;
        self.pass()
    }

    /// Waits for one message.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn receive(&mut self) -> Result<String> {
        let mut message = Vec::new();
        self.next(|part| message.extend_from_slice(part))?;
        Ok(String::from_utf8(message)?)
    }

    /// Waits for one message without keeping it; returns its length.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn pass(&mut self) -> Result<usize> {
        let mut len = 0;
        self.next(|part| len += part.len())?;
        Ok(len)
    }

    fn next(&mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        loop {
            let pending = &self.buffer[self.start..self.end];
            if let Some(len) = self.scan.end(pending) {
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

impl Scan {
    /// Where in the next bytes the first object ends; none when it does not.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        for block in bytes.chunks(BLOCK) {
            let (opened, closed) = (count(block, b'{'), count(block, b'}'));
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

/// How many bytes of a block are this one; becomes a few vector instructions.
fn count(block: &[u8], wanted: u8) -> usize {
    let count: u8 = block.iter().map(|byte| u8::from(*byte == wanted)).sum();
    usize::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_braces_do() {
        let long = format!(
            "{{\"a\":{{\"x\":\"{}\"}},\"b\":[{{}},{{}}]}}",
            "y".repeat(1000)
        );
        let stream = ["{}", &long, "{\"c\":{\"d\":{}}}", &long].concat();
        for split in 1..stream.len() {
            let mut scan = Scan::default();
            let (mut lens, mut len) = (Vec::new(), 0);
            for part in [&stream[..split], &stream[split..]] {
                let mut part = part.as_bytes();
                while let Some(end) = scan.end(part) {
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
