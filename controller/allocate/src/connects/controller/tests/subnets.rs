//! Allocation of subnets, and the messages if no subnet is free.

use jiff::Timestamp;
use patchbay_model::{ConnectSubnetMap, NodeId};
use patchbay_resources::object::Time;
use serde_json::{Value, json};

use super::bed::{FINE, TestBed, range};
use crate::connects::ClusterObjects;

#[test]
fn new_networks_are_allocated_in_the_order_of_their_ids() {
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
fn exhaustion_is_reported_for_every_network_in_the_order_of_names() {
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
    // After one network is removed, the same reconcile allocates its subnet to one of the others.
    bed.remove_network("one").settle();
    assert_eq!(
        bed.subnets("c"),
        Some(r#"{"layer3_2":{"ipv4":"192.168.1.0/24"},"layer3_3":{"ipv4":"192.168.0.0/24"}}"#)
    );
}

#[test]
fn an_invalid_range_stops_the_connect() {
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
fn layer2_networks_move_while_an_allocation_fails() {
    let mut bed = TestBed::new();
    for id in 1..=6 {
        let topology = if id == 1 { "layer3" } else { "layer2" };
        bed.network(&format!("n{id}"), id, json!({"topology": topology}));
    }
    bed.connect("c", &range("192.169.0.0/28", 30)).settle();
    assert_eq!(bed.message("c"), FINE);
    // Its pair makes room in the first of three blocks, and so the last one gets empty, which it
    // takes.
    bed.network("n2", 2, json!({})).settle();
    assert_eq!(bed.message("c"), FINE);
    let subnets = bed.subnets("c").map(str::to_owned);
    assert!(
        subnets.as_ref().unwrap().contains(r#""layer3_2":{"ipv4":"192.169.0.12/30"}"#),
        "{subnets:?}"
    );
    bed.settle();
    assert_eq!(bed.subnets("c"), subnets.as_deref());
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
    // A pair is free in the first block, but no network came or went, so no address changes.
    bed.settle();
    bed.settle();
    assert_eq!(bed.subnets("cnc").map(str::to_owned), before);
    bed.remove_network("d").settle();
    assert_eq!(
        bed.subnets("cnc"),
        Some(r#"{"layer2_2":{"ipv4":"192.168.0.2/31"},"layer2_3":{"ipv4":"192.168.0.0/31"}}"#)
    );
    // All four blocks can still be allocated.
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
fn networks_that_exceed_the_annotation_limit_are_errors() {
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
    bed.network("red", 4_000, json!({"subnets": "10.1.0.0/16/24,fd10::/48/64"}))
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
fn blocks_that_are_too_small_for_nodes_are_warnings() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 26));
    bed.settle();
    let warnings = |bed: &mut TestBed, id: i64| {
        let networks =
            patchbay_resources::conversion::networks(bed.nads.values(), bed.namespaces.values());
        let nodes = [("n1", 2), ("n2", id), ("n3", 3)]
            .map(|(name, id)| (name, NodeId::try_new(id).unwrap()));
        let objects = ClusterObjects::new(
            &networks,
            bed.nads.values(),
            bed.namespaces.values(),
            bed.connects.values(),
        )
        .with_nodes(nodes);
        let report = bed.controller.reconcile(&objects, &Time(Timestamp::UNIX_EPOCH));
        let warnings = report.warnings.iter();
        warnings.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&mut bed, 27), [""; 0]);
    let warning = |id, left| {
        format!(
            "CNC c: spec.connectSubnets: {left} of 30 node ids left: blocks have addresses and keys for node ids up to 31, and node n2 has id {id}"
        )
    };
    assert_eq!(warnings(&mut bed, 28), [warning(28, 3)]);
    assert_eq!(warnings(&mut bed, 40), [warning(40, 0)]);

    // In the seventh block keys run out before addresses.
    let mut bed = TestBed::new();
    bed.connect("c", &range("172.16.0.0/12", 18));
    bed.network("n1", 1, json!({})).settle();
    assert_eq!(warnings(&mut bed, 2500), [""; 0]);
    for id in 2..=7 {
        bed.network(&format!("n{id}"), id, json!({})).settle();
    }
    assert_eq!(bed.message("c"), FINE);
    let found = warnings(&mut bed, 2500);
    assert!(
        found[0].contains("266 of 2,765 node ids left: blocks have addresses and keys for node ids up to 2766, and node n2"),
        "{found:?}"
    );
}
