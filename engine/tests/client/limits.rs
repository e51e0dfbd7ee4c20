//! Configurations at the ends of what can be written.

use patchbay_engine::client::{Client, Config, Pipelining};

use crate::peer::{FakeServer, one_switch};
use crate::{impatient, soon};

/// Connects with such a configuration.
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
async fn as_many_as_there_are_may_go_together() {
    for transactions in [0, usize::MAX] {
        let bytes = transactions;
        let together = Pipelining::Coalesced {
            transactions,
            bytes,
        };
        connect(|config| config.pipelining = together).await;
    }
}
