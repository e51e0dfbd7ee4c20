//! `patchbay apply` while its server hangs, restarts, elects a leader or loses connections.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ovsdb_sim::{Fault, FaultRule, Loss, Sim};
use patchbay_ovn_programs::testing::{
    RealCluster, RealServer, ScratchDir, installed_nb_schema, nbctl, program,
};

use serde_json::json;

use crate::command::{Run, example, nb_schema, patchbay};

/// Time in which a command must end: far more than any of these needs.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Starts a command on the example, for the zone `ovn-worker2`.
fn start(command: &str, remotes: &str) -> Child {
    patchbay()
        .args(command.split_whitespace())
        .args(["--zone", "ovn-worker2", "--nb", remotes, "-f"])
        .arg(example())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a command ends by itself.
fn end(mut child: Child) -> Run {
    let deadline = Instant::now() + END_LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it does not end: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(20));
    }
    patchbay_ovn_programs::testing::output_of(child).into()
}

/// Asserts that a command has ended with this error and nothing on standard output.
#[track_caller]
fn assert_failed(run: &Run, error: &str) {
    assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{}", run.stderr);
    let last = run.stderr.lines().last().unwrap();
    assert!(last.starts_with(error), "{}", run.stderr);
    let hint = " (--timeout sets the limit)";
    assert!(last.ends_with(hint), "{}", run.stderr);
}

#[test]
fn a_server_that_never_answers_is_given_up_after_the_timeout() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    // The connection is established by the system, and nobody accepts it.
    let _listener = UnixListener::bind(&socket).unwrap();
    let remote = format!("unix:{}", socket.display());
    for command in ["apply -t 1", "plan --timeout 1", "explain cnc c --timeout 1"] {
        let error = "error: cannot use database OVN_Northbound within 1 s: unix:";
        assert_failed(&end(start(command, &remote)), error);
    }
}

#[test]
fn a_server_that_is_not_there_is_waited_for() {
    let server = RealServer::start([installed_nb_schema()]);
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let mut child = start("apply", &format!("unix:{}", socket.display()));
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    assert_ne!(log.read_line(&mut line).unwrap(), 0, "it has ended");
    let remote = format!("unix:{}", socket.display());
    let expected = format!("waiting for {remote} (no such file), at most 30 s\n");
    assert_eq!(line, expected);
    line.clear();
    std::os::unix::fs::symlink(server.socket(), &socket).unwrap();
    // An unread pipe would block the command.
    let reader = thread::spawn(move || log.read_to_string(&mut line));
    assert_eq!(end(child).code, Some(0));
    reader.join().unwrap().unwrap();
}

#[test]
fn a_socket_that_does_not_come_has_one_line_at_the_start_and_one_at_the_end() {
    let folder = ScratchDir::new();
    let remote = format!("unix:{}", folder.path().join("nb.sock").display());
    for command in ["apply -t 3", "plan -t 3", "explain cnc c -t 3"] {
        let failed = end(start(command, &remote));
        assert_eq!(failed.code, Some(1), "{}", failed.stderr);
        let lines: Vec<&str> = failed.stderr.lines().collect();
        let [first, last] = *lines else {
            panic!("{}", failed.stderr);
        };
        assert_eq!(first, format!("waiting for {remote} (no such file), at most 3 s"));
        let error = "error: cannot use database OVN_Northbound within 3 s: ";
        assert!(last.starts_with(error), "{last}");
    }
}

#[test]
fn a_socket_whose_folder_does_not_exist_is_not_waited_for() {
    let folder = ScratchDir::new();
    let missing = folder.path().join("none");
    let remote = format!("unix:{}", missing.join("nb.sock").display());
    let expected =
        format!("error: cannot use {remote}: there is no folder {}\n", missing.display());
    for command in ["apply", "plan", "explain cnc c", "apply --watch"] {
        // Without the check this waits for longer than a command may take.
        let failed = end(start(&format!("{command} --timeout 600"), &remote));
        assert_eq!((failed.code, &*failed.stderr), (Some(1), &*expected));
    }
}

