//! The cluster manager: from selectors to annotations and status.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use patchbay_schemas::nb::LogicalRouterPort;

use crate::testbed::{
    CONNECT, NAMESPACE, Testbed, ZONE, accepted, condition, connect, eventually, subnets,
    tunnel_key,
};
use crate::zone_database::Zone;

#[tokio::test]
async fn the_documents_example_gets_its_annotations() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let connect = bed.until_allocated(2).await;

    assert_eq!(tunnel_key(&connect), Some("16715779"));
    assert_eq!(
        connect.annotations()["k8s.ovn.org/network-connect-subnet"],
        r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"layer3_2":{"ipv4":"192.168.1.0/24"}}"#
    );
    let status = connect.status.as_ref().unwrap();
    assert_eq!(json!(status.status), "Success");
    let condition = &status.conditions[0];
    assert_eq!(condition.reason, "ResourceAllocationSucceeded");
    assert_eq!(condition.message, "All validation checks passed successfully");
    assert_eq!(condition.observed_generation, Some(1));

    let managers: Vec<_> = connect
        .managed_fields()
        .iter()
        .filter(|entry| entry.operation.as_deref() == Some("Apply"))
        .map(|entry| {
            let fields = json!(entry.fields_v1);
            let annotations = &fields["f:metadata"]["f:annotations"];
            let keys = annotations.as_object().into_iter().flat_map(|keys| keys.keys().cloned());
            (
                entry.manager.as_deref().unwrap_or_default(),
                entry.subresource.as_deref(),
                keys.filter(|key| key != ".").collect::<Vec<_>>(),
            )
        })
        .collect();
    let expected = [
        ("clustermanager-networkconnect-controller", Some("status"), vec![]),
        (
            "ovn-kubernetes-network-connect-controller-subnet-annotation",
            None,
            vec!["f:k8s.ovn.org/network-connect-subnet".to_owned()],
        ),
        (
            "ovn-kubernetes-network-connect-controller-tunnel-key-annotation",
            None,
            vec!["f:k8s.ovn.org/connect-router-tunnel-key".to_owned()],
        ),
    ];
    for manager in expected {
        assert!(managers.contains(&manager), "{manager:?} is not in {managers:?}");
    }
    eventually("an event `Accepted`", async || {
        let events = bed.events().await;
        events.iter().any(|(reason, _)| reason == "Accepted").then_some(())
    })
    .await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_restart_writes_nothing() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    cluster.stop().await;

    let cluster = bed.run_cluster("two");
    // A later object is allocated only after the first reconciliation.
    let other = {
        let mut other = connect();
        other.metadata.name = Some("other".to_owned());
        other.spec.connect_subnets[0].cidr = "192.170.0.0/16".to_owned();
        bed.create(&other).await
    };
    eventually("the other connect is allocated, too", async || {
        let other = bed.connects().get(&other.name_any()).await.unwrap();
        accepted(&other)
    })
    .await;
    let after = bed.connected().await;
    assert_eq!(after.resource_version(), before.resource_version());
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn an_overlapping_connect_is_rejected_until_the_other_one_is_deleted() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let before = bed.until_allocated(2).await;

    // A second one with the same networks and the same range.
    let mut second = connect();
    second.metadata.name = Some("second".to_owned());
    bed.create(&second).await;
    let (status, message) = eventually("the second is refused", async || {
        accepted(&bed.connects().get("second").await.unwrap())
    })
    .await;
    assert_eq!(status, "False");
    assert_eq!(
        message,
        "cross-validation failed for CNC second: connectSubnets overlap detected between CNC second and CNC \
         blue-green-connect which both select networks [layer3_1 layer3_2]"
    );
    let refused = bed.connects().get("second").await.unwrap();
    assert_eq!(json!(refused.status.as_ref().unwrap().status), "Failure");
    assert_eq!(tunnel_key(&bed.connected().await), tunnel_key(&before));

    bed.connects().delete(CONNECT, &DeleteParams::default()).await.unwrap();
    eventually("the second is accepted", async || {
        let second = bed.connects().get("second").await.unwrap();
        (accepted(&second)?.0 == "True" && subnets(&second).len() == 2).then_some(())
    })
    .await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn selection_follows_labels() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let before = bed.until_allocated(2).await;

    bed.label_nad("green", &json!({"app": null})).await;
    let after = bed.until_allocated(1).await;
    assert_eq!(tunnel_key(&after), tunnel_key(&before));
    let (blue, _) = subnets(&after).pop_first().unwrap();
    assert_eq!(subnets(&after)[&blue], subnets(&before)[&blue]);

    bed.label_nad("green", &json!({"app": "colored-enterprise"})).await;
    bed.until_allocated(2).await;
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn edits_by_others_are_reverted() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    let edit = json!({"metadata": {"annotations": {
        "k8s.ovn.org/network-connect-subnet": "{}",
        "example.org/note": "mine",
    }}});
    let params = PatchParams::default();
    bed.connects().patch(CONNECT, &params, &Patch::Merge(edit)).await.unwrap();
    let after = bed.until_allocated(2).await;
    assert_eq!(subnets(&after), subnets(&before));
    assert_eq!(after.annotations()["example.org/note"], "mine");
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_recreated_connect_gets_new_allocations() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    bed.connects().delete(CONNECT, &DeleteParams::default()).await.unwrap();
    bed.connect().await;
    let after = bed.until_allocated(2).await;
    assert_ne!(after.uid(), before.uid());
    // Keys are allocated in rotation, so that a new router does not get the key of the previous
    // one.
    assert_ne!(tunnel_key(&after), tunnel_key(&before));
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn annotations_that_cannot_be_decoded_are_not_overwritten() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let ports = |zone: &Zone| {
        let ports = zone.rows::<LogicalRouterPort>().into_iter();
        let names = ports.map(|port| port.name);
        names.filter(|name| name.starts_with("crtor-")).count()
    };
    zone.until("it is connected", |zone| (ports(zone) == 6).then_some(())).await;
    // Others edit a ClusterNetworkConnect and a node while the controller is stopped.
    both.stop().await;
    let patch =
        |key: &str, value: &str| Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    let params = PatchParams::default();
    let broken = patch("k8s.ovn.org/network-connect-subnet", "{");
    bed.connects().patch(CONNECT, &params, &broken).await.unwrap();
    let both = bed.run("one", true, Some(&zone));
    let (_, message) = eventually("the status is `False`", async || {
        accepted(&bed.connected().await).filter(|(status, _)| status == "False")
    })
    .await;
    let expected = "failed to initialize subnet allocator for CNC blue-green-connect: annotation k8s.ovn.org/network-connect-subnet: ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(bed.connected().await.annotations()["k8s.ovn.org/network-connect-subnet"], "{");
    assert_eq!(ports(&zone), 6, "what was connected stays");

    let mended = patch("k8s.ovn.org/network-connect-subnet", "{}");
    bed.connects().patch(CONNECT, &params, &mended).await.unwrap();
    bed.until_allocated(2).await;

    // An annotation of a node that cannot be decoded keeps its last value.
    for (key, value) in [("k8s.ovn.org/node-id", "two"), ("k8s.ovn.org/node-subnets", "[]")] {
        bed.nodes().patch("ovn-worker2", &params, &patch(key, value)).await.unwrap();
    }
    bed.nodes().delete("ovn-control-plane", &DeleteParams::default()).await.unwrap();
    zone.until("another node is gone", |zone| (ports(zone) == 4).then_some(())).await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn contradictory_annotations_are_reported_and_do_not_stop_the_rest() {
    let mut bed = Testbed::new().await;
    // The next leader waits for the lease of a killed one.
    bed.lease = Duration::from_secs(2);
    let zone = bed.zone(ZONE).await;
    let cluster = bed.run_cluster("one");
    let node = bed.run_zone(&zone);
    bed.connect().await;
    bed.until_allocated(2).await;
    let until_reported = async |message: &str| {
        eventually(message, async || {
            let (status, found) = condition(&bed.connected().await, "Connected")?;
            (status == "False" && found.contains(message)).then_some(())
        })
        .await;
    };
    let patch =
        |key: &str, value: &str| Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    let (nodes, params) = (bed.nodes(), PatchParams::default());
    let id = nodes.get("ovn-worker").await.unwrap().annotations()["k8s.ovn.org/node-id"].clone();
    let former =
        nodes.get("ovn-worker2").await.unwrap().annotations()["k8s.ovn.org/node-id"].clone();

    let twice = patch("k8s.ovn.org/node-id", &id);
    nodes.patch("ovn-worker2", &params, &twice).await.unwrap();
    until_reported("node ovn-worker2: the node has the id of node ovn-worker").await;
    let mended = patch("k8s.ovn.org/node-id", &former);
    nodes.patch("ovn-worker2", &params, &mended).await.unwrap();

    // Without a leader, another client adds an unknown network to the annotation.
    cluster.kill().await;
    let connect = bed.connected().await;
    let mut entries = subnets(&connect);
    entries.insert("layer3_99".to_owned(), json!({"ipv4": "192.168.9.0/24"}));
    let added = patch("k8s.ovn.org/network-connect-subnet", &json!(entries).to_string());
    bed.connects().patch(CONNECT, &params, &added).await.unwrap();
    let reports = Api::<ConfigMap>::namespaced(bed.client.clone(), NAMESPACE);
    eventually("the zone reports it", async || {
        let report = reports.get(&format!("patchbay-zone-{ZONE}")).await.unwrap();
        let summary = report.data?.remove(CONNECT)?;
        (summary.contains("network layer3_99: the network is not known")
            && summary.contains(r#""networks":2"#))
        .then_some(())
    })
    .await;
    let cluster = bed.run_cluster("two");
    bed.until_allocated(2).await;
    cluster.stop().await;
    node.stop().await;
    bed.clear().await;
}
