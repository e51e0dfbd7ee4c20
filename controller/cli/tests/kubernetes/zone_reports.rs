//! The zones' reports, and the condition that is computed from them.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::testbed::{
    CONNECT, NAMESPACE, Testbed, ZONE, condition, eventually, run_zones, until_connected,
};

async fn edit(bed: &Testbed, spec: &Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    let params = PatchParams::default();
    bed.connects().patch(CONNECT, &params, &patch).await.unwrap();
}

#[tokio::test]
async fn the_reports_of_all_zones_become_one_condition() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    assert_eq!(condition(&bed.connected().await, "Connected"), None);

    let mut zones = Vec::new();
    for (key, _) in bed.inventory.nodes.iter() {
        let zone = bed.zone(&key.name).await;
        zones.push((bed.run_zone(&zone), zone));
        let nodes = bed.nodes().list(&ListParams::default()).await.unwrap();
        let (reported, all) = (zones.len(), nodes.items.len());
        let (status, start) = (
            if reported == all { "True" } else { "Unknown" },
            format!(
                "connected: 2 networks with 6 ports in {}",
                match reported {
                    1 => "1 zone".to_owned(),
                    _ => format!("each of {reported} zones"),
                }
            ),
        );
        let what = format!("{reported} zones have reported");
        eventually(&what, async || {
            let (found, message) = condition(&bed.connected().await, "Connected")?;
            (found == status && message.starts_with(&start)).then_some(())
        })
        .await;
    }
    let status = bed.connected().await.status.clone().unwrap();
    assert_eq!(json!(status.status), "Success");

    if bed.api.is_some() {
        eventually("an event about it", async || {
            let events = bed.events().await;
            let note = "connected: 2 networks with 6 ports in each of 3 zones";
            let expected = ("Connected".to_owned(), note.to_owned());
            events.contains(&expected).then_some(())
        })
        .await;
    }

    // The same obstacle in several zones is reported once.
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {"k8s.ovn.org/node-chassis-id": null}}}));
    let (nodes, params) = (bed.nodes(), PatchParams::default());
    nodes.patch("ovn-worker2", &params, &patch).await.unwrap();
    let (_, message) = eventually("the condition is false", async || {
        condition(&bed.connected().await, "Connected")
            .filter(|(status, message)| status == "False" && message.contains("zones "))
    })
    .await;
    let expected = "skipped: zones ovn-control-plane, ovn-worker: networks cluster_udn_blue-network, cluster_udn_green-network, node ovn-worker2: the node has no chassis id yet";
    assert!(message.contains(expected), "{message}");
    for (running, _) in zones {
        running.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_deleted_report_is_written_again() {
    let mut bed = Testbed::new().await;
    bed.repeat = Duration::from_millis(200);
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    let reports = Api::<ConfigMap>::namespaced(bed.client.clone(), NAMESPACE);
    let name = format!("patchbay-zone-{ZONE}");
    let reported = async || {
        let report = reports.get_opt(&name).await.unwrap()?;
        let summary = report.data?.remove(CONNECT)?;
        summary.contains(r#""networks":2"#).then_some(report.metadata.uid)
    };
    let first = eventually("the zone reports", reported).await;
    reports.delete(&name, &DeleteParams::default()).await.unwrap();
    let second = eventually("the zone reports again", reported).await;
    assert_ne!(first, second);
    cluster.stop().await;
    node.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn reports_about_an_older_version_do_not_count() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;

    // One zone's controller is killed, so the change has no effect there.
    let (controller, zone) = zones.pop().unwrap();
    controller.kill().await;
    let missing = format!("in each of 2 zones; not up to date in zone {}", zone.name);
    edit(&bed, &json!({"connectivity": ["ServiceNetwork"]})).await;
    until_connected(&bed, "Unknown", &missing).await;
    let controller = bed.run_zone(&zone);
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;

    // Networks come and go without a new generation.
    controller.kill().await;
    bed.label_nad("green", &json!({"app": null})).await;
    until_connected(&bed, "Unknown", &missing).await;
    let controller = bed.run_zone(&zone);
    until_connected(&bed, "True", "1 network with 3 ports in each of 3 zones").await;

    // A change without effect on the database is reported, too.
    edit(&bed, &json!({"connectivity": ["ServiceNetwork", "PodNetwork"]})).await;
    until_connected(&bed, "True", "in each of 3 zones").await;
    edit(&bed, &json!({"connectivity": ["PodNetwork", "ServiceNetwork"]})).await;
    until_connected(&bed, "True", "in each of 3 zones").await;

    controller.stop().await;
    for (controller, _) in zones {
        controller.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn an_edit_causes_one_update_to_unknown_and_one_to_true() {
    let mut bed = Testbed::simulated().await;
    // Half of it is long enough for all zones to report, even on a busy machine.
    bed.report = Duration::from_secs(4);
    let cluster = bed.run_cluster("one");
    let zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    let written = |bed: &Testbed| {
        let requests = bed.api().requests().into_iter();
        let statuses = requests.filter(|one| one.writes_connect() && one.path.ends_with("/status"));
        statuses.count()
    };
    let before = written(&bed);
    edit(&bed, &json!({"connectivity": ["ServiceNetwork"]})).await;
    let expected = "not up to date in zones ovn-control-plane, ovn-worker, ovn-worker2";
    until_connected(&bed, "Unknown", expected).await;
    // Other changes make the leader reconcile while only some zones have reported.
    for round in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bed.label_nad("green", &json!({"round": round.to_string()})).await;
    }
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    assert_eq!(written(&bed), before + 2);
    for (controller, _) in zones {
        controller.stop().await;
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_zone_reports_an_unreachable_database() {
    let bed = Testbed::new().await;
    let mut zone = bed.zone(ZONE).await;
    let mut relay = zone.hide();
    relay.mend();
    let cluster = bed.run_cluster("one");
    let controller = bed.run_zone(&zone);
    bed.connect().await;
    until_connected(&bed, "Unknown", "2 networks with 6 ports in 1 zone; no report").await;

    let lost = format!(
        "connected: 2 networks with 6 ports in 1 zone; \
         skipped: zone {ZONE}: the Northbound database cannot be reached"
    );
    relay.cut().await;
    until_connected(&bed, "False", &lost).await;
    edit(&bed, &json!({"connectivity": ["ServiceNetwork"]})).await;
    until_connected(&bed, "False", &lost).await;
    relay.mend();
    until_connected(&bed, "Unknown", "2 networks with 6 ports in 1 zone; no report").await;

    // The same holds for a database that was never reachable.
    controller.stop().await;
    relay.cut().await;
    let controller = bed.run_zone(&zone);
    until_connected(&bed, "False", "0 networks with 0 ports in 1 zone; skipped").await;
    controller.stop().await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_connect_that_selects_nothing_is_not_connected() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let selectors = json!(bed.connected().await.spec.network_selectors);
    let nothing = json!([{
        "networkSelectionType": "ClusterUserDefinedNetworks",
        "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"app": "none"}}},
    }]);
    edit(&bed, &json!({"networkSelectors": nothing})).await;
    // The selectors alone decide, before any zone reports.
    let reason = "no network is selected: spec.networkSelectors[0] matches none of 2 \
                  ClusterUserDefinedNetworks with attachment definitions (labels there: app=";
    until_connected(&bed, "False", reason).await;
    let connect = bed.connected().await;
    let status = connect.status.as_ref().unwrap();
    let mut conditions = status.conditions.iter();
    let connected = conditions.find(|one| one.type_ == "Connected").unwrap();
    assert_eq!(connected.reason, "NoNetworksSelected");
    assert_eq!(json!(status.status), "Success");

    let zones = run_zones(&bed).await;
    let counts = "connected: 0 networks with 0 ports in each of 3 zones; no network is selected: ";
    until_connected(&bed, "False", counts).await;
    edit(&bed, &json!({"networkSelectors": selectors})).await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    for (controller, _) in zones {
        controller.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn oddities_are_reported_although_everything_is_connected() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    let zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    // The same networks in another range.
    let mut other = crate::testbed::connect();
    other.metadata.name = Some("other".to_owned());
    "192.170.0.0/16".clone_into(&mut other.spec.connect_subnets[0].cidr);
    bed.create(&other).await;
    let expected = "6 ports in each of 3 zones; noted: zones ovn-control-plane, ovn-worker, ovn-worker2: connect other also joins networks \
                cluster_udn_blue-network, cluster_udn_green-network: the path";
    until_connected(&bed, "True", expected).await;
    for (controller, _) in zones {
        controller.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

/// Number of events about the condition `Connected`.
async fn connected_events(bed: &Testbed) -> i32 {
    let uid = bed.connected().await.uid();
    let events = Api::<Event>::namespaced(bed.client.clone(), "default")
        .list(&ListParams::default())
        .await
        .unwrap();
    let of_zones = events.into_iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        let reason = event.reason.as_deref().unwrap_or_default();
        regarding.is_some_and(|regarding| regarding.uid == uid)
            && ["Connected", "NotConnected"].contains(&reason)
    });
    let counts = of_zones.map(|event| event.series.map_or(1, |series| series.count));
    counts.sum()
}

#[tokio::test]
async fn zones_that_come_and_go_cause_no_events() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    eventually("an event about it", async || (connected_events(&bed).await > 0).then_some(()))
        .await;
    let before = connected_events(&bed).await;

    let last = zones.len() - 1;
    let node = zones[last].1.name.clone();
    let object = bed.nodes().get(&node).await.unwrap();
    for _ in 0..4 {
        let (controller, zone) = zones.pop().unwrap();
        controller.stop().await;
        let delete = DeleteParams::default();
        bed.nodes().delete(&node, &delete).await.unwrap();
        until_connected(&bed, "True", "2 networks with 4 ports in each of 2 zones").await;
        bed.create(&object).await;
        zones.push((bed.run_zone(&zone), zone));
        until_connected(&bed, "True", "2 networks with 6 ports in each of 3 zones").await;
    }
    // A flapping state does not cause an event each time.
    let chassis = "k8s.ovn.org/node-chassis-id";
    for _ in 0..4 {
        for (value, status) in
            [(Value::Null, "False"), (json!(object.annotations()[chassis]), "True")]
        {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {chassis: value}}}));
            let params = PatchParams::default();
            bed.nodes().patch(&node, &params, &patch).await.unwrap();
            until_connected(&bed, status, "in each of 3 zones").await;
        }
    }
    assert!((before..=3).contains(&connected_events(&bed).await));
    for (controller, _) in zones {
        controller.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}
