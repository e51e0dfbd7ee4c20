use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::cnc::StatusType;
use crate::api::nad::NetworkAttachmentDefinition;
use crate::cluster::ACCEPTED;
use crate::model::{NadKey, Networks, NodeId, Topology};

/// All objects of a cluster, and a controller whose outcomes are written back to them.
struct TestBed {
    controller: ClusterController,
    nads: BTreeMap<NadKey, NetworkAttachmentDefinition>,
    namespaces: BTreeMap<String, Namespace>,
    connects: BTreeMap<String, ClusterNetworkConnect>,
    clock: i64,
}

impl TestBed {
    fn new() -> Self {
        Self {
            controller: ClusterController::new(settings()),
            nads: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            connects: BTreeMap::new(),
            clock: 0,
        }
    }

    /// A network of a ClusterUserDefinedNetwork with the label `tier: app`, in a namespace of its own.
    fn network(&mut self, name: &str, id: i64, change: Value) -> &mut Self {
        let mut config = json!({
            "type": "ovn-k8s-cni-overlay", "name": format!("cluster_udn_{name}"), "topology": "layer3",
            "role": "primary", "subnets": format!("10.{}.0.0/16", id),
        });
        merge(&mut config, change);
        let nad: NetworkAttachmentDefinition = serde_json::from_value(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": name, "namespace": name, "labels": {"tier": "app"},
                "annotations": {"k8s.ovn.org/network-id": id.to_string()},
                "ownerReferences": [{
                    "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "name": name, "uid": name,
                    "controller": true,
                }],
            },
            "spec": {"config": config.to_string()},
        }))
        .unwrap();
        let namespace = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"k8s.ovn.org/primary-user-defined-network": "", "team": name}},
        }))
        .unwrap();
        self.nads.insert(NadKey::of(&nad), nad);
        self.namespaces.insert(name.to_owned(), namespace);
        self
    }

    fn nad(&mut self, name: &str) -> &mut NetworkAttachmentDefinition {
        self.nads
            .values_mut()
            .find(|nad| nad.name_any() == name)
            .unwrap()
    }

    fn remove_network(&mut self, name: &str) -> &mut Self {
        self.nads.retain(|key, _| key.name != name);
        self
    }

    /// A connect of all networks with the label `tier: app`.
    fn connect(&mut self, name: &str, subnets: &Value) -> &mut Self {
        let selector = json!({
            "networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tier": "app"}}},
        });
        self.clock += 1;
        let object = serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": name, "uid": format!("uid-{}", self.clock), "generation": 1},
            "spec": {"networkSelectors": [selector], "connectSubnets": subnets, "connectivity": ["PodNetwork"]},
        }))
        .unwrap();
        self.connects.insert(name.to_owned(), object);
        self
    }

    /// Selects the primary networks of namespaces with this label instead.
    fn select_namespaces(&mut self, connect: &str, labels: &Value) -> &mut Self {
        let selector = serde_json::from_value(json!({
            "networkSelectionType": "PrimaryUserDefinedNetworks",
            "primaryUserDefinedNetworkSelector": {"namespaceSelector": {"matchLabels": labels}},
        }))
        .unwrap();
        self.connects
            .get_mut(connect)
            .unwrap()
            .spec
            .network_selectors = vec![selector];
        self
    }

    fn annotate(&mut self, connect: &str, key: &str, value: &str) -> &mut Self {
        let object = self.connects.get_mut(connect).unwrap();
        object
            .annotations_mut()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    fn restart(&mut self) -> &mut Self {
        self.controller = ClusterController::new(settings());
        self
    }

    /// Reconciles, writes the outcomes and returns the warnings.
    fn settle(&mut self) -> Vec<String> {
        self.clock += 1;
        let now = Time(Timestamp::from_second(self.clock).unwrap());
        let networks = Networks::read(self.nads.values(), self.namespaces.values());
        let objects = Objects::new(
            &networks,
            self.nads.values(),
            self.namespaces.values(),
            self.connects.values(),
        );
        let report = self.controller.reconcile(&objects, &now);
        for outcome in report.outcomes {
            let object = self.connects.get_mut(&outcome.name).unwrap();
            for (key, value) in outcome.annotations() {
                object.annotations_mut().insert(key.to_owned(), value);
            }
            object.status = Some(outcome.status);
        }
        report.warnings.iter().map(ToString::to_string).collect()
    }

    fn annotation(&self, connect: &str, key: &str) -> Option<&str> {
        self.connects[connect]
            .annotations()
            .get(key)
            .map(String::as_str)
    }

    fn key(&self, connect: &str) -> Option<&str> {
        self.annotation(connect, ROUTER_TUNNEL_KEY)
    }

    fn subnets(&self, connect: &str) -> Option<&str> {
        self.annotation(connect, ConnectSubnetMap::ANNOTATION)
    }

    /// Message of the condition, after checking what every status must have.
    fn message(&self, connect: &str) -> &str {
        let object = &self.connects[connect];
        let status = object.status.as_ref().unwrap();
        let [condition] = &status.conditions[..] else {
            panic!("{status:?}");
        };
        assert_eq!(condition.type_, ACCEPTED);
        assert_eq!(condition.observed_generation, object.metadata.generation);
        let succeeded = status.status == Some(StatusType::Success);
        assert_eq!(succeeded, condition.status == "True");
        &condition.message
    }
}

