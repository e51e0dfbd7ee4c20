//! Standard output and standard error, which the reader may close.

use std::io::{self, ErrorKind, Write};

/// An output stream. After a broken pipe, as with `patchbay .. | head`, the rest of the output is
/// dropped, and the command completes with its usual exit status.
pub(super) struct Output<W> {
    name: &'static str,
    to: W,
    is_closed: bool,
}

impl<W: Write> Output<W> {
    pub(super) fn new(name: &'static str, to: W) -> Self {
        Self { name, to, is_closed: false }
    }

    fn attempt<T>(
        &mut self,
        if_closed: T,
        action: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.is_closed {
            return Ok(if_closed);
        }
        match action(&mut self.to) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(if_closed)
            }
            // `write_all` retries after an interruption.
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            done => done.map_err(|error| {
                let message = format!("cannot write to {}: {error}", self.name);
                io::Error::new(error.kind(), message)
            }),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(bytes.len(), |to| to.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts two bytes, then fails.
    struct Failing {
        written: Vec<u8>,
        error: ErrorKind,
    }

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.written.len() == 2 {
                return Err(self.error.into());
            }
            self.written.push(bytes[0]);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(error: ErrorKind) -> (io::Result<()>, Vec<u8>) {
        let to = Failing { written: Vec::new(), error };
        let mut output = Output::new("the printer", to);
        let result = write!(output, "four").and_then(|()| output.flush());
        (result, output.to.written)
    }

    #[test]
    fn output_after_a_broken_pipe_is_dropped() {
        let (result, written) = write(ErrorKind::BrokenPipe);
        assert!(result.is_ok());
        assert_eq!(written, b"fo");
    }

    #[test]
    fn a_failed_write_names_the_stream() {
        let error = write(ErrorKind::StorageFull).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let message = error.to_string();
        assert!(message.starts_with("cannot write to the printer: "), "{message}");
    }
}
