//! Running ovn-northd and ovn-trace.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ovsdb_sim::testing::{RealServer, Release, ScratchDir};
use serde::Deserialize;
use serde_json::{Value, json};

/// Time in which a program must answer: far more than it needs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two checks whether a program answers.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// States of connection tracking that ovn-trace is given. It uses each once, and then takes packets
/// for those of established connections.
const NEW_STATES: usize = 40_000;
/// Questions until ovn-trace is started again, because its states are used up.
const QUESTIONS_PER_TRACE: usize = 1_000;

/// Databases with an ovn-northd, and an ovn-trace that reads what it writes.
pub(crate) struct Ovn {
    release: Release,
    northd: Child,
    questions: usize,
    // Dropped after the programs have ended.
    server: RealServer,
    folder: ScratchDir,
}

impl Ovn {
    /// Starts the programs on a database that a `transact` request fills. Returns when ovn-northd
    /// has translated it.
    pub(crate) fn start(release: &Release, request: &str) -> Self {
        let schemas = ["ovn-nb", "ovn-sb"].map(|name| release.schema(name));
        let server = RealServer::start_release(release, schemas);
        let folder = ScratchDir::new();
        let remote = server.remote();
        let parameters: Value = serde_json::from_str(request).unwrap();
        let reply = call(server.socket(), "transact", &parameters).unwrap();
        assert!(!reply.to_string().contains("\"error\":\""), "{reply}");
        let northd = release
            .command("ovn-northd")
            .arg(format!("--ovnnb-db={remote}"))
            .arg(format!("--ovnsb-db={remote}"))
            .arg(format!(
                "--unixctl={}",
                folder.path().join("northd.ctl").display()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sync = release
            .command("ovn-nbctl")
            .args([
                &format!("--db={remote}"),
                "--timeout=60",
                "--wait=sb",
                "sync",
            ])
            .output()
            .unwrap();
        assert!(
            sync.status.success(),
            "{}",
            String::from_utf8_lossy(&sync.stderr)
        );
        start_trace(release, &server, &folder);
        Self {
            release: release.clone(),
            northd,
            questions: 0,
            server,
            folder,
        }
    }

    /// Output of ovn-trace for a packet. `None`: ovn-trace has ended, which it does for some packets.
    pub(crate) fn trace(&mut self, datapath: &str, packet: &str) -> Option<String> {
        self.questions += 1;
        if self.questions.is_multiple_of(QUESTIONS_PER_TRACE) {
            self.restart_trace();
        }
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let arguments = json!(["--minimal", datapath, packet]);
            let Ok(reply) = call(&self.control(), "trace", &arguments) else {
                self.restart_trace();
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

    fn restart_trace(&mut self) {
        self.stop_trace();
        start_trace(&self.release, &self.server, &self.folder);
    }

    fn stop_trace(&self) {
        // Fails only if ovn-trace has ended already.
        let _ = call(&self.control(), "exit", &json!([]));
    }
}

impl Drop for Ovn {
    fn drop(&mut self) {
        self.stop_trace();
        // Both fail only if the child has ended already.
        let _ = self.northd.kill();
        let _ = self.northd.wait();
    }
}

/// Starts ovn-trace as a server in the background.
fn start_trace(release: &Release, server: &RealServer, folder: &ScratchDir) {
    let control = folder.path().join("trace.ctl");
    let _ = fs::remove_file(&control);
    let status = release
        .command("ovn-trace")
        .args(std::iter::repeat_n("--ct=new", NEW_STATES))
        .arg(format!("--db={}", server.remote()))
        .arg(format!("--unixctl={}", control.display()))
        .args(["--detach", "--no-chdir"])
        .env("OVS_RUNDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "ovn-trace: {status}");
    let deadline = Instant::now() + TIMEOUT;
    while UnixStream::connect(&control).is_err() {
        assert!(Instant::now() < deadline, "ovn-trace does not start");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Calls a method of JSON-RPC at a socket and returns the reply.
fn call(socket: &Path, method: &str, parameters: &Value) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = json!({"id": 0, "method": method, "params": parameters});
    stream.write_all(request.to_string().as_bytes())?;
    let mut reply = serde_json::Deserializer::from_reader(stream);
    Value::deserialize(&mut reply).map_err(io::Error::other)
}
