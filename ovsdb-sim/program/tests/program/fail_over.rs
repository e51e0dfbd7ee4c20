//! Active-backup pairs of which one program is killed in the middle of a load.
//!
//! A backup follows asynchronously, as in ovsdb-server: it may lack the last transactions that the
//! active server has acknowledged. What it has are whole transactions in their order, and the file
//! of the active server has all of them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{ScratchDir, program, signal};
use patchbay_schemas::json::{Framer, Json};

const SCHEMA: &str = r#"{"name":"D","tables":{"T":{"columns":{
    "writer":{"type":"integer"},"i":{"type":"integer"}},"indexes":[["writer","i"]]}}}"#;
/// Timeout of a state: far more than it needs, even on a loaded machine.
const STATE_TIMEOUT: Duration = Duration::from_secs(120);
/// Number of clients that write at the same time.
const WRITERS: i64 = 3;
/// Number of acknowledged transactions before a program is killed.
const BEFORE_CRASH: usize = 60;
/// Transaction: its writer and its number.
type Written = (i64, i64);

/// One server of a pair, with a journal.
struct Server {
    folder: PathBuf,
    name: &'static str,
    child: Child,
}

impl Server {
    /// Starts the server. `source`: it is a backup of that one.
    fn start(folder: &Path, name: &'static str, source: Option<&str>) -> Self {
        let schema = folder.join("schema");
        std::fs::write(&schema, SCHEMA).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"));
        command
            .arg(format!("--listen=punix:{name}.sock"))
            .arg(format!("--unixctl={}/{name}.ctl", folder.display()))
            .arg(format!("--journal=D={name}.db"))
            .arg("--schema=schema");
        if let Some(source) = source {
            command.arg(format!("--sync-from=unix:{source}.sock"));
        }
        let mut child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{name}: {line}");
        Self { folder: folder.to_owned(), name, child }
    }

    /// Ends the program by SIGKILL.
    fn crash(mut self) {
        self.child.kill().unwrap();
        patchbay_ovn_programs::testing::wait(&mut self.child);
    }

    fn appctl(&self, command: &str) -> String {
        let output = Command::new(program("ovs-appctl"))
            .args(["--timeout=60", "-t"])
            .arg(self.folder.join(format!("{}.ctl", self.name)))
            .arg(command)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(&self.folder, self.name).expect("a server that listens")
    }

    /// The transactions that the server has. Both rows of each must be there.
    fn written(&self) -> BTreeSet<Written> {
        let select = r#"{"op":"select","table":"T","where":[],"columns":["writer","i"]}"#;
        let reply = self.client().transact(select).expect("a reply");
        let Some(Json::Array(results)) = reply.get("result") else {
            panic!("{reply:?}");
        };
        let Some(Json::Array(rows)) = results[0].get("rows") else {
            panic!("{reply:?}");
        };
        let integer = |row: &Json, column: &str| match row.get(column) {
            Some(Json::Integer(integer)) => *integer,
            other => panic!("{other:?}"),
        };
        let rows: BTreeSet<_> =
            rows.iter().map(|row| (integer(row, "writer"), integer(row, "i"))).collect();
        let whole = |(writer, i): &Written| rows.contains(&(*writer, i ^ 1));
        assert!(rows.iter().all(whole), "half a transaction: {rows:?}");
        rows.into_iter().filter(|(_, i)| i % 2 == 0).map(|(writer, i)| (writer, i / 2)).collect()
    }

