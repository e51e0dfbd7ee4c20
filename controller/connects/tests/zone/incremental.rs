//! A controller that follows changes makes the same plans as a new controller.

mod edits;
mod events;

use std::sync::Arc;

use jiff::Timestamp;
use patchbay_connects::ZoneController;
use patchbay_engine::txn::Transaction;
use patchbay_model::{ConnectSubnetMap, NodeId, Topology, UnreadableAnnotations};
use patchbay_nbctl_text::northbound;
use patchbay_schemas::nb::{Copp, LogicalRouterPort};
use patchbay_schemas::uuids::UuidSource;
use proptest::prelude::*;

use crate::world::{World, ZONE};
use edits::Edit;
use events::{Event, base, event, happen};

/// Lets a controller that knows nothing remove all rows of connects and make them again.
fn made_anew(world: &World) -> String {
    let mut other = World {
        inputs: world.inputs.clone(),
        former: None,
        networks: world.networks.clone(),
        database: world.copy_of_database(),
        inserted: world.inserted,
        controller: ZoneController::new(UuidSource::seeded(7)),
    };
    other.inputs.connects.clear();
    other.pass();
    other.inputs.connects = world.inputs.connects.clone();
    other.controller = ZoneController::new(UuidSource::seeded(8));
    other.former = None;
    other.pass();
    northbound(&other.database.snapshot())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn incremental_plans_equal_full_plans(
        events in prop::collection::vec(event(), 1..25)
    ) {
        let mut world = base();
        world.pass();
        for event in &events {
            happen(&mut world, event);
            let (_, reports) = world.pass();
            let mut fresh = ZoneController::new(UuidSource::seeded(3));
            let plan = fresh.plan(&world.inputs.objects(None), &world.database.snapshot());
            for connect in &plan.connects {
                let change = connect.change.as_ref().unwrap();
                // All rows of a connect with an unreadable annotation stay.
                let left = change.transaction.as_ref().map(Transaction::operations);
                prop_assert!(left.is_none(), "{event:?}: {left:?}");
                let report = connect.report.as_ref().map(|report| format!("{report:?}"));
                let known = reports.get(&connect.connect).map(|report| format!("{report:?}"));
                prop_assert_eq!(report, known, "{:?}", event);
            }
        }
        let is_readable = world.inputs.connects.values().all(|input| input.connect.is_ok());
        // The rows of networks that are not known for a while stay, and would not be made; so do
        // links while the zone's node has no id.
        let networks = &world.inputs.networks;
        let all_known = world.inputs.connects.values().all(|input| {
            let subnets = input.connect.iter().map(|connect| &connect.subnets);
            let mut owners = subnets.flat_map(ConnectSubnetMap::owners);
            owners.all(|owner| networks.by_id(owner.network_id).is_some())
        });
        // A port that lost its owner stays, if another owner has the name or key of its link.
        let ports = world.rows::<LogicalRouterPort>();
        let owner = "k8s.ovn.org/owner-controller";
        let all_owned = ports.iter().all(|port| port.external_ids.contains_key(owner));
        // A port of another owner on a connect router is deleted with the router.
        let was_moved = |event: &Event| matches!(event, Event::Edit { what: Edit::PortsMoved, .. });
        let has_other_owner = |port: &LogicalRouterPort| port.external_ids.get(owner).is_some_and(|owner| owner == "has_other_owner");
        let all_owned = all_owned && !(events.iter().any(was_moved) && ports.iter().any(has_other_owner));
        let local = world.inputs.nodes.get(ZONE);
        let has_id = local.is_none_or(|node| node.id.is_some());
        // What may be of a node that cannot be read stays, too.
        let has_id = has_id
            && world
                .inputs
                .nodes
                .values()
                .all(|node| node.unreadable == UnreadableAnnotations::default());
        // Routes to subnets that a node has lost stay, too.
        let has_subnets = world.inputs.nodes.values().all(|node| {
            let mut layer3 = networks.iter().filter(|network| network.topology == Topology::Layer3);
            layer3.all(|network| !node.subnets_of(&network.name).is_empty())
        });
        if is_readable && all_known && all_owned && has_id && has_subnets && world.count::<Copp>() == 1 {
            prop_assert_eq!(northbound(&world.database.snapshot()), made_anew(&world));
        }
    }
}

#[test]
fn a_pass_without_changes_evaluates_nothing() {
    let mut world = base();
    world.pass();
    let before = world.plan();
    let again = world.plan();
    for (one, other) in before.connects.iter().zip(&again.connects) {
        let (Some(one), Some(other)) = (&one.report, &other.report) else {
            panic!("a connect without a report");
        };
        // Not made again: it is the same one.
        assert!(Arc::ptr_eq(one, other));
    }
}

#[test]
fn a_node_that_changes_something_unrelated_changes_nothing() {
    let mut world = base();
    world.pass();
    let before = world.plan();
    let subnet = "10.99.0.0/24".parse().unwrap();
    world.node("n2").subnets.insert("unconnected".to_owned(), vec![subnet]);
    let after = world.plan();
    assert!(after.is_empty());
    let report = |plan: &patchbay_connects::ZonePlan| plan.connects[0].report.clone().unwrap();
    assert!(Arc::ptr_eq(&report(&before), &report(&after)));
    world.node("n2").id = Some(NodeId::try_new(9).unwrap());
    assert!(!world.plan().is_empty());
}

#[test]
fn a_resync_finds_nothing_to_do() {
    let mut world = base();
    world.pass();
    world.controller.resync();
    assert!(world.plan().is_empty());
}

#[test]
fn a_recreated_node_loses_a_shared_id() {
    let mut world = World::red_and_blue();
    world.add_node("n3", 3);
    let ports = |world: &World| {
        let ports = world.names::<LogicalRouterPort>();
        ["crtor-c_red_n2", "crtor-c_red_n3"].map(|port| ports.contains(&port.to_owned()))
    };
    for (node, seconds, expected) in
        [("n3", 2, [true, false]), ("n2", 1, [true, false]), ("n2", 3, [false, true])]
    {
        world.node(node).created = Some(Timestamp::from_second(seconds).unwrap());
        world.pass();
        assert_eq!(ports(&world), expected);
    }
}