fn settings() -> ClusterSettings {
    ClusterSettings {
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    }
}

fn range(cidr: &str, prefix: i32) -> Value {
    json!([{"cidr": cidr, "networkPrefix": prefix}])
}

fn merge(base: &mut Value, change: Value) {
    if let (Value::Object(base), Value::Object(change)) = (base, change) {
        base.extend(change);
    }
}

const FINE: &str = "All validation checks passed successfully";

#[test]
fn new_networks_are_served_in_the_order_of_their_ids() {
    let mut bed = TestBed::new();
    bed.network("zebra", 1, json!({}))
        .network("yak", 2, json!({"topology": "layer2"}))
        .network("ant", 10, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    assert_eq!(bed.message("c"), FINE);
    assert_eq!(
        bed.subnets("c"),
        Some(
            r#"{"layer2_2":{"ipv4":"192.168.1.0/31"},"layer3_1":{"ipv4":"192.168.0.0/24"},"layer3_10":{"ipv4":"192.168.2.0/24"}}"#
        )
    );
}

#[test]
fn a_lost_or_edited_annotation_is_repaired() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let (key, subnets) = (
        bed.key("c").map(str::to_owned),
        bed.subnets("c").map(str::to_owned),
    );
    bed.connects.get_mut("c").unwrap().metadata.annotations = None;
    bed.settle();
    assert_eq!(bed.key("c"), key.as_deref());
    assert_eq!(bed.subnets("c"), subnets.as_deref());
    bed.annotate("c", ConnectSubnetMap::ANNOTATION, "{}")
        .settle();
    assert_eq!(bed.subnets("c"), subnets.as_deref());
}

#[test]
fn a_new_object_of_an_old_name_is_a_new_connect() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    // Deleted and created in between two reconciles.
    bed.connect("c", &range("192.169.0.0/16", 24)).settle();
    assert_eq!(bed.key("c"), Some("16715780"));
    assert_eq!(
        bed.subnets("c"),
        Some(r#"{"layer3_1":{"ipv4":"192.169.0.0/24"}}"#)
    );
}

