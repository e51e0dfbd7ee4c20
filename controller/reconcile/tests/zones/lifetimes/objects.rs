//! Objects that come, change and go.

use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{InventoryKind, ObjectKey};
use patchbay_resources::object::{EndpointSlice, Namespace, NetworkPolicy, Node, Pod, Service};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use serde::Serialize;
use serde_json::{Value, json};

use super::api_server::ApiServer;

/// Versions of an object, and how it is written.
pub(super) struct Template {
    pub(super) versions: Vec<Value>,
    pub(super) put: fn(&mut ApiServer, &Value),
    pub(super) delete: fn(&mut ApiServer, &ObjectKey),
}

/// A kind, with the fields that may change.
pub(super) trait Changeable: InventoryKind + Serialize {
    const FIELDS: &'static [&'static str];
}

impl Changeable for Namespace {
    const FIELDS: &'static [&'static str] = &["/metadata/labels"];
}
impl Changeable for Node {
    const FIELDS: &'static [&'static str] = &["/metadata/annotations"];
}
impl Changeable for UserDefinedNetwork {
    const FIELDS: &'static [&'static str] = &[];
}
impl Changeable for ClusterUserDefinedNetwork {
    const FIELDS: &'static [&'static str] = &["/metadata/labels", "/spec/namespaceSelector"];
}
impl Changeable for ClusterNetworkConnect {
    const FIELDS: &'static [&'static str] = &["/spec/networkSelectors", "/spec/connectivity"];
}
impl Changeable for Pod {
    const FIELDS: &'static [&'static str] = &["/metadata/labels", "/status"];
}
impl Changeable for Service {
    const FIELDS: &'static [&'static str] = &["/spec"];
}
impl Changeable for EndpointSlice {
    const FIELDS: &'static [&'static str] = &["/endpoints"];
}
impl Changeable for NetworkPolicy {
    const FIELDS: &'static [&'static str] = &["/spec"];
}
impl Changeable for IPAMClaim {
    const FIELDS: &'static [&'static str] = &[];
}

pub(super) fn of<T: Changeable>(versions: Vec<Value>) -> Template {
    Template {
        versions,
        put: |api, wanted| api.put_kind::<T>(wanted, T::FIELDS),
        delete: |api, key| api.delete_kind::<T>(key),
    }
}

/// All objects, each with its versions.
pub(super) fn templates() -> Vec<Template> {
    let mut all = Vec::new();
    all.extend(["blue", "green", "plain"].map(namespace));
    all.extend(["n1", "n2", "n3"].map(node));
    all.extend(networks());
    all.extend(connects());
    all.extend(pods());
    all.extend(services());
    all
}

fn namespace(name: &str) -> Template {
    let object = |labels: &Value| {
        let mut labels = labels.clone();
        labels["kubernetes.io/metadata.name"] = json!(name);
        if name != "plain" {
            labels["k8s.ovn.org/primary-user-defined-network"] = json!("");
        }
        json!({"metadata": {"name": name, "labels": labels}})
    };
    of::<Namespace>(vec![
        object(&json!({"team": "a"})),
        object(&json!({"team": "b"})),
        object(&json!({})),
    ])
}

pub(super) fn node(name: &str) -> Template {
    let object = |place: u32| {
        let v4 = format!("172.18.0.{place}/16");
        let v6 = format!("fc00:f853:ccd:e793::{place}/64");
        json!({"metadata": {"name": name, "annotations": {
            "k8s.ovn.org/node-chassis-id": format!("chassis-{name}"),
            "k8s.ovn.org/host-cidrs": json!([v4, v6]).to_string(),
            "k8s.ovn.org/l3-gateway-config": json!({"default": {
                "mode": "shared", "bridge-id": "br-ex", "interface-id": format!("br-ex_{name}"),
                "mac-address": format!("02:42:ac:12:00:{place:02}"),
                "ip-addresses": [v4, v6], "next-hops": ["172.18.0.1", "fc00:f853:ccd:e793::1"],
                "node-port-enable": "true", "vlan-id": "0",
            }}).to_string(),
            "k8s.ovn.org/node-primary-ifaddr": json!({"ipv4": v4, "ipv6": v6}).to_string(),
        }}})
    };
    let number: u32 = name[1..].parse().unwrap();
    of::<Node>(vec![object(number + 1), object(number + 11)])
}

/// A network of a namespace.
pub(super) fn udn(namespace: &str, name: &str, specs: &[Value]) -> Template {
    let object =
        |spec: &Value| json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
    of::<UserDefinedNetwork>(specs.iter().map(object).collect())
}

/// A specification with further fields of the topology.
pub(super) fn udn_of(topology: &str, role: &str, mut fields: Value) -> Value {
    fields["role"] = json!(role);
    json!({"topology": topology, topology.to_lowercase(): fields})
}

pub(super) fn layer3(role: &str, cidrs: &[&str]) -> Value {
    let subnets: Vec<Value> = cidrs.iter().map(|cidr| json!({"cidr": cidr})).collect();
    udn_of("Layer3", role, json!({"subnets": subnets}))
}

pub(super) fn layer2(role: &str, subnets: &[&str]) -> Value {
    udn_of("Layer2", role, json!({"subnets": subnets}))
}

