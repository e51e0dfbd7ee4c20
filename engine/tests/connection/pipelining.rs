//! Concurrent transactions, on the real server and on ovsdb-sim: each has its own outcome, and they
//! are executed in order.

use patchbay_engine::client::{ChangeEvent, Client, CommitOutcome, FollowedTables, Pipelining};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::LogicalSwitch;
use patchbay_schemas::typed::Ref;
use tokio::task::JoinHandle;

use crate::served::{Served, real, simulated};
use crate::{connect, names, once, soon};

/// Number of concurrent transactions.
const CONCURRENT_TRANSACTIONS: usize = 150;

fn start(client: &Client, transaction: Transaction) -> JoinHandle<CommitOutcome> {
    let client = client.clone();
    tokio::spawn(async move { soon(client.transact(transaction)).await })
}

fn insert(client: &Client, name: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let switch = LogicalSwitch { name: name.to_owned(), ..Default::default() };
    txn.insert(&switch).unwrap();
    txn.finish()
}

/// Renames the row if it has the expected name.
fn rename(client: &Client, row: Ref<LogicalSwitch>, from: &str, to: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.expect(row, "name", Datum::scalar(from)).unwrap();
    txn.set(row, LogicalSwitch::NAME, to.to_owned()).unwrap();
    txn.finish()
}

async fn row(client: &Client) -> Ref<LogicalSwitch> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let switch = LogicalSwitch { name: "0".to_owned(), ..Default::default() };
    let row = txn.insert(&switch).unwrap();
    let committed = soon(client.transact(txn.finish())).await;
    committed.into_result().unwrap().resolve(row)
}

/// Each transaction renames the row from the name that the previous one set. One in the middle
/// fails.
async fn in_order_though_one_fails(served: Served, pipelining: Pipelining) {
    let mut config = served.config();
    config.pipelining = pipelining;
    let client = connect(config).await;
    let row = row(&client).await;
    let mut transactions = Vec::new();
    for i in 0..CONCURRENT_TRANSACTIONS {
        if i == CONCURRENT_TRANSACTIONS / 2 {
            transactions.push(start(&client, rename(&client, row, "nonsense", "x")));
        }
        let (from, to) = (i.to_string(), (i + 1).to_string());
        transactions.push(start(&client, rename(&client, row, &from, &to)));
    }
    for (i, transaction) in transactions.into_iter().enumerate() {
        match soon(transaction).await.unwrap() {
            CommitOutcome::Committed(committed) => assert_eq!(committed.results.len(), 2),
            CommitOutcome::Rejected(error) if i == CONCURRENT_TRANSACTIONS / 2 => {
                assert_eq!(
                    error.to_string(),
                    format!(
                        "the server refused the transaction at operation 0 (wait of Logical_Switch, \
                         row {}, column name): timed out: \"where\" clause test failed",
                        row.uuid
                    )
                );
            }
            other => panic!("{i}: {other:?}"),
        }
    }
    assert_eq!(names(&client), once([CONCURRENT_TRANSACTIONS.to_string()]));
}

/// Coalesced transactions are one transaction for monitors and many outcomes for callers.
async fn together(served: Served, guarded: bool) {
    let mut config = served.config();
    if guarded {
        config.guard = crate::config("unix:x").guard;
    }
    config.pipelining = Pipelining::coalesced();
    let client = connect(config).await;
    let watcher = served.client().await;
    let mut events = watcher.follow(FollowedTables::table::<LogicalSwitch>()).unwrap();

    let wanted: Vec<String> = (0..CONCURRENT_TRANSACTIONS).map(|i| format!("sw{i}")).collect();
    let transactions: Vec<_> =
        wanted.iter().map(|name| start(&client, insert(&client, name))).collect();
    for transaction in transactions {
        let committed = soon(transaction).await.unwrap().into_result().unwrap();
        assert_eq!(committed.results.len(), 1);
    }
    assert_eq!(names(&client), once(wanted));
    let (mut rows, mut seen) = (0, 0);
    while rows < CONCURRENT_TRANSACTIONS {
        let ChangeEvent::Committed(changed) = soon(events.next()).await.unwrap() else {
            panic!("the reader is not slow")
        };
        rows += changed.rows().len();
        seen += 1;
    }
    assert!(seen <= 2, "{seen}");
}

#[tokio::test]
async fn a_real_server_executes_them_in_order() {
    in_order_though_one_fails(real(), Pipelining::default()).await;
    in_order_though_one_fails(real(), Pipelining::coalesced()).await;
}

#[tokio::test]
async fn the_simulator_executes_them_in_order() {
    in_order_though_one_fails(simulated().await, Pipelining::default()).await;
    let coalesced = Pipelining::Coalesced { transactions: 40, bytes: 8000 };
    in_order_though_one_fails(simulated().await, coalesced).await;
}

#[tokio::test]
async fn a_real_server_receives_coalesced_requests() {
    together(real(), false).await;
    together(real(), true).await;
}

#[tokio::test]
async fn the_simulator_receives_coalesced_requests() {
    together(simulated().await, false).await;
    together(simulated().await, true).await;
}
