//! The engine's client under each fault: it reconnects and reports the right outcome of each
//! transaction, and no transaction is lost or executed twice.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod cluster;
mod control;
mod drops;
mod outage;
mod replies;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ovsdb_sim::{ConnectionId, Model, Sim, SimDatabase};
use patchbay_engine::client::{Client, CommitOutcome, Config, Remotes};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::LogicalSwitch;
use patchbay_schemas::schema::DatabaseSchema;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Timeout of events that should happen at once: far more than they need, even on a loaded machine.
const REACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Part of the northbound schema, short because clients read it on every connection.
const SCHEMA: &str = r#"{"name":"OVN_Northbound","version":"1.0.0","tables":{"Logical_Switch":{"isRoot":true,
    "columns":{"name":{"type":"string"}}}}}"#;

fn sim() -> Sim {
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
    Sim::builder().schema(Arc::new(schema)).build().unwrap()
}

/// A simulator with a clustered database.
fn clustered() -> Sim {
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
    let builder = Sim::builder().schema(Arc::new(schema));
    builder.model(Model::Clustered).build().unwrap()
}

/// Simulator with a client. Unless a test does otherwise, they use no socket, and time is paused:
/// it advances only while both wait for it.
struct Bed {
    sim: Sim,
    database: SimDatabase,
    client: Client,
}

impl Bed {
    async fn new() -> Self {
        let sim = sim();
        let client = connect(sim.connector()).await;
        Self::of(sim, client)
    }

    fn of(sim: Sim, client: Client) -> Self {
        let database = sim.database("OVN_Northbound").unwrap();
        Self { sim, database, client }
    }

    /// The only open connection.
    fn connection(&self) -> ConnectionId {
        let connections = self.sim.connections();
        let [connection] = connections[..] else { panic!("one connection: {connections:?}") };
        connection
    }

    /// Adds a switch and returns the outcome of the transaction.
    async fn add(&self, name: &str) -> CommitOutcome {
        soon(self.client.transact(switch(&self.client, name))).await
    }

    /// Adds a switch in another task.
    fn begin_to_add(&self, name: &str) -> JoinHandle<CommitOutcome> {
        let (client, txn) = (self.client.clone(), switch(&self.client, name));
        tokio::spawn(async move { client.transact(txn).await })
    }

    async fn until_live(&self, live: bool) {
        soon(async {
            while self.client.is_live() != live {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Waits until the client is up to date, and asserts that both sides have each of these
    /// switches once.
    async fn assert_switches(&self, expected: &[&str]) {
        self.until_live(true).await;
        for snapshot in [self.database.snapshot(), self.client.snapshot()] {
            let expected = expected.iter().map(|name| ((*name).to_owned(), 1));
            assert_eq!(switches(&snapshot), expected.collect());
        }
    }
}

/// Connects a client with short reconnect delays.
async fn connect(remotes: impl Into<Remotes>) -> Client {
    soon(Client::connect(config(remotes))).await.unwrap()
}

fn config(remotes: impl Into<Remotes>) -> Config {
    let mut config = Config::new(remotes.into(), "OVN_Northbound").with_table::<LogicalSwitch>();
    config.backoff = (Duration::from_millis(10), Duration::from_millis(100));
    config
}

/// Waits for an event that should happen at once.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let done = timeout(REACTION_TIMEOUT, what).await;
    done.expect("it should have happened long ago")
}

fn switch(client: &Client, name: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let row = LogicalSwitch { name: name.to_owned(), ..Default::default() };
    txn.insert(&row).unwrap();
    txn.finish()
}

/// The number of switches of each name.
fn switches(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for row in snapshot.typed::<LogicalSwitch>().iter() {
        *names.entry(row.unwrap().1.name).or_default() += 1;
    }
    names
}
