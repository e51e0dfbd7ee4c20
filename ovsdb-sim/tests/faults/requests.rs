//! Requests that are refused, and requests that the server does not read.

use std::num::NonZeroU32;
use std::time::Duration;

use ovsdb_sim::{Fault, FaultRule};
use patchbay_engine::client::{Client, CommitOutcome};
use patchbay_schemas::error::OvsdbError;
use tokio::time::timeout;

use crate::{Bed, config, connect, soon, switches};

#[tokio::test(start_paused = true)]
async fn refused_transactions_are_rejected_with_the_servers_error() {
    let bed = Bed::new().await;
    let error = OvsdbError::new("overloaded", "come back later");
    let fault = Fault::Refuse { method: Some("transact".to_owned()), error: error.clone() };
    bed.sim.set_fault(FaultRule::from(fault).times(NonZeroU32::new(2).unwrap())).unwrap();
    for name in ["a", "b"] {
        let CommitOutcome::Rejected(rejected) = bed.add(name).await else {
            panic!("it was refused")
        };
        assert_eq!((rejected.operation, rejected.error), (None, error.clone()));
    }
    assert!(matches!(bed.add("c").await, CommitOutcome::Committed(_)));
    bed.assert_switches(&["c"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_changes_nothing() {
    let bed = Bed::new().await;
    let mut changes = bed.client.changes();
    let error = OvsdbError::new("I/O error", "No space left on device");
    bed.sim.set_fault(FaultRule::from(Fault::FailCommit(error.clone())).once()).unwrap();
    let CommitOutcome::Rejected(rejected) = bed.add("a").await else { panic!("it failed") };
    assert_eq!(rejected.error, error);
    assert_eq!(bed.database.snapshot().row_count(), 0);
    assert!(matches!(bed.add("b").await, CommitOutcome::Committed(_)));
    let seen = soon(changes.next()).await.unwrap();
    assert_eq!(switches(&seen).into_keys().collect::<Vec<_>>(), ["b"]);
    bed.assert_switches(&["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_falls_back_to_older_monitor_methods() {
    let bed = Bed::new().await;
    assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));
    for method in ["monitor_cond_since", "monitor_cond"] {
        let error = OvsdbError {
            tag: "unknown method".into(),
            details: None,
            syntax: None,
            io_error: None,
        };
        let fault = Fault::Refuse { method: Some(method.to_owned()), error };
        bed.sim.set_fault(fault).unwrap();
        let client = connect(bed.sim.connector()).await;
        let mut changes = client.changes();
        let before = switches(&client.snapshot()).len();
        assert!(matches!(bed.add(method).await, CommitOutcome::Committed(_)));
        let after = switches(&soon(changes.next()).await.unwrap());
        assert_eq!(after.len(), before + 1);
    }
    let faults = bed.sim.faults();
    assert!(faults.iter().all(|fault| fault.struck > 0), "{faults:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_reports_the_error_of_a_server_that_refuses_everything() {
    let bed = Bed::new().await;
    let error = OvsdbError::new("maintenance", "until noon");
    bed.sim.set_fault(Fault::Refuse { method: None, error }).unwrap();
    let refused = Client::connect(config(bed.sim.connector())).await.unwrap_err();
    assert!(refused.to_string().contains("maintenance: until noon"), "{refused}");
}

/// The server stops reading with a request of the former connection in its buffers, and executes it
/// long after the client has another connection.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_a_hanging_server_executes_later_is_neither_lost_nor_repeated() {
    let bed = Bed::new().await;
    let rule = FaultRule::from(Fault::StopReading).on_connection(bed.connection());
    let hang = bed.sim.set_fault(rule).unwrap();
    let outcome = soon(bed.begin_to_add("a")).await.unwrap();
    let CommitOutcome::Unknown(lost) = outcome else { panic!("{outcome:?}") };
    bed.until_live(true).await;
    assert_eq!(switches(&bed.client.snapshot()).len(), 0);
    let resynced = timeout(Duration::from_secs(3600), bed.client.wait_for_resync(&lost)).await;
    assert!(resynced.is_err(), "the server may still make the change");
    assert!(bed.sim.clear_fault(hang));
    let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
    assert_eq!(switches(&now).get("a"), Some(&1));
    bed.assert_switches(&["a"]).await;
}
