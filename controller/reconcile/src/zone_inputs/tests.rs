//! Random sequences of object changes: inputs that follow them are those that are made from
//! nothing.

use jiff::Timestamp;
use patchbay_egress::Egress;
use patchbay_model::{Feature, IpFamily, NetworkObjects, PodKey};
use patchbay_networks::{SkippedNetworks, skipped_networks};
use patchbay_policies::admin::AdminPolicies;
use patchbay_policies::{Policies, gates_of};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{InventoryKind, ObjectKey, Origin, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, MultiNetworkPolicy,
    Namespace, NetworkPolicy, Node, RouteAdvertisements, Time,
};
use patchbay_rows::{Engine, Inputs};
use patchbay_zone::{Kind, ZoneCapability as _};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::activity::FollowedActivity;

/// Name of the zone, and of its node.
const ZONE: &str = "n1";

/// A change of one object: of the objects of one kind and name, the one with this number comes, or
/// all go.
#[derive(Clone, Copy, Debug)]
struct Step {
    object: usize,
    version: usize,
}

/// Versions of an object, by kind.
struct Versions {
    put: fn(&mut Inventory, &Value),
    remove: fn(&mut Inventory, &ObjectKey),
    objects: Vec<Value>,
}

impl Versions {
    fn of<T: InventoryKind>(objects: Vec<Value>) -> Self {
        Self {
            put: |inventory, value| {
                T::objects_mut(inventory).insert(Sourced {
                    object: serde_json::from_value(value.clone()).unwrap(),
                    origin: Origin::Cluster,
                    position: 0,
                });
            },
            remove: |inventory, key| {
                T::objects_mut(inventory).remove(key);
            },
            objects,
        }
    }

    fn take(&self, inventory: &mut Inventory, version: usize) {
        if let Some(value) = self.objects.get(version) {
            (self.put)(inventory, value);
            return;
        }
        let meta = &self.objects[0]["metadata"];
        let text = |key: &str| meta[key].as_str().map(ToOwned::to_owned);
        let key = ObjectKey { namespace: text("namespace"), name: text("name").unwrap() };
        (self.remove)(inventory, &key);
    }
}

fn namespace(name: &str, labels: &Value, annotations: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}})
}

fn namespaces(name: &str) -> Versions {
    let primary = "k8s.ovn.org/primary-user-defined-network";
    Versions::of::<Namespace>(vec![
        namespace(name, &json!({primary: "", "team": "a"}), &json!({})),
        namespace(
            name,
            &json!({primary: "", "team": "b", "egress": "yes"}),
            &json!({"k8s.ovn.org/multicast-enabled": "true"}),
        ),
        namespace(
            name,
            &json!({"team": "a"}),
            &json!({"k8s.ovn.org/acl-logging": "{\"deny\":\"alert\"}"}),
        ),
    ])
}

fn nad(namespace: &str, name: &str, id: u32, config: &Value) -> Value {
    let mut config = config.clone();
    config["netAttachDefName"] = json!(format!("{namespace}/{name}"));
    config["type"] = json!("ovn-k8s-cni-overlay");
    config["cniVersion"] = json!("1.1.0");
    json!({
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": [{
            "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": name, "uid": "u",
            "controller": true,
        }], "annotations": {
            "k8s.ovn.org/network-id": id.to_string(),
            "k8s.ovn.org/tunnel-keys": format!("[{},{}]", 16_711_683 + id, 16_715_779 + id),
            "k8s.ovn.org/route-advertisements": "[\"ra\"]",
        }},
        "spec": {"config": config.to_string()},
    })
}