#[test]
fn a_network_that_cannot_be_read_for_a_while_keeps_its_subnets() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("blue", 2, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let before = bed.subnets("c").map(str::to_owned);

    let good = bed.nad("red").clone();
    bed.nad("red").spec.config = Some("{".to_owned());
    let warnings = bed.settle();
    assert_eq!(bed.subnets("c"), before.as_deref());
    // It is told beside the status: the connect itself is all right.
    assert_eq!(
        warnings,
        [
            "CNC c: network attachment definition red/red: spec.config: EOF while parsing an object at line 1 column 1"
        ]
    );
    assert_eq!(bed.message("c"), FINE);

    *bed.nad("red") = good.clone();
    bed.nad("red").metadata.annotations = None;
    bed.settle();
    assert_eq!(bed.subnets("c"), before.as_deref());
    assert_eq!(
        bed.message("c"),
        "failed to allocate subnets for CNC c: network id is invalid for network cluster_udn_red"
    );

    *bed.nad("red") = good;
    bed.settle();
    assert_eq!(bed.subnets("c"), before.as_deref());
    assert_eq!(bed.message("c"), FINE);

    // Now it is clear that the network is gone.
    bed.remove_network("red").settle();
    assert_eq!(
        bed.subnets("c"),
        Some(r#"{"layer3_2":{"ipv4":"192.168.1.0/24"}}"#)
    );
}

#[test]
fn deselected_networks_are_released_even_if_they_cannot_be_read() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    bed.nad("red").spec.config = Some("{".to_owned());
    bed.nad("red").metadata.labels = None;
    bed.settle();
    assert_eq!(bed.subnets("c"), Some("{}"));
    assert_eq!(bed.message("c"), FINE);
}

#[test]
fn transports_are_tested_on_both_ways_of_selecting() {
    let mut bed = TestBed::new();
    bed.network("flat", 1, json!({"transport": "no-overlay"}))
        .network("fabric", 2, json!({"transport": "evpn"}))
        .network("red", 3, json!({}))
        .connect("c", &range("192.168.0.0/16", 24))
        .connect("n", &range("192.169.0.0/16", 24))
        .select_namespaces("n", &json!({}));
    bed.settle();
    for connect in ["c", "n"] {
        assert_eq!(
            bed.message(connect),
            format!(
                "failed to discover selected networks for CNC {connect}: [network cluster_udn_fabric has transport type evpn that is not supported for networkConnect, network cluster_udn_flat has transport type no-overlay that is not supported for networkConnect]"
            )
        );
    }
    assert_eq!(
        bed.subnets("n"),
        Some(r#"{"layer3_3":{"ipv4":"192.169.0.0/24"}}"#)
    );
}

#[test]
fn a_namespace_selector_takes_the_whole_network_of_the_namespace() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("blue", 2, json!({}))
        .connect("n", &range("192.168.0.0/16", 24))
        .select_namespaces("n", &json!({"team": "blue"}));
    bed.settle();
    assert_eq!(
        bed.subnets("n"),
        Some(r#"{"layer3_2":{"ipv4":"192.168.0.0/24"}}"#)
    );
    // Without its label the namespace is on the default network.
    let namespace = bed.namespaces.get_mut("blue").unwrap();
    namespace
        .labels_mut()
        .remove("k8s.ovn.org/primary-user-defined-network");
    bed.settle();
    assert_eq!(bed.subnets("n"), Some("{}"));
}

#[test]
fn causes_come_in_the_order_of_the_checks() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({"subnets": "192.168.7.0/24/26"}))
        .network("blue", 2, json!({"subnets": "192.168.7.0/25/26"}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let message = bed.message("c");
    let parts = [
        "validation failed for CNC c: [selected networks overlap with cluster network connect subnets: network cluster_udn_blue with subnets [192.168.7.0/25/26]",
        ", selected networks overlap with cluster network connect subnets: network cluster_udn_red with subnets [192.168.7.0/24/26]",
        ", can not connect selected networks: selected networks have overlapping subnets: network cluster_udn_blue with subnets [192.168.7.0/25] and network cluster_udn_red with subnets [192.168.7.0/24]]",
    ];
    let mut rest = message;
    for part in parts {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part} is not in {message}"));
        rest = &rest[at + part.len()..];
    }
    assert_eq!((bed.key("c"), bed.subnets("c")), (None, None));
}

