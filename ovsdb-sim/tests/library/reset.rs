//! One server for many tests: snapshots, and the return to them, under open connections.

use ovsdb_sim::{ControlApiClient, Fault, Model, ResetError, Role, Sim};
use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{self, LogicalSwitch, LogicalSwitchPort};

use jsonrpsee::core::client::ClientT as _;
use jsonrpsee::http_client::HttpClient;
use jsonrpsee::rpc_params;
use serde_json::{Value, json};

fn names(snapshot: &Snapshot) -> Vec<String> {
    let switches = snapshot.typed::<LogicalSwitch>();
    let mut names: Vec<_> = switches.iter().map(|row| row.unwrap().1.name).collect();
    names.sort();
    names
}

/// Adds a switch with a port, as a client.
async fn add(client: &Client, name: &str) {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let port = LogicalSwitchPort { name: format!("{name}-p1"), ..Default::default() };
    let ports = [txn.insert(&port).unwrap()].into();
    txn.insert(&LogicalSwitch { name: name.to_owned(), ports, ..Default::default() }).unwrap();
    client.transact(txn.finish()).await.into_result().unwrap();
}

async fn connect(sim: &Sim) -> Client {
    Client::connect(Config::new(sim.connector().into(), "OVN_Northbound")).await.unwrap()
}

#[tokio::test]
async fn a_client_sees_each_reset_as_a_transaction_and_keeps_its_connection() {
    for model in [Model::Standalone, Model::Clustered] {
        let sim = Sim::builder().model(model).build().unwrap();
        let client = connect(&sim).await;
        let connections = sim.connections();
        let mut changes = client.changes();
        add(&client, "base").await;
        sim.take_snapshot("base").unwrap();
        let base = sim.database("OVN_Northbound").unwrap().snapshot();
        for test in ["one", "two"] {
            add(&client, test).await;
            assert_eq!(names(&client.snapshot()), ["base", test]);
            sim.reset(Some("base")).await.unwrap();
            while names(&client.snapshot()) != ["base"] {
                changes.next().await.unwrap();
            }
        }
        // The rows are the same ones, with their UUIDs.
        let rows = |snapshot: &Snapshot| {
            let switches = snapshot.typed::<LogicalSwitch>();
            switches.iter().map(|row| row.unwrap().0.uuid).collect::<Vec<_>>()
        };
        assert_eq!(rows(&sim.database("OVN_Northbound").unwrap().snapshot()), rows(&base));
        sim.reset(None).await.unwrap();
        while client.snapshot().row_count() > 0 {
            changes.next().await.unwrap();
        }
        sim.restore_snapshot("base").unwrap();
        while names(&client.snapshot()) != ["base"] {
            changes.next().await.unwrap();
        }
        assert_eq!(sim.connections(), connections);
    }
}

#[tokio::test]
async fn a_reset_ends_faults_roles_and_outages() {
    let sim = Sim::builder().model(Model::Clustered).build().unwrap();
    sim.set_fault(Fault::Drop).unwrap();
    sim.database("OVN_Northbound").unwrap().set_role(Role::Disconnected).unwrap();
    sim.go_down().await;
    sim.reset(None).await.unwrap();
    assert!(sim.faults().is_empty());
    let client = connect(&sim).await;
    add(&client, "sw0").await;
}

#[tokio::test]
async fn a_snapshot_that_does_not_fit_changes_nothing() {
    let sim = Sim::builder().build().unwrap();
    let error = sim.restore_snapshot("nowhere").unwrap_err();
    assert!(matches!(&error, ResetError::NoSnapshot(name) if name == "nowhere"), "{error}");
    sim.take_snapshot("empty").unwrap();
    assert_eq!(sim.snapshot_names(), ["empty"]);
    // A database that is newer than the snapshot becomes empty.
    let schema = patchbay_schemas::schema::DatabaseSchema::parse(
        br#"{"name":"D","tables":{"T":{"isRoot":true,"columns":{"a":{"type":"string"}}}}}"#,
    );
    let newer = sim.add_database(schema.unwrap().into()).unwrap();
    let mut txn = newer.txn();
    txn.insert_row("T", []).unwrap();
    newer.transact(&txn.finish()).unwrap();
    sim.restore_snapshot("empty").unwrap();
    assert_eq!(newer.snapshot().row_count(), 0);
    // A database with another schema under the same name keeps its content.
    sim.remove_database("OVN_Northbound").unwrap();
    let lesser = patchbay_schemas::schema::DatabaseSchema::parse(
        br#"{"name":"OVN_Northbound","tables":{"T":{"isRoot":true,"columns":{"a":{"type":"string"}}}}}"#,
    );
    sim.add_database(lesser.unwrap().into()).unwrap();
    let error = sim.restore_snapshot("empty").unwrap_err().to_string();
    assert!(error.starts_with("database OVN_Northbound: unknown schema: Table "), "{error}");
}

