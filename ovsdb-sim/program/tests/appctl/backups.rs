//! Commands about backups and relays, which both servers make of a real source.

use patchbay_ovn_programs::testing::{RealServer, Release};

use super::{SCHEMA, Server, both_of, same, send_requests, until};

/// Waits until the output of a command on both servers contains a text.
fn until_both(servers: &mut [Server; 2], command: &str, text: &str) {
    for server in servers {
        let shared = std::cell::RefCell::new(server);
        until(|| shared.borrow_mut().appctl(command).0.contains(text));
    }
}

/// Sends a request to both servers, whose replies must have the same length. Returns the reply.
fn same_reply(servers: &[Server; 2], request: &str) -> String {
    let [real, sim] = servers.each_ref().map(|server| send_requests(&server.socket, request));
    // The order of members differs.
    assert_eq!(real.len(), sim.len(), "{request}: {real} {sim}");
    real
}

fn insert(table: &str) -> String {
    format!(
        r#"{{"id":1,"method":"transact","params":["D",{{"op":"insert","table":"{table}","row":{{}}}}]}}"#
    )
}

#[test]
fn a_backup_follows_its_source_until_it_is_disconnected() {
    let Some(release) = Release::newest() else {
        return;
    };
    let (folder, mut servers) = both_of(&release);
    servers[1].release = release.clone();
    let source = folder.path().join("source.ovsschema");
    std::fs::write(&source, SCHEMA).unwrap();
    let source = RealServer::start_release(&release, [source]);
    let status = "ovsdb-server/sync-status";
    for command in [
        status,
        "ovsdb-server/connect-active-ovsdb-server",
        "ovsdb-server/set-active-ovsdb-server",
        "ovsdb-server/get-sync-exclude-tables",
        "ovsdb-server/set-sync-exclude-tables D:Global,D:T",
        "ovsdb-server/get-sync-exclude-tables",
        "ovsdb-server/set-active-ovsdb-server-probe-interval x",
        "ovsdb-server/set-active-ovsdb-server-probe-interval 0x10",
        "ovsdb-server/set-active-ovsdb-server-probe-interval 2147483648",
        "ovsdb-server/set-active-ovsdb-server-probe-interval -2147483648",
        "ovsdb-server/set-active-ovsdb-server-probe-interval +2000",
        "ovsdb-server/set-relay-source-probe-interval x",
        "ovsdb-server/set-relay-source-probe-interval 2000",
    ] {
        same(&mut servers, command);
    }
    let remote = source.remote();
    let (_, code) = same(&mut servers, &format!("ovsdb-server/set-active-ovsdb-server {remote}"));
    assert_eq!(code, Some(0));
    same(&mut servers, "ovsdb-server/get-active-ovsdb-server");
    same(&mut servers, status);
    send_requests(source.socket(), &insert("Connection"));
    same(&mut servers, "ovsdb-server/connect-active-ovsdb-server");
    until_both(&mut servers, status, "replicating");
    let (shown, _) = same(&mut servers, status);
    assert!(shown.contains("exclude: D:"), "{shown}");
    let reply = same_reply(&servers, &insert("T"));
    assert!(reply.contains("read only mode"), "{reply}");
    let convert = format!(r#"{{"id":1,"method":"convert","params":["D",{SCHEMA}]}}"#);
    let reply = same_reply(&servers, &convert);
    assert!(reply.contains("read-only database"), "{reply}");
    same(&mut servers, "ovsdb-server/compact D");
    same(&mut servers, "ovsdb-server/disconnect-active-ovsdb-server");
    same(&mut servers, status);
    for server in &servers {
        let reply = send_requests(&server.socket, &insert("T"));
        assert!(reply.contains("uuid"), "{reply}");
    }
}

#[test]
fn relays_are_added_and_removed() {
    let Some(release) = Release::newest() else {
        return;
    };
    let (folder, mut servers) = both_of(&release);
    servers[1].release = release.clone();
    let source = folder.path().join("source.ovsschema");
    std::fs::write(&source, SCHEMA.replace(r#""name":"D""#, r#""name":"E""#)).unwrap();
    let source = RealServer::start_release(&release, [source]);
    let remote = source.remote();
    for command in [
        "ovsdb-server/add-db relay:E",
        "ovsdb-server/add-db relay:E:",
        "ovsdb-server/add-db relay:_x:unix:x",
        "ovsdb-server/add-db relay:a-b:unix:x",
        "ovsdb-server/list-dbs",
        "ovsdb-server/remove-db a-b",
        "ovsdb-server/add-db relay:D:unix:x",
        &format!("ovsdb-server/add-db relay:E:{remote}"),
        "ovsdb-server/list-dbs",
        "ovsdb-server/get-db-storage-status E",
        "ovsdb-server/sync-status",
    ] {
        same(&mut servers, command);
    }
    let request = r#"{"id":1,"method":"get_schema","params":["E"]}"#;
    for server in &servers {
        until(|| send_requests(&server.socket, request).contains("Connection"));
    }
    same_reply(&servers, request);
    for command in ["ovsdb-server/remove-db E", "ovsdb-server/list-dbs"] {
        same(&mut servers, command);
    }
}
