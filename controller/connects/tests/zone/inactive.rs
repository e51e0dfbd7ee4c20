//! Networks that became inactive on a node, and deleted nodes.

use std::collections::BTreeSet;

use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
};

use crate::world::World;

/// A layer2 network `green` (id 3) beside `red` and `blue`, all connected by `c`.
fn with_a_layer2_network() -> World {
    let mut world = World::red_and_blue();
    world.add_layer2("green", 3, &["10.3.0.0/16"]);
    world.connect(
        "c",
        &["PodNetwork"],
        &[
            ("layer3_1", "192.168.0.0/24"),
            ("layer3_2", "192.168.1.0/24"),
            ("layer2_3", "192.168.2.0/31"),
        ],
    );
    world.pass();
    world
}

/// Networks from and to which policies send traffic.
fn pairs(world: &World) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = world
        .rows::<LogicalRouterPolicy>()
        .into_iter()
        .map(|policy| {
            let id = |key: &str| policy.external_ids[key].clone();
            (id("source-network-id"), id("destination-network-id"))
        })
        .collect();
    pairs.sort();
    pairs
}

#[test]
fn policies_of_an_inactive_network_are_removed_with_its_ports() {
    let mut world = with_a_layer2_network();
    assert_eq!(pairs(&world).len(), 6);
    world.inputs.limited.insert("green".to_owned(), BTreeSet::from(["n2".to_owned()]));
    world.pass();
    // Other networks still send its traffic to the connect router, which has no route for it.
    let sources: BTreeSet<_> = pairs(&world).into_iter().map(|(source, _)| source).collect();
    assert_eq!(sources, ["1".to_owned(), "2".to_owned()].into());
    let ports = world.names::<LogicalRouterPort>();
    assert!(!ports.iter().any(|port| port.contains("green")), "{ports:?}");
    let router = world.row::<LogicalRouter>("green_transit_router");
    assert!(router.policies.is_empty() && router.ports.is_empty());

    world.inputs.limited.clear();
    world.pass();
    assert_eq!(pairs(&world).len(), 6);
    assert!(world.names::<LogicalRouterPort>().contains(&"crtor-c_green".to_owned()));
}

#[test]
fn rows_of_the_zones_node_are_removed_with_it() {
    let mut world = World::red_and_blue();
    world.pass();
    world.inputs.nodes.remove("n1");
    world.pass();
    assert_eq!(world.names::<LogicalRouterPort>(), ["crtor-c_blue_n2", "crtor-c_red_n2"]);
    assert_eq!(world.count::<LogicalRouterPolicy>(), 0);
    assert_eq!(world.count::<LogicalRouterStaticRoute>(), 2);

    world.add_node("n1", 2);
    world.pass();
    assert_eq!(world.count::<LogicalRouterPort>(), 6);
    assert_eq!(world.count::<LogicalRouterPolicy>(), 2);
}
