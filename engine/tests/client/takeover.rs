//! Two clients with one guard name: a process takes over from another that still runs.

use patchbay_engine::client::{Client, CommitOutcome, Config, Guard};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::LogicalSwitch;
use tokio::task::JoinHandle;

use crate::peer::{FakeServer, Relay};
use crate::real_server::RealServer;
use crate::{impatient, soon};

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{
    "Logical_Switch":{"isRoot":true,"columns":{"name":{"type":"string"}}},
    "Guard":{"isRoot":true,"columns":{
        "ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#;

fn config(remote: &str) -> Config {
    let mut config = impatient(Config::new(remote.parse().unwrap(), "D"));
    config.guard = Some(Guard::new("Guard", "ids", "controller"));
    config
}

fn switch(client: &Client, name: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let switch = LogicalSwitch { name: name.to_owned(), ..Default::default() };
    txn.insert(&switch).unwrap();
    txn.finish()
}

fn switches(client: &Client) -> Vec<String> {
    let snapshot = client.snapshot();
    let switches = snapshot.typed::<LogicalSwitch>();
    let mut names: Vec<_> = switches.iter().map(|row| row.unwrap().1.name).collect();
    names.sort();
    names
}

/// Fate of the first client's last request when its connection is cut.
#[derive(Clone, Copy, PartialEq)]
enum LastRequest {
    Executed,
    Lost,
}

/// A client whose connection was cut before the reply to its last transaction.
struct CutOff {
    client: Client,
    outcome: JoinHandle<CommitOutcome>,
    front: FakeServer,
}

impl CutOff {
    async fn new(server: &RealServer, last: LastRequest) -> Self {
        let front = FakeServer::start();
        let connecting = tokio::spawn(Client::connect(config(&front.remote())));
        let mut relay = Relay::accept(&front, &server.socket()).await;
        let passing = pass_until(&mut relay, "first's");
        let sending = async {
            let client = connecting.await.unwrap().unwrap();
            let transaction = switch(&client, "first's");
            let call = client.clone();
            let outcome = tokio::spawn(async move { call.transact(transaction).await });
            (client, outcome)
        };
        let (request, (client, outcome)) = tokio::join!(passing, sending);
        if last == LastRequest::Executed {
            relay.server.send(&request).await;
            // The reply, which the client does not receive.
            loop {
                let text = relay.server.next_text().await.unwrap();
                if text.contains(r#""result":[{},{"uuid""#) {
                    break;
                }
            }
        }
        Self { client, outcome, front }
    }

    /// Lets the client reconnect. Returns the outcome of its transaction and the switches that it
    /// sees then.
    async fn come_back(self, server: &RealServer) -> (CommitOutcome, Vec<String>) {
        let mut relay = Relay::accept(&self.front, &server.socket()).await;
        let passing = tokio::spawn(async move { pass_until(&mut relay, "nothing").await });
        let outcome = soon(self.outcome).await.unwrap();
        let switches = switches(&self.client);
        passing.abort();
        (outcome, switches)
    }
}

/// Relays messages up to one of the client's that contains a text, which is returned.
async fn pass_until(relay: &mut Relay, last: &str) -> String {
    loop {
        tokio::select! {
            text = relay.client.next_text() => {
                let text = text.expect("the client is there");
                if text.contains(last) {
                    return text;
                }
                relay.server.send(&text).await;
            }
            text = relay.server.next_text() => {
                relay.client.send(&text.expect("the server is there")).await;
            }
        }
    }
}

/// Connects with the same guard name and commits transactions.
async fn take_over(server: &RealServer) -> Client {
    let client = Client::connect(config(&server.remote())).await.unwrap();
    for i in 0..3 {
        let added = client.transact(switch(&client, &format!("second's {i}"))).await;
        assert!(matches!(added, CommitOutcome::Committed(_)), "{added:?}");
    }
    client
}

#[tokio::test]
async fn a_former_client_learns_the_outcome_of_its_last_transaction() {
    for last in [LastRequest::Executed, LastRequest::Lost] {
        let server = RealServer::start(SCHEMA);
        let first = CutOff::new(&server, last).await;
        let second = take_over(&server).await;
        let is_there = switches(&second).contains(&"first's".to_owned());
        assert_eq!(is_there, last == LastRequest::Executed);
        drop(second);
        let (outcome, switches) = first.come_back(&server).await;
        match last {
            LastRequest::Executed => {
                assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
            }
            LastRequest::Lost => {
                assert!(matches!(outcome, CommitOutcome::NotSent(_)), "{outcome:?}");
            }
        }
        assert_eq!(switches.len(), if last == LastRequest::Executed { 4 } else { 3 });
    }
}

#[tokio::test]
async fn without_its_mark_an_outcome_is_unknown() {
    let tidy = r#"{"op":"mutate","table":"Guard","where":[],"mutations":[
        ["ids","delete",["set",["patchbay-cleared"]]],
        ["ids","insert",["map",[["patchbay-cleared","00000000-0000-4000-8000-000000000001"]]]]]}"#;
    for then in [tidy, r#"{"op":"delete","table":"Guard","where":[]}"#] {
        let server = RealServer::start(SCHEMA);
        let first = CutOff::new(&server, LastRequest::Lost).await;
        let mut other =
            crate::peer::Peer::new(tokio::net::UnixStream::connect(server.socket()).await.unwrap());
        other.send(&format!(r#"{{"id":1,"method":"transact","params":["D",{then}]}}"#)).await;
        let answer = other.next_text().await.unwrap();
        assert!(answer.contains(r#""count":1"#), "{answer}");
        let (outcome, _) = first.come_back(&server).await;
        let CommitOutcome::Unknown(_) = outcome else {
            panic!("{outcome:?}");
        };
    }
}
