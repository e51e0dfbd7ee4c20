//! Relays and backups that wait for their source to connect, beside the real ovsdb-server.

use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::nbctl;

use crate::daemon::{Bed, TIMEOUT, kill};

/// Arguments of the source.
const SOURCE: [&str; 7] = [
    "--detach",
    "--no-chdir",
    "--pidfile=source.pid",
    "--unixctl=source.ctl",
    "--remote=unix:source.sock",
    "--remote=punix:own.sock",
    "db",
];

/// The output of ovn-nbctl at a socket, which may fail.
fn ask(bed: &Bed, socket: &str, arguments: &[&str]) -> String {
    let remote = format!("unix:{}", bed.path(socket).display());
    let output = nbctl(&remote).arg("--no-leader-only").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn wait_until(condition: impl Fn() -> bool, text: &str) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "{text}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_source_connects_and_connects_again() {
    for bed in Bed::both() {
        for (number, follower) in [
            &["relay:OVN_Northbound:punix:source.sock"][..],
            &["--sync-from=punix:source.sock", "copy"],
        ]
        .into_iter()
        .enumerate()
        {
            std::fs::copy(bed.path("db"), bed.path("copy")).unwrap();
            let options = ["--detach", "--no-chdir", "--pidfile", "--remote=punix:db.sock"];
            let started = bed.server(&[&options[..], follower].concat());
            assert!(started.status.success(), "{started:?}");
            for connection in 0..2 {
                // The process that was killed may have its locks for another moment.
                let starts = || bed.server(&SOURCE).status.success();
                wait_until(starts, "the source starts");
                let switch = format!("sw{number}{connection}");
                ask(&bed, "own.sock", &["ls-add", &switch]);
                let has_switch = || ask(&bed, "db.sock", &["ls-list"]).contains(&switch);
                wait_until(has_switch, &switch);
                let source = std::fs::read_to_string(bed.path("source.pid")).unwrap();
                kill("KILL", &source);
            }
            let process = bed.wait_for_process(|process| !process.is_empty());
            kill("TERM", &process);
            bed.wait_for_process(str::is_empty);
            wait_until(|| !bed.path("source.sock").exists(), "the socket is removed");
        }
    }
}
