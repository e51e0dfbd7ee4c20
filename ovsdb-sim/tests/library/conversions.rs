//! Conversions while other clients are connected.

use std::sync::Arc;

use ovsdb_sim::Sim;
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::schema::DatabaseSchema;

use crate::client::Client;

const SCHEMA: &str = r#"{"name":"D","tables":{"T":{"columns":{"i":{"type":"integer"}}}}}"#;

/// Number of other clients, whose connections take a while to close.
const CLIENTS: usize = 100;
/// Locks of each of them.
const LOCKS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_that_are_not_aware_get_no_answer_after_the_reply_to_a_conversion() {
    let schema = Arc::new(DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap());
    let sim = Sim::builder().schema(schema).build().unwrap();
    let dir = ScratchDir::new();
    let socket = dir.path().join("sim.sock");
    let target = format!("punix:{}", socket.display());
    let _listener = sim.listen(&target).await.unwrap();

    let mut converting = Client::connect(&socket).await;
    let aware = converting.call("set_db_change_aware", "[true]").await;
    aware.unwrap();
    let mut others = Vec::new();
    for number in 0..CLIENTS {
        let mut client = Client::connect(&socket).await;
        for lock in 0..LOCKS {
            let params = format!(r#"["l{number}_{lock}"]"#);
            client.call("lock", &params).await.unwrap();
        }
        others.push(client);
    }

    let convert = format!(r#"["D",{SCHEMA}]"#);
    converting.call("convert", &convert).await.unwrap();
    for (number, client) in others.iter_mut().enumerate().rev() {
        client.request("echo", "[]", 1).await;
        let answer = client.next().await;
        assert!(answer.is_none(), "client {number}: {answer:?}");
    }
}
