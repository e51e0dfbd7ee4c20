//! A command that goes on: `patchbay apply --watch`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{example, patchbay};

/// Time-out for something that does happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A watching command, and the lines that it prints.
pub(crate) struct Watching {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Watching {
    /// Watches these manifests, with more arguments that are separated by spaces.
    pub(crate) fn start(path: &Path, arguments: &str) -> Self {
        let mut child = patchbay()
            .args(["apply", "--watch", "--zone", "ovn-worker2"])
            .args(arguments.split_whitespace())
            .arg("-f")
            .arg(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdout: lines(child.stdout.take().unwrap()),
            stderr: lines(child.stderr.take().unwrap()),
            child,
        }
    }

    /// The next JSON document, which ends with a brace at the start of a line.
    pub(crate) fn document(&self) -> serde_json::Value {
        let mut text = String::new();
        while !text.ends_with("\n}\n") {
            text += &self.line();
        }
        serde_json::from_str(&text).unwrap()
    }

    /// The next line of the standard output.
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(PATIENCE).unwrap()
    }

    /// The next line of the standard error that is none of the client's log.
    pub(crate) fn error(&self) -> String {
        loop {
            let line = self.stderr.recv_timeout(PATIENCE).unwrap();
            if !line.contains("patchbay_engine::") {
                return line;
            }
        }
    }

    /// Nothing is printed for a while, logs left aside.
    pub(crate) fn is_silent(&self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match self.stderr.recv_timeout(left) {
                Ok(line) => assert!(line.contains("patchbay_engine::"), "{line}"),
                Err(error) => assert_eq!(error, RecvTimeoutError::Timeout),
            }
        }
        let printed: Vec<String> = self.stdout.try_iter().collect();
        assert_eq!(printed, Vec::<String>::new());
    }

    /// Ends the command. Returns what it has printed that was not read before.
    pub(crate) fn rest(mut self) -> String {
        let stdout = std::mem::replace(&mut self.stdout, channel().1);
        self.stop();
        stdout.iter().collect()
    }

    pub(crate) fn stop(self) {
        self.stop_by("TERM");
    }

    /// Ends the command by a signal. Returns what it prints after that.
    pub(crate) fn stop_by(mut self, signal: &str) -> String {
        patchbay_ovn_programs::testing::signal(&self.child, signal);
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it does not end");
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(0));
        let lines = self.stderr.iter();
        lines.filter(|line| !line.contains("patchbay_engine::")).collect()
    }
}

impl Drop for Watching {
    /// A test that fails leaves no process.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a stream, each with its end.
pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            let length = stream.read_line(&mut line).unwrap();
            if length == 0 || sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The example's manifests in a folder of their own.
pub(crate) fn copy_example(folder: &Path) {
    for file in ["1-cluster.yaml", "2-networks.yaml", "3-connect.yaml"] {
        fs::copy(example().join(file), folder.join(file)).unwrap();
    }
}