#[test]
fn exhaustion_is_told_for_every_network_in_the_order_of_names() {
    let mut bed = TestBed::new();
    bed.network("one", 1, json!({}))
        .network("two", 2, json!({}))
        .network("zebra", 3, json!({}))
        .network("ant", 4, json!({"topology": "layer2"}))
        .connect("c", &range("192.168.0.0/23", 24));
    bed.settle();
    assert_eq!(
        bed.message("c"),
        "failed to allocate subnets for CNC c: [failed to allocate Layer2 subnet for network cluster_udn_ant: failed to expand Layer2 allocator: failed to allocate layer2 blocks: no subnets available, failed to allocate Layer3 subnet for network cluster_udn_zebra: Layer3 allocation failed for layer3_3: no subnets available]"
    );
    // One leaves: the other two are tried again in the same reconcile, and there is room for one.
    bed.remove_network("one").settle();
    assert_eq!(
        bed.subnets("c"),
        Some(r#"{"layer3_2":{"ipv4":"192.168.1.0/24"},"layer3_3":{"ipv4":"192.168.0.0/24"}}"#)
    );
}

#[test]
fn a_range_that_cannot_be_used_stops_the_connect() {
    let mut bed = TestBed::new();
    bed.connect("c", &range("192.168.0.0/16", 32));
    bed.connect("d", &range("fd01::/64", 64));
    bed.settle();
    assert_eq!(
        bed.message("c"),
        "failed to initialize subnet allocator for CNC c: failed to add IPV4 network range 192.168.0.0/16 to cluster network connect c subnet allocator: networkPrefix 32 must be smaller than address length 32"
    );
    assert_eq!(
        bed.message("d"),
        "failed to initialize subnet allocator for CNC d: failed to add IPV6 network range fd01::/64 to cluster network connect d subnet allocator: networkPrefix 64 must be larger than base CIDR prefix 64"
    );
    assert_eq!(bed.key("c"), None);
}

#[test]
fn the_connect_that_has_the_networks_keeps_them() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("later", &range("192.168.0.0/16", 24));
    bed.settle();
    bed.connect("earlier", &range("192.168.0.0/20", 24))
        .settle();
    let conflict = "cross-validation failed for CNC earlier: connectSubnets overlap detected between CNC earlier and CNC later which both select networks [layer3_1]";
    assert_eq!(bed.message("earlier"), conflict);
    // A restart does not turn this round.
    bed.restart().settle();
    assert_eq!(bed.message("earlier"), conflict);
    assert_eq!(bed.message("later"), FINE);
    bed.connects.remove("later");
    bed.settle();
    assert_eq!(bed.message("earlier"), FINE);
}

#[test]
fn a_connect_waits_for_what_a_later_one_gives_back_in_the_same_reconcile() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("b", &range("192.168.0.0/16", 24));
    bed.settle();
    bed.connect("a", &range("192.168.0.0/16", 24))
        .select_namespaces("b", &json!({"team": "nobody"}));
    bed.settle();
    assert_eq!(bed.message("a"), FINE);
    assert_eq!(bed.subnets("b"), Some("{}"));
}

