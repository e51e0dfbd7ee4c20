//! Rights of both accounts: what the token of another node permits with each of them.

use kube::Client;
use serde_json::{Value, json};

use crate::testbed::{CONNECT, NAMESPACE, Testbed, ZONE};

/// A node whose token was taken.
const TAKEN: &str = "ovn-worker2";

/// Requests of an account, and their HTTP codes.
struct Account(Client);

impl Account {
    fn of(bed: &Testbed, name: &str, node: &str) -> Self {
        let accounts = [name.to_owned(), format!("{name}/networks")];
        let accounts = accounts.each_ref().map(String::as_str);
        Self(bed.api().client_of(&accounts, (node, node)))
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> u16 {
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content)
            .body(body.to_string().into_bytes())
            .unwrap();
        match self.0.request_text(request).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    async fn may(&self, method: &str, path: &str, body: Value) {
        let code = self.send(method, path, &body).await;
        assert_eq!(code, 200, "{method} {path} {body}");
    }

    async fn may_not(&self, method: &str, path: &str, body: Value) {
        let code = self.send(method, path, &body).await;
        assert_eq!(code, 403, "{method} {path} {body}");
    }
}

/// The write rights of an account that no request has used. Rights that no request has, such as that
/// to name an owner, are not among them.
fn untried(bed: &Testbed, account: &str) -> Vec<String> {
    let mut unused = bed.api().unused_permissions(account);
    unused.extend(bed.api().unused_permissions(&format!("{account}/networks")));
    let is_read = |right: &String| right.starts_with("list ") || right.starts_with("watch ");
    let is_marker =
        |right: &String| right.ends_with("/finalizers") || right.ends_with("/restricted");
    unused.retain(|right| !is_read(right) && !is_marker(right));
    unused
}

fn annotation(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// An object with a name, of a kind that `body` may extend.
fn object(api_version: &str, kind: &str, name: &str, mut body: Value) -> Value {
    body["apiVersion"] = json!(api_version);
    body["kind"] = json!(kind);
    body["metadata"]["name"] = json!(name);
    body
}

fn event(name: &str, controller: &str, instance: &str) -> Value {
    let body = json!({
        "metadata": {"namespace": NAMESPACE}, "reportingController": controller, "reportingInstance": instance,
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "X", "action": "X", "type": "Warning",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": ZONE},
    });
    object("events.k8s.io/v1", "Event", name, body)
}

/// The pod of [`ZONE`] that the tests write, with a label and an annotation.
async fn make_pod(admin: &Account) -> String {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = json!({
        "metadata": {"labels": {"app": "a"}, "annotations": {"x": "y"}},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "good"}]},
    });
    admin.may("POST", &pods, object("v1", "Pod", "rights", pod)).await;
    format!("{pods}/rights")
}

