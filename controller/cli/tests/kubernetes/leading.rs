//! One of several works.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apiserver::{Fault, Reply};
use crate::bed::{Bed, CONNECT, eventually, subnets};

async fn holder(bed: &Bed) -> Option<String> {
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "default");
    let lease = leases.get_opt("patchbay-cluster").await.unwrap()?;
    lease.spec?.holder_identity
}

async fn until_held_by(bed: &Bed, identity: &str) {
    let what = format!("{identity} leads");
    eventually(&what, async || {
        (holder(bed).await? == identity).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_takes_over_at_once_when_the_leader_stops() {
    let bed = Bed::new().await;
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    let two = bed.run_cluster("two");
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    assert_eq!(holder(&bed).await.as_deref(), Some("one"));

    one.stop().await;
    until_held_by(&bed, "two").await;
    bed.label_nad("green", &serde_json::json!({"app": null}))
        .await;
    let after = bed.until_allocated(1).await;
    assert_eq!(
        after.annotations()["k8s.ovn.org/connect-router-tunnel-key"],
        before.annotations()["k8s.ovn.org/connect-router-tunnel-key"]
    );
    two.stop().await;
    assert_eq!(holder(&bed).await, None);
    bed.clear().await;
}

#[tokio::test]
async fn another_takes_over_when_the_leader_is_silent_for_long() {
    let bed = Bed::new().await;
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    let two = bed.run_cluster("two");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(
        holder(&bed).await.as_deref(),
        Some("one"),
        "a leader that renews keeps the lease"
    );
    one.kill().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        holder(&bed).await.as_deref(),
        Some("one"),
        "a killed one says nothing"
    );
    until_held_by(&bed, "two").await;
    bed.connect().await;
    bed.until_allocated(2).await;
    two.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn who_cannot_renew_stops_and_goes_on_later() {
    let bed = Bed::simulated().await;
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    // More than a second, at ten attempts in a second.
    let fault = Fault {
        method: "PUT",
        path: "/leases/",
        reply: Reply::Status(500, None),
        times: 12,
    };
    bed.api().fail(fault);
    tokio::time::sleep(Duration::from_millis(900)).await;
    bed.connect().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let untouched = bed.connected().await;
    assert!(untouched.status.is_none(), "{:?}", untouched.annotations());
    bed.until_allocated(2).await;
    one.stop().await;
}

#[tokio::test]
async fn what_was_decided_from_an_old_version_is_not_written() {
    let mut bed = Bed::simulated().await;
    bed.idle = Duration::from_secs(5);
    bed.connect().await;
    // Nothing is seen but the list, until the watch is begun anew.
    bed.api().fail(Fault {
        method: "WATCH",
        path: "/clusternetworkconnects",
        reply: Reply::Silence,
        times: 1,
    });
    let one = bed.run_cluster("one");
    bed.until_allocated(2).await;
    let writes = |code: u16| {
        let requests = bed.api().requests();
        let ours = requests.iter().filter(|one| !one.user.is_empty());
        ours.filter(|one| one.writes_connect() && one.status == code)
            .count()
    };
    // Its own writes are no conflicts.
    assert_eq!(writes(409), 0);
    let changed = json!({"metadata": {"annotations": {"somebody": "else"}}});
    bed.connects()
        .patch(CONNECT, &PatchParams::default(), &Patch::Merge(changed))
        .await
        .unwrap();
    bed.label_nad("green", &json!({"app": null})).await;
    eventually("it is refused", async || (writes(409) > 0).then_some(())).await;
    assert_eq!(subnets(&bed.connected().await).len(), 2);
    bed.until_allocated(1).await;
    one.stop().await;
}
