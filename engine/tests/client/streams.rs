//! The client on streams that buffer or delay sent bytes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use patchbay_engine::client::{Client, CommitOutcome, Config, Connector};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::LogicalSwitch;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, copy, duplex, split};
use tokio::net::UnixStream;

use crate::peer::{FakeServer, ROW, one_switch};
use crate::{impatient, soon};

/// A transaction that adds a switch whose name has this length.
fn long_transaction(client: &Client, len: usize) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let name = "x".repeat(len);
    let switch = LogicalSwitch { name, ..Default::default() };
    txn.insert(&switch).unwrap();
    txn.finish()
}

/// TLS streams buffer when their socket is full.
#[tokio::test]
async fn a_buffering_stream_is_flushed() {
    let server = FakeServer::start();
    let path = server.socket().to_owned();
    let connector = Connector::new("buffering", move || {
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
        peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}]"#)).await;
        let outcome = soon(outcome).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{len}");
    }
}

/// A stream to a socket that sends 16 KiB at a time, at intervals of 5 ms.
async fn slow(path: PathBuf) -> std::io::Result<DuplexStream> {
    let (client_end, server_end) = duplex(16 << 10);
    let (mut from_client, mut to_client) = split(server_end);
    let (mut from_server, mut to_server) = UnixStream::connect(path).await?.into_split();
    tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    tokio::spawn(async move {
        let mut piece = vec![0; 16 << 10];
        while let Ok(len @ 1..) = from_client.read(&mut piece).await {
            to_server.write_all(&piece[..len]).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        to_server.shutdown().await
    });
    Ok(client_end)
}

#[tokio::test]
async fn sending_a_request_may_take_longer_than_the_probe_interval() {
    let server = FakeServer::start();
    let path = server.socket().to_owned();
    let connector = Connector::new("slow", move || slow(path.clone()));
    let mut config = impatient(Config::new(connector.into(), "D"));
    let interval = Duration::from_millis(500);
    config.probe_interval = Some(interval);
    let client = tokio::spawn(Client::connect(config));
    let mut peer = server.accept_live(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    let transaction = long_transaction(&client, 8_000_000);
    let start = Instant::now();
    let outcome = tokio::spawn(async move { client.transact(transaction).await });
    assert_eq!(peer.request().await, "transact");
    assert!(start.elapsed() > 4 * interval, "{:?}", start.elapsed());
    peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}]"#)).await;
    let outcome = soon(outcome).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
}