#[tokio::test]
async fn the_control_api_prepares_and_compares_tests() {
    let sim = Sim::builder().schema(nb::schema()).build().unwrap();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let http = HttpClient::builder().build(format!("http://{}", control.address())).unwrap();
    let rows =
        json!({"Logical_Switch": {"sw0": {"ports": ["p"]}}, "Logical_Switch_Port": {"p": {}}});
    let uuids = http.insert_rows(rows.clone(), None).await.unwrap();
    let text = http.text(None).await.unwrap();
    assert_eq!(
        text,
        "Logical_Switch sw0\n    name: sw0\n    ports: [p]\nLogical_Switch_Port p\n    name: p\n"
    );
    http.snapshot("base".to_owned()).await.unwrap();
    assert_eq!(http.snapshots().await.unwrap(), ["base"]);

    let operations = json!([
        {"op": "select", "table": "Logical_Switch", "where": [], "columns": ["_uuid", "name"]},
        {"op": "mutate", "table": "Logical_Switch", "where": [],
         "mutations": [["external_ids", "insert", ["map", [["a", "b"]]]]]},
        {"op": "insert", "table": "Logical_Router", "row": {"name": 1}},
        {"op": "comment", "comment": "never"},
    ]);
    let results = http.transact(operations.as_array().unwrap().clone(), None).await.unwrap();
    let uuid = &uuids["Logical_Switch"]["sw0"];
    assert_eq!(results[0], json!({"rows": [{"_uuid": ["uuid", uuid], "name": "sw0"}]}));
    assert_eq!(results[1], json!({"count": 1}));
    assert_eq!(results[2]["error"], "syntax error");
    assert_eq!(results[3], Value::Null);
    assert_eq!(http.text(None).await.unwrap(), text, "the transaction is aborted");
    let add = json!({"op": "insert", "table": "Logical_Router", "row": {"name": "lr0"}});
    let results = http.transact(vec![add], Some("OVN_Northbound".to_owned())).await.unwrap();
    assert_eq!(results[0]["uuid"][0], "uuid");
    assert_ne!(http.text(None).await.unwrap(), text);
    let wait = json!({"op": "wait", "table": "Logical_Router", "where": [], "until": "==",
        "columns": ["name"], "rows": []});
    let error = http.transact(vec![wait], None).await.unwrap_err().to_string();
    assert!(error.contains("wait"), "{error}");

    http.reset(Some("base".to_owned())).await.unwrap();
    assert_eq!(http.text(None).await.unwrap(), text);
    http.reset(None).await.unwrap();
    assert_eq!(http.text(None).await.unwrap(), "");
    http.restore("base".to_owned()).await.unwrap();
    assert_eq!(http.text(None).await.unwrap(), text);
    let error = http.restore("nowhere".to_owned()).await.unwrap_err().to_string();
    assert!(error.contains("there is no snapshot nowhere"), "{error}");
    // In YAML, which clients without a parser only read.
    http.insert_rows(json!("Logical_Router: {lr0: }"), None).await.unwrap();
    assert!(http.text(None).await.unwrap().contains("Logical_Router lr0"));
    // By name, as other languages' clients send parameters.
    let by_name = serde_json::Map::from_iter([("snapshot".to_owned(), json!("base"))]);
    let mut params = jsonrpsee::core::params::ObjectParams::new();
    for (name, value) in by_name {
        params.insert(&name, value).unwrap();
    }
    let _: () = http.request("sim_reset", params).await.unwrap();
    let _: () = http.request("sim_reset", rpc_params![]).await.unwrap();
}