fn definitions() -> Vec<Versions> {
    let layer3 = json!({"name": "blue_l3", "role": "primary", "topology": "layer3",
        "subnets": "10.0.0.0/16/24", "joinSubnet": "100.65.0.0/16"});
    let mut wider = layer3.clone();
    wider["subnets"] = json!("10.0.0.0/8/24");
    let layer2 = json!({"name": "green_l2", "role": "primary", "topology": "layer2",
        "subnets": "10.20.0.0/16"});
    let secondary = json!({"name": "storage", "role": "secondary", "topology": "layer2",
        "subnets": "10.30.0.0/16"});
    let localnet = json!({"name": "office", "topology": "localnet", "subnets": "10.40.0.0/24",
        "physicalNetworkName": "physnet"});
    vec![
        Versions::of::<NetworkAttachmentDefinition>(vec![
            nad("blue", "net", 1, &layer3),
            nad("blue", "net", 1, &wider),
            nad("blue", "net", 2, &layer2),
            json!({"metadata": {"namespace": "blue", "name": "net"}, "spec": {"config": "{"}}),
        ]),
        Versions::of::<NetworkAttachmentDefinition>(vec![
            nad("green", "net", 2, &layer2),
            nad("green", "net", 1, &layer3),
        ]),
        Versions::of::<NetworkAttachmentDefinition>(vec![
            nad("blue", "more", 3, &secondary),
            nad("blue", "more", 4, &localnet),
        ]),
    ]
}

fn node(name: &str, id: &str, subnet: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"rack": label}, "annotations": {
        "k8s.ovn.org/node-id": id,
        "k8s.ovn.org/node-chassis-id": format!("chassis-{name}"),
        "k8s.ovn.org/node-subnets": json!({"blue_l3": [subnet]}).to_string(),
        "k8s.ovn.org/host-cidrs": json!([format!("172.18.0.{id}/16")]).to_string(),
        "k8s.ovn.org/node-primary-ifaddr": json!({"ipv4": format!("172.18.0.{id}/16")}).to_string(),
    }}})
}

fn nodes(name: &str, id: &str) -> Versions {
    Versions::of::<Node>(vec![
        node(name, id, &format!("10.0.{id}.0/24"), "a"),
        // The subnet of both nodes.
        node(name, id, "10.0.9.0/24", "a"),
        node(name, id, "10.1.0.0/24", "b"),
        json!({"metadata": {"name": name}}),
    ])
}

fn pod_object(namespace: &str, name: &str, node: &str, more: &Value) -> Value {
    let app = more["app"].as_str().unwrap_or("web");
    let mut annotations = json!({});
    if let Some(address) = more["address"].as_str() {
        annotations["k8s.ovn.org/pod-networks"] =
            json!(json!({
            format!("{namespace}/net"): {"ip_addresses": [format!("{address}/24")],
                "mac_address": "0a:58:0a:00:00:05", "role": "primary"},
            "blue/more": {"ip_addresses": ["10.30.0.7/16"], "mac_address": "0a:58:0a:1e:00:07"},
        })
        .to_string());
    }
    if more["secondary"] == true {
        annotations["k8s.v1.cni.cncf.io/networks"] = json!("blue/more");
    }
    let phase = more["phase"].as_str().unwrap_or("Running");
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("u-{name}"),
            "labels": {"app": app}, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [
            {"name": "c", "ports": [{"name": "http", "containerPort": 8080}]},
        ]},
        "status": {"phase": phase, "podIPs": [{"ip": "10.244.0.3"}]},
    })
}

fn pods(namespace: &str, name: &str) -> Versions {
    let of = |node, more: Value| pod_object(namespace, name, node, &more);
    Versions::of::<patchbay_resources::object::Pod>(vec![
        of("n1", json!({})),
        of("n1", json!({"address": "10.0.2.5"})),
        of("n1", json!({"address": "10.0.2.6", "secondary": true})),
        of("n2", json!({"address": "10.0.3.5", "app": "db"})),
        of("n1", json!({"address": "10.0.2.5", "phase": "Succeeded"})),
    ])
}

