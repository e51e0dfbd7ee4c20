//! The client on streams that take what is sent as it suits them.

use patchbay_engine::client::{Client, CommitOutcome, Config, Connector};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::LogicalSwitch;
use tokio::io::BufWriter;
use tokio::net::UnixStream;

use crate::peer::{FakeServer, ROW, one_switch};
use crate::{impatient, soon};

/// Adds a switch whose name is so long.
fn long_transaction(client: &Client, len: usize) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let name = "x".repeat(len);
    let switch = LogicalSwitch {
        name,
        ..Default::default()
    };
    txn.insert(&switch).unwrap();
    txn.finish()
}

/// As TLS does when its socket is full.
#[tokio::test]
async fn what_a_stream_keeps_back_is_flushed() {
    let server = FakeServer::start();
    let path = server.socket().to_owned();
    let connector = Connector::new("keeps back", move || {
        let path = path.clone();
        async move {
            let stream = UnixStream::connect(path).await?;
            Ok(BufWriter::with_capacity(64 << 10, stream))
        }
    });
    let mut config = impatient(Config::new(connector.into(), "D"));
    config.probe_interval = None;
    let client = tokio::spawn(Client::connect(config));
    let mut peer = server.accept_live(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    for len in [10, 50_000, 1_000_000] {
        let transaction = long_transaction(&client, len);
        let client = client.clone();
        let outcome = tokio::spawn(async move { client.transact(transaction).await });
        assert_eq!(peer.request().await, "transact", "{len}");
        peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}]"#))
            .await;
        let outcome = soon(outcome).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{len}");
    }
}
