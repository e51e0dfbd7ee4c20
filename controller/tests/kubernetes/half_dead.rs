//! An API server, or something in front of it, that takes requests and does not do what it should.

use std::time::Duration;

use serde_json::json;

use crate::apiserver::{ApiServer, Fault, Reply};
use crate::bed::{Bed, eventually};

const NADS: &str = "/network-attachment-definitions";

fn fault(method: &'static str, path: &'static str, reply: Reply) -> Fault {
    Fault {
        method,
        path,
        reply,
        times: 1,
    }
}

/// How many lists and how many watches of a kind the controller has asked for.
fn lists_and_watches(api: &ApiServer, path: &str) -> (usize, usize) {
    let requests = api.requests();
    let ours = requests.iter().filter(|one| !one.user.is_empty());
    let reads = ours.filter(|one| one.method == "GET" && one.path.ends_with(path));
    let (watches, lists): (Vec<_>, Vec<_>) = reads.partition(|one| one.watches);
    (lists.len(), watches.len())
}

#[tokio::test]
async fn lists_and_watches_that_are_not_answered_are_asked_for_again() {
    for method in ["LIST", "WATCH"] {
        let mut bed = Bed::simulated().await;
        bed.request = Duration::from_millis(200);
        bed.api().fail(fault(method, NADS, Reply::Never));
        let cluster = bed.run_cluster("one");
        bed.connect().await;
        bed.until_allocated(2).await;
        bed.label_nad("green", &json!({"app": null})).await;
        bed.until_allocated(1).await;
        cluster.stop().await;
    }
}

#[tokio::test]
async fn a_watch_of_which_nothing_is_heard_is_begun_anew() {
    let mut bed = Bed::simulated().await;
    bed.idle = Duration::from_millis(300);
    bed.api().fail(fault("WATCH", NADS, Reply::Silence));
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    // From where it ended: what is known need not be asked for again.
    let (lists, watches) = lists_and_watches(bed.api(), NADS);
    assert!(lists == 1 && watches >= 2, "{lists} and {watches}");
    cluster.stop().await;
}

#[tokio::test]
async fn an_event_that_is_not_answered_does_not_keep_others_back() {
    let mut bed = Bed::simulated().await;
    bed.request = Duration::from_millis(200);
    bed.api().fail(fault("POST", "/events", Reply::Never));
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let mut other = crate::bed::connect();
    other.metadata.name = Some("other".to_owned());
    "192.170.0.0/16".clone_into(&mut other.spec.connect_subnets[0].cidr);
    bed.create(&other).await;
    eventually("the event of another connect is there", async || {
        let requests = bed.api().requests();
        let mut events = requests.iter().filter(|one| one.path.contains("/events"));
        events.any(|one| one.status == 201).then_some(())
    })
    .await;
    cluster.stop().await;
}

#[tokio::test]
async fn watches_that_end_at_once_are_not_asked_for_all_the_time() {
    let bed = Bed::simulated().await;
    bed.api().fail(Fault {
        times: usize::MAX,
        ..fault("WATCH", NADS, Reply::Empty)
    });
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The waits in between are 0.8 s and more.
    let (lists, watches) = lists_and_watches(bed.api(), NADS);
    assert!(lists == 1 && watches <= 5, "{lists} and {watches}");
    cluster.stop().await;
}