fn services() -> Vec<Versions> {
    let service = |namespace: &str, name: &str, ip: &str| {
        json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"clusterIP": ip, "clusterIPs": [ip], "type": "ClusterIP",
                "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
        })
    };
    let slice = |service: &str, address: &str| {
        json!({
            "metadata": {"namespace": "blue", "name": "web-1", "labels": {
                "k8s.ovn.org/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-mirror-controller.k8s.ovn.org",
            }, "annotations": {"k8s.ovn.org/endpointslice-network": "blue_l3"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        })
    };
    let service_kind = Versions::of::<patchbay_resources::object::Service>;
    let slice_kind = Versions::of::<patchbay_resources::object::EndpointSlice>;
    vec![
        service_kind(vec![
            service("blue", "web", "10.96.0.7"),
            service("blue", "web", "10.96.0.8"),
        ]),
        service_kind(vec![
            service("kube-system", "kube-dns", "10.96.0.10"),
            service("kube-system", "kube-dns", "10.96.0.11"),
        ]),
        service_kind(vec![service("default", "kubernetes", "10.96.0.1")]),
        slice_kind(vec![
            slice("web", "10.0.2.5"),
            slice("web", "10.0.2.6"),
            slice("other", "10.0.2.5"),
        ]),
    ]
}

fn policies() -> Vec<Versions> {
    let policy =
        |spec: Value| json!({"metadata": {"namespace": "blue", "name": "p"}, "spec": spec});
    let multi = |network: &str| {
        json!({
            "metadata": {"namespace": "blue", "name": "m", "annotations": {
                "k8s.v1.cni.cncf.io/policy-for": network,
            }},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": "db"}}}]},
            ]},
        })
    };
    let firewall = |rules: Value| json!({"metadata": {"namespace": "blue", "name": "default"}, "spec": {"egress": rules}});
    let admin = |priority: u32, labels: Value| {
        json!({
            "metadata": {"name": "tenants"},
            "spec": {"priority": priority, "subject": {"namespaces": {"matchLabels": labels}},
                "ingress": [{"action": "Pass", "from": [{"namespaces": {}}],
                    "ports": [{"namedPort": "http"}]}],
                "egress": [{"action": "Deny", "to": [{"nodes": {"matchLabels": {"rack": "a"}}}]}]},
        })
    };
    vec![
        Versions::of::<NetworkPolicy>(vec![
            policy(json!({"podSelector": {"matchLabels": {"app": "web"}}})),
            policy(json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [
                {"to": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}]},
            ]})),
            policy(json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}],
                    "ports": [{"port": "http"}]},
            ]})),
        ]),
        Versions::of::<MultiNetworkPolicy>(vec![multi("blue/more"), multi("blue/net")]),
        Versions::of::<EgressFirewall>(vec![
            firewall(json!([{"type": "Deny", "to": {"cidrSelector": "1.2.3.0/24"}}])),
            firewall(json!([])),
        ]),
        Versions::of::<AdminNetworkPolicy>(vec![
            admin(5, json!({"team": "a"})),
            admin(6, json!({"team": "b"})),
        ]),
        Versions::of::<BaselineAdminNetworkPolicy>(vec![json!({
            "metadata": {"name": "default"},
            "spec": {"subject": {"pods": {"namespaceSelector": {},
                "podSelector": {"matchLabels": {"app": "web"}}}},
                "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}]},
        })]),
    ]
}

