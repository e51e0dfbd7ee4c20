//! Real `ovn-trace` for a test, as a program in the background that answers many questions.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use patchbay_ovn_programs::testing::{Release, ScratchDir};
use serde_json::json;

use crate::json_rpc::{TIMEOUT, call_within};

/// Time between two checks whether the program answers.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// States of connection tracking that ovn-trace is given. It uses each once, and then takes packets
/// for those of established connections.
const NEW_STATES: usize = 40_000;
/// Script that limits the memory of a program in KiB, because ovn-trace takes all of it for some
/// packets.
const LIMITED: &str = r#"ulimit -v 4194304 && exec "$@""#;
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
    /// Time in which a packet must be traced.
    limit: Duration,
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
            limit: TIMEOUT,
            folder: ScratchDir::new(),
        };
        server.spawn();
        server
    }

    /// Output of ovn-trace for a packet that comes into a datapath. `None`: ovn-trace has ended,
    /// or has not answered within a minute. Both happen for some packets.
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
            let reply = call_within(self.limit, &self.control(), "trace", &arguments);
            let Ok(reply) = reply else {
                self.restart();
                return None;
            };
            let text = reply["result"].as_str().or(reply["error"].as_str()).unwrap_or_default();
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

    /// Process id. `None`: the program has not written it.
    fn process(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.process_file()).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    fn process_file(&self) -> PathBuf {
        self.folder.path().join("trace.pid")
    }

    /// Kills the program. One that does not answer cannot be asked to exit.
    fn stop(&self) {
        if let Some(process) = self.process() {
            // Fails only if ovn-trace has ended already.
            let _ = kill(process, Signal::SIGKILL);
        }
    }

    fn spawn(&self) {
        let control = self.control();
        // There are none before the first start.
        for file in [&control, &self.process_file()] {
            let _ = fs::remove_file(file);
        }
        let program = self.release.command("ovn-trace");
        let status = Command::new("sh")
            .args(["-c", LIMITED, "sh"])
            .arg(program.get_program())
            .args(program.get_args())
            .args(std::iter::repeat_n("--ct=new", NEW_STATES))
            .arg(format!("--db={}", self.remote))
            .arg(format!("--unixctl={}", control.display()))
            .arg(format!("--pidfile={}", self.process_file().display()))
            // Otherwise names with UUIDs, such as those of Neutron, are shortened.
            .args(["--detach", "--no-chdir", "--no-friendly-names"])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_rpc::transact;
    use crate::ovn::start_server;

    #[test]
    fn a_program_that_does_not_answer_is_killed_and_started_again() {
        let release = Release::installed();
        let server = start_server(&release);
        let switch = json!([
            "map",
            [["name", "s1"], ["logical-switch", "6ca90000-0000-4000-8000-000000000001"],]
        ]);
        let row = json!({"tunnel_key": 1, "external_ids": switch});
        let insert = json!({"op": "insert", "table": "Datapath_Binding", "row": row});
        transact(server.socket(), &json!(["OVN_Southbound", insert]));
        let mut trace = TraceServer::start(&release, &server.remote());
        let first = trace.process().unwrap();
        assert!(trace.trace_as(Format::Minimal, "s1", "inport ==").is_some());
        trace.limit = Duration::from_millis(100);
        kill(first, Signal::SIGSTOP).unwrap();
        assert_eq!(trace.trace("s1", "inport =="), None);
        let deadline = Instant::now() + TIMEOUT;
        while kill(first, None).is_ok() && !is_zombie(first) {
            assert!(Instant::now() < deadline, "{first} still runs");
            thread::sleep(POLL_INTERVAL);
        }
        trace.limit = TIMEOUT;
        assert!(trace.trace("s1", "inport ==").is_some());
    }

    /// `true` if a process has ended, and its parent has not waited for it.
    fn is_zombie(process: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    }
}
