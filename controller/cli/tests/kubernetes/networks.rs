//! User-defined networks themselves, from objects of the API to rows of a zone.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use patchbay_schemas::nb::{Acl, LoadBalancer, LogicalRouter, LogicalSwitchPort};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::apiserver::{Fault, Reply, Request};
use crate::testbed::{CONNECT, Testbed, ZONE, eventually, subnets};
use crate::zone_database::Zone;

/// Namespace and UDN of the tests.
pub(crate) const RED: &str = "red";
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

pub(crate) fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

pub(crate) fn udns(bed: &Testbed) -> Api<DynamicObject> {
    udns_in(bed, RED)
}

pub(crate) fn udns_in(bed: &Testbed, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "k8s.ovn.org".to_owned(),
        version: "v1".to_owned(),
        api_version: "k8s.ovn.org/v1".to_owned(),
        kind: "UserDefinedNetwork".to_owned(),
        plural: "userdefinednetworks".to_owned(),
    };
    Api::namespaced_with(bed.client.clone(), namespace, &resource)
}

pub(crate) fn pods(bed: &Testbed) -> Api<Pod> {
    Api::namespaced(bed.client.clone(), RED)
}

/// Creates the namespace and its primary network.
pub(crate) async fn create_network(bed: &Testbed, spec: Value) {
    create_primary_namespace(bed).await;
    create_definition(bed, spec).await;
}

/// Creates the namespace of [`create_network`], whose pods wait for a primary network.
async fn create_primary_namespace(bed: &Testbed) {
    let namespace = json!({"metadata": {
        "name": RED, "labels": {"k8s.ovn.org/primary-user-defined-network": ""},
    }});
    bed.create(&object::<Namespace>(namespace)).await;
}

/// Creates the UserDefinedNetwork of [`create_network`].
async fn create_definition(bed: &Testbed, spec: Value) {
    let udn = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": RED, "namespace": RED}, "spec": spec,
    });
    let create = PostParams::default();
    udns(bed).create(&create, &object(udn)).await.unwrap();
}

pub(crate) fn layer3() -> Value {
    json!({"topology": "Layer3", "layer3": {
        "role": "Primary", "subnets": [{"cidr": "10.150.0.0/16", "hostSubnet": 24}],
    }})
}

pub(crate) fn layer2() -> Value {
    json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.160.0.0/16"]}})
}

pub(crate) async fn create_pod(bed: &Testbed, name: &str) -> Pod {
    bed.create_in(&object::<Pod>(json!({
        "metadata": {"name": name, "namespace": RED, "labels": {"app": "web"}},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    })))
    .await
}

/// The ports of the pods in the network, by name, with their addresses.
fn pod_ports(zone: &Zone) -> Vec<(String, Vec<String>)> {
    let mut ports = zone.rows::<LogicalSwitchPort>();
    ports.retain(|port| port.name.starts_with("red.red_red_"));
    let mut ports: Vec<_> =
        ports.into_iter().map(|port| (port.name, port.addresses.into_iter().collect())).collect();
    ports.sort();
    ports
}

pub(crate) async fn until_pods(zone: &Zone, names: &[&str]) -> Vec<(String, Vec<String>)> {
    zone.until(&format!("ports of {names:?}"), |zone| {
        let ports = pod_ports(zone);
        let wanted = names.iter().map(|name| format!("red.red_red_{name}"));
        let is_done = ports.iter().map(|(name, _)| name.clone()).eq(wanted);
        is_done.then_some(ports)
    })
    .await
}

pub(crate) async fn until_created(bed: &Testbed) -> DynamicObject {
    eventually("the condition NetworkCreated", async || {
        let udn = udns(bed).get(RED).await.unwrap();
        let conditions = udn.data["status"]["conditions"].as_array()?;
        let created = |one: &&Value| one["type"] == "NetworkCreated" && one["status"] == "True";
        conditions.iter().find(created)?;
        (!udn.finalizers().is_empty()).then_some(udn)
    })
    .await
}