#[tokio::test]
async fn a_zone_writes_nothing_of_another_node() {
    let bed = Testbed::simulated().await;
    let admin = Account(bed.client.clone());
    let own = Account::of(&bed, "patchbay-zone", ZONE);
    let taken = Account::of(&bed, "patchbay-zone", TAKEN);
    let networks = "k8s.ovn.org/pod-networks";

    let pod = make_pod(&admin).await;
    own.may("PATCH", &pod, annotation(networks, "{}")).await;
    taken.may_not("PATCH", &pod, annotation(networks, "[]")).await;
    for patch in [
        json!({"spec": {"containers": [{"name": "c", "image": "evil"}]}}),
        json!({"metadata": {"labels": {"app": "b"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"finalizers": ["example.org/stay"]}}),
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"},
        ]}}),
        annotation("x", "z"),
        annotation("z", "z"),
        json!({"metadata": {"annotations": {"x": null}}}),
    ] {
        own.may_not("PATCH", &pod, patch.clone()).await;
        taken.may_not("PATCH", &pod, patch).await;
    }
    own.may("PATCH", &pod, json!({"metadata": {"annotations": {networks: null}}})).await;

    let secret = json!({"data": {"key": "value"}});
    for (group, kind, plural) in
        [("api/v1", "ConfigMap", "configmaps"), ("apis/coordination.k8s.io/v1", "Lease", "leases")]
    {
        let all = format!("/{group}/namespaces/{NAMESPACE}/{plural}");
        let version = group.split_once('/').unwrap().1;
        let report = format!("patchbay-zone-{ZONE}");
        let foreign = object(version, kind, "patchbay-other", secret.clone());
        admin.may("POST", &all, foreign).await;
        let report_object = object(version, kind, &report, json!({}));
        taken.may_not("POST", &all, report_object.clone()).await;
        own.may("POST", &all, report_object).await;
        for name in ["patchbay-other", &report] {
            // The answer to an empty patch would show the object.
            taken.may_not("PATCH", &format!("{all}/{name}"), json!({})).await;
        }
        own.may_not("PATCH", &format!("{all}/patchbay-other"), json!({})).await;
        own.may("PATCH", &format!("{all}/{report}"), json!({})).await;
        for name in ["patchbay-cluster", "patchbay-zone-x", "x"] {
            own.may_not("POST", &all, object(version, kind, name, json!({}))).await;
        }
    }

    let events = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    let instance = format!("{ZONE}_1");
    own.may("POST", &events, event("own.1", "patchbay", &instance)).await;
    taken.may_not("POST", &events, event("own.2", "patchbay", &instance)).await;
    own.may_not("POST", &events, event("own.3", "kubelet", &instance)).await;
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    own.may("PATCH", &format!("{events}/own.1"), series.clone()).await;
    taken.may_not("PATCH", &format!("{events}/own.1"), series.clone()).await;
    admin.may("POST", &events, event("kubelet.1", "kubelet", ZONE)).await;
    own.may_not("PATCH", &format!("{events}/kubelet.1"), series).await;

    // A token that is not bound to a pod names no node.
    let accounts = ["patchbay-zone", "patchbay-zone/networks"];
    let unbound = Account(bed.api().client_without_claims(&accounts));
    unbound.may_not("PATCH", &pod, annotation(networks, "{}")).await;
    assert_eq!(untried(&bed, "patchbay-zone"), [""; 0]);
}

