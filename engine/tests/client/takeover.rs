//! Two clients of one guard name, as when a process takes over from another that is not gone.

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
    let switch = LogicalSwitch {
        name: name.to_owned(),
        ..Default::default()
    };
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

/// Whether the server executes what the first client has sent when its connection is cut.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Made,
    Lost,
}

/// A client behind a relay that was cut off before its last transaction was answered, and what it will be told.
struct CutOff {
    client: Client,
    outcome: JoinHandle<CommitOutcome>,
    front: FakeServer,
}

impl CutOff {
    async fn new(server: &RealServer, last: Last) -> Self {
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
        if last == Last::Made {
            relay.server.send(&request).await;
            // The answer, which the client does not get.
            loop {
                let text = relay.server.next_text().await.unwrap();
                if text.contains(r#""result":[{},{"uuid""#) {
                    break;
                }
            }
        }
        Self {
            client,
            outcome,
            front,
        }
    }

    /// Lets the client connect again, and returns what it is told, and the switches that it then sees.
    async fn come_back(self, server: &RealServer) -> (CommitOutcome, Vec<String>) {
        let mut relay = Relay::accept(&self.front, &server.socket()).await;
        let passing = tokio::spawn(async move { pass_until(&mut relay, "nothing").await });
        let outcome = soon(self.outcome).await.unwrap();
        let switches = switches(&self.client);
        passing.abort();
        (outcome, switches)
    }
}

/// Passes messages on up to one of the client's that contains a text, which is returned.
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

/// Takes over, and commits transactions.
async fn take_over(server: &RealServer) -> Client {
    let client = Client::connect(config(&server.remote())).await.unwrap();
    for i in 0..3 {
        let added = client
            .transact(switch(&client, &format!("second's {i}")))
            .await;
        assert!(matches!(added, CommitOutcome::Committed(_)), "{added:?}");
    }
    client
}

#[tokio::test]
async fn who_was_taken_over_from_is_told_what_became_of_the_last_transaction() {
    for last in [Last::Made, Last::Lost] {
        let server = RealServer::start(SCHEMA);
        let first = CutOff::new(&server, last).await;
        let second = take_over(&server).await;
        let is_there = switches(&second).contains(&"first's".to_owned());
        assert_eq!(is_there, last == Last::Made);
        drop(second);
        let (outcome, switches) = first.come_back(&server).await;
        match last {
            Last::Made => assert!(
                matches!(outcome, CommitOutcome::Committed(_)),
                "{outcome:?}"
            ),
            Last::Lost => assert!(matches!(outcome, CommitOutcome::NotSent(_)), "{outcome:?}"),
        }
        assert_eq!(switches.len(), if last == Last::Made { 4 } else { 3 });
    }
}

#[tokio::test]
async fn what_the_row_does_not_tell_any_more_is_unknown() {
    let tidy = r#"{"op":"mutate","table":"Guard","where":[],"mutations":[
        ["ids","delete",["set",["patchbay-cleared"]]],
        ["ids","insert",["map",[["patchbay-cleared","00000000-0000-4000-8000-000000000001"]]]]]}"#;
    for then in [tidy, r#"{"op":"delete","table":"Guard","where":[]}"#] {
        let server = RealServer::start(SCHEMA);
        let first = CutOff::new(&server, Last::Lost).await;
        let mut other = crate::peer::Peer::new(
            tokio::net::UnixStream::connect(server.socket())
                .await
                .unwrap(),
        );
        other
            .send(&format!(
                r#"{{"id":1,"method":"transact","params":["D",{then}]}}"#
            ))
            .await;
        let answer = other.next_text().await.unwrap();
        assert!(answer.contains(r#""count":1"#), "{answer}");
        let (outcome, _) = first.come_back(&server).await;
        let CommitOutcome::Unknown(_) = outcome else {
            panic!("{outcome:?}");
        };
    }
}
