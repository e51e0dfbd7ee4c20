//! The client and the guard row under lost connections and failing servers: against real servers,
//! clusters and ovsdb-sim.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod chaos;
mod cut;
mod fail_over;
mod filters;
mod locks;
mod model;
mod observed;
mod parts;
mod pipelining;
mod proxy;
mod resync;
mod schema;
mod served;
#[cfg(feature = "tls")]
mod tls;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use patchbay_engine::client::{
    Client, CommitOutcome, Config, ConnectionEvent, ConnectionEvents, Guard,
};
use patchbay_engine::txn::TxnBuilder;
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::nb::LogicalSwitch;

/// How long a test waits for what should happen soon: far more than it takes, even on a loaded
/// machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A database with a table of the northbound one, and a table for the client's guard.
const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{
    "Logical_Switch":{"isRoot":true,"columns":{"name":{"type":"string"}}},
    "Guard":{"isRoot":true,"columns":{
        "ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#;

/// A file with the test schema.
fn schema_file(dir: &ScratchDir) -> PathBuf {
    let file = dir.path().join("schema");
    std::fs::write(&file, SCHEMA).unwrap();
    file
}

/// A configuration with short reconnect delays and a guard row.
fn config(remotes: &str) -> Config {
    let mut config = Config::new(remotes.parse().unwrap(), "D");
    config.backoff = (Duration::from_millis(2), Duration::from_millis(100));
    config.guard = Some(Guard::new("Guard", "ids", "test"));
    config
}

/// Connects, retrying while a cluster elects a leader.
async fn connect(config: Config) -> Client {
    soon(async {
        loop {
            match Client::connect(config.clone()).await {
                Ok(client) => return client,
                Err(error) => println!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
}

/// Waits for a future that should complete soon.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, what).await.expect("timed out")
}

/// Waits for the next event that `pick` accepts.
async fn next_event<T>(
    events: &mut ConnectionEvents,
    pick: impl Fn(&ConnectionEvent) -> Option<T>,
) -> T {
    soon(async {
        loop {
            if let Some(found) = pick(&events.next().await.unwrap()) {
                return found;
            }
        }
    })
    .await
}

async fn try_add(client: &Client, name: &str) -> CommitOutcome {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let name = name.to_owned();
    let switch = LogicalSwitch { name, ..Default::default() };
    txn.insert(&switch).unwrap();
    soon(client.transact(txn.finish())).await
}

/// Adds a switch, and repeats that while it is certain that nothing was committed. Returns the
/// number of attempts.
async fn add(client: &Client, name: &str) -> usize {
    for tries in 1.. {
        match try_add(client, name).await {
            CommitOutcome::Committed(_) => return tries,
            CommitOutcome::NotSent(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            other => panic!("{name}: {other:?}"),
        }
    }
    unreachable!()
}

/// Number of switches of each name.
fn names(client: &Client) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for row in client.snapshot().typed::<LogicalSwitch>().iter() {
        *names.entry(row.unwrap().1.name).or_default() += 1;
    }
    names
}

/// Each of the names, once.
fn once(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeMap<String, usize> {
    names.into_iter().map(|name| (name.into(), 1)).collect()
}
