//! Conditions while zones stop, and while nodes join.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::testbed::{ConditionWatch, Running, Testbed, run_zones, until_connected};
use crate::zone_database::Zone;

/// The node of the example that joins during the tests.
const JOINING: &str = "ovn-worker2";

/// Deletes the joining node. Returns its annotations.
async fn remove_joining(bed: &Testbed) -> Value {
    let node = bed.nodes().get(JOINING).await.unwrap();
    let delete = DeleteParams::default();
    bed.nodes().delete(JOINING, &delete).await.unwrap();
    json!(node.annotations())
}

fn node(name: &str, annotations: &Value) -> Node {
    let object = json!({"metadata": {"name": name, "annotations": annotations}});
    serde_json::from_value(object).unwrap()
}

async fn annotate(bed: &Testbed, node: &str, annotations: &Value) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let params = PatchParams::default();
    bed.nodes().patch(node, &params, &patch).await.unwrap();
}

/// Kills the controller of the last zone. Returns the others, and the zone.
async fn kill_last(zones: &mut Vec<(Running, Zone)>) -> Zone {
    let (controller, zone) = zones.pop().unwrap();
    controller.kill().await;
    zone
}

async fn stop(zones: Vec<(Running, Zone)>) {
    for (controller, _) in zones {
        controller.stop().await;
    }
}

#[tokio::test]
async fn a_zone_that_does_not_connect_a_new_node_keeps_the_condition_from_being_true() {
    let bed = Testbed::new().await;
    let annotations = remove_joining(&bed).await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 4 ports in each of 2 zones").await;
    let dead = kill_last(&mut zones).await;

    bed.create(&node(JOINING, &annotations)).await;
    let zone = bed.zone(JOINING).await;
    zones.push((bed.run_zone(&zone), zone));
    let expected = format!("in each of 2 zones; not up to date in zone {}", dead.name);
    until_connected(&bed, "Unknown", &expected).await;
    zones.push((bed.run_zone(&dead), dead));
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;

    // A changed subnet changes rows, too.
    let _dead = kill_last(&mut zones).await;
    let moved = annotations["k8s.ovn.org/node-subnets"]
        .as_str()
        .unwrap()
        .replace("103.103.2.0/24", "103.103.77.0/24");
    annotate(&bed, JOINING, &json!({"k8s.ovn.org/node-subnets": moved})).await;
    until_connected(&bed, "Unknown", &expected).await;
    stop(zones).await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_zone_that_does_not_run_is_named() {
    let mut bed = Testbed::new().await;
    bed.zone_lease = Duration::from_secs(3);
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    let dead = kill_last(&mut zones).await;
    let expected = format!("in each of 2 zones; no sign of life from zone {}", dead.name);
    until_connected(&bed, "Unknown", &expected).await;

    // The next leader does not take the old report for a sign of life.
    cluster.stop().await;
    let watch = ConditionWatch::begin(&bed).await;
    let cluster = bed.run_cluster("two");
    tokio::time::sleep(bed.zone_lease + Duration::from_secs(1)).await;
    assert_eq!(watch.end(&bed).await, ["Unknown"]);
    until_connected(&bed, "Unknown", &expected).await;

    zones.push((bed.run_zone(&dead), dead));
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    stop(zones).await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_node_without_ovn_is_noted() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    let zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    let watch = ConditionWatch::begin(&bed).await;
    bed.create(&node("win-1", &json!({}))).await;
    let expected = "in each of 3 zones; without OVN annotations: node win-1";
    until_connected(&bed, "True", expected).await;
    assert_eq!(watch.end(&bed).await, ["True"]);
    // Evidence of OVN makes it a node like the others.
    annotate(&bed, "win-1", &json!({"k8s.ovn.org/node-id": "9"})).await;
    until_connected(&bed, "Unknown", "no report yet from zone win-1; waiting: zones").await;
    stop(zones).await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_joining_node_is_never_a_failure() {
    let mut bed = Testbed::new().await;
    bed.join = Duration::from_secs(600);
    let annotations = remove_joining(&bed).await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 4 ports in each of 2 zones").await;

    let watch = ConditionWatch::begin(&bed).await;
    bed.create(&node(JOINING, &json!({}))).await;
    let expected = format!("without OVN annotations: node {JOINING}");
    until_connected(&bed, "True", &expected).await;
    let silent = format!("no report yet from zone {JOINING}");
    for key in ["node-id", "node-subnets"] {
        let key = format!("k8s.ovn.org/{key}");
        annotate(&bed, JOINING, &json!({&key: annotations[&key]})).await;
        until_connected(&bed, "Unknown", &silent).await;
    }
    let reason = format!(
        "{silent}; waiting: zones ovn-control-plane, ovn-worker: networks \
         cluster_udn_blue-network, cluster_udn_green-network, node {JOINING}: the node has no \
         chassis id yet"
    );
    until_connected(&bed, "Unknown", &reason).await;
    // The zone controller starts before OVN-Kubernetes has created the networks' routers.
    let zone = Zone::without_networks(JOINING).await;
    let controller = bed.run_zone(&zone);
    annotate(&bed, JOINING, &annotations).await;
    let expected = format!("with 6 ports in each of 2 zones; {silent}");
    until_connected(&bed, "Unknown", &expected).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    zone.add_networks(&bed.inventory);
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    assert_eq!(watch.end(&bed).await, ["True", "Unknown", "True"]);
    zones.push((controller, zone));

    // What goes missing later is a failure.
    let missing = json!({"k8s.ovn.org/node-chassis-id": null});
    annotate(&bed, JOINING, &missing).await;
    let expected = format!("node {JOINING}: the node has no chassis id yet");
    until_connected(&bed, "False", &expected).await;
    stop(zones).await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_joining_node_that_gets_no_routers_in_time_is_a_failure() {
    let mut bed = Testbed::new().await;
    bed.join = Duration::from_secs(1);
    let annotations = remove_joining(&bed).await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 4 ports in each of 2 zones").await;

    bed.create(&node(JOINING, &json!({}))).await;
    annotate(&bed, JOINING, &annotations).await;
    let zone = Zone::without_networks(JOINING).await;
    zones.push((bed.run_zone(&zone), zone));
    until_connected(&bed, "False", &format!("skipped: zone {JOINING}: ")).await;
    stop(zones).await;
    cluster.stop().await;
    bed.clear().await;
}