    fn until(&self, state: &str, is_there: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_there(self) {
            assert!(start.elapsed() < STATE_TIMEOUT, "{}: {state}", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn until_written(&self, expected: &BTreeSet<Written>) {
        self.until("the content", |server| server.written() == *expected);
    }

    /// Waits until the server follows its source.
    fn until_backup(&self) {
        self.until("replicating", |server| {
            server.appctl("ovsdb-server/sync-status").contains("replicating")
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connection that waits for each reply.
struct Client {
    stream: UnixStream,
    framer: Framer,
}

impl Client {
    /// `None`: the server does not listen.
    fn connect(folder: &Path, name: &str) -> Option<Self> {
        let stream = UnixStream::connect(folder.join(format!("{name}.sock"))).ok()?;
        stream.set_read_timeout(Some(STATE_TIMEOUT)).unwrap();
        Some(Self { stream, framer: Framer::new(usize::MAX) })
    }

    /// The reply to a transaction. `None`: the connection has ended.
    fn transact(&mut self, operations: &str) -> Option<Json> {
        let text = format!(r#"{{"id":1,"method":"transact","params":["D",{operations}]}}"#);
        self.stream.write_all(text.as_bytes()).ok()?;
        loop {
            if let Some(text) = self.framer.next_text().unwrap() {
                return Some(Json::from_text(text.as_text()));
            }
            let mut bytes = [0; 1 << 12];
            match self.stream.read(&mut bytes).ok()? {
                0 => return None,
                count => self.framer.push(&bytes[..count]),
            }
        }
    }
}

/// Transactions of a load: those that were acknowledged, and those that were sent at all.
#[derive(Debug, Default)]
struct Load {
    acknowledged: BTreeSet<Written>,
    sent: BTreeSet<Written>,
}

/// Ends a load when it is dropped.
struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets clients write to a server, one transaction of two rows after the other, until `act` returns
/// or the server ends. `act` gets the load.
fn write_while(server: &Server, act: impl FnOnce(&Mutex<Load>)) -> Load {
    let (load, is_over) = (Mutex::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (load, is_over): (&Mutex<Load>, _) = (&load, &is_over);
            let mut client = server.client();
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    load.lock().unwrap().sent.insert((writer, number));
                    let row = |i: i64| {
                        format!(
                            r#"{{"op":"insert","table":"T","row":{{"writer":{writer},"i":{i}}}}}"#
                        )
                    };
                    let operations = [row(2 * number), row(2 * number + 1)].join(",");
                    let Some(reply) = client.transact(&operations) else {
                        return;
                    };
                    assert!(!reply.to_text().contains("details"), "{reply:?}");
                    load.lock().unwrap().acknowledged.insert((writer, number));
                }
            });
        }
        // Also if `act` panics: the scope waits for the clients.
        let _end = EndOfLoad(&is_over);
        act(&load);
    });
    load.into_inner().unwrap()
}

/// Waits until the server has acknowledged `count` transactions of the load.
fn until_acknowledged(load: &Mutex<Load>, count: usize) {
    let start = Instant::now();
    while load.lock().unwrap().acknowledged.len() < count {
        assert!(start.elapsed() < STATE_TIMEOUT, "the load");
        thread::sleep(Duration::from_millis(1));
    }
}

/// `true` if each writer's transactions are the first of all that it has sent.
fn are_first_ones(written: &BTreeSet<Written>) -> bool {
    let before =
        |(writer, number): &Written| *number == 0 || written.contains(&(*writer, number - 1));
    written.iter().all(before)
}

#[test]
fn a_backup_takes_over_from_an_active_server_that_was_killed_and_is_followed_by_it() {
    let folder = ScratchDir::new();
    let folder = folder.path();
    let active = Server::start(folder, "active", None);
    let backup = Server::start(folder, "backup", Some("active"));
    backup.until_backup();
    // Transactions that the backup has shown before the crash.
    let mut shown = BTreeSet::new();
    let load = write_while(&active, |load| {
        until_acknowledged(load, BEFORE_CRASH);
        backup.until("the load", |backup| backup.written().len() >= BEFORE_CRASH / 2);
        shown = backup.written();
        signal(&active.child, "KILL");
    });
    active.crash();
    assert!(load.acknowledged.len() >= BEFORE_CRASH);

    // The backup keeps what it has, and clients still cannot write.
    let refused =
        backup.client().transact(r#"{"op":"delete","table":"T","where":[]}"#).unwrap().to_text();
    assert!(refused.contains("read only mode"), "{refused}");
    backup.appctl("ovsdb-server/disconnect-active-ovsdb-server");
    let status = backup.appctl("ovsdb-server/sync-status");
    assert!(status.contains("state: active"), "{status}");
    let taken_over = backup.written();
    assert!(taken_over.is_superset(&shown), "{shown:?} {taken_over:?}");
    assert!(taken_over.is_subset(&load.sent) && are_first_ones(&taken_over));

    // Nothing acknowledged is lost in the file of the server that was killed.
    let old = Server::start(folder, "active", None);
    let kept = old.written();
    assert!(kept.is_superset(&load.acknowledged), "{:?}", load.acknowledged);
    assert!(kept.is_superset(&taken_over) && kept.is_subset(&load.sent));
    assert!(are_first_ones(&kept));
    old.crash();

    // It follows the new active server: its content is that of the other.
    let own = r#"{"op":"insert","table":"T","row":{"writer":7,"i":0}},
        {"op":"insert","table":"T","row":{"writer":7,"i":1}}"#;
    let reply = backup.client().transact(own).unwrap().to_text();
    assert!(!reply.contains("details"), "{reply}");
    let old = Server::start(folder, "active", Some("backup"));
    old.until_backup();
    let expected = backup.written();
    assert!(expected.contains(&(7, 0)));
    old.until_written(&expected);
    old.crash();
    // Its file has that, too.
    assert_eq!(Server::start(folder, "active", None).written(), expected);
}

#[test]
fn a_backup_that_was_killed_catches_up_and_can_take_over_without_a_loss() {
    let folder = ScratchDir::new();
    let folder = folder.path();
    let active = Server::start(folder, "active", None);
    let first = Server::start(folder, "backup", Some("active"));
    first.until_backup();
    let load = write_while(&active, |load| {
        until_acknowledged(load, BEFORE_CRASH);
        first.crash();
        until_acknowledged(load, 2 * BEFORE_CRASH);
        // Its own file has the first transactions, and it gets the others while more come.
        let again = Server::start(folder, "backup", None);
        let kept = again.written();
        assert!(are_first_ones(&kept), "{kept:?}");
        again.crash();
        let second = Server::start(folder, "backup", Some("active"));
        second.until_backup();
        let acknowledged = load.lock().unwrap().acknowledged.len();
        until_acknowledged(load, acknowledged + BEFORE_CRASH);
        second.crash();
    });
    let backup = Server::start(folder, "backup", Some("active"));
    backup.until_written(&active.written());
    active.crash();
    backup.appctl("ovsdb-server/disconnect-active-ovsdb-server");
    let written = backup.written();
    assert!(written.is_superset(&load.acknowledged));
    assert!(written.is_subset(&load.sent));
    let more = r#"{"op":"insert","table":"T","row":{"writer":7,"i":0}}"#;
    let reply = backup.client().transact(more).unwrap().to_text();
    assert!(!reply.contains("details"), "{reply}");
}
