//! Relays and backups: databases that follow those of another server.

mod outage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ovsdb_sim::{Fault, FaultRule, Listener, Loss, Model, Sim};
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::time::timeout;

use crate::client::Client;

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{
    "T":{"columns":{"i":{"type":"integer"}},"indexes":[["i"]]},
    "U":{"columns":{"i":{"type":"integer"}}}}}"#;
const CONVERTED: &str =
    r#"{"name":"D","version":"2.0.0","tables":{"T":{"columns":{"j":{"type":"integer"}}}}}"#;
const ALL: &str = r#"["D",{"op":"select","table":"T","where":[],"columns":["i"]}]"#;

/// Server with a socket for clients.
struct Server {
    sim: Sim,
    socket: PathBuf,
    _listener: Listener,
}

impl Server {
    async fn listen(sim: Sim, folder: &ScratchDir, name: &str) -> Self {
        let socket = folder.path().join(name);
        let target = format!("punix:{}", socket.display());
        let listener = sim.listen(&target).await.unwrap();
        Self { sim, socket, _listener: listener }
    }

    async fn source(folder: &ScratchDir, model: Model) -> Self {
        let sim = Sim::builder().schema(schema(SCHEMA)).model(model).build();
        Self::listen(sim.unwrap(), folder, "source").await
    }

    /// A relay, with the content of its source if that answers.
    async fn relay(folder: &ScratchDir, name: &str, remotes: &str) -> Self {
        let sim = Sim::builder().without_default_database().build().unwrap();
        sim.add_relay("D", remotes).unwrap();
        sim.wait_for_sources().await;
        Self::listen(sim, folder, name).await
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// A client that is aware of changes.
    async fn client(&self) -> Client {
        let mut client = Client::connect(&self.socket).await;
        client.call("set_db_change_aware", "[true]").await.unwrap();
        client
    }

    /// Waits until the table has this content.
    async fn wait_for(&self, content: &[i64]) {
        let mut client = self.client().await;
        client.wait_until(ALL, |reply| values(reply) == content).await;
    }

    /// The row of the database in `_Server`.
    async fn status(&self) -> String {
        let params = r#"["_Server",{"op":"select","table":"Database","where":[["name","==","D"]],
            "columns":["model","connected","leader","index"]}]"#;
        let reply = self.client().await.call("transact", params).await.unwrap();
        reply.to_text()
    }
}

impl Client {
    /// Sends a request and returns the whole reply. Skips notifications before it.
    async fn ask(&mut self, method: &str, params: &str) -> Json {
        self.request(method, params, "\"ask\"").await;
        loop {
            let message = self.next().await.expect("an open connection");
            if message.get("id").and_then(Json::as_str) == Some("ask") {
                return message;
            }
        }
    }

