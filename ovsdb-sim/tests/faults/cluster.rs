//! Members of a cluster that lose their leadership or their history.

use ovsdb_sim::{Fault, FaultRule, Loss, Role};
use patchbay_engine::client::{
    Client, CommitOutcome, ConnectionEvent, ConnectionEvents, Remotes, ResyncKind,
};
use patchbay_schemas::nb::LogicalSwitch;

use crate::{Bed, clustered, config, connect, soon, switches};

/// Waits for the next resynchronization of the client's replica.
async fn next_resync(events: &mut ConnectionEvents) -> (ResyncKind, usize) {
    loop {
        if let ConnectionEvent::Resynced { kind, rows } = soon(events.next()).await.unwrap() {
            return (kind, rows);
        }
    }
}

/// Adds a switch, as another member of the cluster would.
fn add_elsewhere(bed: &Bed, name: &str) {
    let mut txn = bed.database.txn();
    let row = LogicalSwitch { name: name.to_owned(), ..Default::default() };
    txn.insert(&row).unwrap();
    bed.database.transact(&txn.finish()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_leaves_a_former_leader_for_the_new_one() {
    let (old, new) = (clustered(), clustered());
    new.database("OVN_Northbound").unwrap().set_role(Role::Follower).unwrap();
    let remotes = Remotes::from(old.connector()).or(new.connector());
    let bed = Bed::of(old.clone(), connect(remotes).await);
    assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));
    assert_eq!((old.connections().len(), new.connections().len()), (1, 0));

    let mut events = bed.client.connection_events().unwrap();
    new.database("OVN_Northbound").unwrap().set_role(Role::Leader).unwrap();
    bed.database.set_role(Role::Follower).unwrap();
    next_resync(&mut events).await;
    bed.until_live(true).await;
    assert_eq!((old.connections().len(), new.connections().len()), (0, 1));
    // They are not a real cluster: the other one does not have the first one's rows.
    assert!(matches!(bed.add("b").await, CommitOutcome::Committed(_)));
    let now = switches(&new.database("OVN_Northbound").unwrap().snapshot());
    assert_eq!(now.into_keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(switches(&bed.database.snapshot()).into_keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_there_is_no_server_to_connect_to() {
    let sim = clustered();
    let database = sim.database("OVN_Northbound").unwrap();
    for role in [Role::Follower, Role::Disconnected] {
        database.set_role(role).unwrap();
        let refused = soon(Client::connect(config(sim.connector()))).await;
        assert!(refused.is_err(), "{role:?}");
    }
    let mut any = config(sim.connector());
    any.leader_only = false;
    database.set_role(Role::Follower).unwrap();
    let bed = Bed::of(sim.clone(), soon(Client::connect(any)).await.unwrap());
    assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));
}

#[tokio::test(start_paused = true)]
async fn a_returning_client_gets_missed_transactions_or_the_full_content() {
    let sim = clustered();
    let bed = Bed::of(sim.clone(), connect(sim.connector()).await);
    for name in ["a", "b", "c"] {
        assert!(matches!(bed.add(name).await, CommitOutcome::Committed(_)));
    }
    let mut events = bed.client.connection_events().unwrap();
    bed.sim.go_down().await;
    bed.until_live(false).await;
    add_elsewhere(&bed, "d");
    bed.sim.come_back().await.unwrap();
    assert_eq!(next_resync(&mut events).await, (ResyncKind::Continued, 1));

    bed.sim.go_down().await;
    bed.until_live(false).await;
    add_elsewhere(&bed, "e");
    bed.sim.new_server_id();
    bed.database.truncate_history().unwrap();
    bed.sim.come_back().await.unwrap();
    assert_eq!(next_resync(&mut events).await, (ResyncKind::Full, 1));
    bed.assert_switches(&["a", "b", "c", "d", "e"]).await;

    // A lost reply, and a truncated history when the client returns.
    bed.sim.set_fault(FaultRule::from(Fault::LoseReply(Loss::Crashed)).once()).unwrap();
    let outcome = bed.add("f").await;
    let CommitOutcome::Unknown(lost) = outcome else { panic!("{outcome:?}") };
    bed.database.truncate_history().unwrap();
    let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
    assert_eq!(switches(&now).get("f"), Some(&1));
    bed.assert_switches(&["a", "b", "c", "d", "e", "f"]).await;
}
