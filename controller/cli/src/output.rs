//! Standard output and standard error, whose readers may leave.

use std::io::{self, ErrorKind, Write};

/// A stream to a reader. When the reader is gone, as `head` is after its lines, the rest is dropped: the command goes on
/// with its work and ends as it would have, without a complaint.
pub(super) struct Output<W> {
    name: &'static str,
    to: W,
    is_closed: bool,
}

impl<W: Write> Output<W> {
    pub(super) fn new(name: &'static str, to: W) -> Self {
        Self {
            name,
            to,
            is_closed: false,
        }
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
            // Those who write in a loop try again.
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

    /// Takes two bytes, then fails.
    struct Failing {
        taken: Vec<u8>,
        how: ErrorKind,
    }

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.taken.len() == 2 {
                return Err(self.how.into());
            }
            self.taken.push(bytes[0]);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(how: ErrorKind) -> (io::Result<()>, Vec<u8>) {
        let to = Failing {
            taken: Vec::new(),
            how,
        };
        let mut output = Output::new("the printer", to);
        let written = write!(output, "four").and_then(|()| output.flush());
        (written, output.to.taken)
    }

    #[test]
    fn what_nobody_reads_is_dropped() {
        let (written, taken) = write(ErrorKind::BrokenPipe);
        assert!(written.is_ok());
        assert_eq!(taken, b"fo");
    }

    #[test]
    fn what_cannot_be_written_is_told_with_its_place() {
        let error = write(ErrorKind::StorageFull).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let message = error.to_string();
        assert!(
            message.starts_with("cannot write to the printer: "),
            "{message}"
        );
    }
}
