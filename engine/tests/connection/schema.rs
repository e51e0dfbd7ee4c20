//! The database is converted, removed and added again while clients are connected.

use std::path::Path;
use std::process::Command;

use patchbay_engine::client::{Client, ConnectionEvent};
use patchbay_ovn_programs::testing::{self, RealServer, ScratchDir};

use crate::{SCHEMA, add, config, connect, names, next_event, once, schema_file, soon};

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(testing::program(program)).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
}

/// Columns of the replica's table.
fn columns(client: &Client) -> Vec<String> {
    let snapshot = client.snapshot();
    let (_, table) = snapshot.schema().table_by_name("Logical_Switch").unwrap();
    let names = table.column_ids().map(|id| table.column_name(id).to_owned());
    names.collect()
}

fn is_resynced(event: &ConnectionEvent) -> Option<()> {
    matches!(event, ConnectionEvent::Resynced { .. }).then_some(())
}

#[tokio::test]
async fn a_newer_and_an_older_schema_are_used_on_the_same_connection() {
    let dir = ScratchDir::new();
    let older = schema_file(&dir);
    let newer = dir.path().join("newer");
    let column = r#""name":{"type":"string"},"later":{"type":"string"}"#;
    let text = SCHEMA.replace(r#""name":{"type":"string"}"#, column);
    std::fs::write(&newer, text.replace("1.0.0", "1.1.0")).unwrap();
    let server = RealServer::start([&older]);
    let client = connect(config(&server.remote())).await;
    add(&client, "a").await;
    let mut events = client.connection_events().unwrap();
    let convert = |schema: &Path| {
        run("ovsdb-client", &["convert", &server.remote(), schema.to_str().unwrap()]);
    };

    for (schema, has) in [(&newer, &["later", "name"][..]), (&older, &["name"])] {
        convert(schema);
        let changed = |event: &ConnectionEvent| {
            assert!(!matches!(event, ConnectionEvent::Disconnected(_)), "{event:?}");
            matches!(event, ConnectionEvent::SchemaChanged).then_some(())
        };
        next_event(&mut events, changed).await;
        next_event(&mut events, is_resynced).await;
        assert_eq!(columns(&client), has);
        assert_eq!(names(&client), once(["a"]));
    }
    add(&client, "b").await;
    assert_eq!(names(&client), once(["a", "b"]));
}

#[tokio::test]
async fn a_removed_database_is_waited_for() {
    let dir = ScratchDir::new();
    let server = RealServer::start([schema_file(&dir)]);
    let control = server.socket().with_file_name("ctl.sock");
    let control = control.to_str().unwrap();
    let client = connect(config(&server.remote())).await;
    add(&client, "a").await;
    let mut events = client.connection_events().unwrap();

    run("ovs-appctl", &["-t", control, "ovsdb-server/remove-db", "D"]);
    // The server closes the connection after the notification: the client sees either of them
    // first.
    let gone = |event: &ConnectionEvent| match event {
        ConnectionEvent::Disconnected(reason) | ConnectionEvent::Failed(reason) => {
            reason.to_string().contains("no database D: the server has _Server").then_some(())
        }
        _ => None,
    };
    next_event(&mut events, gone).await;
    assert_eq!(names(&client), once(["a"]));

    let database = server.databases()[0].to_str().unwrap();
    run("ovs-appctl", &["-t", control, "ovsdb-server/add-db", database]);
    next_event(&mut events, is_resynced).await;
    soon(add(&client, "b")).await;
    assert_eq!(names(&client), once(["a", "b"]));
}
