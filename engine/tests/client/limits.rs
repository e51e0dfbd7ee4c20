//! Extreme values of the configuration.

use std::time::Duration;

use patchbay_engine::client::{Client, Config, Connector, Pipelining};
use tokio::net::UnixStream;

use crate::peer::{FakeServer, one_switch};
use crate::{impatient, soon};

/// Connects with an edited configuration.
async fn connect(with: impl FnOnce(&mut Config)) {
    let server = FakeServer::start();
    let mut config = impatient(Config::new(server.remote().parse().unwrap(), "D"));
    with(&mut config);
    let client = tokio::spawn(Client::connect(config));
    let _peer = server.accept_live(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    assert_eq!(client.snapshot().row_count(), 1);
}

#[tokio::test]
async fn coalescing_limits_may_be_extreme() {
    for transactions in [0, usize::MAX] {
        let bytes = transactions;
        let together = Pipelining::Coalesced { transactions, bytes };
        connect(|config| config.pipelining = together).await;
    }
}

#[tokio::test]
async fn a_probe_interval_of_zero_disables_probes() {
    let server = FakeServer::start();
    connect(|config| config.unix_probe_interval = Some(Duration::ZERO)).await;
    // Servers on other streams are not probed either.
    let path = server.socket().to_owned();
    let connector = Connector::new("stream", move || UnixStream::connect(path.clone()));
    let mut config = impatient(Config::new(connector.into(), "D"));
    config.probe_interval = Some(Duration::ZERO);
    let connecting = tokio::spawn(Client::connect(config));
    let mut peer = server.accept_live(&one_switch("a")).await;
    let _client = soon(connecting).await.unwrap().unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(100), peer.next_text()).await;
    assert!(asked.is_err(), "{asked:?}");
}
