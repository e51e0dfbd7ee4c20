//! Clients of a clustered simulator: roles, histories and the row in `_Server`.

use std::sync::Arc;

use ovsdb_sim::{Listener, Model, Role, Sim, SimDatabase};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use tempfile::TempDir;

use crate::client::Client;

const SCHEMA: &str = r#"{"name":"D","tables":{"T":{"columns":{"i":{"type":"integer"},"e":{"type":"integer","ephemeral":true}}}}}"#;
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

struct Bed {
    sim: Sim,
    _listener: Listener,
    folder: TempDir,
}

impl Bed {
    async fn new(model: Model) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let schema = Arc::new(DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap());
        let sim = Sim::builder().schema(schema).model(model).build().unwrap();
        let target = format!("punix:{}", folder.path().join("db.sock").display());
        Self { _listener: sim.listen(&target).await.unwrap(), sim, folder }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.folder.path().join("db.sock")).await
    }

    fn database(&self) -> SimDatabase {
        self.sim.database("D").unwrap()
    }
}

fn insert(i: i64) -> String {
    format!(r#"["D",{{"op":"insert","table":"T","row":{{"i":{i}}}}}]"#)
}

/// Monitors from a transaction on. Returns `true` if the server knew it, the last transaction, and
/// the values of `i` in the reply.
async fn since(client: &mut Client, id: &str) -> (bool, String, Vec<i64>) {
    let params = format!(r#"["D","m",{{"T":{{"columns":["i"]}}}},"{id}"]"#);
    let result = client.call("monitor_cond_since", &params).await.unwrap();
    client.call("monitor_cancel", r#"["m"]"#).await.unwrap();
    let Json::Array(result) = result else { panic!("{result:?}") };
    let mut values = Vec::new();
    if let Some(Json::Object(rows)) = result[2].get("T") {
        for row in rows.values() {
            let row = row.get("insert").or(row.get("initial")).unwrap();
            match row.get("i") {
                Some(Json::Integer(i)) => values.push(*i),
                other => panic!("{other:?}"),
            }
        }
    }
    values.sort_unstable();
    let last = result[1].as_str().unwrap().to_owned();
    (result[0] == Json::Bool(true), last, values)
}

#[tokio::test]
async fn a_truncated_history_ends_at_the_last_transaction() {
    let bed = Bed::new(Model::Clustered).await;
    let mut client = bed.client().await;
    client.call("transact", &insert(1)).await.unwrap();
    let (_, first, _) = since(&mut client, ZERO).await;
    client.call("transact", &insert(2)).await.unwrap();
    let (found, last, values) = since(&mut client, &first).await;
    assert_eq!((found, values), (true, vec![2]));
    bed.database().truncate_history().unwrap();
    let (found, same, values) = since(&mut client, &first).await;
    assert_eq!((found, &same, values), (false, &last, vec![1, 2]));
    let (found, _, values) = since(&mut client, &last).await;
    assert_eq!((found, values), (true, Vec::new()));
}

#[tokio::test]
async fn a_history_reaches_back_a_hundred_transactions() {
    let bed = Bed::new(Model::Clustered).await;
    let mut client = bed.client().await;
    let mut ids = Vec::new();
    for i in 1..=120 {
        client.call("transact", &insert(i)).await.unwrap();
        ids.push(since(&mut client, ZERO).await.1);
    }
    assert!(!since(&mut client, &ids[19]).await.0);
    let (found, last, values) = since(&mut client, &ids[20]).await;
    assert!(found && last == ids[119]);
    assert_eq!(values, (22..=120).collect::<Vec<_>>());
}

#[tokio::test]
async fn roles_are_in_the_server_row_and_without_a_leader_changes_wait() {
    let bed = Bed::new(Model::Clustered).await;
    let (mut watcher, mut client) = (bed.client().await, bed.client().await);
    let columns = r#"["name","leader","connected","index"]"#;
    let params = format!(
        r#"["_Server",1,{{"Database":{{"columns":{columns},"where":[["name","==","D"]]}}}}]"#
    );
    watcher.call("monitor_cond", &params).await.unwrap();
    let next = async |watcher: &mut Client| {
        let update = watcher.next().await.unwrap();
        let Some(Json::Array(params)) = update.get("params") else { panic!("{update:?}") };
        let Some(Json::Object(rows)) = params[1].get("Database") else { panic!("{update:?}") };
        rows.values().next().unwrap().to_text()
    };
    let database = bed.database();
    database.set_role(Role::Follower).unwrap();
    assert_eq!(next(&mut watcher).await, r#"{"modify":{"leader":false}}"#);
    client.call("transact", &insert(1)).await.unwrap();
    assert_eq!(next(&mut watcher).await, r#"{"modify":{"index":3}}"#);

    database.set_role(Role::Disconnected).unwrap();
    assert_eq!(next(&mut watcher).await, r#"{"modify":{"connected":false}}"#);
    client.request("transact", &insert(2), 2).await;
    let select = r#"["D",{"op":"select","table":"T","where":[],"columns":["i"]}]"#;
    let rows = client.call("transact", select).await.unwrap();
    assert_eq!(rows.to_text(), r#"[{"rows":[{"i":1}]}]"#);

    database.set_role(Role::Leader).unwrap();
    let reply = client.next().await.unwrap();
    assert_eq!(reply.get("id"), Some(&Json::Integer(2)));
    let both = r#"{"modify":{"connected":true,"index":5,"leader":true}}"#;
    assert_eq!(next(&mut watcher).await, both);
    let rows = client.call("transact", select).await.unwrap().to_text();
    assert!(rows.contains('2'), "{rows}");
}

#[tokio::test]
async fn clusters_have_no_ephemeral_columns() {
    let bed = Bed::new(Model::Clustered).await;
    let mut client = bed.client().await;
    let schema = client.call("get_schema", r#"["D"]"#).await.unwrap();
    assert!(!schema.to_text().contains("ephemeral"));
    client.request("convert", &format!(r#"["D",{SCHEMA}]"#), 1).await;
    let reply = client.next().await.unwrap().to_text();
    assert!(reply.contains("clusters do not support ephemeral columns"), "{reply}");
}

#[tokio::test]
async fn a_conversion_begins_a_new_history() {
    let bed = Bed::new(Model::Clustered).await;
    let (mut unaware, mut aware) = (bed.client().await, bed.client().await);
    assert!(unaware.is_served().await);
    aware.call("set_db_change_aware", "[true]").await.unwrap();
    aware.call("transact", &insert(1)).await.unwrap();
    let (_, before, _) = since(&mut aware, ZERO).await;
    let schema = r#"{"name":"D","tables":{"T":{"columns":{"i":{"type":"integer"}}}}}"#;
    aware.call("convert", &format!(r#"["D",{schema}]"#)).await.unwrap();
    unaware.until_closed().await;
    let (found, after, values) = since(&mut aware, &before).await;
    assert!(!found && before != after);
    assert_eq!(values, [1]);
    assert!(since(&mut aware, &after).await.0);
}

#[tokio::test]
async fn a_standalone_database_has_no_cluster() {
    let bed = Bed::new(Model::Standalone).await;
    let error = bed.database().set_role(Role::Follower).unwrap_err();
    assert_eq!(error.to_string(), "database D is not clustered");
    bed.database().truncate_history().unwrap_err();
}

#[tokio::test]
async fn the_server_id_can_be_renewed() {
    let bed = Bed::new(Model::Standalone).await;
    let mut client = bed.client().await;
    let before = client.call("get_server_id", "[]").await.unwrap();
    let new = bed.sim.new_server_id();
    let after = client.call("get_server_id", "[]").await.unwrap();
    assert_ne!(before, after);
    assert_eq!(after.as_str(), Some(&*new.to_string()));
}

#[tokio::test]
async fn a_file_has_the_history_for_clients_that_return_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("c.db"), folder.path().join("s"));
    let target = format!("punix:{}", socket.display());
    let schema = Arc::new(DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap());
    let builder = Sim::builder().model(Model::Clustered);
    let sim = builder.schema(schema).journal(&file).build().unwrap();
    let listener = sim.listen(&target).await.unwrap();
    let mut client = Client::connect(&socket).await;
    client.call("transact", &insert(1)).await.unwrap();
    let (_, first, _) = since(&mut client, ZERO).await;
    client.call("transact", &insert(2)).await.unwrap();
    let (_, second, _) = since(&mut client, &first).await;
    drop((listener, client));
    sim.remove_database("D").unwrap();

    let sim = Sim::builder().database_file(&file).build().unwrap();
    let _listener = sim.listen(&target).await.unwrap();
    let mut client = Client::connect(&socket).await;
    client.call("transact", &insert(3)).await.unwrap();
    let (found, _, values) = since(&mut client, &first).await;
    assert_eq!((found, values), (true, vec![2, 3]));
    let (found, _, values) = since(&mut client, &second).await;
    assert_eq!((found, values), (true, vec![3]));
}
