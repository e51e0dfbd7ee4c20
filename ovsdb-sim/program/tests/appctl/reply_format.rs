//! Format of the replies, which a client chooses for its connection.

use std::io::{BufReader, Write as _};
use std::os::unix::net::UnixStream;

use patchbay_ovn_programs::testing::Release;
use serde_json::{Deserializer, Value, json};

use crate::{Server, both_of};

/// Sends commands on one connection, and returns the replies.
fn replies(server: &Server, commands: &[&str]) -> Vec<Value> {
    let stream = UnixStream::connect(&server.unixctl).unwrap();
    let mut replies =
        Deserializer::from_reader(BufReader::new(stream.try_clone().unwrap())).into_iter();
    let mut send = |command: &&str| -> Value {
        let mut words = command.split(' ');
        let (method, params) = (words.next(), words.by_ref().collect::<Vec<_>>());
        let request = json!({"id": 1, "method": method, "params": params});
        (&stream).write_all(request.to_string().as_bytes()).unwrap();
        replies.next().unwrap().unwrap()
    };
    commands.iter().map(&mut send).collect()
}

#[test]
fn replies_have_the_format_that_the_client_has_set() {
    let Some(release) = Release::newest() else {
        return;
    };
    let (_folder, servers) = both_of(&release);
    for commands in [
        &[
            "set-options --format json",
            "ovsdb-server/list-dbs",
            "ovsdb-server/compact",
            "list-commands",
            "nope",
            "exit x",
            "set-options --format xml",
            "ovsdb-server/list-dbs",
            "set-options --format text",
            "list-commands",
        ][..],
        &["ovsdb-server/list-dbs", "set-options a", "set-options"],
        &["set-options -fjson", "set-options --format=text --json"],
    ] {
        let [real, sim] = servers.each_ref().map(|server| replies(server, commands));
        for (command, (real, sim)) in commands.iter().zip(real.into_iter().zip(sim)) {
            assert_eq!(real, sim, "{command}");
        }
    }
}

#[test]
fn commands_and_ends_of_lines_are_those_of_the_release() {
    let releases = [Some(Release::installed()), Release::trixie(), Release::newest()];
    for release in releases.into_iter().flatten() {
        let (_folder, servers) = both_of(&release);
        let commands = [
            "list-commands",
            "ovsdb-server/list-dbs",
            "ovsdb-server/get-db-storage-status D",
            "ovsdb-server/sync-status",
            "ovsdb-server/connect-active-ovsdb-server",
            "ovsdb-server/perf-counters-show",
            "ovsdb-server/compact none",
            "ovsdb-server/reload",
            "ovsdb-server/set-relay-source-probe-interval x",
            "set-options x",
            "vlog/set x",
            "none",
        ];
        let [real, sim] = servers.each_ref().map(|server| replies(server, &commands));
        for (command, (real, sim)) in commands.iter().zip(real.into_iter().zip(sim)) {
            assert_eq!(real, sim, "{command} in {}", release.version());
        }
    }
}
