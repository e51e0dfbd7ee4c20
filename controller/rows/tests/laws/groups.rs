//! Groups, steps that stay together, staged sets, claims, shared values, and reports that parts
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_schemas::nb::{AddressSet, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort};
use patchbay_schemas::typed::Ref;

use crate::farm::{Node, Part, Site, port_name};
use crate::{Event, World, large};

/// Asserts that all policies of a site have one priority, because their steps stay together.
pub(crate) fn assert_whole(policies: &[(Ref<LogicalRouterPolicy>, LogicalRouterPolicy)]) {
    let mut priorities = BTreeMap::<&str, BTreeSet<i64>>::new();
    for (_, policy) in policies {
        if let Some(site) = policy.external_ids.get("site") {
            priorities.entry(site).or_default().insert(policy.priority);
        }
    }
    assert!(priorities.values().all(|of_site| of_site.len() == 1), "{priorities:?}");
}

fn node(number: u8, address: u8) -> Event {
    Event::Node(number, Some(crate::node(address, 0)))
}

fn site(number: u8, key: u8, members: u8) -> Event {
    let site = Site { key, members, ..Site::default() };
    Event::Site(number, Some(site))
}

#[test]
fn a_refused_transaction_holds_no_other_group_back() {
    let mut world = World::new(usize::MAX);
    world.happen(&node(0, 1));
    for number in [1, 2] {
        world.happen(&site(number, 0, 0));
    }
    for _ in 0..5 {
        let snapshot = world.snapshot();
        let plan = world.engine.plan(&world.inputs, &snapshot);
        for (group, change) in plan.changes {
            if group != Some(1) {
                let transaction = change.unwrap().transaction.unwrap();
                world.database.transact(transaction.operations()).unwrap();
            }
        }
    }
    let routers = world.rows::<LogicalRouter>();
    let names: Vec<&str> = routers.iter().map(|(_, router)| &*router.name).collect();
    assert_eq!(names, ["router2"]);
    assert_eq!(routers[0].1.ports.len(), 1);
    let snapshot = world.snapshot();
    let plan = world.engine.plan(&world.inputs, &snapshot);
    assert!(plan.changes.keys().eq([&Some(1)]));
    // Only the parts of the refused group are evaluated again.
    assert!(world.engine.evaluated_parts() <= 4);
    world.settle();
    assert_eq!(world.rows::<LogicalRouter>().len(), 2);
}

fn addresses(world: &World) -> Vec<u8> {
    let sets = world.rows::<AddressSet>();
    let last = |address: &String| address.rsplit('.').next().unwrap().parse().unwrap();
    sets[0].1.addresses.iter().map(last).collect()
}

#[test]
fn a_staged_set_grows_before_it_shrinks() {
    let mut world = World::new(1);
    world.happen(&site(0, 0, 0b0011));
    world.settle();
    world.happen(&site(0, 1, 0b0110));
    assert!(world.pass(false));
    assert_eq!(addresses(&world), [0, 1, 2]);
    let key = |world: &World| world.rows::<LogicalRouter>()[0].1.options["key"].clone();
    assert_eq!(key(&world), "0");
    assert!(world.pass(false));
    assert_eq!((addresses(&world), key(&world)), (vec![0, 1, 2], "1".to_owned()));
    assert!(world.pass(false));
    assert_eq!(addresses(&world), [1, 2]);
    assert!(!world.pass(false));
}

#[test]
fn a_staged_set_changes_once_in_one_transaction() {
    let mut world = World::new(usize::MAX);
    world.happen(&site(0, 0, 0b0011));
    world.settle();
    world.happen(&site(0, 0, 0b0110));
    let snapshot = world.snapshot();
    let plan = world.engine.plan(&world.inputs, &snapshot);
    let change = plan.changes[&Some(0)].clone().unwrap();
    assert_eq!((change.counts.changed, change.more), (1, false));
    let transaction = change.transaction.unwrap();
    world.database.transact(transaction.operations()).unwrap();
    assert_eq!(addresses(&world), [1, 2]);
}

#[test]
fn steps_that_stay_together_exceed_the_bound() {
    let mut world = World::new(1);
    world.happen(&site(0, 3, 0));
    for number in 0..4 {
        world.happen(&node(number, number));
    }
    let mut counts = BTreeSet::new();
    while world.pass(false) {
        counts.insert(world.rows::<LogicalRouterPolicy>().len());
    }
    assert_eq!(counts, [0, 4].into());
}