/// Waits until the network, its definitions and its rows are gone.
pub(crate) async fn until_gone(bed: &Testbed, zone: &Zone) {
    eventually("the network is gone", async || {
        let left = udns(bed).get_opt(RED).await.unwrap();
        let nads = bed.nads(RED).list(&ListParams::default()).await.unwrap();
        (left.is_none() && nads.items.is_empty()).then_some(())
    })
    .await;
    zone.until("the rows are gone", |zone| {
        let mut routers = zone.rows::<LogicalRouter>().into_iter();
        (!routers.any(|router| router.name.contains("red_red"))).then_some(())
    })
    .await;
}

/// Writes of the controllers to objects that networks follow from.
fn network_writes(requests: &[Request]) -> Vec<&Request> {
    let kinds = [
        "/nodes/",
        "/pods/",
        "/network-attachment-definitions",
        "/userdefinednetworks/",
        "/clusteruserdefinednetworks/",
        "/endpointslices",
    ];
    let requests = requests.iter();
    let writes = requests.filter(|one| one.method != "GET" && !one.user.is_empty());
    writes.filter(|one| kinds.iter().any(|kind| one.path.contains(kind))).collect()
}

pub(crate) fn assert_all_allowed(bed: &Testbed) {
    let requests = bed.api().requests();
    let refused: Vec<_> = requests.iter().filter(|one| one.status == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

async fn networks_bed() -> (Testbed, Zone) {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    (bed, Zone::without_networks(ZONE).await)
}

async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_network_follow_from_its_objects_over_a_restart() {
    let (bed, zone) = networks_bed().await;
    let both = bed.run("one", true, Some(&zone));
    create_pod(&bed, "a").await;
    create_network(&bed, layer3()).await;
    let udn = until_created(&bed).await;
    let ports = until_pods(&zone, &["a"]).await;
    let pod = pods(&bed).get("a").await.unwrap();
    let networks: Value = serde_json::from_str(&pod.annotations()[POD_NETWORKS]).unwrap();
    let entry = &networks["red/red"];
    let address = entry["ip_address"].as_str().unwrap();
    let (ip, _) = address.split_once('/').unwrap();
    let mac = entry["mac_address"].as_str().unwrap();
    assert_eq!(ports[0].1, [format!("{mac} {ip}")]);
    assert!(ip.starts_with("10.150."), "{ip}");

    bed.create_in(&object::<Service>(json!({
        "metadata": {"name": "web", "namespace": RED},
        "spec": {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]},
    })))
    .await;
    bed.create_in(&object::<EndpointSlice>(json!({
        "metadata": {"name": "web-abc", "namespace": RED, "labels": {
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.244.0.9"], "conditions": {"ready": true},
            "nodeName": ZONE,
            "targetRef": {"kind": "Pod", "name": "a", "namespace": RED}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })))
    .await;
    zone.until("the load balancer of the service", |zone| {
        let balancers = zone.rows::<LoadBalancer>();
        let backend = format!("{ip}:8080");
        let mut vips = balancers.iter().flat_map(|one| &one.vips);
        vips.any(|(vip, backends)| vip == "10.96.7.7:80" && *backends == backend).then_some(())
    })
    .await;

    let before = zone.rows::<Acl>().len();
    bed.create_in(&object::<NetworkPolicy>(json!({
        "metadata": {"name": "deny", "namespace": RED},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    })))
    .await;
    zone.until("the rules of the policy", |zone| (zone.rows::<Acl>().len() > before).then_some(()))
        .await;
    both.stop().await;

    // Nothing is written after a restart but what follows from a new pod.
    let seen = bed.api().requests().len();
    let both = bed.run("two", true, Some(&zone));
    create_pod(&bed, "b").await;
    let ports_of_both = until_pods(&zone, &["a", "b"]).await;
    assert_eq!(ports_of_both[0], ports[0]);
    let requests = bed.api().requests();
    let writes = network_writes(&requests[seen..]);
    let others: Vec<_> = writes.iter().filter(|one| !one.path.ends_with("/pods/b")).collect();
    assert!(others.is_empty(), "{others:?}");
    // A list of all pods of a large cluster at once takes longer than the time-out.
    let is_long =
        |one: &&Request| one.lists_at_once && one.path.ends_with("/pods") && !one.user.is_empty();
    assert_eq!(requests.iter().find(is_long), None);

    delete(&pods(&bed), "a").await;
    until_pods(&zone, &["b"]).await;
    create_pod(&bed, "a").await;
    until_pods(&zone, &["a", "b"]).await;

    // A network stays while pods use it.
    delete(&udns(&bed), RED).await;
    delete(&pods(&bed), "a").await;
    until_pods(&zone, &["b"]).await;
    assert_eq!(udns(&bed).get(RED).await.unwrap().uid(), udn.uid());
    delete(&pods(&bed), "b").await;
    until_gone(&bed, &zone).await;
    both.stop().await;
    assert_all_allowed(&bed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_and_forgotten_versions_delay_a_layer2_network_only() {
    let (bed, zone) = networks_bed().await;
    let faults = [
        ("POST", "/network-attachment-definitions$", Reply::Status(409, None), 1),
        ("POST", "/network-attachment-definitions$", Reply::Done(500), 1),
        ("PATCH", "/nodes/", Reply::Status(409, None), 2),
        ("PATCH", "/pods/", Reply::Status(404, None), 1),
        ("PATCH", "/status$", Reply::Status(409, None), 1),
        ("LIST", "/ipamclaims", Reply::Status(404, None), 1),
    ];
    fail_each(&bed, faults);
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer2()).await;
    create_pod(&bed, "a").await;
    until_created(&bed).await;
    let ports = until_pods(&zone, &["a"]).await;
    assert!(ports[0].1[0].contains(" 10.160."), "{ports:?}");
    bed.api().forget_history(true);
    bed.api().drop_watches();
    create_pod(&bed, "b").await;
    until_pods(&zone, &["a", "b"]).await;
    both.stop().await;
    assert_all_allowed(&bed);
}

/// Makes requests fail: method, path, reply, and number of times.
pub(crate) fn fail_each<const N: usize>(
    bed: &Testbed,
    faults: [(&'static str, &'static str, Reply, usize); N],
) {
    for (method, path, reply, times) in faults {
        bed.api().fail(Fault { method, path, reply, times });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_api_server_delays_ports_and_loses_none() {
    let (bed, zone) = networks_bed().await;
    let faults = [
        ("WATCH", "/pods", Reply::Cut, 3),
        ("WATCH", "/nodes", Reply::Status(410, None), 2),
        ("WATCH", "/services", Reply::Status(429, Some(1)), 1),
        ("LIST", "/namespaces", Reply::Text(503, 1), 1),
        ("LIST", "/networkpolicies", Reply::Cut, 1),
        ("PATCH", "/pods/", Reply::Status(429, Some(1)), 2),
        ("PATCH", "/pods/", Reply::Done(504), 2),
        ("POST", "/events", Reply::Status(429, Some(1)), 1),
    ];
    fail_each(&bed, faults);
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer3()).await;
    let names: Vec<String> = (0..40).map(|number| format!("p{number:02}")).collect();
    for name in &names {
        create_pod(&bed, name).await;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ports = until_pods(&zone, &names).await;
    let addresses: BTreeSet<&String> = ports.iter().flat_map(|(_, addresses)| addresses).collect();
    assert_eq!(addresses.len(), names.len(), "{ports:?}");
    both.stop().await;
    assert_all_allowed(&bed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_be_decoded_holds_little_back() {
    let (bed, zone) = networks_bed().await;
    let both = bed.run("one", true, Some(&zone));
    // Multus permits a definition whose configuration is in a file of the node.
    let definitions = ("k8s.cni.cncf.io", "v1", "network-attachment-definitions");
    let without_spec = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "macvlan", "namespace": "default"},
    });
    create_raw(&bed, definitions, without_spec).await;
    create_network(&bed, layer3()).await;
    // A pod is used without the field.
    let broken = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": RED},
        "spec": {"nodeName": ZONE, "hostNetwork": "no", "containers": []},
    });
    create_raw(&bed, ("", "v1", "pods"), broken).await;
    create_pod(&bed, "b").await;
    until_pods(&zone, &["a", "b"]).await;

    // Policies and pods wait for a policy, everything else does not.
    let broken = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": RED},
        "spec": {"podSelector": {"matchLabels": ["app"]}},
    });
    let policies = ("networking.k8s.io", "v1", "networkpolicies");
    create_raw(&bed, policies, broken).await;
    bed.create_in(&object::<Service>(json!({
        "metadata": {"name": "web", "namespace": RED},
        "spec": {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"],
            "ports": [{"port": 80, "protocol": "TCP"}]},
    })))
    .await;
    zone.until("the load balancer", |zone| {
        let balancers = zone.rows::<LoadBalancer>();
        let mut names = balancers.iter().map(|balancer| &balancer.name);
        names.find(|name| name.contains("red/web")).map(|_| ())
    })
    .await;
    create_pod(&bed, "c").await;
    let corrected =
        Patch::Merge(json!({"spec": {"podSelector": {"matchLabels": {"app": "none"}}}}));
    let policies = Api::<NetworkPolicy>::namespaced(bed.client.clone(), RED);
    let parameters = PatchParams::default();
    let patched = policies.patch("p", &parameters, &corrected).await;
    patched.unwrap();
    until_pods(&zone, &["a", "b", "c"]).await;

    // Definitions that never had a network do not keep the rows of others.
    let corrected = Patch::Merge(json!({"spec": {"hostNetwork": null}}));
    let patched = pods(&bed).patch("a", &parameters, &corrected).await;
    patched.unwrap();
    for name in ["a", "b", "c"] {
        delete(&pods(&bed), name).await;
    }
    delete(&udns(&bed), RED).await;
    until_gone(&bed, &zone).await;
    both.stop().await;
    assert_all_allowed(&bed);
}

/// Reasons and notes of the events about objects of a kind, by name of the object.
pub(crate) async fn events_about(bed: &Testbed, kind: &str) -> Vec<(String, String, String)> {
    let api = Api::<Event>::namespaced(bed.client.clone(), RED);
    let mut events: Vec<_> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|event| {
            let regarding = event.regarding.filter(|one| one.kind.as_deref() == Some(kind))?;
            assert!(regarding.uid.is_some() && event.series.is_none());
            Some((regarding.name?, event.reason?, event.note?))
        })
        .collect();
    events.sort();
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_with_problems_have_one_event_each() {
    let (bed, zone) = networks_bed().await;
    let namespace = json!({"metadata": {
        "name": RED, "labels": {"k8s.ovn.org/primary-user-defined-network": ""},
    }});
    bed.create(&object::<Namespace>(namespace)).await;
    let both = bed.run("one", true, Some(&zone));
    // Emits what all zones find.
    let first_zone = Zone::without_networks("ovn-control-plane").await;
    let first = bed.run_zone(&first_zone);
    create_pod(&bed, "early").await;
    let nad = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "broken", "namespace": RED},
        "spec": {"config": json!({
            "type": "ovn-k8s-cni-overlay", "topology": "ring", "name": "broken",
            "netAttachDefName": format!("{RED}/broken"),
        }).to_string()},
    });
    let nads = ("k8s.cni.cncf.io", "v1", "network-attachment-definitions");
    create_raw(&bed, nads, nad).await;
    let (pod, nad) = eventually("events about the pod and the definition", async || {
        let pods = events_about(&bed, "Pod").await;
        let nads = events_about(&bed, "NetworkAttachmentDefinition").await;
        Some((pods.first()?.clone(), nads.first()?.clone()))
    })
    .await;
    let reasons = ["ErrorAllocatingPod", "ErrorReconcilingPod"];
    assert!(pod.0 == "early" && reasons.contains(&&*pod.1), "{pod:?}");
    assert!(pod.2.contains("primary"), "{}", pod.2);
    assert_eq!((&*nad.0, &*nad.1), ("broken", "InvalidConfig"));
    assert!(nad.2.starts_with("Failed to parse network config: "), "{}", nad.2);

    create_definition(&bed, layer3()).await;
    until_pods(&zone, &["early"]).await;
    bed.create_in(&object::<NetworkPolicy>(json!({
        "metadata": {"name": "wrong", "namespace": RED},
        "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0"}}]}]},
    })))
    .await;
    let requesting = json!({
        "metadata": {"name": "static", "namespace": RED, "annotations": {
            "v1.multus-cni.io/default-network": json!([{
                "name": "other", "namespace": "ovn-kubernetes", "ips": ["10.150.0.77/24"],
            }]).to_string(),
        }},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    });
    bed.create_in(&object::<Pod>(requesting)).await;
    let (policies, pods) = eventually("events about the policy and the pod", async || {
        let policies = events_about(&bed, "NetworkPolicy").await;
        let pods = events_about(&bed, "Pod").await;
        let is_complete = !policies.is_empty() && pods.iter().any(|pod| pod.0 == "static");
        is_complete.then_some((policies, pods))
    })
    .await;
    assert_eq!(policies[0].1, "ErrorReconcilingPolicy");
    assert!(policies[0].2.contains("spec.ingress[0]"), "{policies:?}");
    assert!(pods.iter().any(|pod| pod.1 == "ErrorAllocatingPod"), "{pods:?}");

    // Later passes emit nothing about what is known.
    create_pod(&bed, "late").await;
    until_pods(&zone, &["early", "late"]).await;
    let mut later = events_about(&bed, "Pod").await;
    later.retain(|pod| pod.0 == "early");
    let count = later.len();
    later.dedup_by(|one, other| one.1 == other.1);
    assert_eq!(later.len(), count, "{later:?}");
    assert_eq!(events_about(&bed, "NetworkPolicy").await, policies);
    both.stop().await;
    first.stop().await;
    assert_all_allowed(&bed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_waits_shortly_for_its_network_has_no_event() {
    let (bed, zone) = networks_bed().await;
    let both = bed.run("one", true, Some(&zone));
    create_primary_namespace(&bed).await;
    create_pod(&bed, "early").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    create_definition(&bed, layer3()).await;
    until_pods(&zone, &["early"]).await;
    let events = events_about(&bed, "Pod").await;
    assert!(events.is_empty(), "{events:?}");
    both.stop().await;
}

/// Creates an object that this test's types cannot express.
async fn create_raw(bed: &Testbed, (group, version, plural): (&str, &str, &str), raw: Value) {
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: raw["apiVersion"].as_str().unwrap().to_owned(),
        kind: raw["kind"].as_str().unwrap().to_owned(),
        plural: plural.to_owned(),
    };
    let namespace = raw["metadata"]["namespace"].as_str().unwrap();
    let api = Api::<DynamicObject>::namespaced_with(bed.client.clone(), namespace, &resource);
    let create = PostParams::default();
    api.create(&create, &object(raw)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_are_not_written_without_the_flag() {
    let bed = Testbed::simulated().await;
    let zone = Zone::without_networks(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    create_network(&bed, layer3()).await;
    create_pod(&bed, "a").await;
    bed.connect().await;
    bed.until_allocated(2).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"later": "yes"}}}));
    let connects = bed.connects();
    connects.patch(CONNECT, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(subnets(&bed.until_allocated(2).await).len(), 2);
    both.stop().await;
    let requests = bed.api().requests();
    assert!(network_writes(&requests).is_empty());
    assert!(pod_ports(&zone).is_empty());
    assert!(zone.rows::<LogicalRouter>().iter().all(|router| !router.name.contains("red")));
}
