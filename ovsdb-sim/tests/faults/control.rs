//! Faults that are set through the control API, with requests as `curl` sends them.

use jsonrpsee::core::client::ClientT;
use jsonrpsee::http_client::HttpClient;
use jsonrpsee::rpc_params;
use ovsdb_sim::{ControlApiClient, Fault, FaultStatus, Role};
use patchbay_engine::client::CommitOutcome;
use serde_json::json;

use crate::{Bed, clustered, connect, sim, soon};

#[tokio::test]
async fn faults_are_set_listed_and_cleared() {
    let sim = sim();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let http = HttpClient::builder().build(format!("http://{}", control.address())).unwrap();
    let bed = Bed::of(sim.clone(), connect(sim.connector()).await);

    let rules = [
        json!({"fault": "stop_reading", "connections": "next"}),
        json!({"fault": {"refuse": {"method": "transact", "error": {"error": "busy", "details": "later"}}}, "times": 1}),
        json!({"fault": {"lose_reply": "disconnected"}, "connections": {"one": bed.connection()}, "times": 1}),
        json!({"fault": {"drop_after_sent": {"bytes": 1_000_000}}, "times": "always"}),
        json!({"fault": {"delay_replies": {"ms": 1}}}),
    ];
    for rule in &rules {
        let set: serde_json::Value =
            http.request("sim_set_fault", rpc_params![rule]).await.unwrap();
        assert_eq!(set["rule"]["times"], rule.get("times").unwrap_or(&json!(1)).clone());
    }
    let listed: serde_json::Value = http.request("sim_faults", rpc_params![]).await.unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), rules.len());
    for (status, rule) in listed.iter().zip(&rules) {
        assert_eq!(status["struck"], 0);
        for (member, value) in rule.as_object().unwrap() {
            assert_eq!(&status["rule"][member], value);
        }
    }

    let CommitOutcome::Rejected(error) = bed.add("a").await else { panic!("it was refused") };
    assert_eq!(error.error.to_string(), "busy: later");
    assert!(matches!(bed.add("b").await, CommitOutcome::Unknown(_)));
    http.clear_faults(None).await.unwrap();
    assert_eq!(http.faults().await.unwrap(), Vec::<FaultStatus>::new());
    bed.assert_switches(&["b"]).await;

    let id = http.set_fault(Fault::StopReading.into()).await.unwrap().id;
    http.clear_faults(Some(id)).await.unwrap();
    let error = http.clear_faults(Some(id)).await.unwrap_err().to_string();
    assert!(error.contains(&format!("there is no fault {id}")), "{error}");

    for (wrong, complaint) in [
        (json!({"fault": "explode"}), "unknown variant `explode`"),
        (json!({"fault": "drop", "time": 1}), "unknown field `time`"),
        (json!({"fault": {"drop_after_sent": {"bytes": -1}}}), "invalid value"),
        (json!({"fault": {"refuse": {"error": {}}}}), "missing field `error`"),
        (json!({"fault": "drop", "times": 0}), "a nonzero number of times or the word always"),
        (
            json!({"fault": "drop", "times": "often"}),
            "a nonzero number of times or the word always",
        ),
        (json!({"fault": "drop", "connections": {"one": 99}}), "there is no connection 99"),
    ] {
        let refused = http.request::<FaultStatus, _>("sim_set_fault", rpc_params![&wrong]).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(complaint), "{wrong}: {error}");
    }
}

/// A test that forgets a fault does not fail all tests after it.
#[tokio::test]
async fn a_fault_of_the_control_api_strikes_once_unless_it_says_how_often() {
    let sim = sim();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let http = HttpClient::builder().build(format!("http://{}", control.address())).unwrap();
    let bed = Bed::of(sim.clone(), connect(sim.connector()).await);
    let refuse = json!({"refuse": {"method": "transact", "error": {"error": "busy"}}});
    let once = json!({"fault": refuse});
    let _: FaultStatus = http.request("sim_set_fault", rpc_params![once]).await.unwrap();
    assert!(matches!(bed.add("a").await, CommitOutcome::Rejected(_)));
    assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));

    let always = json!({"fault": refuse, "times": "always"});
    let set: FaultStatus = http.request("sim_set_fault", rpc_params![always]).await.unwrap();
    assert_eq!(set.rule.times, None);
    for _ in 0..3 {
        assert!(matches!(bed.add("b").await, CommitOutcome::Rejected(_)));
    }
    assert_eq!(http.faults().await.unwrap()[0].struck, 3);
}

#[tokio::test]
async fn roles_histories_and_ids_are_changed() {
    let cluster = clustered();
    let control = cluster.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = format!("http://{}", control.address());
    let http = HttpClient::builder().build(address).unwrap();
    let leads = || {
        let own = cluster.database("_Server").unwrap().snapshot();
        let (table, schema) = own.schema().table_by_name("Database").unwrap();
        let columns = ["name", "leader"].map(|column| schema.column_id(column).unwrap());
        let mut rows =
            own.table(table).iter().map(|row| columns.map(|column| row.get(column).to_string()));
        rows.find(|[name, _]| name.contains("OVN_Northbound")).unwrap()[1].clone()
    };
    assert_eq!(leads(), "true");
    for (role, leads_now) in [("follower", "false"), ("leader", "true"), ("disconnected", "false")]
    {
        let _: () = http.request("sim_set_role", rpc_params![role]).await.unwrap();
        assert_eq!(leads(), leads_now, "{role}");
    }
    let before = http.stats().await.unwrap().server_id;
    let after = http.new_server_id().await.unwrap();
    assert_ne!(before, after);
    assert_eq!(http.stats().await.unwrap().server_id, after);
    http.truncate_history(None).await.unwrap();

    let standalone = sim();
    let control = standalone.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = format!("http://{}", control.address());
    let http = HttpClient::builder().build(address).unwrap();
    for refused in [
        http.truncate_history(None).await,
        http.set_role(Role::Leader, Some("OVN_Northbound".to_owned())).await,
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("database OVN_Northbound is not clustered"), "{error}");
    }
}

#[tokio::test]
async fn a_server_goes_down_and_comes_back() {
    let sim = sim();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let http = HttpClient::builder().build(format!("http://{}", control.address())).unwrap();
    let bed = Bed::of(sim.clone(), connect(sim.connector()).await);
    assert_eq!(http.connections().await.unwrap(), [bed.connection()]);
    http.go_down().await.unwrap();
    bed.until_live(false).await;
    assert_eq!(http.connections().await.unwrap(), []);
    http.come_back().await.unwrap();
    bed.until_live(true).await;
    assert!(matches!(soon(bed.add("a")).await, CommitOutcome::Committed(_)));
}
