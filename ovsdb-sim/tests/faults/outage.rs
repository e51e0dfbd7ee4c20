//! Outages of the whole server.

use std::path::Path;

use ovsdb_sim::{Listener, Sim};
use patchbay_engine::client::{Client, CommitOutcome, Remotes};
use patchbay_engine::txn::TxnBuilder;
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::nb::LogicalSwitch;

use crate::{Bed, config, connect, sim, soon};

/// Opens a unix socket and a TCP port.
async fn listen(sim: &Sim, socket: &Path) -> [Listener; 2] {
    let unix = sim.listen(&format!("punix:{}", socket.display())).await;
    let tcp = sim.listen("ptcp:0:127.0.0.1").await;
    [unix.unwrap(), tcp.unwrap()]
}

#[tokio::test]
async fn a_server_that_comes_back_has_its_old_addresses() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let sim = sim();
    let [unix, tcp] = listen(&sim, &socket).await;
    for remote in [unix.remote(), tcp.remote()] {
        let client = connect(remote.parse::<Remotes>().unwrap()).await;
        let bed = Bed::of(sim.clone(), client);
        assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));
        sim.go_down().await;
        assert!(!socket.exists());
        assert_eq!(sim.connections(), []);
        bed.until_live(false).await;
        let refused = soon(Client::connect(config(remote.parse::<Remotes>().unwrap()))).await;
        assert!(refused.is_err(), "{refused:?}");
        let outcome = bed.add("b").await;
        assert!(matches!(outcome, CommitOutcome::NotSent(_)), "{outcome:?}");
        sim.come_back().await.unwrap();
        bed.until_live(true).await;
        let mut txn = TxnBuilder::new(&bed.client.snapshot());
        let snapshot = bed.client.snapshot();
        let rows = snapshot.typed::<LogicalSwitch>();
        for row in rows.iter() {
            txn.delete(row.unwrap().0).unwrap();
        }
        soon(bed.client.transact(txn.finish())).await.into_result().unwrap();
        bed.assert_switches(&[]).await;
    }
    drop((unix, tcp));
    assert!(!socket.exists());
}

#[tokio::test]
async fn coming_back_does_not_affect_a_server_that_is_up() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let sim = sim();
    let [unix, tcp] = listen(&sim, &socket).await;
    let mut beds = Vec::new();
    for _ in 0..2 {
        for remote in [unix.remote(), tcp.remote()] {
            let client = connect(remote.parse::<Remotes>().unwrap()).await;
            beds.push(Bed::of(sim.clone(), client));
        }
        sim.come_back().await.unwrap();
    }
    // No client had to connect again.
    assert_eq!(sim.connections().len(), beds.len());
    for (number, bed) in beds.iter().enumerate() {
        let outcome = bed.add(&number.to_string()).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)));
    }

    // A listener that was opened before another one failed stays open.
    sim.go_down().await;
    let in_the_way = std::net::TcpListener::bind(tcp.address().unwrap()).unwrap();
    let error = sim.come_back().await.unwrap_err().to_string();
    assert!(error.contains("Address already in use"), "{error}");
    drop(in_the_way);
    sim.come_back().await.unwrap();
    for remote in [unix.remote(), tcp.remote()] {
        connect(remote.parse::<Remotes>().unwrap()).await;
    }
}

#[tokio::test]
async fn a_listener_that_was_dropped_during_an_outage_stays_closed() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let sim = sim();
    let listener = sim.listen(&format!("punix:{}", socket.display())).await.unwrap();
    sim.go_down().await;
    drop(listener);
    sim.come_back().await.unwrap();
    assert!(!socket.exists());
}

#[tokio::test(start_paused = true)]
async fn in_process_connections_are_refused_during_an_outage() {
    let bed = Bed::new().await;
    bed.sim.go_down().await;
    bed.until_live(false).await;
    let refused = Client::connect(config(bed.sim.connector())).await.unwrap_err();
    assert!(refused.to_string().contains("refused"), "{refused}");
    bed.sim.come_back().await.unwrap();
    bed.until_live(true).await;
    assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));
    bed.assert_switches(&["a"]).await;
}