#[tokio::test]
async fn the_manager_writes_only_what_it_manages() {
    let bed = Testbed::simulated().await;
    bed.connect().await;
    let admin = Account(bed.client.clone());
    let manager = Account::of(&bed, "patchbay-cluster", TAKEN);

    let node = format!("/api/v1/nodes/{ZONE}");
    manager.may("PATCH", &node, annotation("k8s.ovn.org/node-id", "7")).await;
    let pod = make_pod(&admin).await;
    manager.may("PATCH", &pod, annotation("k8s.ovn.org/pod-networks", "{}")).await;
    let connect = format!("/apis/k8s.ovn.org/v1/clusternetworkconnects/{CONNECT}");
    let keys = annotation("k8s.ovn.org/connect-router-tunnel-key", "16711681");
    manager.may("PATCH", &connect, keys).await;
    let cudns = "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks";
    let cudn = format!("{cudns}/blue-network");
    let udns = format!("/apis/k8s.ovn.org/v1/namespaces/{NAMESPACE}/userdefinednetworks");
    let udn = format!("{udns}/rights");
    let spec = json!({"spec": {"topology": "Layer3"}});
    let body = object("k8s.ovn.org/v1", "UserDefinedNetwork", "rights", spec.clone());
    admin.may("POST", &udns, body).await;
    for network in [&cudn, &udn] {
        let protection = ["k8s.ovn.org/user-defined-network-protection"];
        let protected = json!({"metadata": {"finalizers": protection}});
        manager.may("PATCH", network, protected).await;
        manager.may("PATCH", &format!("{network}/status"), json!({"status": {}})).await;
        manager.may_not("PATCH", network, annotation("k8s.ovn.org/x", "y")).await;
    }
    for path in [&node, &pod, &connect, &cudn, &udn] {
        for patch in [
            json!({"spec": {"other": 1}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {"finalizers": ["example.org/stay"]}}),
            annotation("example.org/x", "y"),
        ] {
            manager.may_not("PATCH", path, patch).await;
        }
    }
    manager.may("PATCH", &format!("{connect}/status"), json!({"status": {}})).await;

    let nads =
        format!("/apis/k8s.cni.cncf.io/v1/namespaces/{NAMESPACE}/network-attachment-definitions");
    let nad = |name: &str, owner: Value| {
        let body = json!({"metadata": {"ownerReferences": owner}, "spec": {"config": "{}"}});
        object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", name, body)
    };
    let owner = json!([{
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "rights", "uid": "u",
        "controller": true,
    }]);
    manager.may("POST", &nads, nad("own", owner)).await;
    manager.may_not("POST", &nads, nad("foreign", json!([]))).await;
    let default =
        "/apis/k8s.cni.cncf.io/v1/namespaces/ovn-kubernetes/network-attachment-definitions";
    manager.may("POST", default, nad("default", json!([]))).await;
    manager.may_not("POST", default, nad("other", json!([]))).await;
    admin.may("POST", &nads, nad("foreign", json!([]))).await;
    let config = json!({"spec": {"config": "{\"a\":1}"}});
    manager.may("PATCH", &format!("{nads}/own"), config.clone()).await;
    manager.may_not("PATCH", &format!("{nads}/foreign"), config).await;
    let id = annotation("k8s.ovn.org/network-id", "3");
    manager.may("PATCH", &format!("{nads}/foreign"), id).await;
    manager.may_not("DELETE", &format!("{nads}/foreign"), json!({})).await;
    manager.may("DELETE", &format!("{nads}/own"), json!({})).await;

    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    let slice = |name: &str, manager: &str| {
        let labels = json!({"endpointslice.kubernetes.io/managed-by": manager});
        let body = json!({"metadata": {"labels": labels}, "addressType": "IPv4", "endpoints": []});
        object("discovery.k8s.io/v1", "EndpointSlice", name, body)
    };
    let mirror = "endpointslice-mirror-controller.k8s.ovn.org";
    manager.may("POST", &slices, slice("own", mirror)).await;
    manager.may_not("POST", &slices, slice("foreign", "x")).await;
    admin.may("POST", &slices, slice("foreign", "x")).await;
    let ports = json!({"ports": [{"port": 80}]});
    manager.may("PATCH", &format!("{slices}/own"), ports.clone()).await;
    manager.may_not("PATCH", &format!("{slices}/foreign"), ports).await;
    let labels = slice("foreign", mirror);
    manager.may_not("PATCH", &format!("{slices}/foreign"), labels).await;
    manager.may_not("DELETE", &format!("{slices}/foreign"), json!({})).await;
    manager.may("DELETE", &format!("{slices}/own"), json!({})).await;

    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = |name: &str| object("coordination.k8s.io/v1", "Lease", name, json!({}));
    manager.may("POST", &leases, lease("patchbay-cluster")).await;
    manager.may_not("POST", &leases, lease("patchbay-zone-x")).await;
    // Leases of managers in other namespaces are listed, and nothing else.
    let all = "/apis/coordination.k8s.io/v1/leases";
    manager.may("GET", all, Value::Null).await;
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/elsewhere/leases";
    manager.may_not("POST", elsewhere, lease("patchbay-cluster")).await;
    let held = format!("{elsewhere}/patchbay-cluster");
    manager.may_not("GET", &held, Value::Null).await;
    manager.may_not("PUT", &held, lease("patchbay-cluster")).await;
    let zone = Account::of(&bed, "patchbay-zone", ZONE);
    zone.may_not("GET", all, Value::Null).await;
    let own = format!("{leases}/patchbay-cluster");
    manager.may("GET", &own, Value::Null).await;
    manager.may("PUT", &own, lease("patchbay-cluster")).await;
    admin.may("POST", &leases, lease("other")).await;
    manager.may_not("PUT", &format!("{leases}/other"), lease("other")).await;

    let events = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    manager.may("POST", &events, event("own.1", "patchbay", "manager_1")).await;
    manager.may_not("POST", &events, event("own.2", "kubelet", "manager_1")).await;
    admin.may("POST", &events, event("kubelet.1", "kubelet", ZONE)).await;
    manager.may_not("PATCH", &format!("{events}/kubelet.1"), json!({"note": "x"})).await;

    let claims = format!("/apis/k8s.cni.cncf.io/v1alpha1/namespaces/{NAMESPACE}/ipamclaims");
    let claim = object("k8s.cni.cncf.io/v1alpha1", "IPAMClaim", "rights", json!({"spec": {}}));
    admin.may("POST", &claims, claim).await;
    let status = json!({"status": {"ips": ["10.0.0.1/24"]}});
    manager.may("PATCH", &format!("{claims}/rights/status"), status).await;
    manager.may_not("PATCH", &format!("{claims}/rights"), annotation("x", "y")).await;
    assert_eq!(untried(&bed, "patchbay-cluster"), [""; 0]);
}
