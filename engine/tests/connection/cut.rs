//! The connection is cut after every byte of a transaction's request and of the server's messages
//! for it.

use std::time::Duration;

use patchbay_engine::client::{Client, CommitOutcome};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_ovn_programs::testing::{RealServer, ScratchDir};
use patchbay_schemas::nb::LogicalSwitch;
use uuid::Uuid;

use crate::proxy::{Direction, Proxy};
use crate::{add, config, connect, names, once, schema_file, soon};

/// A server, and a client behind a proxy that cuts connections.
struct Bed {
    server: RealServer,
    proxy: Proxy,
    client: Client,
    _dir: ScratchDir,
}

impl Bed {
    async fn new() -> Self {
        let dir = ScratchDir::new();
        let server = RealServer::start([schema_file(&dir)]);
        let proxy = Proxy::start(server.socket());
        let mut config = config(&proxy.remote());
        // Short delays, because there are hundreds of short connections.
        config.backoff = (Duration::from_millis(1), Duration::from_millis(4));
        let client = connect(config).await;
        Self { server, proxy, client, _dir: dir }
    }
}

#[tokio::test]
async fn a_transaction_is_executed_once_wherever_the_connection_breaks() {
    let Bed { server, proxy, client, .. } = Bed::new().await;
    let mut added = Vec::new();
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (mut made, mut repeated) = (0, 0);
        for offset in 0.. {
            let before = proxy.cuts();
            proxy.cut_after(direction, offset);
            let name = format!("{direction:?} {offset:04}");
            let tries = add(&client, &name).await;
            added.push(name);
            if proxy.cuts() == before {
                // The limit is beyond the last byte.
                proxy.remove_limits();
                break;
            }
            match tries {
                1 => made += 1,
                _ => repeated += 1,
            }
        }
        // A truncated request is repeated; before a truncated reply the transaction was executed.
        match direction {
            Direction::ToServer => assert!(made == 0 && repeated > 300, "{made} {repeated}"),
            Direction::ToClient => assert!(made > 100 && repeated == 0, "{made} {repeated}"),
        }
        assert_eq!(names(&client), once(added.clone()));
    }
    let fresh = connect(config(&server.remote())).await;
    assert_eq!(names(&fresh), once(added));
}

/// Number of rows whose request is encoded while it is sent, in two parts.
const LARGE_TRANSACTION_ROWS: usize = 1_100;

#[tokio::test]
async fn a_truncated_large_request_is_executed_once() {
    let Bed { server, proxy, client, .. } = Bed::new().await;
    let mut params = Vec::new();
    many(&client, "").write_params(&mut params);
    assert!(params.len() > 150_000, "{} bytes", params.len());
    let len = i64::try_from(params.len()).unwrap();
    let mut added = Vec::new();
    let mut repeated = 0;
    // The end is somewhat behind that of the bare request, and a short one follows it.
    let places = [0, 30, 131_000, 131_200].into_iter().chain((len..).step_by(61));
    for offset in places {
        let before = proxy.cuts();
        proxy.cut_after(Direction::ToServer, offset);
        let (long, short) = (format!("{offset}"), format!("{offset} short"));
        let (tries, _) = tokio::join!(add_many(&client, &long), add(&client, &short));
        repeated += usize::from(tries > 1);
        added.extend((0..LARGE_TRANSACTION_ROWS).map(|i| name(&long, i)));
        added.push(short);
        if proxy.cuts() == before {
            proxy.remove_limits();
            break;
        }
    }
    assert!(repeated >= 5, "{repeated}");
    let fresh = connect(config(&server.remote())).await;
    assert_eq!(names(&fresh), once(added));
}

fn name(name: &str, number: usize) -> String {
    format!("{name:0>60} {number}")
}

fn many(client: &Client, of: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    for number in 0..LARGE_TRANSACTION_ROWS {
        let name = name(of, number);
        let switch = LogicalSwitch { name, ..LogicalSwitch::default() };
        // Its length must not depend on the guard, which makes the client choose UUIDs.
        txn.insert_as(Uuid::new_v4(), &switch).unwrap();
    }
    txn.finish()
}

/// Adds many switches in one transaction, and repeats it while it is certain that nothing was
/// committed. Returns the number of attempts.
async fn add_many(client: &Client, name: &str) -> usize {
    for tries in 1.. {
        match soon(client.transact(many(client, name))).await {
            CommitOutcome::Committed(_) => return tries,
            CommitOutcome::NotSent(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            other => panic!("{name}: {other:?}"),
        }
    }
    unreachable!()
}
