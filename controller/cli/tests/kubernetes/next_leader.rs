//! A cluster manager of networks that takes over while its watches are behind.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apiserver::Reply;
use crate::networks::{
    RED, create_network, create_pod, fail_each, layer2, layer3, object, pods, udns, until_created,
};
use crate::testbed::{Running, Testbed, eventually};

const NADS: &str = "/network-attachment-definitions$";
const NETWORK_ID: &str = "k8s.ovn.org/network-id";

/// Requests for lists or watches of a kind by cluster managers.
fn reads(bed: &Testbed, path: &str, watches: bool) -> usize {
    let requests = bed.api().requests();
    let own = requests.iter().filter(|one| !one.user.is_empty());
    let reads = own.filter(|one| one.method == "GET" && one.watches == watches);
    reads.filter(|one| one.path.ends_with(path)).count()
}

/// Runs a leader, and a second process of which the watch of a kind stays silent.
async fn leader_and_next(path: &'static str) -> (Testbed, Running, Running) {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    let leader = bed.run_cluster("one");
    create_network(&bed, layer3()).await;
    until_created(&bed).await;
    let suffix = path.trim_end_matches('$');
    let before = reads(&bed, suffix, true);
    fail_each(&bed, [("WATCH", path, Reply::Silence, 1)]);
    let next = bed.run_cluster("two");
    eventually("the watch is silent", async || (reads(&bed, suffix, true) > before).then_some(()))
        .await;
    (bed, leader, next)
}

async fn create_secondary(bed: &Testbed, name: &str) {
    let udn = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": name, "namespace": RED},
        "spec": {"topology": "Layer3", "layer3": {
            "role": "Secondary", "subnets": [{"cidr": "10.170.0.0/16", "hostSubnet": 24}],
        }},
    });
    let create = PostParams::default();
    udns(bed).create(&create, &object(udn)).await.unwrap();
}

/// Waits until these networks have ids. Returns the ids.
async fn until_ids(bed: &Testbed, networks: usize) -> BTreeSet<String> {
    eventually(&format!("ids of {networks} networks"), async || {
        let nads = bed.nads(RED).list(&ListParams::default()).await.unwrap();
        let ids: Vec<String> = nads
            .items
            .iter()
            .filter_map(|nad| nad.annotations().get(NETWORK_ID).cloned())
            .collect();
        (ids.len() == networks).then(|| ids.into_iter().collect())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_watch_is_behind_allocates_no_id_twice() {
    let (bed, leader, next) = leader_and_next(NADS).await;
    create_secondary(&bed, "first").await;
    assert_eq!(until_ids(&bed, 2).await.len(), 2);
    leader.stop().await;
    // The network gets its id before the one that the watch does not show.
    create_secondary(&bed, "another").await;
    assert_eq!(until_ids(&bed, 3).await.len(), 3);
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_does_not_wait_for_objects_that_are_deleted_meanwhile() {
    let (bed, leader, next) = leader_and_next("/pods$").await;
    create_pod(&bed, "a").await;
    let before = reads(&bed, "/pods", false);
    leader.stop().await;
    create_secondary(&bed, "first").await;
    eventually("the next leader lists pods", async || {
        (reads(&bed, "/pods", false) > before).then_some(())
    })
    .await;
    let all: Api<Pod> = pods(&bed);
    all.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(until_ids(&bed, 2).await.len(), 2);
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_next_leader_gives_no_network_the_key_of_a_connect_router() {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    let first = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let key = bed.connected().await.annotations()["k8s.ovn.org/connect-router-tunnel-key"].clone();
    first.stop().await;
    create_network(&bed, layer2()).await;
    let unlisted = ("LIST", "/clusternetworkconnects$", Reply::Status(503, None), 2);
    fail_each(&bed, [unlisted]);
    let second = bed.run_cluster("two");
    let keys = eventually("keys of the network", async || {
        let nad = bed.nads(RED).get_opt(RED).await.unwrap()?;
        nad.annotations().get("k8s.ovn.org/tunnel-keys").cloned()
    })
    .await;
    let keys: Vec<u32> = serde_json::from_str(&keys).unwrap();
    assert!(!keys.contains(&key.parse().unwrap()), "{keys:?}, {key}");
    second.stop().await;
}
