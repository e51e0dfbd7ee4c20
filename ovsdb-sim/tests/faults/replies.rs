//! Replies that are late or lost.

use std::time::Duration;

use ovsdb_sim::{Fault, FaultRule, Loss};
use patchbay_engine::client::{Client, CommitOutcome};
use patchbay_engine::txn::TxnBuilder;
use tokio::time::Instant;

use crate::{Bed, config, sim, soon, switches};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_client_finds_out_that_a_transaction_with_a_lost_reply_was_committed() {
    let bed = Bed::new().await;
    for (loss, name) in [(Loss::Disconnected, "a"), (Loss::Crashed, "b")] {
        bed.sim.set_fault(FaultRule::from(Fault::LoseReply(loss)).once()).unwrap();
        let outcome = bed.add(name).await;
        let CommitOutcome::Unknown(lost) = outcome else { panic!("{loss:?}: {outcome:?}") };
        // The last update may be received before the end of the connection.
        let seen = switches(&bed.client.snapshot()).contains_key(name);
        assert_eq!(seen, loss == Loss::Disconnected);
        let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
        assert_eq!(switches(&now).get(name), Some(&1), "{loss:?}");
    }
    bed.assert_switches(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_with_a_swallowed_reply_is_pending_until_the_connection_ends() {
    let bed = Bed::new().await;
    let mut changes = bed.client.changes();
    let rule = FaultRule::from(Fault::LoseReply(Loss::Swallowed)).once();
    bed.sim.set_fault(rule).unwrap();
    let outcome = bed.begin_to_add("a");
    let seen = soon(changes.next()).await.unwrap();
    assert_eq!(switches(&seen).get("a"), Some(&1), "the monitor reports it");
    let next = bed.add("b").await;
    assert!(matches!(next, CommitOutcome::Committed(_)), "{next:?}");
    assert!(!outcome.is_finished());
    bed.sim.set_fault(FaultRule::from(Fault::Drop).once()).unwrap();
    let outcome = soon(outcome).await.unwrap();
    let CommitOutcome::Unknown(lost) = outcome else { panic!("{outcome:?}") };
    soon(bed.client.wait_for_resync(&lost)).await.unwrap();
    bed.assert_switches(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_changes_nothing_has_no_reply_to_lose() {
    let bed = Bed::new().await;
    assert!(matches!(bed.add("a").await, CommitOutcome::Committed(_)));
    bed.sim.set_fault(Fault::LoseReply(Loss::Crashed)).unwrap();
    let mut txn = TxnBuilder::new(&bed.client.snapshot());
    txn.comment("nothing");
    let outcome = soon(bed.client.transact(txn.finish())).await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    assert_eq!(bed.sim.faults()[0].struck, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_late_replies_which_stay_in_order() {
    let sim = sim();
    let mut config = config(sim.connector());
    config.probe_interval = None;
    let client = soon(Client::connect(config)).await.unwrap();
    let bed = Bed::of(sim, client);
    bed.sim.set_fault(Fault::DelayReplies { by: HOUR }).unwrap();
    let start = Instant::now();
    let outcomes = ["a", "b", "c"].map(|name| bed.begin_to_add(name));
    for outcome in outcomes {
        let outcome = outcome.await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
    let passed = start.elapsed();
    assert!(passed >= HOUR && passed < HOUR + Duration::from_secs(1), "not three: {passed:?}");
    bed.assert_switches(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_leaves_a_server_that_answers_too_late() {
    let bed = Bed::new().await;
    let rule = FaultRule::from(Fault::DelayReplies { by: HOUR }).on_connection(bed.connection());
    bed.sim.set_fault(rule).unwrap();
    let start = Instant::now();
    let outcome = bed.begin_to_add("a").await.unwrap();
    let CommitOutcome::Unknown(lost) = outcome else { panic!("{outcome:?}") };
    assert!(lost.to_string().contains("silent"), "{lost}");
    // Twice the probe interval.
    assert_eq!(start.elapsed().as_secs(), 10);
    let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
    assert_eq!(switches(&now).get("a"), Some(&1));
    bed.assert_switches(&["a"]).await;
}
