//! An API server, or something in front of it, that takes requests and does not do what it should.

use std::time::{Duration, Instant};

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::apiserver::{ApiServer, Fault, Reply};
use crate::bed::{Bed, CONNECT, eventually};

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
    // The first one is tried again, and the others follow.
    eventually("both connects have their events", async || {
        let events = Api::<Event>::all(bed.client.clone());
        let events = events.list(&ListParams::default()).await.unwrap();
        let told: Vec<Option<String>> = events
            .items
            .into_iter()
            .map(|event| event.regarding?.name)
            .collect();
        let is_told = |connect: &str| told.contains(&Some(connect.to_owned()));
        (is_told(CONNECT) && is_told("other")).then_some(())
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

#[tokio::test]
async fn a_leader_whose_renewal_is_done_but_not_answered_goes_on() {
    let bed = Bed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let renewals = |code: u16| {
        let requests = bed.api().requests();
        let leases = requests.iter().filter(|one| one.path.contains("/leases/"));
        leases
            .filter(|one| one.method == "PUT" && one.status == code)
            .count()
    };
    let before = renewals(200);
    bed.api().fail(Fault {
        times: 2,
        ..fault("PUT", "/leases/", Reply::Done(504))
    });
    eventually("it is renewed again", async || {
        (renewals(504) == 2 && renewals(200) > before).then_some(())
    })
    .await;
    assert_eq!(renewals(409), 0);
    // Who begins to lead lists connects once more.
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    let (lists, _) = lists_and_watches(bed.api(), "/clusternetworkconnects");
    assert_eq!(lists, 2);
    cluster.stop().await;
}

#[tokio::test]
async fn events_are_told_once_whatever_is_answered() {
    let bed = Bed::simulated().await;
    bed.api()
        .fail(fault("POST", "/events", Reply::Status(503, None)));
    bed.api().fail(fault("POST", "/events", Reply::Done(504)));
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let codes = async || {
        let requests = bed.api().requests();
        let events = requests.iter().filter(|one| one.path.contains("/events"));
        let codes: Vec<u16> = events.map(|one| one.status).collect();
        (codes.len() >= 3).then_some(codes)
    };
    let codes = eventually("it is told", codes).await;
    assert_eq!(codes[..3], [503, 504, 409]);
    assert_eq!(bed.events().await.len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn throttling_in_plain_text_is_waited_out() {
    let bed = Bed::simulated().await;
    let path = "/clusternetworkconnects";
    for (method, path) in [("LIST", NADS), ("PATCH", path)] {
        bed.api().fail(fault(method, path, Reply::Text(429, 2)));
    }
    let begun = Instant::now();
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    // One after the other: nothing is written before everything is listed.
    assert!(begun.elapsed() >= Duration::from_secs(4));
    cluster.stop().await;
}
