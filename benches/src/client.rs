//! A plain blocking OVSDB client: what it sends is bytes made beforehand, so that its own cost stays small.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    buffer: Vec<u8>,
    scan: Scan,
}

/// Finds the ends of JSON objects by counting braces outside of strings.
#[derive(Debug, Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
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
            buffer: Vec::new(),
            scan: Scan::default(),
        })
    }

    /// Another handle, for sending from another thread.
    ///
    /// # Errors
    /// The system has no more file descriptors.
    pub fn sender(&self) -> Result<UnixStream> {
        Ok(self.stream.try_clone()?)
    }

    /// Sends a request and waits for one message.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn call(&mut self, request: &str) -> Result<String> {
        self.stream.write_all(request.as_bytes())?;
        self.receive()
    }

    /// Waits for one message.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn receive(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.scan.end(&self.buffer) {
                let message = self.buffer.drain(..end).collect();
                return Ok(String::from_utf8(message)?);
            }
            self.fill()?;
        }
    }

    /// Waits for this many messages, without keeping them; none of them may be an error.
    ///
    /// # Errors
    /// The connection is lost or a transaction failed.
    pub fn receive_many(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            loop {
                if let Some(end) = self.scan.end(&self.buffer) {
                    let message = &self.buffer[..end];
                    ensure!(
                        !message.windows(9).any(|part| part == b"\"details\""),
                        "a transaction failed: {}",
                        String::from_utf8_lossy(message)
                    );
                    self.buffer.drain(..end);
                    break;
                }
                self.fill()?;
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        let mut chunk = vec![0; 1 << 16];
        let count = self.stream.read(&mut chunk)?;
        ensure!(count > 0, "the server closed the connection");
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(())
    }
}

impl Scan {
    /// Where the first object ends, and the scan begins anew; none while it is not complete.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                b'}' if self.depth == 1 => {
                    let end = self.at;
                    *self = Self::default();
                    return Some(end);
                }
                b'}' => self.depth -= 1,
                _ => {}
            }
        }
        None
    }
}
