//! Rows of an unknown network are retained until it leaves the annotation.

use std::sync::Arc;

use patchbay_nbctl_text::northbound;
use patchbay_schemas::nb::{AddressSet, LogicalRouterPolicy, LogicalRouterPort, LogicalSwitch};

use crate::world::World;

const SUBNETS: [(&str, &str); 3] = [
    ("layer3_1", "192.168.0.0/24"),
    ("layer3_2", "192.168.1.0/24"),
    ("layer2_11", "192.168.2.0/31"),
];

/// Two networks of layer3 and one of layer2, all connected, on two nodes.
pub(crate) fn connected(connectivity: &[&str]) -> World {
    let mut world = World::new();
    world.add_layer3("red", 1, &["10.1.0.0/16"]);
    world.add_layer3("blue", 2, &["10.2.0.0/16"]);
    world.add_layer2("lime", 11, &["10.11.0.0/16"]);
    for network in ["red", "blue", "lime"] {
        world.add_load_balancer(network, "ns/web");
    }
    world.add_node("n1", 1);
    world.add_node("n2", 2);
    world.connect("c", connectivity, &SUBNETS);
    world.pass();
    world
}

fn state(world: &World) -> String {
    northbound(&world.database.snapshot())
}

#[test]
fn rows_of_an_unknown_network_are_retained_until_it_returns() {
    for connectivity in
        [&["PodNetwork"][..], &["ServiceNetwork"], &["PodNetwork", "ServiceNetwork"]]
    {
        for network in ["blue", "lime"] {
            let mut world = connected(connectivity);
            let before = state(&world);
            let all = world.networks.clone();
            world.forget_network(network);
            let report = world.pass_of_c();
            assert_eq!(report.skipped_networks.len(), 1, "the skipped network is reported");
            assert_eq!(state(&world), before, "{network} {connectivity:?}");
            world.controller.resync();
            world.pass();
            assert_eq!(state(&world), before, "{network} {connectivity:?}");

            world.networks = all;
            world.inputs.networks = Arc::new(world.networks.values().cloned().collect());
            let report = world.pass_of_c();
            assert!(report.skipped_networks.is_empty());
            assert_eq!(state(&world), before, "{network} {connectivity:?}");
        }
    }
}

#[test]
fn rows_of_a_network_are_removed_when_it_leaves_the_annotation() {
    for connectivity in [&["PodNetwork"][..], &["ServiceNetwork"]] {
        let mut world = connected(connectivity);
        world.forget_network("blue");
        world.pass();
        let left = [SUBNETS[0], SUBNETS[2]];
        world.connect("c", connectivity, &left);
        world.pass();

        let mut other = connected(connectivity);
        other.connect("c", connectivity, &left);
        other.pass();
        assert_eq!(state(&world), state(&other), "{connectivity:?}");
    }
}

#[test]
fn an_unknown_network_loses_the_rows_of_deleted_nodes_and_gains_none() {
    let mut world = connected(&["PodNetwork"]);
    world.forget_network("blue");
    world.pass();
    world.add_node("n3", 3);
    world.inputs.nodes.remove("n2");
    world.pass();
    let ports = world.names::<LogicalRouterPort>();
    assert!(ports.contains(&"crtor-c_red_n3".to_owned()));
    assert!(!ports.iter().any(|port| port.contains("n2")), "{ports:?}");
    assert!(!ports.contains(&"crtor-c_blue_n3".to_owned()));
    assert!(ports.contains(&"crtor-c_blue_n1".to_owned()));
}

#[test]
fn rows_of_another_network_are_removed_with_it() {
    let mut world = connected(&["ServiceNetwork"]);
    world.forget_network("blue");
    world.pass();
    world.connect("c", &["ServiceNetwork"], &SUBNETS[..2]);
    world.pass();
    let ports = world.names::<LogicalRouterPort>();
    assert!(!ports.iter().any(|port| port.contains("lime")), "{ports:?}");
    let switch = world.row::<LogicalSwitch>("lime_ovn_layer2_switch");
    assert!(switch.acls.is_empty() && switch.load_balancer_group.is_empty());
    let switch = world.row::<LogicalSwitch>("blue_n1");
    assert_eq!((switch.acls.len(), switch.load_balancer_group.len()), (3, 1));
    // What is dropped on the way to the network that is not known is dropped further on.
    let sets = world.rows::<AddressSet>();
    assert!(sets.iter().any(|set| set.addresses.contains("10.2.0.0/16")));
}

#[test]
fn layer3_networks_wait_for_the_id_of_the_zones_node() {
    for connectivity in
        [&["PodNetwork"][..], &["ServiceNetwork"], &["PodNetwork", "ServiceNetwork"]]
    {
        let expected = state(&connected(connectivity));
        let mut world = connected(connectivity);
        world.connect("c", connectivity, &[]);
        world.pass();
        let id = world.node("n1").id.take();
        world.connect("c", connectivity, &SUBNETS);
        let report = world.pass_of_c();
        let messages = report.messages();
        assert!(
            messages.contains(&"network red: node n1 of this zone has no id yet".to_owned()),
            "{messages:?}"
        );
        let ports = world.names::<LogicalRouterPort>();
        assert_eq!(ports, ["crtor-c_lime", "rtocr-lime_c"], "{connectivity:?}");
        // Pods of the others are kept apart from these all the same.
        let sets = world.rows::<AddressSet>();
        assert!(sets.iter().all(|set| set.addresses.len() == 3 || set.addresses.is_empty()));

        world.node("n1").id = id;
        world.pass();
        assert_eq!(state(&world), expected, "{connectivity:?}");

        world.node("n1").id = None;
        world.pass();
        let ports = world.names::<LogicalRouterPort>();
        let left = ["crtor-c_blue_n2", "crtor-c_lime", "crtor-c_red_n2", "rtocr-lime_c"];
        assert_eq!(ports, left, "{connectivity:?}");
        let policies = world.rows::<LogicalRouterPolicy>();
        let sources = policies.iter().map(|row| &*row.external_ids["source-network-id"]);
        assert!(sources.eq(["11", "11"]), "{connectivity:?}");
        world.node("n1").id = id;
        world.pass();
        assert_eq!(state(&world), expected, "{connectivity:?}");
    }
}

#[test]
fn networks_that_cannot_be_isolated_are_not_connected() {
    let mut world = connected(&["PodNetwork"]);
    world.forget_network("blue");
    world.pass();
    world.connect("c", &["ServiceNetwork"], &SUBNETS);
    world.pass();
    let policies = world.rows::<LogicalRouterPolicy>();
    let of_blue = |key: &str| policies.iter().any(|row| row.external_ids[key] == "2");
    assert!(!of_blue("source-network-id") && !of_blue("destination-network-id"));
    assert_eq!(policies.len(), 2);
}
