//! Networks and nodes beyond a limit: they alone are skipped, and reported.

use std::sync::Arc;

use patchbay_schemas::nb::{self, LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::schema::DatabaseSchema;
use serde_json::json;

use crate::world::World;

#[test]
fn only_a_node_beyond_the_block_is_skipped() {
    let mut world = World::red_and_blue();
    world.add_node("n9", 40);
    world.connect_through(
        "c",
        ("192.168.0.0/16", 26),
        &["PodNetwork"],
        &[("layer3_1", "192.168.0.0/26"), ("layer3_2", "192.168.1.0/26")],
    );
    let report = world.pass_of_c();
    assert_eq!(
        report.messages(),
        [
            "network red, node n9: generated ip 192.168.0.80 from the idx 40 is out of range in the network 192.168.0.0/26",
            "network blue, node n9: generated ip 192.168.1.80 from the idx 40 is out of range in the network 192.168.1.0/26",
        ]
    );
    assert!(!report.is_complete());
    assert_eq!(world.count::<LogicalRouterPort>(), 6);
    assert_eq!(world.count::<LogicalRouterStaticRoute>(), 4);
}

#[test]
fn a_key_that_the_southbound_database_rejects_is_not_written() {
    let mut world = World::red_and_blue();
    world.add_node("n9", 2800);
    world.connect_through(
        "c",
        ("10.0.0.0/8", 18),
        &["PodNetwork"],
        // Keys of the seventh block of 5000 start at 30001.
        &[("layer3_1", "10.0.0.0/18"), ("layer3_2", "10.1.128.0/18")],
    );
    let report = world.pass_of_c();
    assert_eq!(
        report.messages(),
        [
            "network blue, node n9: subnet 10.1.128.0/18, pair 2800: no port tunnel key up to 32767 is left in the connect range 10.0.0.0/8"
        ]
    );
    let ports = world.rows::<LogicalRouterPort>();
    let keys: Vec<u32> = ports
        .iter()
        .filter_map(|port| port.options.get("requested-tnl-key")?.parse().ok())
        .collect();
    assert_eq!(keys.len(), 5);
    assert!(keys.iter().all(|key| (1..=32_767).contains(key)), "{keys:?}");
}

#[test]
fn only_nodes_that_are_not_ready_are_skipped() {
    let mut world = World::red_and_blue();
    world.add_node("n3", 4).chassis_id = None;
    world.add_node("n4", 5).id = None;
    world.add_node("n5", 3);
    world.add_node("n6", 7).subnets.clear();
    let report = world.pass_of_c();
    assert_eq!(
        report.messages(),
        [
            "network red, node n3: the node has no chassis id yet",
            "network red, node n4: the node has no id yet",
            "network red, node n5: the node has the id of node n2",
            "network blue, node n3: the node has no chassis id yet",
            "network blue, node n4: the node has no id yet",
            "network blue, node n5: the node has the id of node n2",
            "network red, node n6: the node has no subnet of the network yet",
            "network blue, node n6: the node has no subnet of the network yet",
        ]
    );
    assert_eq!(world.count::<LogicalRouterPort>(), 8);
}

#[test]
fn conflicting_names_are_reported() {
    // Names are joined by `_`: the layer3 network `cluster_udn` on the node `foo` and the layer2
    // network `cluster_udn_foo` want one port name.
    let mut world = World::new();
    world.add_layer3("cluster_udn", 1, &["10.1.0.0/16"]);
    world.add_layer2("cluster_udn_foo", 2, &["10.2.0.0/16"]);
    world.add_node("n1", 2);
    world.add_node("foo", 3);
    world.connect(
        "c",
        &["PodNetwork"],
        &[("layer3_1", "192.168.0.0/24"), ("layer2_2", "192.168.1.0/31")],
    );
    assert_eq!(
        world.pass_of_c().messages(),
        ["network cluster_udn_foo: the port name crtor-c_cluster_udn_foo is in use"]
    );
}

#[test]
fn two_networks_with_one_subnet_do_not_share_a_key() {
    let mut world = World::red_and_blue();
    world.connect(
        "c",
        &["PodNetwork"],
        &[("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.0.0/24")],
    );
    assert_eq!(
        world.pass_of_c().messages(),
        [
            "network blue, node n1: tunnel key 3 is in use by port crtor-c_red_n1",
            "network blue, node n2: tunnel key 4 is in use by port crtor-c_red_n2",
        ]
    );
}

#[test]
fn an_unreadable_annotation_changes_no_row() {
    let mut world = World::red_and_blue();
    world.pass();
    let ranges = json!([{"cidr": "192.168.0.0/16", "networkPrefix": 24}]);
    let annotations = json!({
        "k8s.ovn.org/connect-router-tunnel-key": "16715779",
        "k8s.ovn.org/network-connect-subnet": "{",
    });
    world.put_connect("c", &annotations, &ranges, &["PodNetwork"]);
    let report = world.pass_of_c();
    assert!(report.held.is_some());
    assert_eq!(world.count::<LogicalRouterPort>(), 6);
    world.put_connect("c", &json!({}), &ranges, &["PodNetwork"]);
    world.pass();
    // The key is remembered; the empty annotation connects nothing.
    assert_eq!(world.count::<LogicalRouterPort>(), 0);
}

#[test]
fn lost_packets_between_nodes_are_reported_for_an_old_schema() {
    for (version, is_old) in [("7.0.0", true), ("7.10.9", true), ("7.11.0", false)] {
        let text = nb::SCHEMA_TEXT.replacen("\"7.19.0\"", &format!("\"{version}\""), 1);
        let schema = Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap());
        assert_eq!(schema.version, version);
        let mut world = World::with_schema(schema);
        world.add_layer3("red", 1, &["10.1.0.0/16"]);
        world.add_layer2("blue", 2, &["10.2.0.0/16"]);
        world.add_node("n1", 2);
        let subnets = [("layer3_1", "192.168.0.0/24"), ("layer2_2", "192.168.1.0/31")];
        world.connect("c", &["PodNetwork"], &subnets);
        assert!(world.pass_of_c().is_complete(), "one node, {version}");
        world.add_node("n2", 3);
        let report = world.pass_of_c();
        assert_eq!(report.connected.len(), 2, "the rows are there");
        assert_eq!(report.is_complete(), !is_old, "{version}");
        if is_old {
            let expected = format!(
                "network red: packets to and from its pods on other nodes are lost, because OVN has remote router ports since 25.03 (Northbound schema 7.11.0; this one has version {version})"
            );
            assert_eq!(report.messages(), [expected]);
        }
    }
}
