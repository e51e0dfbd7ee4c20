//! Objects of the cluster manager of networks on an API server that refuses, lacks and keeps some.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use patchbay_model::{Feature, GatewayMode};
use serde_json::{Value, json};

use crate::apiserver::Reply;
use crate::networks::{
    RED, assert_all_allowed, create_network, events_about, fail_each, layer2, layer3, object, pods,
    udns,
};
use crate::testbed::{Testbed, ZONE, eventually};

const PROTECTION: &str = "k8s.ovn.org/user-defined-network-protection";

async fn manager_bed(features: &[Feature]) -> Testbed {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    bed.features = features.to_vec();
    bed
}

fn cluster_wide(bed: &Testbed, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "k8s.ovn.org".to_owned(),
        version: "v1".to_owned(),
        api_version: "k8s.ovn.org/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::all_with(bed.client.clone(), &resource)
}

fn cudns(bed: &Testbed) -> Api<DynamicObject> {
    cluster_wide(bed, "ClusterUserDefinedNetwork", "clusteruserdefinednetworks")
}

async fn create(api: &Api<DynamicObject>, raw: Value) {
    let created = api.create(&PostParams::default(), &object(raw)).await;
    created.unwrap();
}

/// Status, reason and message of a condition.
pub(crate) fn condition(object: &DynamicObject, type_: &str) -> Option<[String; 3]> {
    let mut conditions = object.data["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|one| one["type"] == type_)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some([text("status"), text("reason"), text("message")])
}

/// Waits for a condition with a message that starts like this. Returns the message.
pub(crate) async fn until_condition(
    api: &Api<DynamicObject>,
    name: &str,
    type_: &str,
    [status, reason, message]: [&str; 3],
) -> String {
    eventually(&format!("{name}: {type_} {reason}: {message}"), async || {
        let object = api.get_opt(name).await.unwrap()?;
        let found = condition(&object, type_)?;
        let is_wanted = found[0] == status && found[1] == reason && found[2].starts_with(message);
        is_wanted.then(|| found[2].clone())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_definition_is_in_the_condition_until_it_is_accepted() {
    let bed = manager_bed(&[]).await;
    let definitions = "/network-attachment-definitions$";
    fail_each(&bed, [("POST", definitions, Reply::Status(403, None), usize::MAX)]);
    let manager = bed.run_cluster("one");
    create_network(&bed, layer3()).await;
    let refused = "failed to create NetworkAttachmentDefinition: as ordered by the test";
    let failed = ["False", "SyncError", refused];
    until_condition(&udns(&bed), RED, "NetworkCreated", failed).await;
    let first = udns(&bed).get(RED).await.unwrap();
    assert_eq!(first.finalizers(), [PROTECTION]);
    // Further attempts do not change the condition.
    let attempts = || {
        let requests = bed.api().requests();
        requests.iter().filter(|one| one.method == "POST" && one.status == 403).count()
    };
    let seen = attempts();
    eventually("further attempts", async || (attempts() > seen + 2).then_some(())).await;
    assert_eq!(udns(&bed).get(RED).await.unwrap(), first);
    bed.api().end_faults();
    let created = ["True", "NetworkAttachmentDefinitionCreated", ""];
    until_condition(&udns(&bed), RED, "NetworkCreated", created).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_with_a_finalizer_of_another_program_is_awaited() {
    let bed = manager_bed(&[]).await;
    let manager = bed.run_cluster("one");
    create_network(&bed, layer3()).await;
    let created = ["True", "NetworkAttachmentDefinitionCreated", ""];
    until_condition(&udns(&bed), RED, "NetworkCreated", created).await;
    let patch =
        Patch::Merge(json!({"metadata": {"finalizers": [PROTECTION, "example.com/other"]}}));
    let parameters = PatchParams::default();
    let nads = bed.nads(RED);
    nads.patch(RED, &parameters, &patch).await.unwrap();
    udns(&bed).delete(RED, &DeleteParams::default()).await.unwrap();
    let waits = "cannot remove UDN, controller for network red_red is still running";
    until_condition(&udns(&bed), RED, "NetworkCreated", ["False", "SyncError", waits]).await;
    let nad = nads.get(RED).await.unwrap();
    assert_eq!(nad.finalizers(), ["example.com/other"]);
    assert!(nad.metadata.deletion_timestamp.is_some());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    nads.patch(RED, &parameters, &patch).await.unwrap();
    eventually("the network is gone", async || {
        udns(&bed).get_opt(RED).await.unwrap().is_none().then_some(())
    })
    .await;
    manager.stop().await;
    assert_all_allowed(&bed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_subnets_and_taken_addresses_have_events() {
    let bed = manager_bed(&[]).await;
    let manager = bed.run_cluster("one");
    let subnets =
        json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.160.0.0/29"]}});
    create_network(&bed, subnets).await;
    // Two node subnets for three nodes.
    let narrow = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": "narrow", "namespace": RED},
        "spec": {"topology": "Layer3", "layer3": {
            "role": "Secondary", "subnets": [{"cidr": "10.170.0.0/23", "hostSubnet": 24}],
        }},
    });
    create(&udns(&bed), narrow).await;
    let request = |address: &str| {
        let element = json!([{"name": "default", "namespace": "ovn-kubernetes", "ips": [address]}]);
        json!({"v1.multus-cni.io/default-network": element.to_string()})
    };
    let pod = |name: &str, annotations: Value| {
        object::<Pod>(json!({
            "metadata": {"name": name, "namespace": RED, "annotations": annotations},
            "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
        }))
    };
    let until_addressed = async |name: &str| {
        eventually(&format!("addresses of {name}"), async || {
            let pod = pods(&bed).get(name).await.unwrap();
            pod.annotations().get("k8s.ovn.org/pod-networks").map(|_| ())
        })
        .await;
    };
    bed.create_in(&pod("a", request("10.160.0.5/29"))).await;
    until_addressed("a").await;
    bed.create_in(&pod("taken", request("10.160.0.5/29"))).await;
    for name in ["b", "c", "d"] {
        bed.create_in(&pod(name, json!({}))).await;
        until_addressed(name).await;
    }
    bed.create_in(&pod("late", json!({}))).await;
    let until_event = async |kind: &str, name: &str, reason: &str| {
        eventually(&format!("an event about {kind} {name}"), async || {
            let mut events = events_about(&bed, kind)
                .await
                .into_iter()
                .filter(|one| one.0 == name && one.1 == reason);
            events.next().map(|event| event.2)
        })
        .await
    };
    assert_eq!(
        until_event("Pod", "late", "ErrorAllocatingPod").await,
        "failed to update pod red/late: failed to assign pod addresses for red/red/red/late: failed to \
         allocate new IPs for red_red: subnet address pool exhausted"
    );
    assert_eq!(
        until_event("Pod", "taken", "ErrorAllocatingPod").await,
        "failed to update pod red/taken: failed to ensure requested or annotated IPs [10.160.0.5/29] for \
         red/red/red/taken: provided IP is already allocated"
    );
    let note = until_event("UserDefinedNetwork", "narrow", "NetworkAllocationFailed").await;
    let failed = ["False", "InternalError", "Network allocation failed for at least one node: "];
    let type_ = "NetworkAllocationSucceeded";
    let message = until_condition(&udns(&bed), "narrow", type_, failed).await;
    let node = message[failed[2].len()..].split(',').next().unwrap().to_owned();
    assert_eq!(
        note,
        format!(
            "Error occurred for node {node}: error allocating network for node {node}, network name red_narrow: no \
             subnets available"
        )
    );
    // A node that leaves makes room.
    let nodes = Api::<Node>::all(bed.client.clone());
    let others = nodes.list(&ListParams::default()).await.unwrap();
    let other = others.iter().find(|one| one.name_any() != node).unwrap();
    nodes.delete(&other.name_any(), &DeleteParams::default()).await.unwrap();
    let succeeded = ["True", "NetworkAllocationSucceeded", ""];
    until_condition(&udns(&bed), "narrow", type_, succeeded).await;
    manager.stop().await;
    assert_all_allowed(&bed);
}

fn fabric(transport: &Value) -> Value {
    let mut network = json!({"topology": "Layer3", "layer3": {
        "role": "Primary", "subnets": [{"cidr": "10.180.0.0/16"}],
    }});
    network.as_object_mut().unwrap().extend(transport.as_object().unwrap().clone());
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": "fabric"},
        "spec": {"namespaceSelector": {"matchLabels": {"net": "fabric"}}, "network": network},
    })
}

fn accepted(kind: &str, spec: &Value) -> (Value, Value) {
    let object = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": kind, "metadata": {"name": "main"}, "spec": spec,
    });
    let status = json!({"status": {"conditions": [{
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    (object, status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_follow_kinds_that_are_defined_later() {
    let mut bed = manager_bed(&[Feature::Evpn, Feature::RouteAdvertisements]).await;
    bed.gateway_mode = GatewayMode::Local;
    let missing = Reply::Status(404, None);
    fail_each(&bed, [("LIST", "/vteps", missing, 2), ("LIST", "/routeadvertisements", missing, 2)]);
    let namespace = json!({"metadata": {"name": RED, "labels": {
        "net": "fabric", "k8s.ovn.org/primary-user-defined-network": "",
    }}});
    bed.create(&object::<Namespace>(namespace)).await;
    let evpn = json!({"transport": "EVPN", "evpn": {"vtep": "main", "ipVRF": {"vni": 100}}});
    create(&cudns(&bed), fabric(&evpn)).await;
    let manager = bed.run_cluster("one");
    let cudns = cudns(&bed);
    let lacks = ["False", "VTEPNotFound", "Cannot create network: VTEP 'main' does not exist."];
    until_condition(&cudns, "fabric", "NetworkCreated", lacks).await;
    let status = PatchParams::default();
    let (vtep, is_accepted) = accepted("VTEP", &json!({"cidrs": ["10.0.0.0/24"]}));
    let vteps = cluster_wide(&bed, "VTEP", "vteps");
    create(&vteps, vtep).await;
    let waits = ["False", "VTEPNotAccepted", "VTEP \"main\" exists but is not accepted."];
    until_condition(&cudns, "fabric", "TransportAccepted", waits).await;
    vteps.patch_status("main", &status, &Patch::Merge(is_accepted)).await.unwrap();
    let missing = ["False", "EVPNRouteAdvertisementsIsMissing", "No RouteAdvertisements CR"];
    until_condition(&cudns, "fabric", "TransportAccepted", missing).await;
    let created = ["True", "NetworkAttachmentDefinitionCreated", ""];
    until_condition(&cudns, "fabric", "NetworkCreated", created).await;
    let (advertisement, is_accepted) = accepted(
        "RouteAdvertisements",
        &json!({"advertisements": ["PodNetwork"], "networkSelectors": [{
            "networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {}},
        }]}),
    );
    let advertisements = cluster_wide(&bed, "RouteAdvertisements", "routeadvertisements");
    create(&advertisements, advertisement).await;
    let patch = Patch::Merge(is_accepted);
    advertisements.patch_status("main", &status, &patch).await.unwrap();
    let accepted = ["True", "EVPNTransportAccepted", "Transport has been configured as 'EVPN'."];
    until_condition(&cudns, "fabric", "TransportAccepted", accepted).await;
    let nad = bed.nads(RED).get("fabric").await.unwrap();
    let config = nad.spec.config.clone().unwrap();
    let evpn = r#""evpn":{"vtep":"main","ipVRF":{"vni":100,"vid":2}}"#;
    assert!(config.contains(evpn), "{config}");
    manager.stop().await;
    assert_all_allowed(&bed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_manager_has_no_permission_that_it_does_not_use() {
    let features = [
        Feature::Evpn,
        Feature::RouteAdvertisements,
        Feature::DynamicUdnAllocation,
        Feature::EgressIp,
    ];
    let bed = manager_bed(&features).await;
    let manager = bed.run_cluster("one");
    let persistent = json!({"topology": "Layer2", "layer2": {
        "role": "Primary", "subnets": ["10.160.0.0/24"], "ipam": {"lifecycle": "Persistent"},
    }});
    create_network(&bed, persistent).await;
    let mut plain = fabric(&json!({}));
    plain["spec"]["network"]["layer3"]["role"] = json!("Secondary");
    plain["spec"]["namespaceSelector"] = json!({});
    create(&cudns(&bed), plain).await;
    bed.create(&object::<Node>(json!({"metadata": {"name": "new"}}))).await;
    let claim = json!({
        "apiVersion": "k8s.cni.cncf.io/v1alpha1", "kind": "IPAMClaim",
        "metadata": {"name": "kept", "namespace": RED},
        "spec": {"network": "red_red", "interface": "ovn-udn1"},
    });
    let claims = ApiResource {
        group: "k8s.cni.cncf.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "k8s.cni.cncf.io/v1alpha1".to_owned(),
        kind: "IPAMClaim".to_owned(),
        plural: "ipamclaims".to_owned(),
    };
    create(&Api::namespaced_with(bed.client.clone(), RED, &claims), claim).await;
    bed.create_in(&object::<Pod>(json!({
        "metadata": {"name": "a", "namespace": RED, "annotations": {
            "k8s.ovn.org/primary-udn-ipamclaim": "kept",
        }},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    })))
    .await;
    let slice = bed
        .create_in(&object::<EndpointSlice>(json!({
            "metadata": {"name": "web-abc", "namespace": RED, "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.244.0.9"],
                "targetRef": {"kind": "Pod", "name": "a", "namespace": RED}}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })))
        .await;
    let slices = Api::<EndpointSlice>::namespaced(bed.client.clone(), RED);
    let until_mirrors = async |ports: &[i32]| {
        eventually(&format!("mirrors with ports {ports:?}"), async || {
            let all = slices.list(&ListParams::default()).await.unwrap();
            let mirrors = all.iter().filter(|one| one.name_any() != slice.name_any());
            let found: Vec<i32> = mirrors
                .flat_map(|one| one.ports.iter().flatten())
                .filter_map(|port| port.port)
                .collect();
            (found == ports).then_some(())
        })
        .await;
    };
    until_mirrors(&[8080]).await;
    let patch = Patch::Merge(json!({"ports": [{"name": "http", "port": 8081, "protocol": "TCP"}]}));
    let parameters = PatchParams::default();
    slices.patch("web-abc", &parameters, &patch).await.unwrap();
    until_mirrors(&[8081]).await;
    slices.delete("web-abc", &DeleteParams::default()).await.unwrap();
    until_mirrors(&[]).await;
    // A pod that gets no addresses has an event.
    bed.create_in(&object::<Pod>(json!({
        "metadata": {"name": "b", "namespace": RED, "annotations": {
            "k8s.ovn.org/primary-udn-ipamclaim": "none",
        }},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    })))
    .await;
    eventually("an event about the pod", async || {
        let events = events_about(&bed, "Pod").await;
        events.iter().any(|event| event.0 == "b").then_some(())
    })
    .await;
    pods(&bed).delete("a", &DeleteParams::default()).await.unwrap();
    udns(&bed).delete(RED, &DeleteParams::default()).await.unwrap();
    eventually("the network is gone", async || {
        udns(&bed).get_opt(RED).await.unwrap().is_none().then_some(())
    })
    .await;
    manager.stop().await;
    assert_all_allowed(&bed);
    // The API server asks for these itself, and repeated events are patched.
    let indirect = [
        "update userdefinednetworks/finalizers",
        "update clusteruserdefinednetworks/finalizers",
        "create endpointslices/restricted",
        "patch events",
    ];
    let mut unused = bed.api().unused_permissions("patchbay-cluster/networks");
    unused.retain(|permission| !indirect.contains(&&**permission));
    assert_eq!(unused, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_without_their_feature_are_not_listed() {
    let bed = manager_bed(&[]).await;
    let manager = bed.run_cluster("one");
    create_network(&bed, layer2()).await;
    let created = ["True", "NetworkAttachmentDefinitionCreated", ""];
    until_condition(&udns(&bed), RED, "NetworkCreated", created).await;
    manager.stop().await;
    let requests = bed.api().requests();
    for kind in ["/vteps", "/routeadvertisements", "/egressips"] {
        assert!(!requests.iter().any(|one| one.path.contains(kind)), "{kind}");
    }
}
