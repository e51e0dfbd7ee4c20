//! What zones report, and the condition that it becomes.

use std::time::Duration;

use crate::stored::ClusterNetworkConnect;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::bed::{Bed, CONNECT, NAMESPACE, Running, ZONE, condition, eventually};
use crate::database::Zone;

/// All zones, and their halves at work.
async fn run_zones(bed: &Bed) -> Vec<(Running, Zone)> {
    let mut zones = Vec::new();
    for (key, _) in bed.inventory.nodes.iter() {
        let zone = bed.zone(&key.name).await;
        zones.push((bed.run_zone(&zone), zone));
    }
    zones
}

async fn edit(bed: &Bed, spec: &Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    let params = PatchParams::default();
    bed.connects()
        .patch(CONNECT, &params, &patch)
        .await
        .unwrap();
}

/// Waits until the condition is like this, about the connect as it is now, and says this.
async fn until_told(bed: &Bed, status: &str, told: &str) {
    let what = format!("Connected is {status}: {told}");
    eventually(&what, async || {
        let connect = bed.connected().await;
        let (found, message) = condition(&connect, "Connected")?;
        let is_told = found == status && message.contains(told) && observes(&connect);
        is_told.then_some(())
    })
    .await;
}

/// Whether the condition is about the connect as it is now.
fn observes(connect: &ClusterNetworkConnect) -> bool {
    let conditions = &connect.status.as_ref().unwrap().conditions;
    let condition = conditions.iter().find(|one| one.type_ == "Connected");
    condition.unwrap().observed_generation == connect.metadata.generation
}

