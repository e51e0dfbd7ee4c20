//! `ovs-appctl` on the program and on the real ovsdb-server: the same commands have the same
//! output.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod backups;
mod databases;
mod remotes;
mod reply_format;
mod transaction_log;
mod vlog;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{RealServer, Release, ScratchDir};

const SCHEMA: &str = r#"{"name":"D","tables":{"T":{"columns":{
    "i":{"type":"integer"},"set":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "map":{"type":{"key":"string","value":"integer","min":0,"max":"unlimited"}},
    "friends":{"type":{"key":{"type":"uuid","refTable":"T","refType":"weak"},"min":0,"max":"unlimited"}},
    "named":{"type":{"key":"string","value":{"type":"uuid","refTable":"T","refType":"weak"},"min":0,"max":"unlimited"}}}},
    "Global":{"columns":{
    "targets":{"type":{"key":"string","min":0,"max":"unlimited"}},"number":{"type":"integer"},
    "connections":{"type":{"key":{"type":"uuid","refTable":"Connection"},"min":0,"max":"unlimited"}}}},
    "Connection":{"columns":{"target":{"type":"string"},"inactivity_probe":{"type":{"key":"integer","min":0}},
    "read_only":{"type":{"key":"boolean","min":0}},
    "is_connected":{"type":"boolean","ephemeral":true},"status":{"ephemeral":true,
        "type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#;

/// Timeout of actions that a server executes with a delay.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Server with its two sockets.
struct Server {
    /// Release of the `ovs-appctl` that is used.
    release: Release,
    socket: PathBuf,
    unixctl: PathBuf,
    process: Process,
}

enum Process {
    Real { _server: RealServer },
    Sim { child: Child, _folder: ScratchDir },
}

impl Server {
    fn real(release: &Release, schema: &Path) -> Self {
        let server = RealServer::start_release(release, [schema]);
        Self {
            release: release.clone(),
            socket: server.socket().to_owned(),
            unixctl: server.unixctl().to_owned(),
            process: Process::Real { _server: server },
        }
    }

    fn sim(release: &Release, schema: &Path) -> Self {
        Self::sim_with_log(release, schema, Stdio::inherit())
    }

    /// The simulator with the commands and words of a release.
    fn sim_with_log(release: &Release, schema: &Path, log: Stdio) -> Self {
        let version = release.version();
        let (compat, _) = version.rsplit_once('.').unwrap();
        let folder = ScratchDir::new();
        let [socket, unixctl] = ["db.sock", "ctl.sock"].map(|name| folder.path().join(name));
        let mut child = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"))
            // Lock files of relays are made there.
            .current_dir(folder.path())
            .arg(format!("--listen=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", unixctl.display()))
            .args(["--listen=unix:/nowhere/at/all", "--control=127.0.0.1:0"])
            .arg(format!("--compat={compat}"))
            .arg("--schema")
            .arg(schema)
            .stdout(Stdio::piped())
            .stderr(log)
            .env_remove("RUST_LOG")
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines: Vec<String> = out.lines().take(3).map(Result::unwrap).collect();
        assert_eq!(lines[1], "connecting to unix:/nowhere/at/all");
        let mut server = Self {
            release: release.clone(),
            socket,
            unixctl,
            process: Process::Sim { child, _folder: folder },
        };
        // The real server is started with one remote.
        let (output, code) = server.appctl("ovsdb-server/remove-remote unix:/nowhere/at/all");
        assert_eq!((output.as_str(), code), ("", Some(0)));
        server
    }

    /// The output of `ovs-appctl`, with placeholders for the server's sockets, and its exit code.
    fn appctl(&mut self, command: &str) -> (String, Option<i32>) {
        let output = self
            .release
            .command("ovs-appctl")
            .args(["--timeout=20", "-t"])
            .arg(&self.unixctl)
            .args(command.split(' ').filter(|word| !word.is_empty()))
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat())
            .unwrap()
            .replace(&self.socket.display().to_string(), "<socket>")
            .replace(&self.unixctl.display().to_string(), "<unixctl>");
        (text, output.status.code())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Process::Sim { child, .. } = &mut self.process {
            // Both fail only if the program has ended already.
            child.kill().unwrap_or_default();
            let _ = child.wait();
        }
    }
}

/// Sends requests on a connection, and reads until the server closes it.
fn send_requests(socket: &Path, requests: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    std::io::read_to_string(stream).unwrap()
}

fn both() -> (ScratchDir, [Server; 2]) {
    both_of(&Release::installed())
}

fn both_of(release: &Release) -> (ScratchDir, [Server; 2]) {
    let folder = ScratchDir::new();
    let schema = folder.path().join("ovsschema");
    std::fs::write(&schema, SCHEMA).unwrap();
    let servers = [Server::real(release, &schema), Server::sim(release, &schema)];
    (folder, servers)
}

/// Runs a command, whose output must be the same on both servers.
fn same(servers: &mut [Server; 2], command: &str) -> (String, Option<i32>) {
    let [real, sim] = servers.each_mut().map(|server| server.appctl(command));
    assert_eq!(real, sim, "{command}");
    real
}

#[test]
fn commands_have_the_same_output_as_in_ovsdb_server() {
    let (folder, mut servers) = both();
    for command in [
        "ovsdb-server/list-dbs",
        "ovsdb-server/list-remotes",
        "ovsdb-server/sync-status",
        "ovsdb-server/get-db-storage-status D",
        "ovsdb-server/get-db-storage-status none",
        "ovsdb-server/compact",
        "ovsdb-server/compact D",
        "ovsdb-server/compact none",
        "ovsdb-server/compact _Server",
        "ovsdb-server/remove-remote none",
        "cluster/status D",
        "coverage/read-counter none",
        "ovsdb-server/perf-counters-clear",
        "ovsdb-server/perf-counters-show",
        "ovsdb-server/get-active-ovsdb-server",
        "ovsdb-server/disconnect-active-ovsdb-server",
        "ovsdb-server/list-dbs x",
        "ovsdb-server/compact x y",
        "ovsdb-server/add-remote",
        "none",
        "Exit",
    ] {
        same(&mut servers, command);
    }
    let more = format!("punix:{}", folder.path().join("more").display());
    for server in &mut servers {
        assert_eq!(server.appctl(&format!("ovsdb-server/add-remote {more}")).1, Some(0));
        let remotes = server.appctl("ovsdb-server/list-remotes").0;
        assert!(remotes.contains(&more), "{remotes}");
        let dbs = send_requests(
            &folder.path().join("more"),
            r#"{"id":1,"method":"list_dbs","params":[]}"#,
        );
        assert!(dbs.contains(r#""_Server""#), "{dbs}");
        assert_eq!(server.appctl(&format!("ovsdb-server/remove-remote {more}")).1, Some(0));
        // Either server closes the socket after its reply.
        until(|| !folder.path().join("more").exists());
    }
    same(&mut servers, "list-commands");
    let version = servers[1].appctl("version").0;
    assert!(version.starts_with("ovsdb-sim "), "{version}");
}

#[test]
fn memory_is_counted_as_in_ovsdb_server() {
    let (_folder, mut servers) = both();
    let requests = r#"
        {"id":1,"method":"transact","params":["D",
            {"op":"insert","table":"T","row":{"i":1,"set":["set",["a","b"]],"map":["map",[["a",1],["b",2]]]}},
            {"op":"insert","table":"T","uuid-name":"a","row":{"set":"a"}},
            {"op":"insert","table":"T","uuid-name":"b","row":{
                "friends":["set",[["named-uuid","a"],["named-uuid","b"]]],
                "named":["map",[["x",["named-uuid","a"]],["y",["named-uuid","a"]],["z",["named-uuid","b"]]]]}}]}
        {"id":2,"method":"monitor","params":["D",1,{"T":{}}]}
        {"id":3,"method":"transact","params":["D",
            {"op":"wait","table":"T","where":[["i","==",2]],"columns":[],"until":"!=","rows":[]}]}
        {"id":5,"method":"monitor_cond","params":["D",2,{"T":{}}]}
        {"id":6,"method":"monitor_cond","params":["D",3,{"T":{"columns":["i","set"],"where":[["i","==",1]]}}]}
        {"id":7,"method":"monitor","params":["D",4,{"T":{"columns":["set","i"]}}]}
        {"id":8,"method":"monitor","params":["D",5,{"T":{"columns":["i"],"select":{"initial":false}}}]}
        {"id":4,"method":"echo","params":[]}"#;
    let shown = servers.each_mut().map(|server| {
        let stream = UnixStream::connect(&server.socket).unwrap();
        (&stream).write_all(requests.as_bytes()).unwrap();
        // Until all replies are there.
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains(r#""id":4"#) {
            let mut reader = BufReader::new(&stream);
            read.extend_from_slice(reader.fill_buf().unwrap());
        }
        server.appctl("memory/show").0
    });
    let [real, sim] = shown.map(|shown| {
        let counts = shown.split_whitespace();
        counts
            .filter(|count| !count.starts_with("json-caches"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    assert_eq!(real, sim);
    assert!(sim.contains(&"triggers:1".to_owned()), "{sim:?}");
    // Monitors of the same columns and kinds of changes are shared.
    assert!(sim.contains(&"monitors:3".to_owned()), "{sim:?}");
}

#[test]
fn clients_that_are_aware_of_changes_get_their_last_messages_at_the_exit() {
    let (_folder, mut servers) = both();
    let wait = r#"{"id":4,"method":"transact","params":["D",
        {"op":"wait","table":"T","where":[["i","==",2]],"columns":["i"],"until":"!=","rows":[]}]}"#;
    let [real, sim] = servers.each_mut().map(|server| {
        let messages = [true, false].map(|is_aware| {
            let mut stream = UnixStream::connect(&server.socket).unwrap();
            let requests = format!(
                r#"{{"id":1,"method":"set_db_change_aware","params":[{is_aware}]}}
                {{"id":2,"method":"monitor","params":["D","m",{{"T":{{}}}}]}}
                {{"id":3,"method":"monitor_cond","params":["_Server","n",{{"Database":{{"columns":["name"]}}}}]}}
                {wait}{{"id":5,"method":"echo","params":[]}}"#
            );
            stream.write_all(requests.as_bytes()).unwrap();
            let mut read = String::new();
            while !read.contains(r#""id":5"#) {
                let mut bytes = [0; 4096];
                let count = std::io::Read::read(&mut stream, &mut bytes).unwrap();
                read.push_str(str::from_utf8(&bytes[..count]).unwrap());
            }
            stream
        });
        assert_eq!(server.appctl("exit"), (String::new(), Some(0)));
        messages.map(|stream| {
            let rest = std::io::read_to_string(stream).unwrap();
            let mut messages: Vec<_> = rest.split_inclusive('}').map(str::to_owned).collect();
            // Databases end in any order.
            messages.sort_unstable();
            messages
        })
    });
    assert_eq!(real, sim);
    assert!(sim[0].iter().any(|one| one.contains("monitor_canceled")), "{sim:?}");
    assert!(sim[1].is_empty(), "{sim:?}");
}

#[test]
fn connections_are_closed_and_conditions_are_disabled() {
    let (_folder, mut servers) = both();
    for command in ["ovsdb-server/reconnect", "ovsdb-server/disable-monitor-cond"] {
        let open = servers.each_ref().map(|server| UnixStream::connect(&server.socket).unwrap());
        // The reply shows that the server knows the connection.
        for mut stream in &open {
            stream.write_all(br#"{"id":1,"method":"echo","params":[]}"#).unwrap();
            let mut reader = BufReader::new(stream);
            assert!(!reader.fill_buf().unwrap().is_empty());
        }
        same(&mut servers, command);
        for stream in open {
            assert_eq!(std::io::read_to_string(stream).unwrap(), "", "{command}");
        }
    }
    for method in ["monitor_cond", "monitor_cond_since", "monitor_cond_change", "monitor"] {
        let request = format!(r#"{{"id":1,"method":"{method}","params":["D",1,{{}}]}}"#);
        let [real, sim] = servers.each_ref().map(|server| send_requests(&server.socket, &request));
        assert_eq!(real.len(), sim.len(), "{method}: {real} {sim}");
        assert_eq!(real.contains("unknown method"), sim.contains("unknown method"), "{method}");
        assert_eq!(
            sim.contains("unknown method"),
            method.starts_with("monitor_cond") && method != "monitor_cond_change"
        );
    }
}

fn succeeds(server: &mut Server, command: &str) {
    assert_eq!(server.appctl(command), (String::new(), Some(0)), "{command}");
}

/// Waits until a condition holds.
fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "it does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn exit_is_answered_and_ends_the_program() {
    let (_folder, [_, mut sim]) = both();
    assert_eq!(sim.appctl("exit"), (String::new(), Some(0)));
    let Process::Sim { child, .. } = &mut sim.process else { unreachable!("it is the simulator") };
    assert_eq!(patchbay_ovn_programs::testing::wait(child).code(), Some(0));
    assert!(!sim.unixctl.exists() && !sim.socket.exists());
}
