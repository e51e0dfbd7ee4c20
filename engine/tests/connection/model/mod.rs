//! Random typed changes through the client, and by another client while it is disconnected, on the
//! real server and on ovsdb-sim. After each step the replica and the followed changes agree with
//! the database as another connection reads it, and both servers' databases are equal.
//!
//! `PATCHBAY_MODEL_STEPS` and `PATCHBAY_MODEL_SEED` set the number of steps and the seed.

mod changes;
mod contents;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ovsdb_sim::Model;
use patchbay_engine::client::{
    ChangeEvent, Client, CommitOutcome, Config, ConnectionEvent, FollowedTables, Guard, Pipelining,
    Subscription,
};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::{
    self, AddressSet, LoadBalancer, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute,
    NbGlobal,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use crate::proxy::Proxy;
use crate::served::{Served, real_member_of, real_of, simulated_of};
use crate::{connect, next_event, soon};
use contents::{Contents, Reader};

/// Tables of the random changes.
const TABLES: [&str; 6] = [
    "Address_Set",
    "Load_Balancer",
    "Logical_Router",
    "Logical_Router_Port",
    "Logical_Router_Static_Route",
    "NB_Global",
];

/// Number of former snapshots that transactions are built from.
const FORMER_SNAPSHOTS: usize = 3;

/// Configuration of a client and its server.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// One request per transaction; the server chooses UUIDs.
    Plain,
    /// A guard row, so that the client chooses UUIDs, and coalescing.
    GuardedTogether,
    /// Like the first, on a server that sends missed transactions.
    Clustered,
}

/// A server with a client that changes its database.
struct World {
    name: String,
    client: Client,
    events: Subscription,
    /// Proxy between the client and the server.
    proxy: Proxy,
    /// Client that makes changes while the other is disconnected.
    other: Client,
    /// Rows according to the events.
    mirror: BTreeMap<(TableId, Uuid), Arc<Row>>,
    reader: Reader,
    former: VecDeque<Snapshot>,
    random: StdRng,
    /// Counter for names.
    named: usize,
    _served: Served,
}

impl World {
    async fn new(name: &str, served: Served, way: Way, seed: u64) -> Self {
        let proxy = Proxy::start(&served.socket);
        let mut config = Config::new(served.remote().parse().unwrap(), "OVN_Northbound")
            .with_table::<AddressSet>()
            .with_table::<LoadBalancer>()
            .with_table::<LogicalRouter>()
            .with_table::<LogicalRouterPort>()
            .with_table::<LogicalRouterStaticRoute>()
            .with_table::<NbGlobal>()
            .with_index(changes::address_sets())
            .with_index(changes::routers());
        config.backoff = (Duration::from_millis(2), Duration::from_millis(20));
        let other = connect(config.clone()).await;
        config.remotes = proxy.remote().parse().unwrap();
        if let Way::GuardedTogether = way {
            config.guard = Some(Guard::new("DNS", "external_ids", "model"));
            config.pipelining = Pipelining::coalesced();
        }
        let client = connect(config).await;
        Self {
            name: format!("{name}, {way:?}"),
            events: client.follow(FollowedTables::all()).unwrap(),
            mirror: BTreeMap::new(),
            reader: Reader::connect(&served.socket).await,
            former: VecDeque::new(),
            random: StdRng::seed_from_u64(seed),
            named: 0,
            client,
            proxy,
            other,
            _served: served,
        }
    }

    /// Sends some concurrent transactions and returns their outcomes.
    async fn step(&mut self) -> Vec<String> {
        if self.random.random_ratio(5, 6) {
            return self.transactions(&self.client.clone()).await;
        }
        // They are committed while the client is disconnected.
        let mut events = self.client.connection_events().unwrap();
        self.proxy.refuse(true);
        next_event(&mut events, |event| {
            matches!(event, ConnectionEvent::Disconnected(_)).then_some(())
        })
        .await;
        let mut outcomes = self.transactions(&self.other.clone()).await;
        self.proxy.refuse(false);
        let kind = next_event(&mut events, |event| match event {
            ConnectionEvent::Resynced { kind, .. } => Some(*kind),
            _ => None,
        });
        outcomes.push(format!("resync {:?}", kind.await));
        outcomes
    }

