//! The server under test: a process that is killed and started again on its journal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::process::{resident_bytes, workspace_program};
use patchbay_ovn_programs::testing::{ScratchDir, installed_nb_schema, program};
use serde_json::{Value, json};

/// Time in which a request is answered, faults and kills included.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of ends of which one is clean: the process is asked to end, and compacts its journal
/// before.
const CLEAN_ENDS: usize = 4;

/// Server process with a journal.
#[derive(Debug)]
pub(crate) struct SoakServer {
    program: PathBuf,
    folder: ScratchDir,
    socket: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Address of the control API.
    control: String,
}

impl SoakServer {
    /// Starts a program. `None`: that of this workspace.
    pub(crate) fn start(program: Option<PathBuf>) -> Result<Self> {
        let program = match program {
            Some(program) => program,
            None => workspace_program("ovsdb-sim")?,
        };
        let folder = ScratchDir::new();
        let socket = folder.path().join("sock");
        let running = start(&program, folder.path(), true)?;
        Ok(Self { program, folder, socket, running: Mutex::new(running) })
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends the process and starts it on the journal. Most ends are kills.
    pub(crate) fn restart(&self, number: usize) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if number % CLEAN_ENDS == CLEAN_ENDS - 1 {
            let control = self.folder.path().join("ctl");
            for command in ["ovsdb-server/compact", "exit"] {
                let status = Command::new(program("ovs-appctl"))
                    .arg("--timeout=20")
                    .arg("-t")
                    .arg(&control)
                    .arg(command)
                    .status()?;
                ensure!(status.success(), "{command}: {status}");
            }
        } else {
            running.child.kill()?;
        }
        running.child.wait()?;
        *running = start(&self.program, self.folder.path(), false)?;
        Ok(())
    }

    /// Sets the next one of several faults.
    pub(crate) fn set_next_fault(&self, number: usize) -> Result<()> {
        let faults = [
            json!({"lose_reply": "disconnected"}),
            json!({"drop_after_sent": {"bytes": 40}}),
            json!({"lose_reply": "crashed"}),
            json!({"drop_after_received": {"bytes": 100}}),
            json!({"fail_commit": {"error": "I/O error"}}),
        ];
        let fault = &faults[number % faults.len()];
        let control = {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.control.clone()
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "sim_set_fault",
            "params": [{"fault": fault, "connections": "next", "times": 1}]})
        .to_string();
        let mut stream = TcpStream::connect(&control)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: {control}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        ensure!(reply.contains("\"result\""), "{reply}");
        Ok(())
    }

    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        resident_bytes(running.child.id())
    }

    /// The names of all rows. Faults that no connection has met yet may strike those that ask.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let begin = Instant::now();
        loop {
            let names = self.select_names();
            if names.is_ok() || begin.elapsed() > REPLY_TIMEOUT {
                return names;
            }
        }
    }

    fn select_names(&self) -> Result<Vec<String>> {
        let mut connection = Connection::open(&self.socket)?;
        let operation =
            json!({"op": "select", "table": "Logical_Switch", "where": [], "columns": ["name"]});
        let results = connection.transact(&[operation])?;
        let rows = results[0]["rows"].as_array().context("rows")?;
        let name = |row: &Value| row["name"].as_str().map(str::to_owned);
        Ok(rows.iter().filter_map(name).collect())
    }
}

impl Drop for SoakServer {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Both calls fail only if the server has ended.
        running.child.kill().unwrap_or_default();
        let _ = running.child.wait();
    }
}

fn start(program: &Path, folder: &Path, is_new: bool) -> Result<Running> {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .arg(format!("--listen=punix:{}", folder.join("sock").display()))
        .args(["--journal=journal", "--unixctl=ctl", "--control=127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if is_new {
        command.arg("--schema").arg(installed_nb_schema());
    }
    let mut child = command.spawn()?;
    let mut out = BufReader::new(child.stdout.take().context("a piped output")?);
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        out.read_line(line)?;
    }
    let control = lines[1].trim().strip_prefix("control API on http://");
    let control = control.with_context(|| format!("{lines:?}"))?.to_owned();
    Ok(Running { child, control })
}

/// Connection of a client that waits for each reply.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects, again and again while the server is not there.
    pub(crate) fn open(socket: &Path) -> Result<Self> {
        let begin = Instant::now();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
                    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
                    let stream = BufReader::new(stream);
                    return Ok(Self { stream });
                }
                Err(error) if begin.elapsed() > REPLY_TIMEOUT => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Sends a transaction and returns its results.
    pub(crate) fn transact(&mut self, operations: &[Value]) -> Result<Vec<Value>> {
        let mut params = vec![json!("OVN_Northbound")];
        params.extend_from_slice(operations);
        let request = json!({"id": 1, "method": "transact", "params": params}).to_string();
        self.stream.get_mut().write_all(request.as_bytes())?;
        let replies = serde_json::Deserializer::from_reader(&mut self.stream).into_iter::<Value>();
        for reply in replies {
            let mut reply = reply?;
            if reply["id"] == 1 {
                let results = reply["result"].take();
                return Ok(serde_json::from_value(results)?);
            }
        }
        anyhow::bail!("the connection has ended")
    }
}
