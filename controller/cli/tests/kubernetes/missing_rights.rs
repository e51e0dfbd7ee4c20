//! Kinds that a controller may not list, beside others.

use kube::api::PostParams;
use patchbay_model::Feature;
use patchbay_schemas::nb::LogicalRouter;
use serde_json::json;

use crate::apiserver::Reply;
use crate::networks::{
    RED, create_network, create_pod, fail_each, layer3, object, udns, until_pods,
};
use crate::testbed::{Testbed, ZONE};
use crate::zone_database::Zone;

const EGRESS_FIREWALLS: &str = "/egressfirewalls$";

async fn networks_bed(features: &[Feature]) -> (Testbed, Zone) {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    bed.features = features.to_vec();
    (bed, Zone::without_networks(ZONE).await)
}

/// Refuses all lists of kinds whose paths end like this.
fn refuse_lists<const N: usize>(bed: &Testbed, paths: [&'static str; N]) {
    let refused = Reply::Status(403, None);
    fail_each(bed, paths.map(|path| ("LIST", path, refused, usize::MAX)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_do_not_wait_for_kinds_that_they_do_not_follow_from() {
    let (bed, zone) = networks_bed(&[Feature::EgressIp, Feature::AdminNetworkPolicy]).await;
    refuse_lists(
        &bed,
        [
            "/routeadvertisements$",
            "/egressips$",
            "/adminnetworkpolicies$",
            "/baselineadminnetworkpolicies$",
            // Their feature is off.
            EGRESS_FIREWALLS,
        ],
    );
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer3()).await;
    create_pod(&bed, "a").await;
    until_pods(&zone, &["a"]).await;
    both.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_ports_wait_for_firewalls_that_may_not_be_listed() {
    let (bed, zone) = networks_bed(&[Feature::EgressFirewall]).await;
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer3()).await;
    create_pod(&bed, "a").await;
    until_pods(&zone, &["a"]).await;
    both.stop().await;

    refuse_lists(&bed, [EGRESS_FIREWALLS]);
    let both = bed.run("one", true, Some(&zone));
    create_pod(&bed, "b").await;
    let spec = json!({"topology": "Layer3", "layer3": {
        "role": "Secondary", "subnets": [{"cidr": "10.151.0.0/16", "hostSubnet": 24}],
    }});
    let later = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": "later", "namespace": RED}, "spec": spec,
    });
    let create = PostParams::default();
    udns(&bed).create(&create, &object(later)).await.unwrap();
    zone.until("the later network has its router", |zone| {
        let mut routers = zone.rows::<LogicalRouter>().into_iter();
        routers.find(|router| router.name.contains("red_later"))
    })
    .await;
    until_pods(&zone, &["a"]).await;
    bed.api().end_faults();
    until_pods(&zone, &["a", "b"]).await;
    both.stop().await;
}
