//! Connections that end: at once, and after each byte.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use ovsdb_sim::{Connections, Fault, FaultRule};
use patchbay_engine::client::{Client, CommitOutcome};

use crate::{Bed, config, connect, soon, switch, switches};

#[tokio::test(start_paused = true)]
async fn a_client_connects_again_after_a_drop() {
    let bed = Bed::new().await;
    let first = bed.connection();
    let mut changes = bed.client.changes();
    bed.sim.set_fault(FaultRule::from(Fault::Drop).once()).unwrap();
    bed.until_live(false).await;
    bed.until_live(true).await;
    assert!(bed.connection() > first);
    assert_eq!(bed.sim.faults(), [], "it has struck");
    let outcome = bed.add("sw0").await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    soon(changes.next()).await.unwrap();
    bed.assert_switches(&["sw0"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_connects_again_after_drops_at_the_beginning() {
    let bed = Bed::new().await;
    let (first, times) = (bed.connection(), NonZeroU32::new(4).unwrap());
    bed.sim.set_fault(FaultRule::from(Fault::Drop).times(times)).unwrap();
    bed.until_live(false).await;
    bed.until_live(true).await;
    let made = [bed.connection(), first].map(|id| id.to_string().parse::<u64>().unwrap());
    assert_eq!(made[0] - made[1], 4, "this one, three attempts, and the good one");
}

#[tokio::test(start_paused = true)]
async fn only_the_next_connection_or_only_one_is_dropped() {
    let bed = Bed::new().await;
    let first = bed.connection();
    let rule = FaultRule::from(Fault::Drop).on_next_connection().once();
    let id = bed.sim.set_fault(rule).unwrap();
    assert_eq!(bed.sim.faults()[0].rule.connections, Connections::Next);
    assert!(bed.client.is_live());
    // The fault affects its first attempt.
    let refused = Client::connect(config(bed.sim.connector())).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(!bed.sim.clear_fault(id), "it has struck");

    let other = connect(bed.sim.connector()).await;
    bed.sim.set_fault(FaultRule::from(Fault::Drop).on_connection(first)).unwrap();
    bed.until_live(false).await;
    assert!(other.is_live());
    bed.until_live(true).await;
    assert_eq!(bed.sim.faults(), [], "a fault of one connection goes with it");
    let gone = bed.sim.set_fault(FaultRule::from(Fault::Drop).on_connection(first));
    assert_eq!(gone.unwrap_err().to_string(), format!("there is no connection {first}"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_end_after_any_byte_of_a_request() {
    let bed = Bed::new().await;
    let mut expected = BTreeMap::new();
    let (mut unknown, mut bytes) = (0, 0);
    loop {
        let name = format!("sw{bytes}");
        let rule =
            FaultRule::from(Fault::DropAfterReceived { bytes }).on_connection(bed.connection());
        bed.sim.set_fault(rule.once()).unwrap();
        match bed.add(&name).await {
            CommitOutcome::Committed(_) => {
                expected.insert(name, 1);
                break;
            }
            CommitOutcome::Unknown(lost) => {
                unknown += 1;
                let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
                assert_eq!(switches(&now), expected, "half a request changes nothing");
            }
            other => panic!("{bytes}: {other:?}"),
        }
        bytes += 1;
    }
    assert!(unknown > 100, "{unknown}");
    assert_eq!(switches(&bed.database.snapshot()), expected);
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_end_after_any_byte_of_an_update_and_a_reply() {
    let bed = Bed::new().await;
    let mut expected = BTreeMap::new();
    for bytes in 0.. {
        let name = format!("sw{bytes}");
        let rule = FaultRule::from(Fault::DropAfterSent { bytes }).on_connection(bed.connection());
        bed.sim.set_fault(rule.once()).unwrap();
        let outcome = bed.add(&name).await;
        expected.insert(name, 1);
        match outcome {
            CommitOutcome::Committed(_) => break,
            CommitOutcome::Unknown(lost) => {
                let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
                assert_eq!(switches(&now), expected, "what is committed stays");
            }
            other => panic!("{bytes}: {other:?}"),
        }
    }
    assert!(expected.len() > 100, "{}", expected.len());
    assert_eq!(switches(&bed.database.snapshot()), expected);
}

/// Repeats a transaction without a reply if, and only if, it was not committed.
#[tokio::test(start_paused = true)]
async fn no_transaction_is_lost_or_executed_twice_on_connections_that_keep_ending() {
    let bed = Bed::new().await;
    // Enough bytes to connect and begin, too few for many transactions.
    bed.sim.set_fault(Fault::DropAfterReceived { bytes: 1531 }).unwrap();
    bed.sim.set_fault(Fault::DropAfterSent { bytes: 40_007 }).unwrap();
    let names: Vec<String> = (0..100).map(|i| format!("sw{i}")).collect();
    let mut unknown = 0;
    for name in &names {
        loop {
            bed.until_live(true).await;
            match soon(bed.client.transact(switch(&bed.client, name))).await {
                CommitOutcome::Committed(_) => break,
                CommitOutcome::Unknown(lost) => {
                    unknown += 1;
                    let now = soon(bed.client.wait_for_resync(&lost)).await.unwrap();
                    if switches(&now).contains_key(name) {
                        break;
                    }
                }
                CommitOutcome::NotSent(_) => {}
                CommitOutcome::Rejected(error) => panic!("{error}"),
            }
        }
    }
    assert!(unknown > 10, "{unknown}");
    bed.sim.clear_faults();
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    bed.assert_switches(&sorted).await;
}
