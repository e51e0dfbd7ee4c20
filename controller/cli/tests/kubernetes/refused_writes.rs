//! Writes that an API server refuses, or that fail as those to objects of a webhook that is down.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apiserver::Reply;
use crate::networks::{
    RED, create_network, create_pod, events_about, fail_each, layer2, pods, udns,
};
use crate::stored::ClusterUserDefinedNetwork;
use crate::testbed::{Testbed, eventually};

const ORDERED: &str = "as ordered by the test";

async fn manager_bed() -> Testbed {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    bed
}

/// Message of the condition `NetworkCreated`, if its status is this one.
fn created(network: &DynamicObject, status: &str) -> Option<String> {
    let mut conditions = network.data["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|one| one["type"] == "NetworkCreated")?;
    let message = found["message"].as_str().unwrap_or_default();
    (found["status"] == status).then(|| message.to_owned())
}

/// Waits until `NetworkCreated` has a status, with a message that begins like this. Watches of other
/// kinds may be late, so that another message comes first.
async fn until_created(api: &Api<DynamicObject>, status: &str, message: &str) {
    eventually(&format!("NetworkCreated is {status}: {message}"), async || {
        let found = created(&api.get(RED).await.unwrap(), status)?;
        found.starts_with(message).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_whose_webhook_is_down_is_in_the_condition() {
    let bed = manager_bed().await;
    let definitions = "/network-attachment-definitions$";
    let down = Reply::Status(500, None);
    fail_each(&bed, [("POST", definitions, down, usize::MAX)]);
    let manager = bed.run_cluster("one");
    create_network(&bed, layer2()).await;
    let expected = format!("failed to create NetworkAttachmentDefinition: {ORDERED}");
    until_created(&udns(&bed), "False", &expected).await;
    bed.api().end_faults();
    until_created(&udns(&bed), "True", "").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finalizer_that_is_refused_is_in_the_condition() {
    for code in [403, 500] {
        let bed = manager_bed().await;
        let refused = Reply::Status(code, None);
        let object = ("PATCH", "/userdefinednetworks/red$", refused, usize::MAX);
        fail_each(&bed, [object]);
        let manager = bed.run_cluster("one");
        create_network(&bed, layer2()).await;
        let expected = format!("failed to add finalizer to UserDefinedNetwork: {ORDERED}");
        until_created(&udns(&bed), "False", &expected).await;
        bed.api().end_faults();
        until_created(&udns(&bed), "True", "").await;
        fail_each(&bed, [object]);
        let deleted = udns(&bed).delete(RED, &DeleteParams::default()).await;
        deleted.unwrap();
        let expected = format!("failed to remove finalizer to UserDefinedNetwork: {ORDERED}");
        until_created(&udns(&bed), "False", &expected).await;
        bed.api().end_faults();
        eventually("the network is gone", async || {
            let left = udns(&bed).get_opt(RED).await.unwrap();
            left.is_none().then_some(())
        })
        .await;
        manager.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_finalizer_of_a_cluster_network_that_is_refused_is_in_the_condition() {
    let bed = manager_bed().await;
    let object = "/clusteruserdefinednetworks/red$";
    fail_each(&bed, [("PATCH", object, Reply::Status(403, None), usize::MAX)]);
    let manager = bed.run_cluster("one");
    let network: ClusterUserDefinedNetwork = serde_json::from_value(json!({
        "metadata": {"name": RED},
        "spec": {"namespaceSelector": {"matchLabels": {"net": RED}}, "network": {
            "topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.160.0.0/16"]},
        }},
    }))
    .unwrap();
    bed.create(&network).await;
    let resource = ApiResource::erase::<ClusterUserDefinedNetwork>(&());
    let networks = Api::all_with(bed.client.clone(), &resource);
    let expected =
        format!("failed to add finalizer to ClusterUserDefinedNetwork {RED:?}: {ORDERED}");
    until_created(&networks, "False", &expected).await;
    bed.api().end_faults();
    until_created(&networks, "True", "").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_cannot_be_written_have_an_event() {
    for code in [403, 500] {
        let bed = manager_bed().await;
        let refused = Reply::Status(code, None);
        let writes = ["/pods/a$", "/userdefinednetworks/red$"];
        fail_each(&bed, writes.map(|path| ("PATCH", path, refused, usize::MAX)));
        let manager = bed.run_cluster("one");
        create_network(&bed, layer2()).await;
        create_pod(&bed, "a").await;
        let objects = [
            ("Pod", "a", "ErrorAllocatingPod"),
            ("UserDefinedNetwork", RED, "NetworkAllocationFailed"),
        ];
        for (kind, name, reason) in objects {
            eventually(&format!("an event about {kind} {name}"), async || {
                let mut events = events_about(&bed, kind)
                    .await
                    .into_iter()
                    .filter(|one| one.0 == name && one.1 == reason);
                events.find(|one| one.2.starts_with(ORDERED))
            })
            .await;
        }
        bed.api().end_faults();
        eventually("the pod has addresses", async || {
            let pod: Pod = pods(&bed).get("a").await.unwrap();
            let networks = pod.annotations().get("k8s.ovn.org/pod-networks");
            networks.map(drop)
        })
        .await;
        for (kind, name, reason) in objects {
            let events = events_about(&bed, kind).await;
            let own = events
                .iter()
                .filter(|one| one.0 == name && one.1 == reason)
                .filter(|one| one.2.starts_with(ORDERED));
            assert_eq!(own.count(), 1, "{events:?}");
        }
        manager.stop().await;
    }
}
