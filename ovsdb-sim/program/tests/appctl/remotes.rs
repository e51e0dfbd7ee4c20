//! Configured remotes, and active remotes of both servers.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::Release;
use serde_json::Value;

use crate::{Server, TIMEOUT, both, both_of, same, send_requests, succeeds, until};

#[test]
fn configured_remotes_are_opened_and_closed() {
    let (folder, mut servers) = both();
    for command in [
        "ovsdb-server/add-remote db:",
        "ovsdb-server/add-remote db:D,,Global",
        "ovsdb-server/add-remote db:none,Global,targets",
        "ovsdb-server/add-remote db:D,none,targets",
        "ovsdb-server/add-remote db:D,Global,none",
        "ovsdb-server/add-remote db:D,Global,number",
        "ovsdb-server/add-remote db:D,Global,targets",
        "ovsdb-server/add-remote db:D,Global,connections",
    ] {
        same(&mut servers, command);
    }
    for (name, server) in ["real", "sim"].into_iter().zip(&mut servers) {
        let remotes = server.appctl("ovsdb-server/list-remotes").0;
        assert!(remotes.starts_with("db:D,Global,connections\ndb:D,Global,number\n"), "{remotes}");
        let [one, two] =
            ["one", "two"].map(|number| folder.path().join(format!("{name}-{number}")));
        let transact = |operations: &str| {
            let request = format!(r#"{{"id":1,"method":"transact","params":["D",{operations}]}}"#);
            let reply = send_requests(&server.socket, &request);
            assert!(!reply.contains("details"), "{reply}");
        };
        transact(&format!(
            r#"{{"op":"insert","table":"Connection","uuid-name":"c","row":{{"target":"punix:{}","inactivity_probe":0}}}},
            {{"op":"insert","table":"Global","row":{{"connections":["named-uuid","c"],"targets":"punix:{}"}}}}"#,
            one.display(),
            two.display()
        ));
        let list = r#"{"id":1,"method":"list_dbs","params":[]}"#;
        for socket in [&one, &two] {
            until(|| UnixStream::connect(socket).is_ok());
            assert!(send_requests(socket, list).contains(r#""D""#), "{name}");
        }
        let clients = [&one, &two].map(|socket| UnixStream::connect(socket).unwrap());
        let read_some = |place: usize| {
            let mut client: &UnixStream = &clients[place];
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            client.read(&mut [0; 4096]).unwrap_or_default()
        };
        let ask = |place: usize| {
            let mut client: &UnixStream = &clients[place];
            // The server may have closed the connection.
            client.write_all(list.as_bytes()).unwrap_or_default();
            read_some(place)
        };
        assert!(ask(0) > 0 && ask(1) > 0, "{name}");
        // Open connections are probed, too, so the server sends a message.
        let interval = |milliseconds: u32| {
            transact(&format!(
                r#"{{"op":"update","table":"Connection","where":[],"row":{{"inactivity_probe":{milliseconds}}}}}"#
            ));
        };
        interval(1000);
        assert!(read_some(0) > 0, "{name}: the new interval counts");
        interval(0);
        assert!(ask(0) > 0, "{name}: the client stays");
        transact(r#"{"op":"update","table":"Global","where":[],"row":{"connections":["set",[]]}}"#);
        until(|| !one.exists());
        assert!(two.exists(), "{name}");
        assert!(ask(0) == 0 && ask(1) > 0, "{name}: clients go with their remote");
        succeeds(server, "ovsdb-server/remove-remote db:D,Global,targets");
        until(|| !two.exists());
        assert_eq!(ask(1), 0, "{name}: clients go with their remote");
    }
}

#[test]
fn clients_of_read_only_remotes_change_nothing() {
    let release = Release::newest().unwrap_or_else(Release::installed);
    let (folder, mut servers) = both_of(&release);
    let answers = ["real", "sim"].into_iter().zip(&mut servers);
    let answers = answers.map(|(name, server)| {
        succeeds(server, "ovsdb-server/add-remote db:D,Global,connections");
        let [reader, writer] =
            ["reader", "writer"].map(|socket| folder.path().join(format!("{name}-{socket}")));
        let row = |socket: &Path, is_read_only: bool| {
            let target = format!("punix:{}", socket.display());
            format!(r#"{{"target":"{target}","read_only":{is_read_only}}}"#)
        };
        let request = format!(
            r#"{{"id":1,"method":"transact","params":["D",
            {{"op":"insert","table":"Connection","uuid-name":"r","row":{}}},
            {{"op":"insert","table":"Connection","uuid-name":"w","row":{}}},
            {{"op":"insert","table":"Global","row":{{"number":5,
                "connections":["set",[["named-uuid","r"],["named-uuid","w"]]]}}}}]}}"#,
            row(&reader, true),
            row(&writer, false)
        );
        let reply = send_requests(&server.socket, &request);
        assert!(!reply.contains("details"), "{reply}");
        until(|| reader.exists() && writer.exists());
        let mut requests: Vec<String> = [
            r#"{"op":"insert","table":"T","row":{}}"#,
            r#"{"op":"update","table":"Global","where":[],"row":{"number":6}}"#,
            r#"{"op":"mutate","table":"Global","where":[],"mutations":[["number","+=",1]]}"#,
            r#"{"op":"delete","table":"T","where":[]}"#,
            r#"{"op":"commit","durable":false}"#,
            r#"{"op":"insert","table":"none","row":{}}"#,
            r#"{"op":"select","table":"Global","where":[],"columns":["number"]},
               {"op":"comment","comment":"c"},{"op":"delete","table":"T","where":[]}"#,
            r#"{"op":"wait","table":"T","timeout":0,"where":[],"columns":["i"],"until":"==","rows":[]}"#,
            r#"{"op":"assert","lock":"l"}"#,
            r#"{"op":"abort"}"#,
        ]
        .iter()
        .map(|operations| format!(r#""transact","params":["D",{operations}]"#))
        .collect();
        requests.extend(
            [
                r#""transact","params":["_Server",{"op":"delete","table":"Database","where":[]}]"#,
                r#""lock","params":["l"]"#,
                r#""steal","params":["l"]"#,
                r#""unlock","params":["l"]"#,
                r#""lock","params":[]"#,
                r#""convert","params":["D",{"name":"D","tables":{}}]"#,
                r#""convert","params":["D"]"#,
                r#""monitor","params":["D",null,{"Global":{"columns":["number"],"select":{"initial":false}}}]"#,
                r#""get_schema","params":["none"]"#,
            ]
            .map(str::to_owned),
        );
        let requests: Vec<_> = requests.iter().enumerate()
            .map(|(id, request)| format!(r#"{{"id":{id},"method":{request}}}"#))
            .collect();
        let answers = send_requests(&reader, &requests.concat());
        let update = r#"{"id":1,"method":"transact","params":["D",{"op":"update","table":"Global","where":[],"row":{"number":6}}]}"#;
        let reply = send_requests(&writer, update);
        assert!(reply.contains(r#"{"count":1}"#), "{reply}");
        let answers = serde_json::Deserializer::from_str(&answers).into_iter::<Value>();
        answers.map(Result::unwrap).collect::<Vec<_>>()
    });
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers[0], answers[1]);
    let text = Value::from(answers[0].clone()).to_string();
    for part in [
        "insert operation not allowed when database server is in read only mode",
        "commit operation not allowed",
        "lock and unlock methods not allowed, DB server is read only.",
        "conversion is not allowed for read-only database D",
        r#"{"rows":[{"number":5}]}"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Passive targets, an active one, and targets that cannot be opened.
const TARGETS: [&str; 6] =
    ["punix:one", "ptcp:0:127.0.0.1", "unix:waiting", "punix:nowhere/at/all", "ptcp:x", "foo"];

#[test]
fn the_rows_of_remotes_have_the_status_of_their_connections() {
    let (folder, mut servers) = both();
    // In parallel, because the servers write the status only every few seconds.
    thread::scope(|scope| {
        for (name, server) in ["real", "sim"].into_iter().zip(&mut servers) {
            let folder = folder.path().join(name);
            scope.spawn(move || {
                std::fs::create_dir(&folder).unwrap();
                connections_come_and_go(server, &folder);
            });
        }
    });
}

fn connections_come_and_go(server: &mut Server, folder: &Path) {
    let listener = UnixListener::bind(folder.join("waiting")).unwrap();
    succeeds(server, "ovsdb-server/add-remote db:D,Global,connections");
    let targets = TARGETS.map(|target| match target.split_once("unix:") {
        Some((p, name)) => format!("{p}unix:{}", folder.join(name).display()),
        None => target.to_owned(),
    });
    let mut operations = r#"{"op":"insert","table":"Global","row":{}}"#.to_owned();
    for (number, target) in targets.iter().enumerate() {
        write!(
            operations,
            r#",{{"op":"insert","table":"Connection","uuid-name":"c{number}","row":{{"target":"{target}"}}}},
            {{"op":"mutate","table":"Global","where":[],
                "mutations":[["connections","insert",["named-uuid","c{number}"]]]}}"#
        )
        .unwrap();
    }
    let request = format!(r#"{{"id":1,"method":"transact","params":["D",{operations}]}}"#);
    let reply = send_requests(&server.socket, &request);
    assert!(!reply.contains("details"), "{reply}");

    let expect = |expected: [&str; TARGETS.len()]| {
        let expected: Vec<_> = targets
            .iter()
            .zip(expected)
            .map(|(target, status)| format!("{target} {status}"))
            .collect();
        let start = Instant::now();
        loop {
            let found = statuses(&server.socket, &targets);
            if found == expected {
                return;
            }
            assert!(start.elapsed() < TIMEOUT, "{found:#?} {expected:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let no_client = "false sec_since_connect=N sec_since_disconnect=N";
    let bound = "false bound_port=N sec_since_connect=N sec_since_disconnect=N";
    let active = "true sec_since_connect=N state=ACTIVE";
    let unknown = "false state=BACKOFF";
    let (called, _) = listener.accept().unwrap();
    expect([no_client, bound, active, no_client, unknown, unknown]);

    let one = folder.join("one");
    let clients = [(); 2].map(|()| UnixStream::connect(&one).unwrap());
    drop((called, listener));
    let two = "true n_connections=2 sec_since_connect=N sec_since_disconnect=N";
    let ended = "false sec_since_connect=N sec_since_disconnect=N state=BACKOFF";
    expect([two, bound, ended, no_client, unknown, unknown]);

    let [_client, gone] = clients;
    drop(gone);
    let single = "true sec_since_connect=N sec_since_disconnect=N";
    expect([single, bound, ended, no_client, unknown, unknown]);
}

/// The status in the rows of targets, without times and ports.
fn statuses(socket: &Path, targets: &[String]) -> Vec<String> {
    let statuses = targets.iter().map(|target| {
        let request = format!(
            r#"{{"id":1,"method":"transact","params":["D",{{"op":"select","table":"Connection",
                "where":[["target","==","{target}"]],"columns":["is_connected","status"]}}]}}"#
        );
        let reply = send_requests(socket, &request);
        let is_connected = reply.contains(r#""is_connected":true"#);
        let (_, map) = reply.split_once(r#"["map",[["#).unwrap_or_default();
        let (map, _) = map.split_once("]]]").unwrap_or_default();
        let mut text = format!("{target} {is_connected}");
        for pair in map.split("],[").filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once(',').unwrap();
            let (key, value) = (key.trim_matches('"'), value.trim_matches('"'));
            let is_same = matches!(key, "state" | "n_connections");
            write!(text, " {key}={}", if is_same { value } else { "N" }).unwrap();
        }
        text
    });
    statuses.collect()
}

#[test]
fn clients_that_wait_are_connected_to_again_and_again() {
    let (folder, mut servers) = both();
    let release = Release::installed();
    // In parallel, because the servers pause between their attempts.
    let answers = thread::scope(|scope| {
        let folders = ["real", "sim"].map(|name| folder.path().join(name));
        let mut number = 0;
        let runs = servers.each_mut().map(|server| {
            let waiting = folders[number].display().to_string();
            number += 1;
            let release = &release;
            scope.spawn(move || dumps(server, release, &waiting))
        });
        runs.map(|run| run.join().unwrap())
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[1].iter().all(|dump| dump.contains("T table\n")), "{answers:?}");
}

/// The output of two runs of ovsdb-client that wait for the server to connect.
fn dumps(server: &mut Server, release: &Release, waiting: &str) -> [String; 2] {
    let added = server.appctl(&format!("ovsdb-server/add-remote unix:{waiting}"));
    assert_eq!(added, (String::new(), Some(0)));
    let dumps = [(); 2].map(|()| {
        let output = release
            .command("ovsdb-client")
            .args(["--timeout=60", "dump", &format!("punix:{waiting}"), "D"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    server.appctl(&format!("ovsdb-server/remove-remote unix:{waiting}"));
    dumps
}

#[test]
fn a_port_in_use_is_tried_again() {
    let (_folder, servers) = both();
    for mut server in servers {
        let in_the_way = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = in_the_way.local_addr().unwrap();
        let target = format!("ptcp:{}:127.0.0.1", address.port());
        succeeds(&mut server, &format!("ovsdb-server/add-remote {target}"));
        let (targets, _) = server.appctl("ovsdb-server/list-remotes");
        assert!(targets.contains(&target), "{targets}");
        drop(in_the_way);
        until(|| TcpStream::connect(address).is_ok());
        succeeds(&mut server, &format!("ovsdb-server/remove-remote {target}"));
        until(|| TcpStream::connect(address).is_err());
        // The end of a remote that was never opened.
        let never_opened = "ptcp:1:192.0.2.1";
        succeeds(&mut server, &format!("ovsdb-server/add-remote {never_opened}"));
        succeeds(&mut server, &format!("ovsdb-server/remove-remote {never_opened}"));
        let (targets, _) = server.appctl("ovsdb-server/list-remotes");
        assert!(!targets.contains("ptcp"), "{targets}");
    }
}
