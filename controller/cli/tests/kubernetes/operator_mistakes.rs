//! Mistakes of operators that must not delete existing connections.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use patchbay_schemas::nb::{LogicalRouterPort, LogicalRouterStaticRoute};
use serde_json::json;

use crate::testbed::{Testbed, ZONE, condition, eventually};
use crate::zone_database::Zone;

/// The names of all router ports, and the prefixes of all routes.
fn state(zone: &Zone) -> Vec<String> {
    let ports = zone.rows::<LogicalRouterPort>().into_iter();
    let routes = zone.rows::<LogicalRouterStaticRoute>().into_iter();
    let routes = routes.map(|route| route.ip_prefix);
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