fn egress_and_announcements() -> Vec<Versions> {
    let egress_ip = |name: &str, node: &str, app: &str| {
        json!({
            "metadata": {"name": name, "annotations": {"k8s.ovn.org/egressip-mark": "50001"}},
            "spec": {"egressIPs": ["172.18.0.100"],
                "namespaceSelector": {"matchLabels": {"egress": "yes"}},
                "podSelector": {"matchLabels": {"app": app}}},
            "status": {"items": [{"node": node, "egressIP": "172.18.0.100"}]},
        })
    };
    let mut without_mark = egress_ip("f", "n1", "web");
    without_mark["metadata"]["annotations"] = json!({});
    let announcement = |status: &str| {
        json!({
            "metadata": {"name": "ra"},
            "spec": {"advertisements": ["PodNetwork"], "nodeSelector": {"matchLabels": {"rack": "a"}},
                "networkSelectors": [], "frrConfigurationSelector": {}},
            "status": {"status": status, "conditions": [{"type": "Accepted", "status": status,
                "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })
    };
    vec![
        Versions::of::<EgressIP>(vec![egress_ip("e", "n1", "web"), egress_ip("e", "n2", "db")]),
        Versions::of::<EgressIP>(vec![without_mark, egress_ip("f", "n2", "web")]),
        Versions::of::<RouteAdvertisements>(vec![announcement("True"), announcement("False")]),
    ]
}

fn connects() -> Versions {
    let connect = |key: &str, networks: Value, selected: &str| {
        json!({
            "metadata": {"name": "c", "uid": "u-c", "annotations": {
                "k8s.ovn.org/connect-router-tunnel-key": key,
                "k8s.ovn.org/network-connect-subnet": networks.to_string(),
            }},
            "spec": {
                "networkSelectors": [{
                    "networkSelectionType": "PrimaryUserDefinedNetworks",
                    "primaryUserDefinedNetworkSelector": {
                        "namespaceSelector": {"matchLabels": {"team": selected}},
                    },
                }],
                "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}],
                "connectivity": ["PodNetwork", "ServiceNetwork"],
            },
        })
    };
    let entry = json!({"ipv4": "192.168.0.0/24"});
    Versions::of::<ClusterNetworkConnect>(vec![
        connect("16715779", json!({"layer3_1": entry}), "a"),
        connect("16715780", json!({"layer3_1": entry, "layer2_2": entry}), "a"),
        connect("", json!({}), "b"),
    ])
}

fn all_objects() -> Vec<Versions> {
    let mut all = vec![
        namespaces("blue"),
        namespaces("green"),
        nodes("n1", "2"),
        nodes("n2", "3"),
        pods("blue", "a"),
        pods("blue", "b"),
        pods("green", "a"),
        connects(),
    ];
    all.extend(definitions());
    all.extend(services());
    all.extend(policies());
    all.extend(egress_and_announcements());
    all
}

fn cluster(inventory: &Inventory) -> Cluster {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: [
            Feature::Multicast,
            Feature::EgressFirewall,
            Feature::EgressIp,
            Feature::RouteAdvertisements,
            Feature::AdminNetworkPolicy,
            Feature::DynamicUdnAllocation,
        ]
        .into(),
        ..ClusterSettings::default()
    };
    let now = Time(Timestamp::from_second(0).unwrap());
    Cluster::watched(inventory.clone(), settings, now)
}

/// Names of the pieces in which two versions of inputs differ.
fn difference<I: Inputs>(one: &I, other: &I, kinds: &[I::Kind]) -> Vec<String>
where
    I::Cell: std::fmt::Debug,
{
    let mut cells = Vec::new();
    one.diff(Some(other), kinds, &mut |cell| {
        cells.push(format!("{cell:?}"));
    });
    cells
}

fn assert_equal(followed: &ZoneInputs, read: &ZoneInputs) {
    let none: Vec<String> = Vec::new();
    assert_eq!(difference(&followed.objects, &read.objects, &Kind::ALL), none);
    // What problems are reported of is not a piece that rows depend on.
    let problems = |one: &ZoneInputs| {
        (
            Policies::problems(&Engine::default(), &one.objects),
            AdminPolicies::problems(&Engine::default(), &one.objects),
            Egress::problems(&Engine::default(), &one.objects),
        )
    };
    assert_eq!(problems(followed), problems(read));
    let skipped = [followed, read].map(|of| skipped_networks(&of.objects));
    assert_eq!(skipped[0], skipped[1]);
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let objects = all_objects().len();
    let step = (0..objects, 0..6_usize).prop_map(|(object, version)| Step { object, version });
    prop::collection::vec(prop::collection::vec(step, 1..4), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn inputs_that_follow_changes_are_those_made_from_nothing(steps in steps()) {
        let objects = all_objects();
        let mut inventory = Inventory::default();
        // Most objects exist at first.
        for object in &objects {
            object.take(&mut inventory, 0);
        }
        let mut followed = ZoneInputs::default();
        followed.update(&cluster(&inventory), ZONE, None);
        let mut former = ZoneInputs::read(&cluster(&inventory), ZONE, None);
        let mut skipped = SkippedNetworks::default();
        let mut activity = FollowedActivity::default();
        for step in steps {
            for Step { object, version } in step {
                objects[object].take(&mut inventory, version);
            }
            let cluster = cluster(&inventory);
            let active = activity.update(&cluster);
            prop_assert_eq!(&active, &FollowedActivity::default().update(&cluster));
            followed.update(&cluster, ZONE, active.clone());
            // What a running controller has known is not in the objects.
            let mut read = ZoneInputs {
                objects: former.objects,
                ..ZoneInputs::default()
            };
            read.update(&cluster, ZONE, active);
            assert_equal(&followed, &read);
            prop_assert_eq!(
                skipped.update(&followed.objects),
                skipped_networks(&read.objects)
            );
            former = read;
        }
    }
}

/// The objects of the property show what they are meant to show.
#[test]
fn the_random_objects_have_networks_ports_gates_and_endpoints() {
    let mut inventory = Inventory::default();
    for object in all_objects() {
        object.take(&mut inventory, 0);
    }
    for object in [pods("blue", "a"), pods("green", "a")] {
        object.take(&mut inventory, 2);
    }
    namespaces("blue").take(&mut inventory, 1);
    let cluster = cluster(&inventory);
    let NetworkObjects { networks, .. } = network_objects(&cluster.inventory, cluster.settings());
    assert_eq!(networks.iter().count(), 3);
    let inputs = ZoneInputs::read(&cluster, ZONE, None);
    let gates = gates_of(&inputs.objects, &PodKey::new("blue", "a"));
    assert!(gates.len() == 2 && gates.values().any(|groups| groups.len() == 2), "{gates:?}");
    let pods = inputs.objects.clone();
    let pod = pods.pod(&PodKey::new("blue", "a")).unwrap();
    assert_eq!(pods.places(pod).count(), 2);
    let objects = format!("{:?}", inputs.objects);
    assert!(objects.contains("ServedPod"), "{objects}");
    assert!(objects.contains("10.0.2.5") && objects.contains("10.96.0.7"));
    assert_eq!(skipped_networks(&inputs.objects), []);
}

#[test]
fn the_networks_of_a_zone_follow_their_pods() {
    let mut inventory = Inventory::default();
    for object in all_objects() {
        object.take(&mut inventory, 0);
    }
    // The EgressIPs would use the networks, too.
    for object in egress_and_announcements() {
        object.take(&mut inventory, usize::MAX);
    }
    let mut activity = FollowedActivity::default();
    let mut followed = ZoneInputs::default();
    let mut nodes = |inventory: &Inventory| {
        let cluster = cluster(inventory);
        let active = activity.update(&cluster).unwrap();
        followed.update(&cluster, ZONE, Some(active.clone()));
        let read = ZoneInputs::read(&cluster, ZONE, Some(active.clone()));
        assert_equal(&followed, &read);
        let nodes = active.nodes("blue_l3").unwrap().iter();
        nodes.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&inventory), ["n1"]);
    for (name, version, expected) in
        [("a", 3, &["n1", "n2"][..]), ("b", 4, &["n2"]), ("a", 5, &[]), ("b", 0, &["n1"])]
    {
        pods("blue", name).take(&mut inventory, version);
        assert_eq!(nodes(&inventory), expected, "{name} {version}");
    }
}