#[tokio::test]
async fn what_all_zones_report_becomes_one_condition() {
    let bed = Bed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    assert_eq!(condition(&bed.connected().await, "Connected"), None);

    let mut zones = Vec::new();
    for (key, _) in bed.inventory.nodes.iter() {
        let zone = bed.zone(&key.name).await;
        zones.push((bed.run_zone(&zone), zone));
        let nodes = bed.nodes().list(&ListParams::default()).await.unwrap();
        let (told, all) = (zones.len(), nodes.items.len());
        let (status, start) = (
            if told == all { "True" } else { "Unknown" },
            format!(
                "connected: 2 networks with {} ports in {told} zone",
                6 * told
            ),
        );
        let what = format!("{told} zones have reported");
        eventually(&what, async || {
            let (found, message) = condition(&bed.connected().await, "Connected")?;
            (found == status && message.starts_with(&start)).then_some(())
        })
        .await;
    }
    let status = bed.connected().await.status.clone().unwrap();
    assert_eq!(json!(status.status), "Success");

    if bed.api.is_some() {
        eventually("an event says so", async || {
            let events = bed.events().await;
            let note = "connected: 2 networks with 18 ports in 3 zones";
            let told = ("Connected".to_owned(), note.to_owned());
            events.contains(&told).then_some(())
        })
        .await;
    }

    // A node that cannot be connected is told by all the others, as one.
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {"k8s.ovn.org/node-chassis-id": null}}}));
    let (nodes, params) = (bed.nodes(), PatchParams::default());
    nodes.patch("ovn-worker2", &params, &patch).await.unwrap();
    let (_, message) = eventually("the condition is false", async || {
        condition(&bed.connected().await, "Connected")
            .filter(|(status, message)| status == "False" && message.contains("zones "))
    })
    .await;
    let told = "skipped: zones ovn-control-plane, ovn-worker: network cluster_udn_blue-network, node ovn-worker2: the node has no chassis id yet; ";
    assert!(message.contains(told), "{message}");
    for (running, _) in zones {
        running.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_report_that_is_deleted_is_written_again() {
    let mut bed = Bed::new().await;
    bed.repeat = Duration::from_millis(200);
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    let reports = Api::<ConfigMap>::namespaced(bed.client.clone(), NAMESPACE);
    let name = format!("patchbay-zone-{ZONE}");
    let reported = async || {
        let report = reports.get_opt(&name).await.unwrap()?;
        let said = report.data?.remove(CONNECT)?;
        said.contains(r#""networks":2"#)
            .then_some(report.metadata.uid)
    };
    let first = eventually("the zone reports", reported).await;
    reports
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let second = eventually("the zone reports again", reported).await;
    assert_ne!(first, second);
    cluster.stop().await;
    node.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn zones_that_have_not_seen_a_change_do_not_vouch_for_it() {
    let bed = Bed::new().await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;

    // The half of one zone dies, and nobody is there to do what is changed.
    let (half, zone) = zones.pop().unwrap();
    half.kill().await;
    let missing = format!("in 2 zones; not up to date in zone {}", zone.name);
    edit(&bed, &json!({"connectivity": ["ServiceNetwork"]})).await;
    until_told(&bed, "Unknown", &missing).await;
    let half = bed.run_zone(&zone);
    until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;

    // Networks come and go without another generation.
    half.kill().await;
    bed.label_nad("green", &json!({"app": null})).await;
    until_told(&bed, "Unknown", &missing).await;
    let half = bed.run_zone(&zone);
    until_told(&bed, "True", "1 network with 9 ports in 3 zones").await;

    // What changes nothing in the database is seen all the same.
    edit(
        &bed,
        &json!({"connectivity": ["ServiceNetwork", "PodNetwork"]}),
    )
    .await;
    until_told(&bed, "True", "in 3 zones").await;
    edit(
        &bed,
        &json!({"connectivity": ["PodNetwork", "ServiceNetwork"]}),
    )
    .await;
    until_told(&bed, "True", "in 3 zones").await;

    half.stop().await;
    for (half, _) in zones {
        half.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn an_edit_is_told_as_unknown_once_and_then_as_done_once() {
    let mut bed = Bed::simulated().await;
    // Long enough for all zones to report within half of it on a busy machine.
    bed.report = Duration::from_secs(2);
    let cluster = bed.run_cluster("one");
    let zones = run_zones(&bed).await;
    bed.connect().await;
    until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;
    let written = |bed: &Bed| {
        let requests = bed.api().requests().into_iter();
        let statuses = requests.filter(|one| one.writes_connect() && one.path.ends_with("/status"));
        statuses.count()
    };
    let before = written(&bed);
    edit(&bed, &json!({"connectivity": ["ServiceNetwork"]})).await;
    let told = "not up to date in zones ovn-control-plane, ovn-worker, ovn-worker2";
    until_told(&bed, "Unknown", told).await;
    // Something else happens, so that the leader looks at everything, while some zones have reported and others have not.
    for round in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bed.label_nad("green", &json!({"round": round.to_string()}))
            .await;
    }
    until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;
    assert_eq!(written(&bed), before + 2);
    for (half, _) in zones {
        half.stop().await;
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_zone_without_its_database_says_so() {
    let bed = Bed::new().await;
    let mut zone = bed.zone(ZONE).await;
    let mut relay = zone.hide();
    relay.mend();
    let cluster = bed.run_cluster("one");
    let half = bed.run_zone(&zone);
    bed.connect().await;
    until_told(
        &bed,
        "Unknown",
        "2 networks with 6 ports in 1 zone; no report",
    )
    .await;

    let lost = format!(
        "connected: 2 networks with 6 ports in 1 zone; \
         skipped: zone {ZONE}: the Northbound database cannot be reached"
    );
    relay.cut().await;
    until_told(&bed, "False", &lost).await;
    edit(&bed, &json!({"connectivity": ["ServiceNetwork"]})).await;
    until_told(&bed, "False", &lost).await;
    relay.mend();
    until_told(
        &bed,
        "Unknown",
        "2 networks with 6 ports in 1 zone; no report",
    )
    .await;

    // So does one that has never reached it.
    half.stop().await;
    relay.cut().await;
    let half = bed.run_zone(&zone);
    until_told(&bed, "False", "0 networks with 0 ports in 1 zone; skipped").await;
    half.stop().await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn what_is_odd_is_told_although_everything_is_connected() {
    let bed = Bed::new().await;
    let cluster = bed.run_cluster("one");
    let zones = run_zones(&bed).await;
    bed.connect().await;
    until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;
    // The same networks once more, through another range.
    let mut other = crate::bed::connect();
    other.metadata.name = Some("other".to_owned());
    "192.170.0.0/16".clone_into(&mut other.spec.connect_subnets[0].cidr);
    bed.create(&other).await;
    let told = "18 ports in 3 zones; noted: zones ovn-control-plane, ovn-worker, ovn-worker2: connect other joins networks \
                cluster_udn_blue-network, cluster_udn_green-network, too";
    until_told(&bed, "True", told).await;
    for (half, _) in zones {
        half.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}

/// How often something of zones was told about the connect.
async fn told(bed: &Bed) -> i32 {
    let uid = bed.connected().await.uid();
    let events = Api::<Event>::namespaced(bed.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
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
async fn events_do_not_follow_zones_that_come_and_go() {
    let bed = Bed::new().await;
    let cluster = bed.run_cluster("one");
    let mut zones = run_zones(&bed).await;
    bed.connect().await;
    until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;
    eventually("an event says so", async || {
        (told(&bed).await > 0).then_some(())
    })
    .await;
    let before = told(&bed).await;

    let last = zones.len() - 1;
    let node = zones[last].1.name.clone();
    let object = bed.nodes().get(&node).await.unwrap();
    for _ in 0..4 {
        let (half, zone) = zones.pop().unwrap();
        half.stop().await;
        let delete = DeleteParams::default();
        bed.nodes().delete(&node, &delete).await.unwrap();
        until_told(&bed, "True", "2 networks with 8 ports in 2 zones").await;
        bed.create(&object).await;
        zones.push((bed.run_zone(&zone), zone));
        until_told(&bed, "True", "2 networks with 18 ports in 3 zones").await;
    }
    // What is flapping is not told each time.
    let chassis = "k8s.ovn.org/node-chassis-id";
    for _ in 0..4 {
        for (value, status) in [
            (Value::Null, "False"),
            (json!(object.annotations()[chassis]), "True"),
        ] {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {chassis: value}}}));
            let params = PatchParams::default();
            bed.nodes().patch(&node, &params, &patch).await.unwrap();
            until_told(&bed, status, "in 3 zones").await;
        }
    }
    assert!((before..=3).contains(&told(&bed).await));
    for (half, _) in zones {
        half.stop().await;
    }
    cluster.stop().await;
    bed.clear().await;
}
