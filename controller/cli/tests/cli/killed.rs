//! `patchbay apply` that is killed between its record of the objects and the end of its
//! transactions, on a real `ovsdb-server`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};

use crate::command::{example, example_text, nb_schema, patchbay, planned_zones, run_on};
use crate::watching::PATIENCE;

/// Method of the requests that change rows.
const TRANSACT: &[u8] = b"\"transact\"";

/// What gets through a relay from the first transaction on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Passed {
    /// Nothing: the transaction is not committed.
    Nothing,
    /// Requests only: the transaction is committed without a reply.
    Requests,
}

/// Relays one connection to a server, until a transaction is sent.
fn relay(folder: &Path, server: &Path, passed: Passed, cut: Sender<()>) -> String {
    let socket = folder.join("relay.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = server.to_owned();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = UnixStream::connect(server).unwrap();
        let (mut replies, mut to_client) =
            (server.try_clone().unwrap(), client.try_clone().unwrap());
        let (stop, stopped) = channel::<()>();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = replies.read(&mut buffer) {
                let is_cut = stopped.try_recv().is_ok();
                if is_cut || to_client.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            // The rest is read, so that the server does not wait for a reader.
            while matches!(replies.read(&mut buffer), Ok(1..)) {}
        });
        let mut request = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            request.extend_from_slice(&buffer[..length]);
            let has_transaction = |text: &[u8]| {
                let mut places = text.windows(TRANSACT.len());
                places.any(|place| place == TRANSACT)
            };
            if has_transaction(&request) {
                stop.send(()).unwrap_or_default();
                cut.send(()).unwrap();
                if passed == Passed::Nothing {
                    return;
                }
            }
            if server.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    });
    format!("unix:{}", socket.display())
}

fn names(server: &RealServer, table: &str) -> Vec<String> {
    let arguments = ["--bare", "--columns=name", "list", table];
    let output = nbctl(&server.remote()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Kills an apply of the example at its first transaction.
fn kill_apply(server: &RealServer, folder: &ScratchDir, passed: Passed) {
    let (cut, is_cut) = channel();
    let remote = relay(folder.path(), server.socket(), passed, cut);
    let state = folder.path().join("state");
    let mut child = patchbay()
        .args(["apply", "--zone", "ovn-worker2", "--nb", &remote, "--state"])
        .arg(&state)
        .arg("-f")
        .arg(example())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    is_cut.recv_timeout(PATIENCE).unwrap();
    let record = fs::read_to_string(state.join("applied/ovn-worker2.yaml")).unwrap();
    assert!(record.contains("ClusterNetworkConnect blue-green-connect"), "{record}");
    if passed == Passed::Requests {
        let deadline = std::time::Instant::now() + PATIENCE;
        while names(server, "Logical_Router").is_empty() {
            assert!(std::time::Instant::now() < deadline, "nothing is committed");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn on(command: &str, server: &RealServer, folder: &ScratchDir) -> String {
    let state = folder.path().join("state");
    let (remote, state) = (server.remote(), state.display());
    format!("{command} --zone ovn-worker2 --nb {remote} --state {state}")
}

#[test]
fn an_apply_that_was_killed_before_its_commit_is_completed() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    kill_apply(&server, &folder, Passed::Nothing);
    assert!(names(&server, "Logical_Router").is_empty());
    let applied = run_on(&on("apply", &server, &folder), &example_text());
    assert_eq!((applied.code, &*applied.stderr), (Some(0), ""));
    let planned = run_on(&on("plan --rows", &server, &folder), &example_text()).succeeded();
    let nothing = "# zone ovn-worker2: rows to insert: 0, to change: 0, to delete: 0\n";
    assert_eq!(planned_zones(&planned), nothing);
}

#[test]
fn rows_of_an_apply_that_was_killed_after_its_commit_are_its_own() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    kill_apply(&server, &folder, Passed::Requests);
    let networks = |server| {
        let routers = names(server, "Logical_Router");
        routers.iter().filter(|name| name.contains("cluster_udn")).count()
    };
    assert_ne!(networks(&server), 0);
    // The next run knows that the networks were applied, although their rows were never confirmed.
    let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: ovn-worker2}\n";
    let applied = run_on(&on("apply", &server, &folder), nodes);
    assert_eq!((applied.code, &*applied.stderr), (Some(0), ""));
    assert_eq!(networks(&server), 0);
}
