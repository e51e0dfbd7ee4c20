//! Failures of the API server's requests, watches and history.

use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use patchbay_schemas::nb::LogicalRouter;
use serde_json::json;

use crate::apiserver::{Fault, Reply};
use crate::stored::ClusterNetworkConnect;
use crate::testbed::{CONNECT, Testbed, ZONE, accepted, eventually, subnets, tunnel_key};
use crate::zone_database::Zone;

fn patches(path: &'static str, code: u16, times: usize) -> Fault {
    Fault { method: "PATCH", path, reply: Reply::Status(code, None), times }
}

fn connect_routers(zone: &Zone) -> Vec<String> {
    let routers = zone.rows::<LogicalRouter>().into_iter().map(|router| router.name);
    routers.filter(|name| name.starts_with("connect_router_")).collect()
}

#[tokio::test]
async fn a_lost_watch_continues_where_it_ended() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    bed.api().drop_watches();
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    let lists = |bed: &Testbed| {
        let requests = bed.api().requests();
        requests
            .iter()
            .filter(|one| one.user == "patchbay-zone" && one.path.ends_with("/nodes"))
            .count()
    };
    // A list, a watch, a look at the present version, and a watch from where the first one ended.
    eventually("the watch goes on", async || (lists(&bed) == 4).then_some(())).await;
    bed.connects().delete(CONNECT, &DeleteParams::default()).await.unwrap();
    zone.until("the router is gone", |zone| connect_routers(zone).is_empty().then_some(())).await;
    cluster.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn changes_are_seen_although_history_was_forgotten() {
    for gone_at_start in [false, true] {
        let bed = Testbed::simulated().await;
        let zone = bed.zone(ZONE).await;
        let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
        bed.connect().await;
        bed.until_allocated(2).await;
        zone.until("it is connected", |zone| (!connect_routers(zone).is_empty()).then_some(()))
            .await;

        let mut other = crate::testbed::connect();
        other.metadata.name = Some("other".to_owned());
        other.spec.connect_subnets[0].cidr = "192.170.0.0/16".to_owned();
        bed.connects().delete(CONNECT, &DeleteParams::default()).await.unwrap();
        bed.create(&other).await;
        bed.api().forget_history(gone_at_start);

        zone.until("only the other is connected", |zone| {
            (connect_routers(zone) == ["connect_router_other"]).then_some(())
        })
        .await;
        cluster.stop().await;
        node.stop().await;
    }
}

#[tokio::test]
async fn conflicts_and_throttling_are_waited_out() {
    let bed = Testbed::simulated().await;
    let connects = "/clusternetworkconnects/";
    bed.api().fail(patches(connects, 409, 2));
    bed.api().fail(patches(connects, 500, 2));
    bed.api().fail(Fault { reply: Reply::Status(429, Some(1)), ..patches(connects, 429, 1) });
    bed.api().fail(patches("/status", 409, 2));
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let connect = bed.until_allocated(2).await;
    assert_eq!(tunnel_key(&connect), Some("16715779"));
    // Each write succeeds once; only failed ones are repeated.
    let codes: Vec<u16> = bed
        .api()
        .requests()
        .iter()
        .filter(|request| request.writes_connect())
        .map(|request| request.status)
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 3, "{codes:?}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_write_that_is_refused_or_fails_is_reported_in_the_status() {
    // A rejection, and a webhook that is down.
    for code in [403, 500] {
        let bed = Testbed::simulated().await;
        let cluster = bed.run_cluster("one");
        let path = "/clusternetworkconnects/blue-green-connect$";
        bed.api().fail(patches(path, code, usize::MAX));
        bed.connect().await;
        let message = eventually("the failure is reported", async || {
            let (status, message) = accepted(&bed.connected().await)?;
            (status == "False").then_some(message)
        })
        .await;
        let expected = "failed to update network connect router tunnel key annotation for CNC blue-green-connect: \
             as ordered by the test";
        assert!(message.starts_with(expected), "{message}");
        bed.api().end_faults();
        bed.until_allocated(2).await;
        eventually("there are events about both", async || {
            let events = bed.events().await;
            let has = |reason| events.iter().any(|one| one.0 == reason);
            (has("Refused") && has("Accepted")).then_some(())
        })
        .await;
        cluster.stop().await;
    }
}