#[test]
fn the_first_of_two_parts_has_a_value_and_the_report_names_it() {
    let mut world = World::new(usize::MAX);
    world.happen(&site(0, 0, 0));
    world.happen(&node(2, 7));
    world.settle();
    world.happen(&node(1, 7));
    world.settle();
    let report = |world: &World, number| world.engine.report(&Part::Link(0, number)).cloned();
    assert_eq!(report(&world, 1).as_deref(), Some("made"));
    assert_eq!(report(&world, 2).as_deref(), Some("address 7 is that of Link(0, 1)"));
    let policies = |world: &World| {
        let policies = world.rows::<LogicalRouterPolicy>();
        policies.into_iter().map(|(_, policy)| policy.r#match).collect::<Vec<_>>()
    };
    assert_eq!(world.rows::<LogicalRouterPort>().len(), 1);
    assert_eq!(policies(&world), ["1"]);
    world.happen(&node(1, 8));
    world.settle();
    assert_eq!(report(&world, 2).as_deref(), Some("made"));
    assert_eq!(policies(&world).len(), 2);
}

#[test]
fn a_shared_value_that_stays_the_same_makes_nothing_pending() {
    let mut world = large(3, 20);
    world.pass(false);
    // Of the value of all sites, and of each site.
    assert_eq!(world.engine.shared_count(), 4);
    world.happen(&Event::Setting(1));
    assert!(!world.pass(false));
    assert_eq!(world.engine.evaluated_parts(), 0);
    world.happen(&Event::Setting(2));
    assert!(world.pass(false));
    assert_eq!(world.engine.evaluated_parts(), 3 * 20);
    world.settle();
    // A site whose value stays the same.
    let former = world.inputs.sites[&1].clone();
    let other = Site { members: 1, ..Site::clone(&former) };
    world.inputs.sites.insert(1, Arc::new(other));
    world.pass(false);
    assert!(world.engine.evaluated_parts() <= 3 + 20);
}

#[test]
fn changed_reports_have_the_former_ones_beside_them() {
    let mut world = World::new(usize::MAX);
    world.happen(&site(0, 0, 0));
    world.happen(&node(2, 7));
    world.pass(false);
    assert!(world.engine.changed_reports().count() >= 2);
    world.settle();
    world.pass(false);
    assert!(world.engine.changed_reports().next().is_none());
    world.happen(&node(1, 7));
    world.pass(false);
    let former = |number| {
        let mut changed = world.engine.changed_reports();
        let change = changed.find(|change| *change.part == Part::Link(0, number));
        change.map(|change| change.former.cloned())
    };
    assert_eq!(former(1), Some(None));
    assert_eq!(former(2), Some(Some("made".to_owned())));
}

#[test]
fn a_row_is_found_by_its_id_within_its_part() {
    let mut world = World::new(usize::MAX);
    world.happen(&site(0, 1, 0));
    for number in 0..4 {
        world.happen(&node(number, number));
    }
    world.settle();
    let matches = |world: &World| -> Vec<(Ref<LogicalRouterPolicy>, String)> {
        let policies = world.rows::<LogicalRouterPolicy>().into_iter();
        policies.map(|(row, policy)| (row, policy.r#match)).collect()
    };
    let before = matches(&world);
    assert_eq!(before.len(), 4);
    world.happen(&site(0, 2, 0));
    world.settle();
    assert_eq!(matches(&world), before);
}

#[test]
fn a_kept_row_keeps_its_name_from_later_parts() {
    assert_eq!(port_name(0, 3), port_name(1, 0));
    let mut world = World::new(usize::MAX);
    world.happen(&site(0, 0, 0));
    world.happen(&node(3, 1));
    world.settle();
    let frozen = Node { is_frozen: true, ..crate::node(9, 0) };
    world.happen(&Event::Node(3, Some(frozen)));
    world.happen(&site(1, 0, 0));
    world.happen(&node(0, 2));
    world.settle();
    let refused = |world: &World| {
        let mut refused = world.engine.refused();
        refused.any(|(part, _)| *part == Part::Link(1, 0))
    };
    assert!(refused(&world));
    let ports = world.rows::<LogicalRouterPort>();
    let kept = ports.iter().find(|(_, port)| port.name == port_name(0, 3));
    assert_eq!(kept.unwrap().1.mac, "1:0");
    world.happen(&Event::Node(3, None));
    world.settle();
    assert!(!refused(&world));
}
