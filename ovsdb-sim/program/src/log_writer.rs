//! Log output that neither delays nor fails the code that logs.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of lines that may wait for a slow reader of the log. More lines are dropped and counted.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// Time in which the last lines are written when the program ends. After it, they are lost.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writer of log lines, which a thread of its own writes to the output.
///
/// A full pipe blocks only that thread, and an output that cannot be written loses the lines. Both
/// are of no concern to the code that logs. Clones write to the same output. Each call of `write`
/// is one line, as `tracing-subscriber` makes it.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter(Arc<SharedQueue>);

/// Guard of a [`LogWriter`]. Dropping it waits as [`LogFlush::wait`] does.
#[derive(Debug)]
pub(crate) struct LogFlush(Arc<SharedQueue>);

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<Queue>,
    /// Notified when a line was added and when all lines are written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    /// Sum of the lengths of the lines.
    bytes: usize,
    /// Number of lines that were dropped because of [`MAX_WAITING_BYTES`], and not reported yet.
    dropped: u64,
    /// `true` while the thread writes lines that it has taken.
    is_writing: bool,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between statements.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines and writes them, again and again.
    fn write_lines(&self, mut output: impl Write) {
        loop {
            let mut queue = self.lock();
            queue.is_writing = false;
            self.changed.notify_all();
            while queue.lines.is_empty() {
                queue = self.wait(queue);
            }
            queue.is_writing = true;
            queue.bytes = 0;
            let lines = std::mem::take(&mut queue.lines);
            let dropped = std::mem::take(&mut queue.dropped);
            drop(queue);
            for line in lines {
                // An error of the log cannot be reported anywhere.
                output.write_all(&line).unwrap_or_default();
            }
            if dropped > 0 {
                writeln!(output, "{dropped} lines of the log were dropped").unwrap_or_default();
            }
            output.flush().unwrap_or_default();
        }
    }
}

impl LogWriter {
    /// Starts the thread that writes to `output`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(output: impl Write + Send + 'static) -> io::Result<(Self, LogFlush)> {
        let queue = Arc::<SharedQueue>::default();
        let shared = queue.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.write_lines(output))?;
        Ok((Self(queue.clone()), LogFlush(queue)))
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.lock();
        if queue.bytes + line.len() > MAX_WAITING_BYTES {
            queue.dropped += 1;
        } else {
            queue.bytes += line.len();
            queue.lines.push_back(line.to_vec());
            self.0.changed.notify_all();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogFlush {
    /// Waits until the lines are written, for at most a second.
    pub(crate) fn wait(&self) {
        let end = Instant::now() + FLUSH_TIMEOUT;
        let mut queue = self.0.lock();
        while queue.is_writing || !queue.lines.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for LogFlush {
    fn drop(&mut self) {
        self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Output that blocks in each write until the test lets it go on.
    struct Blocked {
        go_on: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go_on.recv().map_err(io::Error::other)?;
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_output_that_blocks_delays_nobody_and_lines_beyond_the_bound_are_counted() {
        let ((go_on, blocked), (sender, written)) = (channel(), channel());
        let output = Blocked { go_on: blocked, written: sender };
        let (mut log, flush) = LogWriter::start(output).unwrap();
        let line = vec![b'x'; MAX_WAITING_BYTES / 4];
        for _ in 0..20 {
            log.write_all(&line).unwrap();
        }
        for _ in 0..20 {
            go_on.send(()).unwrap();
        }
        drop(flush);
        let lines: Vec<_> = written.try_iter().collect();
        let is_line = |written: &&Vec<u8>| **written == line;
        assert!((4..=8).contains(&lines.iter().filter(is_line).count()));
        let rest = String::from_utf8(
            lines.into_iter().filter(|written| *written != line).flatten().collect(),
        )
        .unwrap();
        assert!(rest.contains(" lines of the log were dropped\n"), "{rest}");
    }

    #[test]
    fn an_output_that_cannot_be_written_fails_nobody() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        let (mut log, flush) = LogWriter::start(Full).unwrap();
        for _ in 0..3 {
            log.write_all(b"line\n").unwrap();
        }
        drop(flush);
        assert!(log.0.lock().lines.is_empty());
    }
}