#[test]
fn a_server_that_has_opened_no_database_yet_is_waited_for() {
    let folder = ScratchDir::new();
    let database = folder.path().join("nb.db");
    let created =
        Command::new(program("ovsdb-tool")).arg("create").args([&database, &nb_schema()]).status();
    assert!(created.unwrap().success());
    // A server needs a database to start.
    let schema = folder.path().join("other.ovsschema");
    let text = r#"{"name": "Other", "version": "1.0.0", "tables": {"T": {"columns": {"c": {"type": "string"}}}}}"#;
    fs::write(&schema, text).unwrap();
    let server = RealServer::start([&schema]);
    appctl(&server, "ovsdb-server/remove-db", Path::new("Other"));
    let mut child = start("apply", &server.remote());
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    assert_ne!(log.read_line(&mut line).unwrap(), 0, "it has ended");
    let reason = "(no database OVN_Northbound: the server has ";
    assert!(line.contains(reason), "{line}");
    appctl(&server, "ovsdb-server/add-db", &database);
    let reader = thread::spawn(move || log.read_to_string(&mut line));
    assert_eq!(end(child).code, Some(0));
    reader.join().unwrap().unwrap();
}

/// Runs a command of the server about a database.
fn appctl(server: &RealServer, command: &str, database: &Path) {
    let done = Command::new(program("ovs-appctl"))
        .arg("-t")
        .arg(server.unixctl())
        .arg(command)
        .arg(database)
        .status();
    assert!(done.unwrap().success());
}

/// Such a list comes in the first moments of a server, which has no `_Server` yet.
#[test]
fn an_empty_list_of_databases_is_waited_for() {
    let server = RealServer::start([nb_schema()]);
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let place = server.socket().to_owned();
    thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        answer_without_databases(first);
        for client in listener.incoming() {
            join(&client.unwrap(), &UnixStream::connect(&place).unwrap());
        }
    });
    let done = end(start("apply", &format!("unix:{}", socket.display())));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let waits = "(no database OVN_Northbound: the server has none), at most 30 s\n";
    assert!(done.stderr.ends_with(waits), "{}", done.stderr);
}

/// Answers as a server that has no databases, until the client leaves.
fn answer_without_databases(mut client: UnixStream) {
    let requests = serde_json::Deserializer::from_reader(client.try_clone().unwrap());
    for request in requests.into_iter::<serde_json::Value>() {
        let Ok(request) = request else { return };
        let (result, error) = match request["method"].as_str() {
            Some("list_dbs") => (json!([]), json!(null)),
            _ => (json!(null), json!("unknown database")),
        };
        let reply = json!({"id": request["id"], "result": result, "error": error});
        if client.write_all(reply.to_string().as_bytes()).is_err() {
            return;
        }
    }
}

