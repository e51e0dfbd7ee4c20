//! What the engine's client makes of each fault: it comes back, it says the truth about what became of a transaction,
//! and nothing is lost or done twice.

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

/// How long a test waits for what should happen at once: far more than it takes, even on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// Northbound, as much of it as is needed: clients read the schema with every connection.
const SCHEMA: &str = r#"{"name":"OVN_Northbound","version":"1.0.0","tables":{"Logical_Switch":{"isRoot":true,
    "columns":{"name":{"type":"string"}}}}}"#;

fn sim() -> Sim {
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
    Sim::builder().schema(Arc::new(schema)).build().unwrap()
}

/// The same, of a cluster.
fn clustered() -> Sim {
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
    let builder = Sim::builder().schema(Arc::new(schema));
    builder.model(Model::Clustered).build().unwrap()
}

/// A simulator and a client of it. Unless a test says otherwise, they talk without a socket, and time is paused: it
/// passes only while both wait for it.
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
        Self {
            sim,
            database,
            client,
        }
    }

    /// The only connection.
    fn connection(&self) -> ConnectionId {
        let connections = self.sim.connections();
        let [connection] = connections[..] else {
            panic!("one connection: {connections:?}")
        };
        connection
    }

    /// Adds a switch and returns what the client says about it.
    async fn add(&self, name: &str) -> CommitOutcome {
        soon(self.client.transact(switch(&self.client, name))).await
    }

    /// Adds a switch meanwhile.
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

    /// Both sides hold these switches, each once, once the client follows the server.
    async fn assert_switches(&self, expected: &[&str]) {
        self.until_live(true).await;
        for snapshot in [self.database.snapshot(), self.client.snapshot()] {
            let expected = expected.iter().map(|name| ((*name).to_owned(), 1));
            assert_eq!(switches(&snapshot), expected.collect());
        }
    }
}

/// Connects a client that tries again fast.
async fn connect(remotes: impl Into<Remotes>) -> Client {
    soon(Client::connect(config(remotes))).await.unwrap()
}

fn config(remotes: impl Into<Remotes>) -> Config {
    let mut config = Config::new(remotes.into(), "OVN_Northbound").with_table::<LogicalSwitch>();
    config.backoff = (Duration::from_millis(10), Duration::from_millis(100));
    config
}

/// Waits for something that should happen at once.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let done = timeout(SOON, what).await;
    done.expect("it should have happened long ago")
}

fn switch(client: &Client, name: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let row = LogicalSwitch {
        name: name.to_owned(),
        ..Default::default()
    };
    txn.insert(&row).unwrap();
    txn.finish()
}

/// How many switches there are of each name.
fn switches(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for row in snapshot.typed::<LogicalSwitch>().iter() {
        *names.entry(row.unwrap().1.name).or_default() += 1;
    }
    names
}
