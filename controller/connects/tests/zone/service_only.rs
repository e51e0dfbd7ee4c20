//! Service-only connectivity.

use std::sync::Arc;

use patchbay_connects::NetworkSkip;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{
    self, Acl, AddressSet, LogicalRouter, LogicalRouterPolicy, LogicalSwitch,
};
use patchbay_schemas::schema::DatabaseSchema;

use crate::world::World;

const SUBNETS: [(&str, &str); 2] = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];

fn has_policies(snapshot: &Snapshot, router: &str) -> bool {
    let table = snapshot.typed::<LogicalRouter>();
    let mut routers = table.iter().map(|row| row.unwrap().1);
    routers.any(|row| row.name == router && !row.policies.is_empty())
}

fn drops(snapshot: &Snapshot, switch: &str) -> bool {
    let table = snapshot.typed::<LogicalSwitch>();
    let mut switches = table.iter().map(|row| row.unwrap().1);
    let switch = switches.find(|row| row.name == switch);
    switch.is_some_and(|switch| {
        let mut acls = switch.acls.iter();
        acls.any(|acl| snapshot.get(*acl).unwrap().unwrap().priority == 450)
    })
}

/// After every single transaction, a router with policies belongs to a switch that drops.
fn pass_safely(world: &mut World) {
    for connect in world.plan().connects {
        let Some(transaction) = connect.change.unwrap().transaction else {
            continue;
        };
        world.database.transact(transaction.operations()).unwrap();
        let snapshot = world.database.snapshot();
        for network in ["red", "blue"] {
            assert!(
                !has_policies(&snapshot, &format!("{network}_ovn_cluster_router"))
                    || drops(&snapshot, &format!("{network}_n1")),
                "{network} is connected without its drop rule"
            );
        }
    }
}

#[test]
fn every_policy_has_a_drop_rule() {
    let mut world = World::red_and_blue();
    world.connect("c", &["ServiceNetwork"], &SUBNETS);
    pass_safely(&mut world);
    assert!(drops(&world.database.snapshot(), "red_n1"));
    world.connect("c", &["ServiceNetwork"], &SUBNETS[..1]);
    pass_safely(&mut world);
    assert!(!drops(&world.database.snapshot(), "blue_n1"));
    world.inputs.connects.clear();
    pass_safely(&mut world);
    assert_eq!(world.count::<Acl>(), 0);
    assert_eq!(world.count::<AddressSet>(), 0);
    assert_eq!(world.count::<LogicalRouterPolicy>(), 0);
}

#[test]
fn a_connectivity_change_between_passes_is_applied() {
    let mut world = World::red_and_blue();
    world.connect("c", &["ServiceNetwork"], &SUBNETS);
    world.pass();
    assert_eq!(world.count::<Acl>(), 4);
    let mut started_again =
        World { former: None, controller: patchbay_connects::ZoneController::default(), ..world };
    started_again.connect("c", &["PodNetwork"], &SUBNETS);
    started_again.pass();
    assert_eq!(started_again.count::<Acl>(), 0);
    assert_eq!(started_again.count::<AddressSet>(), 0);
    assert_eq!(started_again.count::<LogicalRouterPolicy>(), 2);
}

#[test]
fn without_the_action_pass_nothing_is_connected() {
    let text =
        nb::SCHEMA_TEXT.replace(", \"pass\"", "").replace(",\"pass\"", "").replace("\"pass\",", "");
    assert!(!text.contains("\"pass\""));
    let schema = Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap());
    let mut world = World::with_schema(schema);
    world.add_layer3("red", 1, &["10.1.0.0/16"]);
    world.add_layer3("blue", 2, &["10.2.0.0/16"]);
    world.add_node("n1", 2);
    world.connect("c", &["PodNetwork"], &SUBNETS);
    assert!(world.pass_of_c().is_complete());
    assert_eq!(world.count::<LogicalRouterPolicy>(), 2);
    world.connect("c", &["ServiceNetwork"], &SUBNETS);
    let report = world.pass_of_c();
    assert!(report.connected.is_empty());
    let reasons: Vec<_> = report.skipped_networks.iter().map(|skipped| &skipped.reason).collect();
    assert_eq!(reasons, [&NetworkSkip::NoPassAction; 2]);
    assert_eq!(world.count::<LogicalRouterPolicy>(), 0);
}

#[test]
fn the_pods_of_a_network_that_waits_for_its_switch_are_protected_by_the_others() {
    let mut world = World::red_and_blue();
    world.delete::<LogicalSwitch>("blue_n1");
    world.connect("c", &["ServiceNetwork"], &SUBNETS);
    let report = world.pass_of_c();
    assert_eq!(report.connected.len(), 1);
    let sets = world.rows::<AddressSet>();
    assert!(sets.iter().any(|set| set.addresses.contains("10.2.0.0/16")));
}