#[test]
fn layer2_networks_make_room_as_long_as_something_is_short() {
    let mut bed = TestBed::new();
    for id in 1..=6 {
        let topology = if id == 1 { "layer3" } else { "layer2" };
        bed.network(&format!("n{id}"), id, json!({"topology": topology}));
    }
    bed.connect("c", &range("192.169.0.0/28", 30)).settle();
    assert_eq!(bed.message("c"), FINE);
    // Its pair makes room in the first of three blocks, and so the last one gets empty, which it takes.
    bed.network("n2", 2, json!({})).settle();
    assert_eq!(bed.message("c"), FINE);
    let subnets = bed.subnets("c").map(str::to_owned);
    assert!(
        subnets
            .as_ref()
            .unwrap()
            .contains(r#""layer3_2":{"ipv4":"192.169.0.12/30"}"#),
        "{subnets:?}"
    );
    bed.settle();
    assert_eq!(bed.subnets("c"), subnets.as_deref());
}

#[test]
fn a_restart_keeps_everything_even_if_validation_fails() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("lime", 2, json!({"topology": "layer2"}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let before = bed.connects["c"].metadata.annotations.clone();
    bed.network("bad", 3, json!({"subnets": "192.168.1.0/24"}))
        .restart()
        .settle();
    assert_eq!(bed.connects["c"].metadata.annotations, before);
    assert!(bed.message("c").starts_with("validation failed"));
    bed.remove_network("bad").restart();
    assert_eq!(bed.settle(), [""; 0]);
    assert_eq!(bed.connects["c"].metadata.annotations, before);
    assert_eq!(bed.message("c"), FINE);
}

#[test]
fn annotations_that_cannot_be_kept_are_told() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("blue", 2, json!({}))
        .connect("a", &range("192.168.0.0/16", 24))
        .connect("b", &range("192.169.0.0/16", 24))
        .connect("c", &range("192.170.0.0/16", 24))
        .annotate("a", ROUTER_TUNNEL_KEY, "16715790")
        .annotate("b", ROUTER_TUNNEL_KEY, "16715790")
        .annotate("c", ROUTER_TUNNEL_KEY, "many")
        .annotate(
            "a",
            ConnectSubnetMap::ANNOTATION,
            r#"{"layer3_1":{"ipv4":"10.0.0.0/24"},"layer3_2":{"ipv4":"192.168.9.0/24"},"odd":{"ipv4":"192.168.1.0/24"}}"#,
        )
        .annotate("b", ConnectSubnetMap::ANNOTATION, "[");
    assert_eq!(
        bed.settle(),
        [
            "CNC a: annotation k8s.ovn.org/network-connect-subnet: owner key \"odd\" is not layer3_<id> or layer2_<id>",
            "CNC a: annotation k8s.ovn.org/network-connect-subnet: the subnets of layer3_1 are not free or not from connectSubnets",
        ]
    );
    assert_eq!(
        bed.subnets("a"),
        Some(r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"layer3_2":{"ipv4":"192.168.9.0/24"}}"#)
    );
    assert_eq!(bed.message("a"), FINE);
    // What nobody can read is left as it is, and told.
    assert_eq!(bed.subnets("b"), Some("["));
    let message = bed.message("b");
    assert!(
        message.starts_with(
            "failed to initialize subnet allocator for CNC b: annotation k8s.ovn.org/network-connect-subnet: "
        ),
        "{message}"
    );
    assert_eq!([bed.key("c"), bed.subnets("c")], [Some("many"), None]);
    assert_eq!(
        bed.message("c"),
        "failed to allocate tunnel key for CNC c: annotation k8s.ovn.org/connect-router-tunnel-key: datapath tunnel key \"many\" is not a number"
    );
    assert_eq!(bed.settle(), [""; 0]);

    bed.annotate("b", ConnectSubnetMap::ANNOTATION, "{}");
    bed.annotate("c", ROUTER_TUNNEL_KEY, "16715800").settle();
    assert_eq!(
        bed.message("b"),
        "failed to allocate tunnel key for CNC b: annotation k8s.ovn.org/connect-router-tunnel-key: key 16715790 is in use by another router"
    );
    assert_eq!(bed.message("c"), FINE);
    assert_eq!(bed.key("c"), Some("16715800"));
}

#[test]
fn a_layer2_network_moves_only_when_networks_come_or_go() {
    let mut bed = TestBed::new();
    for (name, id) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        bed.network(name, id, json!({"topology": "layer2"}));
    }
    bed.connect("cnc", &range("192.168.0.0/28", 30)).settle();
    bed.remove_network("a").settle();
    let before = bed.subnets("cnc").map(str::to_owned);
    assert_eq!(
        before.as_deref(),
        Some(
            r#"{"layer2_2":{"ipv4":"192.168.0.2/31"},"layer2_3":{"ipv4":"192.168.0.4/31"},"layer2_4":{"ipv4":"192.168.0.6/31"}}"#
        )
    );
    // There is a place in the first block, but nothing has happened that is worth a new address.
    bed.settle();
    bed.settle();
    assert_eq!(bed.subnets("cnc").map(str::to_owned), before);
    bed.remove_network("d").settle();
    assert_eq!(
        bed.subnets("cnc"),
        Some(r#"{"layer2_2":{"ipv4":"192.168.0.2/31"},"layer2_3":{"ipv4":"192.168.0.0/31"}}"#)
    );
    // Nothing is lost by it: all four blocks can be had.
    for name in ["b", "c"] {
        bed.remove_network(name);
    }
    for id in 5..9 {
        bed.network(&format!("n{id}"), id, json!({}));
    }
    bed.settle();
    bed.settle();
    assert_eq!(bed.message("cnc"), FINE);
}

#[test]
fn an_annotation_that_is_full_takes_no_more_networks() {
    let mut bed = TestBed::new();
    let mut entries = serde_json::Map::new();
    for id in 1_000_u32..3_800 {
        let place = (id - 1_000) * 2 + 2;
        let v6 = format!("fd01:1111:2222:3333:4444:5555:6666:{place:x}/127");
        let v4 = format!("100.100.{}.{}/31", 100 + place / 256, place % 256);
        entries.insert(format!("layer2_{id}"), json!({"ipv4": v4, "ipv6": v6}));
        let subnet = format!("10.{}.{}.0/24", id / 256, id % 256);
        let change = json!({"topology": "layer2", "subnets": subnet});
        bed.network(&format!("n{id}"), id.into(), change);
    }
    let annotation = Value::from(entries).to_string();
    assert!(annotation.len() > 240 * 1024, "{}", annotation.len());
    bed.network(
        "red",
        4_000,
        json!({"subnets": "10.1.0.0/16/24,fd10::/48/64"}),
    )
    .connect(
        "c",
        &json!([
            {"cidr": "100.100.0.0/17", "networkPrefix": 19},
            {"cidr": "fd01:1111:2222:3333:4444:5555:6666:0/113", "networkPrefix": 115},
        ]),
    )
    .annotate("c", ConnectSubnetMap::ANNOTATION, &annotation);
    assert_eq!(bed.settle(), [""; 0]);
    assert_eq!(
        bed.message("c"),
        "failed to allocate subnets for CNC c: failed to allocate subnet for network cluster_udn_red: \
         annotation k8s.ovn.org/network-connect-subnet would have more than 245760 bytes"
    );
    assert!(!bed.subnets("c").unwrap().contains("_4000"));
}

#[test]
fn blocks_that_are_too_small_for_nodes_are_told() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("c", &range("192.168.0.0/16", 26));
    bed.settle();
    let warnings = |bed: &mut TestBed, id: i64| {
        let networks = Networks::read(bed.nads.values(), bed.namespaces.values());
        let nodes = [("n1", 2), ("n2", id), ("n3", 3)]
            .map(|(name, id)| (name, NodeId::try_new(id).unwrap()));
        let objects = Objects::new(
            &networks,
            bed.nads.values(),
            bed.namespaces.values(),
            bed.connects.values(),
        )
        .with_nodes(nodes);
        let report = bed
            .controller
            .reconcile(&objects, &Time(Timestamp::UNIX_EPOCH));
        let warnings = report.warnings.iter();
        warnings.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&mut bed, 27), [""; 0]);
    let told = |id| {
        format!(
            "CNC c: spec.connectSubnets: blocks have addresses for node ids below 32, and node n2 has id {id}: networks cannot be connected on nodes with higher ids"
        )
    };
    assert_eq!(warnings(&mut bed, 28), [told(28)]);
    assert_eq!(warnings(&mut bed, 40), [told(40)]);
}