fn cudn(name: &str, networks: &[Value]) -> Template {
    let mut versions = Vec::new();
    for team in ["a", "b"] {
        for network in networks {
            versions.push(json!({
                "metadata": {"name": name, "labels": {"team": team}},
                "spec": {"namespaceSelector": {"matchLabels": {"team": team}}, "network": network},
            }));
        }
    }
    of::<ClusterUserDefinedNetwork>(versions)
}

fn networks() -> Vec<Template> {
    let mut persistent = layer2("Secondary", &["10.50.0.0/24"]);
    persistent["layer2"]["ipam"] = json!({"lifecycle": "Persistent"});
    let localnet = json!({"topology": "Localnet", "localnet": {"role": "Secondary",
        "subnets": ["10.60.0.0/24"], "physicalNetworkName": "physnet"}});
    vec![
        udn(
            "blue",
            "net",
            &[
                layer3("Primary", &["10.10.0.0/16"]),
                layer2("Primary", &["10.10.0.0/16"]),
                layer3("Primary", &["10.11.0.0/16", "fd11::/48"]),
            ],
        ),
        udn(
            "green",
            "net",
            &[
                layer2("Primary", &["10.20.0.0/16"]),
                layer3("Primary", &["10.20.0.0/16"]),
                layer2("Primary", &["10.10.0.0/16", "fd12::/64"]),
            ],
        ),
        udn("blue", "more", &[persistent, layer3("Secondary", &["10.30.0.0/16"])]),
        cudn("wide", &[layer3("Primary", &["10.40.0.0/16"]), layer2("Primary", &["10.41.0.0/16"])]),
        cudn("extra", &[localnet, layer2("Secondary", &["10.70.0.0/16"])]),
    ]
}

fn connects() -> Vec<Template> {
    let selectors = [
        json!([{"networkSelectionType": "PrimaryUserDefinedNetworks",
            "primaryUserDefinedNetworkSelector": {"namespaceSelector": {}}}]),
        json!([{"networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {}}}]),
        json!([{"networkSelectionType": "PrimaryUserDefinedNetworks",
            "primaryUserDefinedNetworkSelector": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}]),
    ];
    let object = |name: &str, range: &str, at: usize| {
        let connectivity = match at {
            0 => json!(["PodNetwork"]),
            1 => json!(["ServiceNetwork"]),
            _ => json!(["PodNetwork", "ServiceNetwork"]),
        };
        json!({"metadata": {"name": name}, "spec": {"networkSelectors": selectors[at],
            "connectSubnets": [{"cidr": range, "networkPrefix": 24}], "connectivity": connectivity}})
    };
    let versions = |name: &str, range: &str| {
        of::<ClusterNetworkConnect>((0..3).map(|at| object(name, range, at)).collect())
    };
    vec![versions("c", "192.168.0.0/16"), versions("d", "172.20.0.0/16")]
}

pub(super) fn pod(namespace: &str, name: &str, node: &str, attachment: Option<&str>) -> Template {
    let object = |app: &str, phase: &str| {
        let mut annotations = json!({});
        if let Some(attachment) = attachment {
            annotations["k8s.v1.cni.cncf.io/networks"] = json!(attachment);
        }
        json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {"app": app},
                "annotations": annotations},
            "spec": {"nodeName": node, "containers": [
                {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]},
            ]},
            "status": {"phase": phase, "podIPs": [{"ip": "10.244.0.3"}]},
        })
    };
    of::<Pod>(vec![object("web", "Running"), object("db", "Running"), object("web", "Succeeded")])
}

fn pods() -> Vec<Template> {
    let claim = json!({"metadata": {"namespace": "blue", "name": "claim"},
        "spec": {"network": "blue_more", "interface": "net1"}});
    vec![
        pod("blue", "a", "n1", None),
        pod("blue", "b", "n2", Some(r#"[{"name": "more", "ipam-claim-reference": "claim"}]"#)),
        pod("green", "a", "n1", Some("extra")),
        pod("green", "b", "n3", None),
        pod("plain", "a", "n1", Some("extra")),
        pod("plain", "b", "n2", None),
        of::<IPAMClaim>(vec![claim]),
    ]
}

fn services() -> Vec<Template> {
    let service = |namespace: &str, kind: &str, port: u32| {
        json!({"metadata": {"namespace": namespace, "name": "web"}, "spec": {
            "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "type": kind,
            "ports": [{"port": port, "targetPort": 8080, "protocol": "TCP", "nodePort": 30080}]}})
    };
    let slice = |pod: &str| {
        json!({
            "metadata": {"namespace": "blue", "name": "web-1", "resourceVersion": "7",
                "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.244.0.3"], "conditions": {"ready": true},
                "nodeName": "n1",
                "targetRef": {"kind": "Pod", "namespace": "blue", "name": pod}}],
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        })
    };
    let policy =
        |spec: Value| json!({"metadata": {"namespace": "blue", "name": "p"}, "spec": spec});
    vec![
        of::<Service>(vec![
            service("blue", "ClusterIP", 80),
            service("blue", "NodePort", 80),
            service("blue", "ClusterIP", 81),
        ]),
        of::<EndpointSlice>(vec![slice("a"), slice("b")]),
        of::<NetworkPolicy>(vec![
            policy(json!({"podSelector": {"matchLabels": {"app": "web"}}})),
            policy(json!({"podSelector": {}, "ingress": [
                {"from": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}]}]})),
        ]),
    ]
}
