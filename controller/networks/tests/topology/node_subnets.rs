//! Subnets of nodes in a database: which routes lead to a node, and which rows stay.

use std::collections::BTreeMap;

use patchbay_model::{
    ClusterSettings, Feature, NODE_ID, NODE_SUBNETS, NODE_TRANSIT_ADDRESSES, NetworkActivity,
};
use patchbay_networks::skipped_networks;
use patchbay_resources::conversion::network_objects;
use patchbay_rows::Counts;
use patchbay_schemas::nb::{LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort};
use patchbay_zone::ZoneObjects;
use serde_json::{Value, json};

use crate::database::{World, inventory};
use crate::support::read_zone;

/// Annotation of a node, beside its subnets.
const CHASSIS: &str = "k8s.ovn.org/node-chassis-id";

/// The network with a subnet of each node, as after an edit of the nodes' annotations.
/// An empty text is no subnet.
fn with_subnets(subnets: &[&str]) -> ZoneObjects {
    with_annotations(subnets, |_| {})
}

/// The network with a subnet of each node, and with further edits of the annotations of the last
/// one.
fn with_annotations(subnets: &[&str], edit: impl Fn(&mut BTreeMap<String, String>)) -> ZoneObjects {
    with_settings(subnets, &ClusterSettings::default(), edit)
}

