//! Mistakes of operators that must not delete existing connections.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use patchbay_model::NODE_SUBNETS;
use patchbay_schemas::nb::{LogicalRouterPort, LogicalRouterStaticRoute};
use serde_json::json;

use crate::testbed::{Testbed, ZONE, condition, eventually};
use crate::zone_database::Zone;

/// The names of all router ports, and the prefixes of all routes.
fn state(zone: &Zone) -> Vec<String> {
    let ports = zone.rows::<LogicalRouterPort>().into_iter();
    let routes = zone.rows::<LogicalRouterStaticRoute>().into_iter().map(|route| route.ip_prefix);
    let mut state: Vec<String> = ports.map(|port| port.name).chain(routes).collect();
    state.sort();
    state
}

async fn connected(bed: &Testbed, zone: &Zone) -> Vec<String> {
    let both = bed.run("one", true, Some(zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    zone.until("it is connected", |zone| {
        let ports = zone.rows::<LogicalRouterPort>().into_iter();
        let own = ports.filter(|port| port.name.starts_with("crtor-"));
        (own.count() == 6).then_some(())
    })
    .await;
    both.stop().await;
    state(zone)
}

#[tokio::test]
async fn annotations_that_broke_before_the_start_change_no_row() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let before = connected(&bed, &zone).await;
    let (nodes, params) = (bed.nodes(), PatchParams::default());
    for (node, annotation) in [
        ("ovn-control-plane", json!({"k8s.ovn.org/node-id": "two"})),
        ("ovn-worker2", json!({"k8s.ovn.org/node-subnets": "{"})),
    ] {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
        nodes.patch(node, &params, &patch).await.unwrap();
    }
    let both = bed.run("two", true, Some(&zone));
    eventually("it is reported", async || {
        let (_, message) = condition(&bed.connected().await, "Connected")?;
        let is_reported = message.contains("node ovn-control-plane: the node's id cannot be read")
            && message.contains("node ovn-worker2: the node's subnets cannot be read");
        is_reported.then_some(())
    })
    .await;
    assert_eq!(state(&zone), before);
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn refused_subnets_change_no_row_and_are_named() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let before = connected(&bed, &zone).await;
    let both = bed.run("two", true, Some(&zone));
    let (nodes, params) = (bed.nodes(), PatchParams::default());
    let known =
        nodes.get("ovn-worker2").await.unwrap().metadata.annotations.unwrap()[NODE_SUBNETS].clone();
    for (subnet, message) in [
        ("0.0.0.0/0", "subnet 0.0.0.0/0 is outside of the network's subnets"),
        ("103.103.0.0/16", "subnet 103.103.0.0/16 is wider than node subnets of the network"),
        ("103.103.1.0/24", "subnet 103.103.1.0/24 is that of node "),
    ] {
        let subnets = known.replace("103.103.2.0/24", subnet);
        let patch = json!({"metadata": {"annotations": {NODE_SUBNETS: subnets}}});
        let patch = Patch::Merge(patch);
        nodes.patch("ovn-worker2", &params, &patch).await.unwrap();
        let expected =
            format!("network cluster_udn_blue-network, node ovn-worker2: the node's {message}");
        eventually("it is reported", async || {
            let (status, text) = condition(&bed.connected().await, "Connected")?;
            (status == "False" && text.contains(&expected)).then_some(())
        })
        .await;
        assert_eq!(state(&zone), before);
    }
    both.stop().await;
}

#[tokio::test]
async fn a_zone_without_a_node_changes_no_row() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let before = connected(&bed, &zone).await;
    let wrong = bed.run_on("two", true, Some(("ovn-other", zone.remote())));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state(&zone), before);
    wrong.stop().await;
    bed.clear().await;
}