#[tokio::test]
async fn a_connect_that_cannot_be_decoded_keeps_its_allocations_and_rows() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    zone.until("it is connected", |zone| (!connect_routers(zone).is_empty()).then_some(())).await;

    // A later version of the resource; the in-process server validates nothing.
    let resource = ApiResource::erase::<ClusterNetworkConnect>(&());
    let raw = Api::<DynamicObject>::all_with(bed.client.clone(), &resource);
    let patch = json!({"spec": {"connectivity": ["PodNetwork", "HostNetwork"]}});
    raw.patch(CONNECT, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let refused = async || {
        let object = raw.get(CONNECT).await.unwrap();
        let condition = object.data["status"]["conditions"][0].clone();
        (condition["status"] == "False").then_some((object, condition["message"].to_string()))
    };
    let (object, message) = eventually("it is reported", refused).await;
    assert!(
        message.contains("failed to read CNC blue-green-connect: ")
            && message.contains("HostNetwork"),
        "{message}"
    );
    assert_eq!(object.annotations(), before.annotations());
    let rows = zone.snapshot().row_count();

    // The same holds for controllers that have never decoded it.
    cluster.stop().await;
    node.stop().await;
    let (cluster, node) = (bed.run_cluster("two"), bed.run_zone(&zone));
    let mut other = crate::testbed::connect();
    other.metadata.name = Some("other".to_owned());
    other.spec.connect_subnets[0].cidr = "192.170.0.0/16".to_owned();
    bed.create(&other).await;
    zone.until("another one is connected", |zone| (connect_routers(zone).len() == 2).then_some(()))
        .await;
    let object = raw.get(CONNECT).await.unwrap();
    assert_eq!(object.annotations(), before.annotations());
    assert!(zone.snapshot().row_count() > rows);
    let other = bed.connects().get("other").await.unwrap();
    assert_ne!(tunnel_key(&other), tunnel_key(&before), "its key is not allocated again");

    // Once it can be decoded again, it has its former allocations.
    let patch = json!({"spec": {"connectivity": ["PodNetwork"]}});
    raw.patch(CONNECT, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let after = bed.until_allocated(2).await;
    assert_eq!(subnets(&after), subnets(&before));
    assert_eq!(tunnel_key(&after), tunnel_key(&before));
    cluster.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn objects_on_later_pages_count() {
    let bed = Testbed::simulated().await;
    for index in 0..1100 {
        let object = json!({"metadata": {"name": format!("another-{index}")}});
        let namespace: Namespace = serde_json::from_value(object).unwrap();
        bed.create(&namespace).await;
    }
    let mut connect = crate::testbed::connect();
    connect.spec.network_selectors = serde_json::from_value(json!([{
        "networkSelectionType": "PrimaryUserDefinedNetworks",
        "primaryUserDefinedNetworkSelector": {
            "namespaceSelector": {"matchExpressions": [{"key": "network", "operator": "Exists"}]},
        },
    }]))
    .unwrap();
    bed.create(&connect).await;
    let cluster = bed.run_cluster("one");
    // An incomplete list must not count as all objects.
    let first = eventually("it is served", async || {
        let connect = bed.connected().await;
        connect.status.is_some().then_some(connect)
    })
    .await;
    assert_eq!(subnets(&first).len(), 2);
    let requests = bed.api().requests();
    let pages = requests
        .iter()
        .filter(|request| request.method == "GET" && request.path == "/api/v1/namespaces");
    assert!(pages.count() >= 3);
    cluster.stop().await;
}

#[tokio::test]
async fn a_list_without_end_is_retried_after_delays() {
    let bed = Testbed::simulated().await;
    let path = "/network-attachment-definitions$";
    bed.api().fail(Fault { method: "LIST", path, reply: Reply::SameToken, times: usize::MAX });
    let begun = Instant::now();
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let lists = |bed: &Testbed| {
        let requests = bed.api().requests();
        let lists = requests.iter().filter(|one| !one.user.is_empty());
        lists.filter(|one| one.path.ends_with("/network-attachment-definitions")).count()
    };
    let count = eventually("three lists have failed", async || {
        let lists = lists(&bed);
        (lists >= 6).then_some(lists)
    })
    .await;
    // Each list ends with its second page, and the delays are at least 0.8 s.
    let most = 2 * (1 + (begun.elapsed().as_secs_f64() / 0.8) as usize);
    assert!(count <= most, "{count}");
    assert!(bed.connected().await.status.is_none());
    bed.api().end_faults();
    bed.until_allocated(2).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_list_whose_later_pages_have_expired_begins_again() {
    let bed = Testbed::simulated().await;
    for index in 0..600 {
        let object = json!({"metadata": {"name": format!("another-{index}")}});
        let namespace: Namespace = serde_json::from_value(object).unwrap();
        bed.create(&namespace).await;
    }
    bed.api().fail(Fault {
        method: "CONTINUE",
        path: "/namespaces$",
        reply: Reply::Status(410, None),
        times: 2,
    });
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let requests = bed.api().requests();
    let expired = requests.iter().filter(|one| one.status == 410);
    assert_eq!(expired.count(), 2);
    cluster.stop().await;
}
