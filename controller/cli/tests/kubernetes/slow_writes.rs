//! Writes that an API server does not answer for long, as those of objects with a webhook that does
//! not respond.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apiserver::Reply;
use crate::networks::{
    RED, create_network, create_pod, events_about, fail_each, layer2, layer3, object, pods, udns,
    udns_in, until_created, until_pods,
};
use crate::testbed::{Testbed, ZONE, eventually};
use crate::zone_database::Zone;

/// A test bed whose requests have a time-out that is longer than each test.
async fn patient_bed() -> Testbed {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    bed.request = Duration::from_secs(600);
    bed
}

/// Makes writes wait for ever.
fn never_answer(bed: &Testbed, method: &'static str, path: &'static str) {
    fail_each(bed, [(method, path, Reply::Never, usize::MAX)]);
}

/// Waits until a pod has addresses.
async fn until_addressed(pods: &Api<Pod>, name: &str) {
    eventually(&format!("{name} has addresses"), async || {
        let pod = pods.get(name).await.unwrap();
        let networks = pod.annotations().get("k8s.ovn.org/pod-networks");
        networks.map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_without_an_answer_delay_no_rows() {
    let bed = patient_bed().await;
    let zone = Zone::without_networks(ZONE).await;
    never_answer(&bed, "PATCH", "/pods/aaa");
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer3()).await;
    create_pod(&bed, "aaa").await;
    create_pod(&bed, "b").await;
    until_pods(&zone, &["b"]).await;
    create_pod(&bed, "c").await;
    until_pods(&zone, &["b", "c"]).await;
    both.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pods_without_an_answer_do_not_delay_those_of_other_namespaces() {
    let bed = patient_bed().await;
    never_answer(&bed, "PATCH", "/pods/aaa");
    let manager = bed.run_cluster("one");
    create_network(&bed, layer2()).await;
    for number in 0..100 {
        create_pod(&bed, &format!("aaa{number:03}")).await;
    }
    let other = "zebra";
    bed.create(&object::<Namespace>(json!({"metadata": {
        "name": other, "labels": {"k8s.ovn.org/primary-user-defined-network": ""},
    }})))
    .await;
    let network: DynamicObject = object(json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": other, "namespace": other},
        "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.170.0.0/16"]}},
    }));
    let networks = udns_in(&bed, other);
    let created = networks.create(&PostParams::default(), &network).await;
    created.unwrap();
    bed.create_in(&object::<Pod>(json!({
        "metadata": {"name": "b", "namespace": other},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    })))
    .await;
    let others = Api::namespaced(bed.client.clone(), other);
    until_addressed(&others, "b").await;
    bed.api().end_faults();
    manager.stop().await;
    let manager = bed.run_cluster("two");
    until_addressed(&pods(&bed), "aaa099").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_that_comes_late_is_reported() {
    let mut bed = patient_bed().await;
    let late = Reply::Late(500, Duration::from_secs(4));
    bed.request = Duration::from_secs(2);
    bed.write = Some(Duration::from_secs(600));
    let paths = ["/pods/a$", "/clusternetworkconnects/blue-green-connect$"];
    fail_each(&bed, paths.map(|path| ("PATCH", path, late, 1)));
    let manager = bed.run_cluster("one");
    bed.connect().await;
    create_network(&bed, layer2()).await;
    create_pod(&bed, "a").await;
    eventually("the answer is in an event", async || {
        let mut events =
            events_about(&bed, "Pod").await.into_iter().filter(|one| one.1 == "ErrorAllocatingPod");
        events.find(|one| one.2.starts_with("as ordered by the test"))
    })
    .await;
    eventually("an event about the connect has it, too", async || {
        let mut events = bed.events().await.into_iter();
        events.find(|(_, note)| note.contains("as ordered by the test"))
    })
    .await;
    until_addressed(&pods(&bed), "a").await;
    bed.until_allocated(2).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_an_answer_delays_no_network() {
    let bed = patient_bed().await;
    never_answer(&bed, "PATCH", "/nodes/ovn-worker2$");
    let manager = bed.run_cluster("one");
    create_network(&bed, layer3()).await;
    until_created(&bed).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_whose_definition_has_no_answer_is_not_created() {
    let bed = patient_bed().await;
    never_answer(&bed, "POST", "/red/network-attachment-definitions$");
    let manager = bed.run_cluster("one");
    create_network(&bed, layer2()).await;
    let requested = |bed: &Testbed| {
        let requests = bed.api().requests();
        let own = requests.iter().filter(|one| one.method == "POST");
        let path = "/red/network-attachment-definitions";
        own.filter(|one| one.path.ends_with(path)).count()
    };
    eventually("the definition is requested", async || (requested(&bed) > 0).then_some(())).await;
    // Each pod is a reason for another pass.
    for number in 0..3 {
        create_pod(&bed, &format!("p{number}")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let network = udns(&bed).get(RED).await.unwrap();
    let mut conditions = network.data["status"]["conditions"].as_array().into_iter().flatten();
    assert!(!conditions.any(|one| one["type"] == "NetworkCreated"));
    assert_eq!(requested(&bed), 1);
    let nads = bed.nads(RED).list(&ListParams::default()).await.unwrap();
    assert!(nads.items.is_empty());
    manager.stop().await;
}
