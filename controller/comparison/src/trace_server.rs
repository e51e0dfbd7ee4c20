//! Real `ovn-trace` for a test, as a program in the background that answers many questions.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use ovsdb_sim::testing::{Release, ScratchDir};
use serde_json::json;

use crate::json_rpc::{TIMEOUT, call};

/// Time between two checks whether the program answers.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// States of connection tracking that ovn-trace is given. It uses each once, and then takes packets
/// for those of established connections.
const NEW_STATES: usize = 40_000;
/// Questions until ovn-trace is started again, because its states are used up.
const QUESTIONS_PER_TRACE: usize = 1_000;

/// Format of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    /// Final headers of the packet, and its destinations.
    Minimal,
    /// Actions in the pipelines.
    Summary,
    /// Flows with their actions.
    Detailed,
}

impl Format {
    fn option(self) -> &'static str {
        match self {
            Self::Minimal => "--minimal",
            Self::Summary => "--summary",
            Self::Detailed => "--detailed",
        }
    }
}

/// Running `ovn-trace` on a translated Southbound database. Dropping it ends the program.
#[derive(Debug)]
pub struct TraceServer {
    release: Release,
    remote: String,
    questions: usize,
    folder: ScratchDir,
}

impl TraceServer {
    /// Starts the program of a release. Returns when it has read the database.
    ///
    /// # Panics
    /// The program does not start.
    #[must_use]
    pub fn start(release: &Release, remote: &str) -> Self {
        let server = Self {
            release: release.clone(),
            remote: remote.to_owned(),
            questions: 0,
            folder: ScratchDir::new(),
        };
        server.spawn();
        server
    }

    /// Output of ovn-trace for a packet that comes into a datapath. `None`: ovn-trace has ended,
    /// which it does for some packets.
    ///
    /// # Panics
    /// The database has no such datapath.
    pub fn trace(&mut self, datapath: &str, packet: &str) -> Option<String> {
        self.trace_as(Format::Minimal, datapath, packet)
    }

    /// [`trace`](Self::trace) in another format.
    pub(crate) fn trace_as(
        &mut self,
        format: Format,
        datapath: &str,
        packet: &str,
    ) -> Option<String> {
        self.questions += 1;
        if self.questions.is_multiple_of(QUESTIONS_PER_TRACE) {
            self.restart();
        }
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let arguments = json!([format.option(), datapath, packet]);
            let Ok(reply) = call(&self.control(), "trace", &arguments) else {
                self.restart();
                return None;
            };
            let text = reply["result"].as_str().or(reply["error"].as_str());
            let text = text.unwrap_or_default();
            if !text.contains("unknown datapath") {
                return Some(text.to_owned());
            }
            assert!(Instant::now() < deadline, "ovn-trace knows no {datapath}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("trace.ctl")
    }

    fn restart(&self) {
        self.stop();
        self.spawn();
    }

    fn stop(&self) {
        // Fails only if ovn-trace has ended already.
        let _ = call(&self.control(), "exit", &json!([]));
    }

    fn spawn(&self) {
        let control = self.control();
        // There is none before the first start.
        let _ = fs::remove_file(&control);
        let status = self
            .release
            .command("ovn-trace")
            .args(std::iter::repeat_n("--ct=new", NEW_STATES))
            .arg(format!("--db={}", self.remote))
            .arg(format!("--unixctl={}", control.display()))
            .args(["--detach", "--no-chdir"])
            .env("OVS_RUNDIR", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("an installed program starts");
        assert!(status.success(), "ovn-trace: {status}");
        let deadline = Instant::now() + TIMEOUT;
        while UnixStream::connect(&control).is_err() {
            assert!(Instant::now() < deadline, "ovn-trace does not start");
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for TraceServer {
    fn drop(&mut self) {
        self.stop();
    }
}