#[test]
fn keys_of_networks_are_not_handed_out() {
    let mut bed = TestBed::new();
    bed.network("lime", 2, json!({"topology": "layer2"}))
        .network("plum", 3, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    let annotations = bed.nad("lime").annotations_mut();
    annotations.insert(
        "k8s.ovn.org/tunnel-keys".to_owned(),
        "[16711685,16715779]".to_owned(),
    );
    let annotations = bed.nad("plum").annotations_mut();
    annotations.insert("k8s.ovn.org/tunnel-keys".to_owned(), "16711686".to_owned());
    let warnings = bed.settle();
    assert_eq!(bed.key("c"), Some("16715780"));
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with(
            "network attachment definition plum/plum: annotation k8s.ovn.org/tunnel-keys: "
        ),
        "{warnings:?}"
    );
}

#[test]
fn settling_twice_changes_nothing() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let before = bed.connects.clone();
    bed.settle();
    assert_eq!(bed.connects, before);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Network(i64, bool),
    Remove(i64),
    Connect(usize),
    Disconnect(usize),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_i64..9, any::<bool>()).prop_map(|(id, layer2)| Step::Network(id, layer2)),
        2 => (1_i64..9).prop_map(Step::Remove),
        2 => (0_usize..3).prop_map(Step::Connect),
        1 => (0_usize..3).prop_map(Step::Disconnect),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..30)
}