/// The same in a cluster with these settings.
fn with_settings(
    subnets: &[&str],
    settings: &ClusterSettings,
    edit: impl Fn(&mut BTreeMap<String, String>),
) -> ZoneObjects {
    let names: Vec<String> = (1..=subnets.len()).map(|node| format!("n{node}")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let inventory = inventory(&nodes);
    let mut objects = network_objects(&inventory, settings);
    let mut edited: Vec<BTreeMap<String, String>> = objects
        .nodes
        .iter()
        .zip(subnets)
        .map(|(node, subnet)| {
            let mut annotations = node.annotations.unwrap().clone();
            let subnets = match *subnet {
                "" => json!({}),
                subnet => json!({ "blue_l3": [subnet] }),
            };
            annotations.insert(NODE_SUBNETS.to_owned(), Value::to_string(&subnets));
            annotations
        })
        .collect();
    edit(edited.last_mut().unwrap());
    for (node, annotations) in objects.nodes.iter_mut().zip(&edited) {
        node.annotations = Some(annotations);
    }
    read_zone(&objects, "n1", settings)
}

/// Routes that lead to a node, as prefixes, and the port of the transit switch towards it.
fn rows_to(world: &World, node: &str) -> Vec<String> {
    let routes = world.rows::<LogicalRouterStaticRoute>().into_iter().filter(|(_, route)| {
        let to = route.external_ids.get("ic-node");
        to.is_some_and(|to| to == node) && !route.ip_prefix.contains(':')
    });
    let ports = world
        .rows::<LogicalSwitchPort>()
        .into_iter()
        .filter(|(_, port)| port.name == format!("blue_l3_tstor-{node}"));
    let mut found: Vec<String> =
        routes.map(|(_, route)| route.ip_prefix).chain(ports.map(|(_, port)| port.name)).collect();
    found.sort();
    found
}

#[test]
fn a_node_without_a_subnet_is_not_led_to() {
    let mut world = World::new();
    world.pass(&with_subnets(&["10.10.1.0/24", ""]));
    assert_eq!(rows_to(&world, "n2"), [""; 0]);
    let all = ["10.10.2.0/24", "100.65.0.3/32", "blue_l3_tstor-n2"];
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
    assert_eq!(rows_to(&world, "n2"), all);
    // As in OVN-Kubernetes, the rows stay while the annotations of the node are incomplete.
    let without_chassis = with_annotations(&["10.10.1.0/24", "10.10.2.0/24"], |annotations| {
        annotations.remove(CHASSIS);
    });
    for incomplete in [with_subnets(&["10.10.1.0/24", ""]), without_chassis] {
        assert_eq!(world.pass(&incomplete), Counts::default());
        assert_eq!(rows_to(&world, "n2"), all);
    }
    // Another node gets the subnet.
    world.pass(&with_subnets(&["10.10.1.0/24", "", "10.10.2.0/24"]));
    assert_eq!(rows_to(&world, "n2"), ["100.65.0.3/32", "blue_l3_tstor-n2"]);
    assert_eq!(rows_to(&world, "n3"), ["10.10.2.0/24", "100.65.0.4/32", "blue_l3_tstor-n3"]);
    // The node is gone.
    world.pass(&with_subnets(&["10.10.1.0/24"]));
    assert_eq!(rows_to(&world, "n2"), [""; 0]);
}

#[test]
fn a_node_without_a_chassis_is_not_led_to() {
    let mut world = World::new();
    let networks = with_annotations(&["10.10.1.0/24", "10.10.2.0/24"], |annotations| {
        annotations.remove(CHASSIS);
    });
    world.pass(&networks);
    assert_eq!(rows_to(&world, "n2"), [""; 0]);
}

/// Prefixes of the routes to the pods of `n2`.
fn routes_to_n2(world: &World) -> Vec<String> {
    let routes = world.rows::<LogicalRouterStaticRoute>().into_iter();
    let to_n2 = routes.filter(|(_, route)| {
        let node = route.external_ids.get("ic-node");
        node.is_some_and(|node| node == "n2") && route.ip_prefix.ends_with("/24")
    });
    to_n2.map(|(_, route)| route.ip_prefix).collect()
}

#[test]
fn a_node_keeps_its_route_when_its_subnet_is_refused() {
    for wrong in ["0.0.0.0/0", "10.20.0.0/24", "10.10.0.0/16", "10.10.1.0/24", "not a subnet"] {
        let mut world = World::new();
        world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
        assert_eq!(routes_to_n2(&world), ["10.10.2.0/24"]);
        world.pass(&with_subnets(&["10.10.1.0/24", wrong]));
        assert_eq!(routes_to_n2(&world), ["10.10.2.0/24"], "{wrong}");
    }
}

#[test]
fn the_route_to_a_replaced_subnet_stays_until_another_node_has_it() {
    let mut world = World::new();
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
    let replaced = with_subnets(&["10.10.1.0/24", "10.10.3.0/24"]);
    world.pass(&replaced);
    let rest = ["100.65.0.3/32", "blue_l3_tstor-n2"];
    let both = [&["10.10.2.0/24", "10.10.3.0/24"], &rest[..]].concat();
    assert_eq!(rows_to(&world, "n2"), both);
    world.restart();
    assert_eq!(world.pass(&replaced), Counts::default());
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.3.0/24", "10.10.2.0/24"]));
    assert_eq!(rows_to(&world, "n2"), [&["10.10.3.0/24"], &rest[..]].concat());
    assert!(rows_to(&world, "n3").contains(&"10.10.2.0/24".to_owned()));
}

/// The network on two nodes, of which the last one has this chassis id.
fn with_chassis(subnets: [&str; 2], chassis: &str) -> ZoneObjects {
    with_annotations(&subnets, |annotations| {
        annotations.insert(CHASSIS.to_owned(), chassis.to_owned());
    })
}

/// Chassis to which the port to `n2` is bound.
fn bound(world: &World) -> String {
    let (_, port) = world.one(|port: &LogicalSwitchPort| port.name == "blue_l3_tstor-n2");
    port.options["requested-chassis"].clone()
}

#[test]
fn the_port_to_a_node_follows_its_chassis_with_another_change() {
    let subnets = ["10.10.1.0/24", "10.10.2.0/24"];
    let mut world = World::new();
    let first = with_chassis(subnets, "c2");
    world.pass(&first);
    let mut changed = with_chassis(subnets, "c2new");
    changed.follow(&first);
    assert_eq!(world.pass(&changed), Counts::default());
    assert_eq!(bound(&world), "c2");
    let with = |key: &str, value: &str| {
        with_annotations(&subnets, |annotations| {
            annotations.insert(CHASSIS.to_owned(), "c2new".to_owned());
            annotations.insert(key.to_owned(), value.to_owned());
        })
    };
    let others = [
        with_chassis(["10.10.1.0/24", "10.10.3.0/24"], "c2new"),
        with(NODE_ID, "7"),
        with(NODE_TRANSIT_ADDRESSES, r#"{"ipv4":"100.88.0.9/16"}"#),
    ];
    for mut moved in others {
        let mut world = World::new();
        world.pass(&first);
        moved.follow(&changed);
        world.pass(&moved);
        assert_eq!(bound(&world), "c2new");
    }
}

#[test]
fn the_port_to_a_node_is_bound_to_its_chassis_when_the_controller_starts() {
    let subnets = ["10.10.1.0/24", "10.10.2.0/24"];
    let mut world = World::new();
    world.pass(&with_chassis(subnets, "c2"));
    world.restart();
    world.pass(&with_chassis(subnets, "c2new"));
    assert_eq!(bound(&world), "c2new");
    // It is bound to the chassis as long as the node keeps that.
    let mut again = with_chassis(subnets, "c3");
    again.follow(&with_chassis(subnets, "c3"));
    world.pass(&again);
    assert_eq!(bound(&world), "c3");
}

/// Names of the switches.
fn switches(world: &World) -> Vec<String> {
    let switches = world.rows::<LogicalSwitch>().into_iter();
    let mut names: Vec<String> = switches.map(|(_, switch)| switch.name).collect();
    names.sort();
    names
}

#[test]
fn a_zone_without_a_subnet_leads_to_other_nodes_only() {
    let mut world = World::new();
    world.pass(&with_subnets(&["", ""]));
    assert_eq!(switches(&world), ["blue_l3_join"]);
    let to_n2 = ["10.10.2.0/24", "100.65.0.3/32", "blue_l3_tstor-n2"];
    world.pass(&with_subnets(&["", "10.10.2.0/24"]));
    assert_eq!(switches(&world), ["blue_l3_join", "blue_l3_transit_switch"]);
    assert_eq!(rows_to(&world, "n2"), to_n2);
    assert_eq!(rows_to(&world, "n1"), [""; 0]);
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
    assert_eq!(rows_to(&world, "n2"), to_n2);
    assert_eq!(rows_to(&world, "n1"), ["blue_l3_tstor-n1"]);
    // What follows from the subnet stays when it is withdrawn.
    assert_eq!(world.pass(&with_subnets(&["", "10.10.2.0/24"])), Counts::default());
}

#[test]
fn of_two_nodes_with_one_subnet_only_the_owner_has_a_route() {
    let mut world = World::new();
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
    world.pass(&with_subnets(&["10.10.2.0/24", "10.10.2.0/24"]));
    assert!(routes_to_n2(&world).is_empty());
}

#[test]
fn rows_of_the_own_node_stay_when_its_subnet_is_refused() {
    let mut world = World::new();
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
    for (wrong, reason) in [
        ("10.30.0.0/24", "subnet 10.30.0.0/24 is outside of the network's subnets"),
        ("not a subnet", "subnets of the network cannot be read"),
    ] {
        let networks = with_subnets(&[wrong, "10.10.2.0/24"]);
        assert_eq!(world.pass(&networks), Counts::default());
        let skipped = skipped_networks(&networks);
        assert_eq!(skipped[0].reason.to_string(), format!("the node's {reason}"));
        // Another node may have the subnet, to which no route leads past the zone's own switch.
        let networks = with_subnets(&[wrong, "10.10.1.0/24"]);
        assert_eq!(world.pass(&networks), Counts::default());
    }
}

#[test]
fn nothing_leads_to_a_node_without_users_of_the_network() {
    let mut world = World::new();
    world.pass(&with_subnets(&["10.10.1.0/24", "10.10.2.0/24"]));
    let replaced = ["10.10.1.0/24", "10.10.3.0/24"];
    world.pass(&with_subnets(&replaced));
    assert_eq!(rows_to(&world, "n2").len(), 4);
    let settings = ClusterSettings {
        features: [Feature::DynamicUdnAllocation].into(),
        ..ClusterSettings::default()
    };
    let mut networks = with_settings(&replaced, &settings, |_| {});
    let uses = [("blue_l3".into(), "n1".into())];
    networks.set_activity(Some(&NetworkActivity::new(["blue_l3".into()], uses, &[])));
    world.pass(&networks);
    assert_eq!(rows_to(&world, "n2"), [""; 0]);
}
