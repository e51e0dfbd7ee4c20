//! A network from its definition to its deletion, on any API server.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use patchbay_schemas::nb::Acl;
use serde_json::{Value, json};

use crate::networks::{
    RED, create_network, layer2, layer3, object, pods, udns, until_created, until_gone, until_pods,
};
use crate::stored::ClusterUserDefinedNetwork;
use crate::testbed::{Testbed, ZONE, eventually};
use crate::zone_database::Zone;

/// Creates a pod that no kubelet runs. A real server refuses it until the namespace has its
/// account.
async fn create_pod(bed: &Testbed, name: &str) {
    let pod: Pod = object(json!({
        "metadata": {"name": name, "namespace": RED},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    }));
    eventually(&format!("Pod {name}"), async || {
        pods(bed).create(&PostParams::default(), &pod).await.ok()
    })
    .await;
}

/// Deletes the example's networks, which the cluster manager protects while it runs.
async fn delete_example(bed: &Testbed) {
    let networks = Api::<ClusterUserDefinedNetwork>::all(bed.client.clone());
    let all = ListParams::default();
    for network in networks.list(&all).await.unwrap() {
        let name = network.name_any();
        networks.delete(&name, &DeleteParams::default()).await.unwrap();
    }
    eventually("the networks of the example are gone", async || {
        let left = networks.list(&all).await.unwrap();
        left.items.is_empty().then_some(())
    })
    .await;
}

async fn lives_and_ends(spec: Value, address: &str) {
    let mut bed = Testbed::new().await;
    bed.networks = true;
    let zone = Zone::without_networks(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, spec).await;
    create_pod(&bed, "a").await;
    create_pod(&bed, "b").await;
    until_created(&bed).await;
    let ports = until_pods(&zone, &["a", "b"]).await;
    assert!(ports[0].1[0].contains(address), "{ports:?}");

    let before = zone.rows::<Acl>().len();
    let deny = json!({
        "metadata": {"name": "deny", "namespace": RED},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    });
    bed.create_in(&object::<NetworkPolicy>(deny)).await;
    zone.until("the rules of the policy", |zone| (zone.rows::<Acl>().len() > before).then_some(()))
        .await;

    // A network ends with its last pod.
    let delete = DeleteParams::default();
    udns(&bed).delete(RED, &delete).await.unwrap();
    for name in ["a", "b"] {
        assert!(udns(&bed).get_opt(RED).await.unwrap().is_some());
        let at_once = DeleteParams::default().grace_period(0);
        pods(&bed).delete(name, &at_once).await.unwrap();
    }
    until_gone(&bed, &zone).await;
    delete_example(&bed).await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer3_network_lives_and_ends() {
    lives_and_ends(layer3(), " 10.150.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer2_network_lives_and_ends() {
    lives_and_ends(layer2(), " 10.160.").await;
}