proptest! {
    /// Whatever happens: a restart changes nothing, keys are unique, and a network that stays keeps its subnets; a layer2
    /// network as long as no other comes or goes.
    #[test]
    fn what_was_handed_out_stays(steps in steps()) {
        let ranges = [range("192.168.0.0/21", 24), range("192.169.0.0/28", 30), range("fd01::/112", 120)];
        let mut bed = TestBed::new();
        for step in steps {
            let before: BTreeMap<String, (Option<String>, Option<String>)> = bed
                .connects
                .iter()
                .map(|(name, object)| {
                    (name.clone(), (bed.key(name).map(str::to_owned), object.uid()))
                })
                .collect();
            let subnets_before: BTreeMap<String, ConnectSubnetMap> = bed.connects.keys()
                .filter_map(|name| Some((name.clone(), ConnectSubnetMap::parse(bed.subnets(name)?).unwrap().0)))
                .collect();
            let mut touched = None;
            match step {
                Step::Network(id, layer2) => {
                    let topology = if layer2 { "layer2" } else { "layer3" };
                    let subnets = format!("10.{id}.0.0/16,fd10:{id}::/48");
                    bed.network(&format!("n{id}"), id, json!({"topology": topology, "subnets": subnets}));
                    touched = Some(id);
                }
                Step::Remove(id) => {
                    bed.remove_network(&format!("n{id}"));
                    touched = Some(id);
                }
                Step::Connect(index) => {
                    let name = format!("c{index}");
                    if !bed.connects.contains_key(&name) {
                        bed.connect(&name, &ranges[index]);
                    }
                }
                Step::Disconnect(index) => {
                    bed.connects.remove(&format!("c{index}"));
                }
                Step::Restart => {
                    bed.restart();
                }
            }
            prop_assert_eq!(bed.settle(), Vec::<String>::new());

            let keys: Vec<_> = bed.connects.keys().filter_map(|name| bed.key(name)).collect();
            let distinct: BTreeSet<_> = keys.iter().collect();
            prop_assert_eq!(keys.len(), distinct.len());
            for (name, (key, uid)) in before {
                let Some(object) = bed.connects.get(&name) else { continue };
                if object.uid() != uid {
                    continue;
                }
                if key.is_some() {
                    prop_assert_eq!(bed.key(&name), key.as_deref());
                }
                let Some(subnets) = subnets_before.get(&name) else { continue };
                let after = ConnectSubnetMap::parse(bed.subnets(&name).unwrap()).unwrap().0;
                for (owner, had) in subnets.iter() {
                    let may_move = touched.is_some() && owner.topology == Topology::Layer2;
                    if !may_move && touched != Some(owner.network_id.get().into()) {
                        prop_assert_eq!(after.get(owner), Some(had));
                    }
                }
            }
        }
    }
}