    async fn transact(&mut self, operation: &str) -> Json {
        self.ask("transact", &format!(r#"["D",{operation}]"#)).await
    }

    /// Repeats a transaction until its reply satisfies a condition.
    async fn wait_until(&mut self, params: &str, is_done: impl Fn(&Json) -> bool) {
        let done = async {
            while !is_done(&self.ask("transact", params).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(120);
        timeout(limit, done).await.expect("the state should come");
    }
}

fn schema(text: &str) -> Arc<DatabaseSchema> {
    Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap())
}

fn insert(i: i64) -> String {
    format!(r#"{{"op":"insert","table":"T","row":{{"i":{i}}}}}"#)
}

/// The values in the reply to [`ALL`].
fn values(reply: &Json) -> Vec<i64> {
    let Some(Json::Array(results)) = reply.get("result") else {
        return vec![-1];
    };
    let Some(Json::Array(rows)) = results[0].get("rows") else {
        return vec![-1];
    };
    let value = |row: &Json| match row.get("i") {
        Some(Json::Integer(i)) => *i,
        _ => -1,
    };
    let mut values: Vec<i64> = rows.iter().map(value).collect();
    values.sort_unstable();
    values
}

fn error(reply: &Json) -> String {
    let of_operation = |reply: &Json| match reply.get("result")? {
        Json::Array(results) => results.last()?.get("details").cloned(),
        _ => None,
    };
    let of_request = |reply: &Json| {
        let error = reply.get("error")?;
        Some(error.get("details").unwrap_or(error).clone())
    };
    let text = of_operation(reply).or_else(|| of_request(reply));
    text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}

#[tokio::test]
async fn relays_of_relays_have_the_content_and_the_transaction_ids_of_the_source() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Clustered).await;
    let first = Server::relay(&folder, "1", &source.remote()).await;
    let second = Server::relay(&folder, "2", &first.remote()).await;
    let mut client = second.client().await;
    let reply = client.transact(&insert(1)).await;
    assert_eq!(error(&reply), "");
    // The client's own changes are there when it gets the reply.
    assert_eq!(values(&client.ask("transact", ALL).await), [1]);
    let expected =
        r#"[{"rows":[{"connected":true,"index":["set",[]],"leader":false,"model":"relay"}]}]"#;
    assert_eq!(second.status().await, expected);
    let last = |server: &Server| {
        let socket = server.socket.clone();
        async move {
            let zero = uuid::Uuid::nil();
            let params = format!(r#"["D","m",{{"T":[{{}}]}},"{zero}"]"#);
            let mut client = Client::connect(&socket).await;
            match client.call("monitor_cond_since", &params).await {
                Some(Json::Array(result)) => result[1].to_text(),
                other => panic!("{other:?}"),
            }
        }
    };
    let id = last(&source).await;
    assert_eq!(last(&first).await, id);
    assert_eq!(last(&second).await, id);
}

#[tokio::test]
async fn a_relay_is_not_available_before_its_source_has_answered() {
    let folder = ScratchDir::new();
    let remote = format!("unix:{}", folder.path().join("source").display());
    let relay = Server::relay(&folder, "relay", &remote).await;
    let mut client = relay.client().await;
    let reply = client.ask("get_schema", r#"["D"]"#).await;
    assert!(error(&reply).contains("not yet available"), "{reply:?}");
    let expected =
        r#"[{"rows":[{"connected":false,"index":["set",[]],"leader":false,"model":"relay"}]}]"#;
    assert_eq!(relay.status().await, expected);
    let source = Server::source(&folder, Model::Standalone).await;
    source.client().await.transact(&insert(1)).await;
    relay.wait_for(&[1]).await;
}

#[tokio::test]
async fn writes_wait_for_a_source_that_is_away_and_reads_do_not() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let relay = Server::relay(&folder, "relay", &source.remote()).await;
    relay.client().await.transact(&insert(1)).await;
    source.sim.go_down().await;
    let mut client = relay.client().await;
    // One that the relay itself refuses needs no source.
    let wrong = r#"{"op":"insert","table":"T","row":{"nope":1}}"#;
    assert_eq!(error(&client.transact(wrong).await), "No column nope in table T.");
    let params = format!(r#"["D",{}]"#, insert(2));
    client.request("transact", &params, "\"write\"").await;
    assert_eq!(values(&client.ask("transact", ALL).await), [1]);
    // As in ovsdb-server, a relay reports only after half a minute that it has lost its source.
    assert!(relay.status().await.contains(r#""connected":true"#));
    source.sim.come_back().await.unwrap();
    let reply = client.next().await.unwrap();
    assert_eq!(reply.get("id").and_then(Json::as_str), Some("write"));
    assert_eq!(values(&client.ask("transact", ALL).await), [1, 2]);
}

#[tokio::test]
async fn a_forwarded_transaction_whose_reply_is_lost_is_canceled() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let relay = Server::relay(&folder, "relay", &source.remote()).await;
    let lost = FaultRule::from(Fault::LoseReply(Loss::Crashed)).once();
    source.sim.set_fault(lost).unwrap();
    let mut client = relay.client().await;
    assert_eq!(error(&client.transact(&insert(1)).await), "canceled");
    // It was executed, and the next connection shows it.
    relay.wait_for(&[1]).await;
}

#[tokio::test]
async fn a_client_can_cancel_what_is_forwarded_and_leave_it_behind() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let relay = Server::relay(&folder, "relay", &source.remote()).await;
    source.sim.set_fault(Fault::StopReading).unwrap();
    let mut client = relay.client().await;
    let params = format!(r#"["D",{}]"#, insert(1));
    client.request("transact", &params, "\"write\"").await;
    client.request("transact", &params, "\"write\"").await;
    let duplicate = client.next().await.unwrap();
    assert!(error(&duplicate).contains("duplicate request ID"), "{duplicate:?}");
    client.send(br#"{"id":null,"method":"cancel","params":["write"]}"#).await;
    let canceled = client.next().await.unwrap();
    assert_eq!(error(&canceled), "canceled");
    client.request("transact", &params, "\"write\"").await;
    assert!(client.is_served().await);
    drop(client);
    source.sim.clear_faults();
    // The first one was executed; the third violates the index.
    relay.wait_for(&[1]).await;
}

#[tokio::test]
async fn a_relay_follows_a_conversion_of_its_source_and_refuses_its_own() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let relay = Server::relay(&folder, "relay", &source.remote()).await;
    let mut client = relay.client().await;
    client.transact(&insert(1)).await;
    client.call("monitor", r#"["D","m",{"T":{}}]"#).await.unwrap();
    let mut unaware = Client::connect(&relay.socket).await;
    assert!(unaware.is_served().await);
    let convert = format!(r#"["D",{CONVERTED}]"#);
    let refused = client.ask("convert", &convert).await;
    assert!(error(&refused).contains("it is a relay's"), "{refused:?}");
    source.client().await.call("convert", &convert).await.unwrap();
    let canceled = client.next().await.unwrap();
    let method = canceled.get("method").and_then(Json::as_str);
    assert_eq!(method, Some("monitor_canceled"));
    unaware.until_closed().await;
    let schema = client.call("get_schema", r#"["D"]"#).await.unwrap();
    assert_eq!(schema.get("version").and_then(Json::as_str), Some("2.0.0"));
    let reply = client.transact(r#"{"op":"insert","table":"T","row":{"j":1}}"#).await;
    assert_eq!(error(&reply), "");
}

#[tokio::test]
async fn a_removed_relay_is_gone_and_can_be_added_again() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let relay = Server::relay(&folder, "relay", &source.remote()).await;
    assert!(relay.sim.add_relay("D", "unix:x").is_err());
    relay.sim.remove_database("D").unwrap();
    while !source.sim.connections().is_empty() {
        tokio::task::yield_now().await;
    }
    source.client().await.transact(&insert(1)).await;
    relay.sim.add_relay("D", &source.remote()).unwrap();
    relay.wait_for(&[1]).await;
}

#[tokio::test]
async fn a_backup_is_a_copy_with_a_journal_that_clients_cannot_change() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    source.client().await.transact(&insert(1)).await;
    let journal = folder.path().join("journal");
    let open = || {
        let sim = Sim::builder().schema(schema(SCHEMA)).journal(&journal);
        sim.build().unwrap()
    };
    let backup = Server::listen(open(), &folder, "backup").await;
    let own = backup.client().await.transact(&insert(7)).await;
    assert_eq!(error(&own), "");
    backup.sim.start_backup(&source.remote(), "");
    backup.wait_for(&[1]).await;
    let mut client = backup.client().await;
    let refused = client.transact(&insert(2)).await;
    let read_only = "insert operation not allowed when database server is in read only mode";
    assert_eq!(error(&refused), read_only);
    let refused = client.ask("convert", &format!(r#"["D",{CONVERTED}]"#)).await;
    let read_only = "conversion is not allowed for read-only database D";
    assert_eq!(error(&refused), read_only);
    source.client().await.transact(&insert(2)).await;
    backup.wait_for(&[1, 2]).await;
    // A lost connection changes nothing; the next one brings what was missed.
    source.sim.go_down().await;
    source.sim.come_back().await.unwrap();
    source.client().await.transact(&insert(3)).await;
    backup.wait_for(&[1, 2, 3]).await;
    backup.sim.stop_backup();
    assert_eq!(error(&client.transact(&insert(4)).await), "");
    source.client().await.transact(&insert(5)).await;
    assert_eq!(values(&client.ask("transact", ALL).await), [1, 2, 3, 4]);
    drop(client);
    backup.sim.remove_database("D").unwrap();
    let again = open();
    assert_eq!(again.database("D").unwrap().snapshot().row_count(), 4);
}

#[tokio::test]
async fn a_backup_keeps_excluded_tables() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let other = r#"{"op":"insert","table":"U","row":{"i":9}}"#;
    let both = format!("{},{other}", insert(1));
    source.client().await.transact(&both).await;
    let backup = Sim::builder().schema(schema(SCHEMA)).build().unwrap();
    let backup = Server::listen(backup, &folder, "backup").await;
    backup.client().await.transact(&format!("{other},{other}")).await;
    backup.sim.start_backup(&source.remote(), "D:U,E:T");
    backup.wait_for(&[1]).await;
    source.client().await.transact(other).await;
    source.client().await.transact(&insert(2)).await;
    backup.wait_for(&[1, 2]).await;
    let snapshot = backup.sim.database("D").unwrap().snapshot();
    assert_eq!(snapshot.row_count(), 4);
}

#[tokio::test]
async fn a_database_that_cannot_be_a_backup_becomes_active() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let smaller = Sim::builder().schema(schema(CONVERTED)).build().unwrap();
    let smaller = Server::listen(smaller, &folder, "smaller").await;
    let insert_j = r#"["D",{"op":"insert","table":"T","row":{"j":1}}]"#;
    for (server, remote, write) in [
        (&smaller, source.remote(), insert_j.to_owned()),
        (&source, source.remote(), format!(r#"["D",{}]"#, insert(1))),
    ] {
        server.sim.start_backup(&remote, "");
        let mut client = server.client().await;
        client.wait_until(&write, |reply| error(reply).is_empty()).await;
    }
}

/// Serves clients with a list of replies, one for each request of a method.
async fn serve_script(listener: UnixListener, content: &'static str) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut framer = patchbay_schemas::json::Framer::new(1 << 20);
        loop {
            while let Some(text) = framer.next_text().unwrap() {
                let request = Json::from_text(text.as_text());
                let method = request.get("method").and_then(Json::as_str).unwrap().to_owned();
                let result = match method.as_str() {
                    "monitor_cond" => {
                        r#"{"Database":{"00000000-0000-4000-8000-000000000001":{"initial":
                            {"name":"D","model":"standalone","connected":true,"leader":true}}}}"#
                    }
                    "get_schema" => {
                        r#"{"name":"D","version":"1.0.0","tables":{
                            "Root":{"isRoot":true,"columns":{"t":{"type":{"key":{"type":"uuid","refTable":"T"}}}}},
                            "T":{"columns":{"i":{"type":"integer"}}}}}"#
                    }
                    "monitor_cond_since" => content,
                    "lock" => r#"{"locked":true}"#,
                    _ => "{}",
                };
                let id = request.get("id").unwrap().to_text();
                let reply = format!(r#"{{"id":{id},"error":null,"result":{result}}}"#);
                stream.write_all(reply.as_bytes()).await.unwrap_or_default();
            }
            if stream.read_buf(framer.buffer_mut()).await.unwrap_or(0) == 0 {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_relay_does_not_serve_content_that_violates_the_schema() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("source");
    let listener = UnixListener::bind(&socket).unwrap();
    // A strong reference to a row that does not exist.
    let content = r#"[false,"00000000-0000-0000-0000-000000000000",{"Root":{
        "00000000-0000-4000-8000-000000000002":{"initial":{"t":["uuid","00000000-0000-4000-8000-000000000003"]}}}}]"#;
    let hostile = tokio::spawn(serve_script(listener, content));
    let sim = Sim::builder().without_default_database().build().unwrap();
    sim.add_relay("D", &format!("unix:{}", socket.display())).unwrap();
    let relay = Server::listen(sim, &folder, "relay").await;
    relay.sim.wait_for_sources().await;
    let reply = relay.client().await.ask("get_schema", r#"["D"]"#).await;
    assert!(error(&reply).contains("not yet available"), "{reply:?}");
    hostile.abort();
}
