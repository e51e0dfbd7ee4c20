//! API servers or proxies that accept requests and do not respond as they should.

use std::time::{Duration, Instant};

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::apiserver::{ApiServer, Fault, Reply};
use crate::testbed::{CONNECT, Testbed, eventually};

const NADS: &str = "/network-attachment-definitions";

fn fault(method: &'static str, path: &'static str, reply: Reply) -> Fault {
    Fault { method, path, reply, times: 1 }
}

/// Number of lists and watches of a kind that the controller has requested.
fn lists_and_watches(api: &ApiServer, path: &str) -> (usize, usize) {
    let requests = api.requests();
    let own = requests.iter().filter(|one| !one.user.is_empty());
    let reads = own.filter(|one| one.method == "GET" && one.path.ends_with(path));
    let (watches, lists): (Vec<_>, Vec<_>) = reads.partition(|one| one.watches);
    (lists.len(), watches.len())
}

#[tokio::test]
async fn lists_and_watches_without_a_response_are_retried() {
    for method in ["LIST", "WATCH"] {
        let mut bed = Testbed::simulated().await;
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
async fn a_silent_watch_is_opened_again() {
    let mut bed = Testbed::simulated().await;
    bed.idle = Duration::from_millis(300);
    bed.api().fail(fault("WATCH", NADS, Reply::Silence));
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    // The new watch continues where the old one ended, after a look at the present version.
    let (lists, watches) = lists_and_watches(bed.api(), NADS);
    assert!(lists == 2 && watches >= 2, "{lists} and {watches}");
    cluster.stop().await;
}

#[tokio::test]
async fn the_objects_of_a_watch_that_stays_silent_are_listed_again() {
    let mut bed = Testbed::simulated().await;
    bed.idle = Duration::from_millis(300);
    bed.api().fail(Fault { times: usize::MAX, ..fault("WATCH", NADS, Reply::Silence) });
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_event_without_a_response_does_not_block_others() {
    let mut bed = Testbed::simulated().await;
    bed.request = Duration::from_millis(200);
    bed.api().fail(fault("POST", "/events", Reply::Never));
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let mut other = crate::testbed::connect();
    other.metadata.name = Some("other".to_owned());
    "192.170.0.0/16".clone_into(&mut other.spec.connect_subnets[0].cidr);
    bed.create(&other).await;
    // The first event is retried, and the others follow.
    eventually("both connects have their events", async || {
        let events =
            Api::<Event>::all(bed.client.clone()).list(&ListParams::default()).await.unwrap();
        let names: Vec<Option<String>> =
            events.items.into_iter().map(|event| event.regarding?.name).collect();
        let has_event = |connect: &str| names.contains(&Some(connect.to_owned()));
        (has_event(CONNECT) && has_event("other")).then_some(())
    })
    .await;
    cluster.stop().await;
}

#[tokio::test]
async fn watches_that_end_at_once_are_delayed() {
    let bed = Testbed::simulated().await;
    bed.api().fail(Fault { times: usize::MAX, ..fault("WATCH", NADS, Reply::Empty) });
    let begun = Instant::now();
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let (lists, watches) = eventually("there are some watches", async || {
        let (lists, watches) = lists_and_watches(bed.api(), NADS);
        (watches >= 3).then_some((lists, watches))
    })
    .await;
    // The delays between them are at least 0.8 s. Each follows a look at the present version.
    let most = 1 + (begun.elapsed().as_secs_f64() / 0.8) as usize;
    assert!(lists <= 1 + watches && watches <= most, "{lists} and {watches}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_leader_survives_renewals_without_a_response() {
    let bed = Testbed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let renewals = |code: u16| {
        let requests = bed.api().requests();
        let leases = requests.iter().filter(|one| one.path.contains("/leases/"));
        leases.filter(|one| one.method == "PUT" && one.status == code).count()
    };
    let lists = || lists_and_watches(bed.api(), "/clusternetworkconnects").0;
    let (before, listed) = (renewals(200), lists());
    bed.api().fail(Fault { times: 2, ..fault("PUT", "/leases/", Reply::Done(504)) });
    eventually("it is renewed again", async || {
        (renewals(504) == 2 && renewals(200) > before).then_some(())
    })
    .await;
    assert_eq!(renewals(409), 0);
    // A new leader would list the objects once more.
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    assert_eq!(lists(), listed);
    cluster.stop().await;
}

#[tokio::test]
async fn an_event_is_created_once_whatever_the_response() {
    let bed = Testbed::simulated().await;
    bed.api().fail(fault("POST", "/events", Reply::Status(503, None)));
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
    let codes = eventually("the event is created", codes).await;
    assert_eq!(codes[..3], [503, 504, 409]);
    assert_eq!(bed.events().await.len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn throttling_in_plain_text_is_waited_out() {
    let bed = Testbed::simulated().await;
    let path = "/clusternetworkconnects";
    for (method, path) in [("LIST", NADS), ("PATCH", path)] {
        bed.api().fail(fault(method, path, Reply::Text(429, 2)));
    }
    let begun = Instant::now();
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    // The two delays add up, because nothing is written before everything is listed.
    assert!(begun.elapsed() >= Duration::from_secs(4));
    cluster.stop().await;
}

#[tokio::test]
async fn watches_resume_together_whatever_one_was_asked_to_wait() {
    let bed = Testbed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let namespaces = "/namespaces";
    for method in ["LIST", "WATCH"] {
        let path = "/namespaces$";
        bed.api().fail(fault(method, path, Reply::Text(503, 240)));
        bed.api().fail(Fault { times: 2, ..fault(method, NADS, Reply::Status(503, None)) });
    }
    let watches = || lists_and_watches(bed.api(), namespaces).1;
    let begun = Instant::now();
    let before = watches();
    bed.api().drop_watches();
    eventually("namespaces are watched again", async || (watches() > before).then_some(())).await;
    assert!(begun.elapsed() < Duration::from_secs(100));
    cluster.stop().await;
}
