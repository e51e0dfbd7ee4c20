//! What is wrong and stays so: it is told once, and holds nobody else up.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use patchbay_controller::api::cnc::ClusterNetworkConnect;
use patchbay_controller::model::ConnectSubnetMap;
use serde_json::{Value, json};

use crate::apiserver::Fault;
use crate::bed::{Bed, CONNECT, accepted, condition, eventually};

/// Requests that fail from now on.
fn for_ever(method: &'static str, path: &'static str, code: u16) -> Fault {
    Fault {
        method,
        path,
        code,
        retry_after: None,
        times: usize::MAX,
    }
}

/// Another connect, in a range of its own.
async fn another(bed: &Bed, name: &str) {
    let mut other = crate::bed::connect();
    other.metadata.name = Some(name.to_owned());
    other.spec.connect_subnets[0].cidr = "192.170.0.0/16".to_owned();
    bed.create(&other).await;
}

/// Waits until a pass has accepted a connect, and so has looked at all of them.
async fn until_accepted(bed: &Bed, name: &str) {
    eventually("another one is accepted", async || {
        let (status, _) = accepted(&bed.connects().get(name).await.unwrap())?;
        (status == "True").then_some(())
    })
    .await;
}

/// Times in conditions have no fractions: what is written in the same second looks the same.
async fn another_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}

/// Connects whose specs our own types do not know.
fn raw(bed: &Bed) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ClusterNetworkConnect>(&());
    Api::all_with(bed.client.clone(), &resource)
}

async fn change_spec(bed: &Bed, spec: Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    raw(bed)
        .patch(CONNECT, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn status(bed: &Bed) -> (Option<String>, Value) {
    let object = raw(bed).get(CONNECT).await.unwrap();
    (object.resource_version(), object.data["status"].clone())
}

#[tokio::test]
async fn a_connect_that_cannot_be_written_holds_nobody_up() {
    let bed = Bed::simulated().await;
    let cluster = bed.run_cluster("one");
    let path = "/clusternetworkconnects/aaa$";
    bed.api().fail(for_ever("PATCH", path, 500));
    another(&bed, "aaa").await;
    let failed = |bed: &Bed| bed.api().requests().iter().any(|one| one.status == 500);
    eventually("its write fails", async || failed(&bed).then_some(())).await;
    bed.connect().await;
    bed.until_allocated(2).await;
    until_accepted(&bed, CONNECT).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_refusal_that_lasts_is_told_once() {
    let bed = Bed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let path = "/clusternetworkconnects/blue-green-connect$";
    bed.api().fail(for_ever("PATCH", path, 422));
    bed.label_nad("green", &json!({"app": null})).await;
    let told = eventually("the refusal is told", async || {
        let (status, _) = accepted(&bed.connected().await)?;
        (status == "False").then_some(())
    });
    told.await;
    let before = status(&bed).await;
    another_second().await;
    let refused = |bed: &Bed| {
        let requests = bed.api().requests();
        requests.iter().filter(|one| one.status == 422).count()
    };
    let so_far = refused(&bed);
    eventually("it is tried again and again", async || {
        (refused(&bed) >= so_far + 3).then_some(())
    })
    .await;
    assert_eq!(status(&bed).await, before);
    cluster.stop().await;
}

#[tokio::test]
async fn a_connect_that_nobody_understands_is_told_of_once() {
    let bed = Bed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    change_spec(&bed, json!({"connectivity": ["PodNetwork", "HostNetwork"]})).await;
    let told = eventually("it is told", async || {
        let (_, status) = status(&bed).await;
        (status["conditions"][0]["status"] == "False").then_some(())
    });
    told.await;
    let before = status(&bed).await;
    another_second().await;
    another(&bed, "other").await;
    until_accepted(&bed, "other").await;
    assert_eq!(status(&bed).await, before);

    // Nor does the next leader tell it anew.
    cluster.stop().await;
    let cluster = bed.run_cluster("two");
    another(&bed, "zzz").await;
    eventually("the last one is looked at", async || {
        accepted(&bed.connects().get("zzz").await.unwrap())
    })
    .await;
    assert_eq!(status(&bed).await, before);
    cluster.stop().await;
}

#[tokio::test]
async fn fields_of_a_later_version_of_the_definition_change_nothing() {
    let bed = Bed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    change_spec(&bed, json!({"description": "of a later version"})).await;
    bed.label_nad("green", &json!({"app": null})).await;
    let subnets = eventually("it follows", async || {
        let object = raw(&bed).get(CONNECT).await.unwrap();
        let text = &object.annotations()[ConnectSubnetMap::ANNOTATION];
        (!text.contains("layer3_2")).then(|| text.clone())
    });
    assert!(subnets.await.contains("layer3_1"));
    let (_, status) = status(&bed).await;
    assert_eq!(status["conditions"][0]["status"], "True");
    cluster.stop().await;
}

#[tokio::test]
async fn what_zones_report_stays_until_it_is_known_again() {
    let bed = Bed::simulated().await;
    let nodes = bed.inventory.nodes.iter().map(|(key, _)| key.name.clone());
    let mut zones = Vec::new();
    for node in nodes.collect::<Vec<_>>() {
        zones.push(bed.zone(&node).await);
    }
    let running: Vec<_> = zones.iter().map(|zone| bed.run_zone(zone)).collect();
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    eventually("it is connected", async || {
        let (status, _) = condition(&bed.connected().await, "Connected")?;
        (status == "True").then_some(())
    })
    .await;
    cluster.stop().await;
    for zone in running {
        zone.stop().await;
    }
    let before = status(&bed).await;

    bed.api().fail(for_ever("GET", "/configmaps", 500));
    let cluster = bed.run_cluster("two");
    another(&bed, "other").await;
    until_accepted(&bed, "other").await;
    assert_eq!(status(&bed).await, before);
    cluster.stop().await;
}
