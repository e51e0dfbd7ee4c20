//! Rows are retained while annotations of a node cannot be read, also by a new controller.

use patchbay_connects::ZoneController;
use patchbay_model::{NodeId, NodeSubnetOwners, UnreadableSubnets};
use patchbay_nbctl_text::northbound;
use patchbay_schemas::nb::{LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::uuids::UuidSource;

use crate::unknown::connected;
use crate::world::World;

const CONNECTIVITY: [&[&str]; 3] =
    [&["PodNetwork"], &["ServiceNetwork"], &["PodNetwork", "ServiceNetwork"]];

fn state(world: &World) -> String {
    northbound(&world.database.snapshot())
}

fn lose_id(world: &mut World, node: &str) {
    let node = world.node(node);
    node.id = None;
    node.unreadable.id = true;
}

#[test]
fn links_are_retained_while_a_node_id_cannot_be_read() {
    for connectivity in CONNECTIVITY {
        for node in ["n1", "n2"] {
            let mut world = connected(connectivity);
            let before = state(&world);
            let known = world.node(node).clone();
            lose_id(&mut world, node);
            let report = world.pass_of_c();
            assert_eq!(state(&world), before, "{node} {connectivity:?}");
            assert!(!report.is_complete(), "the obstacle is reported");
            world.controller.resync();
            world.pass();
            assert_eq!(state(&world), before, "{node} {connectivity:?}");
            *world.node(node) = known;
            assert!(world.pass_of_c().is_complete());
            assert_eq!(state(&world), before, "{node} {connectivity:?}");
        }
    }
}

#[test]
fn the_reason_names_the_unreadable_annotation() {
    let mut world = connected(CONNECTIVITY[0]);
    lose_id(&mut world, "n2");
    assert_eq!(
        world.pass_of_c().messages(),
        [
            "network red, node n2: the node's id cannot be read",
            "network blue, node n2: the node's id cannot be read",
        ]
    );
    let mut world = connected(CONNECTIVITY[0]);
    let node = world.node("n2");
    node.subnets.remove("red");
    node.unreadable.subnets = UnreadableSubnets::Networks(["red".to_owned()].into());
    assert_eq!(
        world.pass_of_c().messages(),
        ["network red, node n2: the node's subnets cannot be read"]
    );
}

#[test]
fn links_of_deleted_nodes_are_removed_when_all_ids_can_be_read() {
    let mut world = connected(CONNECTIVITY[0]);
    world.add_node("n3", 3);
    world.pass();
    let has_port = |world: &World, node: &str| {
        let ports = world.names::<LogicalRouterPort>();
        ports.contains(&format!("crtor-c_red_{node}"))
    };
    lose_id(&mut world, "n2");
    world.inputs.nodes.remove("n3");
    world.pass();
    assert!(has_port(&world, "n2") && has_port(&world, "n3"));
    world.inputs.nodes.remove("n2");
    world.pass();
    assert!(!has_port(&world, "n2") && !has_port(&world, "n3"));
}

#[test]
fn a_readable_id_replaces_retained_links() {
    let mut world = connected(CONNECTIVITY[0]);
    let known = world.node("n2").clone();
    lose_id(&mut world, "n2");
    world.pass();
    let mut other = connected(CONNECTIVITY[0]);
    for world in [&mut world, &mut other] {
        *world.node("n2") = known.clone();
        world.node("n2").id = Some(NodeId::try_new(7).unwrap());
        world.pass();
    }
    assert_eq!(state(&world), state(&other));
}

#[test]
fn routes_are_retained_while_subnets_cannot_be_read() {
    for unreadable in [
        UnreadableSubnets::All,
        UnreadableSubnets::Networks(["red".to_owned(), "blue".to_owned()].into()),
    ] {
        let mut world = connected(CONNECTIVITY[0]);
        let before = state(&world);
        let node = world.node("n2");
        let subnets = std::mem::take(&mut node.subnets);
        node.unreadable.subnets = unreadable;
        world.pass();
        assert_eq!(state(&world), before);
        world.controller.resync();
        world.pass();
        assert_eq!(state(&world), before);
        world.node("n2").unreadable.subnets = UnreadableSubnets::default();
        world.node("n2").subnets = subnets;
        world.pass();
        assert_eq!(state(&world), before);
    }
}

#[test]
fn routes_to_lost_subnets_stay_until_the_node_has_other_ones_or_goes() {
    let mut world = connected(CONNECTIVITY[0]);
    let routes = |world: &World| {
        let mut routes: Vec<String> = world
            .rows::<LogicalRouterStaticRoute>()
            .into_iter()
            .map(|route| route.ip_prefix)
            .collect();
        routes.sort();
        routes
    };
    let before = state(&world);
    world.node("n2").subnets.remove("red");
    for _ in 0..2 {
        let report = world.pass_of_c();
        assert_eq!(state(&world), before);
        assert_eq!(
            report.messages(),
            ["network red, node n2: the node has no subnet of the network yet"]
        );
        world.controller = ZoneController::new(UuidSource::seeded(5));
        world.former = None;
    }
    let other = vec!["10.1.9.0/24".parse().unwrap()];
    world.node("n2").subnets.insert("red".to_owned(), other);
    assert!(world.pass_of_c().is_complete());
    assert!(routes(&world).contains(&"10.1.9.0/24".to_owned()));
    assert!(!routes(&world).contains(&"10.1.2.0/24".to_owned()));
    world.node("n2").subnets.remove("red");
    world.pass();
    world.inputs.nodes.remove("n2");
    world.pass();
    assert_eq!(routes(&world), ["10.1.1.0/24", "10.11.0.0/16", "10.2.1.0/24"]);
}

/// Gives `n2` this annotation of network `red`, as it is after the check of all nodes.
fn annotate_n2(world: &mut World, red: &[&str]) {
    let subnets = red.iter().map(|text| text.parse().unwrap()).collect();
    world.node("n2").subnets.insert("red".to_owned(), subnets);
    let (n1, n2) = (world.node("n1").clone(), world.node("n2").clone());
    let mut network = world.networks["red"].clone();
    network.pod_subnets[0].host_prefix = Some(24);
    let owners = NodeSubnetOwners::of_nodes([&network], [&n1, &n2]);
    owners.refuse(world.node("n2"));
}

#[test]
fn refused_subnets_change_no_row_and_are_named() {
    for (subnet, message) in [
        ("0.0.0.0/0", "subnet 0.0.0.0/0 is outside of the network's subnets"),
        (
            "10.1.0.0/16",
            "subnet 10.1.0.0/16 is wider than node subnets of the network, which are /24",
        ),
        ("10.1.1.0/24", "subnet 10.1.1.0/24 is that of node n1"),
    ] {
        let mut world = connected(CONNECTIVITY[0]);
        assert!(world.pass_of_c().is_complete());
        let before = state(&world);
        annotate_n2(&mut world, &["10.1.2.0/24", subnet]);
        let report = world.pass_of_c();
        assert_eq!(state(&world), before, "{subnet}");
        let expected = format!("network red, node n2: the node's {message}");
        assert_eq!(report.messages(), [expected]);
        world.controller.resync();
        world.pass();
        assert_eq!(state(&world), before, "a new controller, {subnet}");
    }
}

#[test]
fn routes_to_refused_subnets_are_removed() {
    let prefixes = |world: &World| {
        let routes = world
            .rows::<LogicalRouterStaticRoute>()
            .into_iter()
            .filter(|route| route.ip_prefix.ends_with(".7.0/24"));
        routes.count()
    };
    let mut world = connected(CONNECTIVITY[0]);
    // The subnet was the node's before an older node took it.
    let seven = vec!["10.1.7.0/24".parse().unwrap()];
    world.node("n2").subnets.insert("red".to_owned(), seven.clone());
    world.pass();
    assert_eq!(prefixes(&world), 1);
    world.node("n1").subnets.insert("red".to_owned(), seven);
    annotate_n2(&mut world, &["10.1.7.0/24"]);
    world.pass();
    assert_eq!(prefixes(&world), 1, "the route to n1 alone");
}
