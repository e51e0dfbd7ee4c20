//! Networks on nodes with egress IPs.

use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use patchbay_kubernetes::Timing;
use patchbay_model::Feature;
use serde_json::{Value, json};

use crate::apiserver::{Fault, Reply};
use crate::testbed::{Testbed, ZONE, eventually};
use crate::zone_controller::{connect_ports, until_ports};

/// The cluster's `EgressIP`s, a resource of OVN-Kubernetes.
fn egress_ips(bed: &Testbed) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "k8s.ovn.org".to_owned(),
        version: "v1".to_owned(),
        api_version: "k8s.ovn.org/v1".to_owned(),
        kind: "EgressIP".to_owned(),
        plural: "egressips".to_owned(),
    };
    Api::all_with(bed.client.clone(), &resource)
}

/// An `EgressIP` for a namespace, with addresses on these nodes.
fn egress_ip(namespace: &str, nodes: &[&str]) -> DynamicObject {
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    serde_json::from_value(json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": "egress"},
        "spec": {"egressIPs": ["172.18.0.33"], "namespaceSelector": selector},
        "status": {"items": items(nodes)},
    }))
    .unwrap()
}

fn items(nodes: &[&str]) -> Vec<Value> {
    let items = nodes.iter();
    items.map(|node| json!({"node": node, "egressIP": "172.18.0.33"})).collect()
}

#[tokio::test]
async fn networks_are_connected_on_nodes_with_egress_ips() {
    let mut bed = Testbed::simulated().await;
    bed.dynamic_udn = true;
    bed.features = vec![Feature::EgressIp];
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let ips = egress_ips(&bed);
    ips.create(&PostParams::default(), &egress_ip("blue", &[ZONE])).await.unwrap();
    // A network is also rendered on the nodes of its peer.
    until_ports(&zone, 2).await;
    let more = json!({"status": {"items": items(&[ZONE, "ovn-worker2"])}});
    ips.patch("egress", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    until_ports(&zone, 4).await;
    ips.delete("egress", &DeleteParams::default()).await.unwrap();
    until_ports(&zone, 0).await;
    let requests = bed.api().requests();
    assert!(requests.iter().all(|one| one.status != 403));
    both.stop().await;
}

#[tokio::test]
async fn a_cluster_may_lack_the_kind_egress_ip_and_get_it_later() {
    let mut bed = Testbed::simulated().await;
    bed.dynamic_udn = true;
    bed.features = vec![Feature::EgressIp];
    let path = "/egressips";
    let missing = Fault { method: "LIST", path, reply: Reply::Status(404, None), times: 2 };
    bed.api().fail(missing);
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let pod = json!({
        "metadata": {"name": "pod", "namespace": "blue"},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    });
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
    bed.create_in(&pod).await;
    until_ports(&zone, 2).await;
    let codes = || {
        let requests = bed.api().requests();
        let lists = requests.iter().filter(|one| one.path.ends_with(path) && !one.watches);
        lists.map(|one| one.status).collect::<Vec<_>>()
    };
    assert_eq!(codes().first(), Some(&404));
    egress_ips(&bed)
        .create(&PostParams::default(), &egress_ip("green", &["ovn-worker2"]))
        .await
        .unwrap();
    until_ports(&zone, 4).await;
    eventually("it was listed until it was defined", async || {
        (codes().iter().filter(|code| **code == 404).count() == 2).then_some(())
    })
    .await;
    both.stop().await;
}

/// Runs a zone with an `EgressIP`, and then lets the API server lose the kind for some lists.
/// Returns the number of ports after that.
async fn ports_after_a_loss_of_the_kind(grace_period: Duration, lists: usize) -> usize {
    let mut bed = Testbed::simulated().await;
    bed.dynamic_udn = true;
    bed.features = vec![Feature::EgressIp];
    bed.missing_kind = grace_period;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let create = PostParams::default();
    let (ips, ip) = (egress_ips(&bed), egress_ip("blue", &[ZONE]));
    ips.create(&create, &ip).await.unwrap();
    let before = until_ports(&zone, 2).await;
    for method in ["WATCH", "LIST"] {
        bed.api().fail(Fault {
            method,
            path: "/egressips",
            reply: Reply::Status(404, None),
            times: lists,
        });
    }
    bed.api().drop_watches();
    eventually("the kind is missing", async || {
        let requests = bed.api().requests();
        let missing = requests
            .iter()
            .filter(|one| one.status == 404)
            .filter(|one| one.path.ends_with("/egressips") && !one.watches);
        (missing.count() == lists).then_some(())
    })
    .await;
    // A pod of the other network is read after the loss.
    let pod = json!({
        "metadata": {"name": "pod", "namespace": "green"},
        "spec": {"nodeName": "ovn-control-plane", "containers": [{"name": "c", "image": "i"}]},
    });
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
    bed.create_in(&pod).await;
    let after = zone.until("ports of the pod", |zone| {
        let ports = connect_ports(zone);
        (ports != before && !ports.is_empty()).then_some(ports)
    });
    let ports = after.await.len();
    both.stop().await;
    ports
}

#[tokio::test]
async fn a_kind_that_is_missing_for_a_moment_keeps_its_objects() {
    let ports = ports_after_a_loss_of_the_kind(Timing::default().missing_kind_grace_period, 2);
    assert_eq!(ports.await, 4);
}

#[tokio::test]
async fn a_kind_that_stays_missing_has_no_objects() {
    let ports = ports_after_a_loss_of_the_kind(Duration::from_millis(1), 3);
    assert_eq!(ports.await, 2);
}

#[tokio::test]
async fn egress_ips_are_not_listed_without_dynamic_allocation() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    until_ports(&zone, 6).await;
    let requests = bed.api().requests();
    assert!(requests.iter().all(|one| !one.path.contains("/egressips")));
    both.stop().await;
}