/// Copies bytes between a client and a server, in both directions.
fn join(client: &UnixStream, server: &UnixStream) {
    for (from, to) in [(client, server), (server, client)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_without_a_reply_is_given_up_after_the_timeout() {
    let folder = ScratchDir::new();
    let sim = Sim::builder().build().unwrap();
    let target = format!("punix:{}", folder.path().join("nb.sock").display());
    let listener = sim.listen(&target).await.unwrap();
    sim.set_fault(FaultRule::from(Fault::LoseReply(Loss::Swallowed))).unwrap();
    let child = start("apply --timeout 1", &listener.remote());
    let error = "error: zone ovn-worker2: networks: the server has not replied within 1 s; the \
                 transaction may be applied or not";
    assert_failed(&end(child), error);
}

#[test]
fn a_cluster_is_waited_for_while_it_elects_a_leader() {
    let mut cluster = RealCluster::start(&installed_nb_schema(), 3);
    cluster.kill(cluster.leader());
    let done = end(start("apply", &cluster.remotes()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let shown =
        String::from_utf8(nbctl(&cluster.remotes()).arg("show").output().unwrap().stdout).unwrap();
    assert!(shown.contains("connect_router_blue-green-connect"), "{shown}");
}

#[test]
fn a_cluster_without_a_majority_is_given_up_after_the_timeout() {
    let mut cluster = RealCluster::start(&installed_nb_schema(), 3);
    let follower = (cluster.leader() + 1) % 3;
    cluster.kill(cluster.leader());
    cluster.kill(follower);
    let failed = end(start("plan --timeout 2", &cluster.remotes()));
    assert_failed(&failed, "error: cannot use database OVN_Northbound within 2 s: unix:");
}

/// Proxy of a server whose connections are cut after a number of bytes, one limit for each.
struct Proxy {
    remote: String,
    _folder: ScratchDir,
}

impl Proxy {
    /// Cuts connections after these numbers of bytes to the server, or to the client. Later
    /// connections are not cut.
    fn start(server: &Path, is_to_server: bool, limits: &'static [usize]) -> Self {
        let folder = ScratchDir::new();
        let socket = folder.path().join("proxy.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = server.to_owned();
        thread::spawn(move || {
            let mut limits = limits.iter().copied();
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&server).unwrap());
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (to_server, to_client) = match (limits.next(), is_to_server) {
                    (None, _) => (usize::MAX, usize::MAX),
                    (Some(limit), true) => (limit, usize::MAX),
                    (Some(limit), false) => (usize::MAX, limit),
                };
                thread::spawn(move || forward(back.0, back.1, to_client));
                thread::spawn(move || forward(client, server, to_server));
            }
        });
        Self { remote: format!("unix:{}", socket.display()), _folder: folder }
    }
}

/// Forwards at most `left` bytes, until either side leaves.
fn forward(mut from: UnixStream, mut to: UnixStream, mut left: usize) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let length = length.min(left);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
        left -= length;
        if left == 0 {
            break;
        }
    }
    // The other side may have left before.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Numbers of bytes after which connections are cut: in the setup, in the transactions of the
/// networks and of the connect, and between them. The schema has 70 kB.
const CUTS_TO_SERVER: [&[usize]; 8] =
    [&[1], &[300], &[900, 2_000], &[5_000], &[10_000, 10_000], &[15_000], &[20_000, 1], &[30_000]];
const CUTS_TO_CLIENT: [&[usize]; 8] = [
    &[1],
    &[10_000],
    &[60_000, 5],
    &[72_000],
    &[75_000],
    &[80_000, 80_000],
    &[90_000],
    &[100_000, 2, 2],
];

#[test]
fn the_rows_are_the_same_wherever_connections_are_cut() {
    let cuts = CUTS_TO_SERVER.map(|cuts| (true, cuts));
    let cuts = cuts.into_iter().chain(CUTS_TO_CLIENT.map(|cuts| (false, cuts)));
    for (is_to_server, limits) in cuts {
        let server = RealServer::start([installed_nb_schema()]);
        let proxy = Proxy::start(server.socket(), is_to_server, limits);
        let done = end(start("apply", &proxy.remote));
        assert_eq!(done.code, Some(0), "{is_to_server} {limits:?}: {}", done.stderr);
        let planned = end(start("plan", &server.remote()));
        assert_eq!(planned.code, Some(0), "{is_to_server} {limits:?}: {planned:?}");
    }
}

#[test]
fn a_server_that_cuts_every_connection_is_given_up_after_the_timeout() {
    const CUTS: &[usize] = &[10_000; 1_000];
    let server = RealServer::start([installed_nb_schema()]);
    let proxy = Proxy::start(server.socket(), true, CUTS);
    let failed = end(start("apply --timeout 2", &proxy.remote));
    assert_failed(&failed, "error: zone ovn-worker2: networks: ");
    assert!(!failed.stderr.contains('\u{1b}'), "{:?}", failed.stderr);
}
