//! Kinds that a controller may not list, beside others.

use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use patchbay_model::Feature;
use patchbay_schemas::nb::LogicalRouter;
use serde_json::json;

use crate::apiserver::Reply;
use crate::networks::{
    RED, create_network, create_pod, events_about, fail_each, layer2, layer3, object, pods, udns,
    until_created, until_pods,
};
use crate::testbed::{Testbed, ZONE, condition, eventually, run_zones, until_connected};
use crate::zone_database::Zone;

const EGRESS_FIREWALLS: &str = "/egressfirewalls$";

async fn networks_bed(features: &[Feature]) -> (Testbed, Zone) {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    bed.features = features.to_vec();
    (bed, Zone::without_networks(ZONE).await)
}

/// Waits until a pod has its addresses.
async fn until_addressed(bed: &Testbed, name: &str) {
    eventually(&format!("the addresses of {name}"), async || {
        let pod = pods(bed).get(name).await.unwrap();
        let networks = pod.annotations().get("k8s.ovn.org/pod-networks")?;
        networks.contains("ip_addresses").then_some(())
    })
    .await;
}

/// Waits for an event about an object without a namespace or in the controllers' own.
pub(crate) async fn until_warned(bed: &Testbed, kind: &str, name: &str, text: &str) {
    let api = Api::<Event>::namespaced(bed.client.clone(), "default");
    eventually(&format!("an event about {kind} {name}: {text}"), async || {
        let events = api.list(&ListParams::default()).await.unwrap();
        let mut found = events.into_iter().filter(|event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            // kubectl finds events by the UID.
            regarding.kind.as_deref() == Some(kind)
                && regarding.name.as_deref() == Some(name)
                && regarding.uid.is_some()
        });
        let is_about = |event: Event| event.note.is_some_and(|note| note.starts_with(text));
        found.any(is_about).then_some(())
    })
    .await;
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

/// Kinds that only the cluster manager reads, and that may be missing.
const MANAGER_KINDS: [&str; 4] =
    ["/ipamclaims$", "/routeadvertisements$", "/vteps$", "/egressips$"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_do_not_wait_for_kinds_that_the_manager_may_not_list() {
    let (mut bed, _) = networks_bed(&[Feature::RouteAdvertisements, Feature::Evpn]).await;
    bed.features.extend([Feature::EgressIp, Feature::DynamicUdnAllocation]);
    refuse_lists(&bed, MANAGER_KINDS);
    let manager = bed.run_cluster("one");
    create_network(&bed, layer2()).await;
    until_created(&bed).await;
    create_pod(&bed, "a").await;
    until_addressed(&bed, "a").await;
    until_warned(&bed, "Lease", "patchbay-cluster", "IPAMClaim: ").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_persistent_addresses_wait_for_claims() {
    let (bed, _) = networks_bed(&[]).await;
    let first = bed.run_cluster("one");
    eventually("the first leader", async || {
        let requests = bed.api().requests();
        let mut lists = requests.iter();
        lists.any(|one| one.path.ends_with("/ipamclaims")).then_some(())
    })
    .await;
    let next = bed.run_cluster("two");
    let mut spec = layer2();
    spec["layer2"]["ipam"] = json!({"lifecycle": "Persistent"});
    create_network(&bed, spec).await;
    until_created(&bed).await;
    create_pod(&bed, "a").await;
    until_addressed(&bed, "a").await;

    // The next leader has listed claims, but may have missed those of the former one.
    refuse_lists(&bed, ["/ipamclaims$"]);
    first.stop().await;
    create_pod(&bed, "b").await;
    eventually("an event about the waiting pod", async || {
        let events = events_about(&bed, "Pod").await;
        let text = "IPAMClaims cannot be listed";
        let mut notes = events.iter().map(|(name, _, note)| (name.as_str(), note));
        notes.any(|(name, note)| name == "b" && note.contains(text)).then_some(())
    })
    .await;
    let waiting = pods(&bed).get("b").await.unwrap();
    assert!(!waiting.annotations().contains_key("k8s.ovn.org/pod-networks"));
    bed.api().end_faults();
    until_addressed(&bed, "b").await;
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_lost_is_in_events() {
    let (bed, zone) = networks_bed(&[]).await;
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer3()).await;
    create_pod(&bed, "a").await;
    until_pods(&zone, &["a"]).await;

    let refused = Reply::Status(403, None);
    let lost = ["/networkpolicies$", "/ipamclaims$"];
    fail_each(&bed, lost.map(|path| ("LIST", path, refused, usize::MAX)));
    fail_each(&bed, lost.map(|path| ("WATCH", path, refused, usize::MAX)));
    bed.api().drop_watches();
    until_warned(&bed, "Node", ZONE, "NetworkPolicy: ").await;
    until_warned(&bed, "Lease", "patchbay-cluster", "IPAMClaim: ").await;
    // Those of the last list count.
    create_pod(&bed, "b").await;
    until_pods(&zone, &["a", "b"]).await;
    both.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_first_list_of_the_reports_delays_only_the_condition_of_the_zones() {
    let bed = Testbed::simulated().await;
    refuse_lists(&bed, ["/configmaps$"]);
    let zones = run_zones(&bed).await;
    let manager = bed.run_cluster("one");
    bed.connect().await;
    let connect = bed.until_allocated(2).await;
    assert!(condition(&connect, "Connected").is_none());
    let text = "ConfigMap: cannot be listed, so the controller waits for its objects: ";
    until_warned(&bed, "Lease", "patchbay-cluster", text).await;
    assert!(condition(&bed.connected().await, "Connected").is_none());
    bed.api().end_faults();
    until_connected(&bed, "True", "").await;
    manager.stop().await;
    for (zone, _) in zones {
        zone.stop().await;
    }
}