    async fn transactions(&mut self, client: &Client) -> Vec<String> {
        let snapshot = self.client.snapshot();
        let base = match self.former.len() {
            former if former > 0 && self.random.random_ratio(1, 4) => {
                self.former[self.random.random_range(0..former)].clone()
            }
            _ => snapshot.clone(),
        };
        self.former.push_front(snapshot);
        self.former.truncate(FORMER_SNAPSHOTS);
        let at_once = [1, 1, 1, 2, 4][self.random.random_range(0..5)];
        let mut outcomes = Vec::new();
        let mut under_way = Vec::new();
        for _ in 0..at_once {
            match self.transaction(&base) {
                Ok(transaction) => {
                    let client = client.clone();
                    under_way.push(tokio::spawn(async move {
                        soon(client.transact(transaction)).await
                    }));
                }
                Err(error) => outcomes.push(format!("not built: {error}")),
            }
        }
        for transaction in under_way {
            outcomes.push(match transaction.await.unwrap() {
                CommitOutcome::Committed(_) => "committed".to_owned(),
                CommitOutcome::Rejected(error) => {
                    let operation = error.operation.map(|at| (at.index, at.operation, at.columns));
                    format!("{} at {operation:?}", error.error.tag)
                }
                other => panic!("{}: {other:?}", self.name),
            });
        }
        outcomes
    }

    fn transaction(&mut self, base: &Snapshot) -> Result<Transaction, &'static str> {
        let mut txn = TxnBuilder::new(base);
        if self.random.random_ratio(1, 5) {
            txn.guard_changes();
        }
        for _ in 0..self.random.random_range(1..5) {
            // An error may name rows, whose UUIDs differ between servers.
            let made = changes::make(&mut txn, &mut self.random, &mut self.named);
            made.map_err(|error| changes::kind(&error))?;
        }
        Ok(txn.finish())
    }

    /// Contents of the database, which the replica and the followed changes must equal.
    async fn contents(&mut self) -> Contents {
        let schema = self.client.snapshot().schema().clone();
        let truth = self.reader.read(&schema, &TABLES).await;
        let replica = Contents::of(&self.client.snapshot(), &TABLES);
        replica.assert_same(&truth, &format!("{}: replica and database", self.name));
        while self.events.queued_rows() > 0 {
            let changed = match soon(self.events.next()).await.unwrap() {
                ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) => changed,
                ChangeEvent::Lagged(_) => panic!("{}: nothing was lost", self.name),
            };
            for change in changed.rows() {
                let key = (change.table, change.uuid());
                let before = match &change.new {
                    Some(new) => self.mirror.insert(key, new.clone()),
                    None => self.mirror.remove(&key),
                };
                assert_eq!(before, change.old, "{}: {change:?}", self.name);
            }
        }
        let snapshot = self.client.snapshot();
        let followed = TABLES.iter().filter_map(|table| schema.table_by_name(table));
        let rows: usize = followed.map(|(id, _)| snapshot.table(id).len()).sum();
        assert_eq!(self.mirror.len(), rows, "{}", self.name);
        for ((table, uuid), row) in &self.mirror {
            assert_eq!(snapshot.row(*table, *uuid), Some(row), "{}", self.name);
        }
        truth
    }
}

async fn compare(way: Way) {
    let number = |name: &str, default: u64| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    let steps = number("PATCHBAY_MODEL_STEPS", 50);
    let seed = number("PATCHBAY_MODEL_SEED", 1);
    let (real, model) = match way {
        Way::Clustered => (real_member_of(nb::SCHEMA_TEXT), Model::Clustered),
        Way::Plain | Way::GuardedTogether => (real_of(nb::SCHEMA_TEXT), Model::Standalone),
    };
    let sim = simulated_of(nb::SCHEMA_TEXT, model).await;
    let mut real = World::new("real", real, way, seed).await;
    let mut sim = World::new("sim", sim, way, seed).await;
    let mut outcomes = BTreeMap::<String, usize>::new();
    for step in 0..steps {
        let (of_real, of_sim) = (real.step().await, sim.step().await);
        assert_eq!(of_real, of_sim, "seed {seed}, step {step}, {way:?}");
        for outcome in of_real {
            let kind = outcome.split(" at ").next().unwrap_or_default().to_owned();
            *outcomes.entry(kind).or_default() += 1;
        }
        let contents = real.contents().await;
        let what = format!("seed {seed}, step {step}, {way:?}: the real server and ovsdb-sim");
        sim.contents().await.assert_same(&contents, &what);
    }
    println!("{way:?}: {outcomes:?}");
    // A small database keeps no history of large changes.
    let continued = outcomes.contains_key("resync Continued");
    assert_eq!(continued, matches!(way, Way::Clustered), "{outcomes:?}");
    let committed = outcomes.get("committed").copied().unwrap_or_default();
    assert!(committed > steps as usize / 2 && outcomes.len() > 3, "{outcomes:?}");
}

#[tokio::test]
async fn replica_and_database_agree_after_each_step() {
    compare(Way::Plain).await;
}

#[tokio::test]
async fn replica_and_database_agree_after_each_step_of_many_changes_together() {
    compare(Way::GuardedTogether).await;
}

#[tokio::test]
async fn replica_and_database_agree_after_each_step_on_a_server_that_remembers() {
    compare(Way::Clustered).await;
}
