//! Changes above the size of one transaction: every intermediate state is safe.

use std::collections::BTreeSet;

use patchbay_connects::ZoneController;
use patchbay_engine::db::Snapshot;
use patchbay_nbctl_text::northbound;
use patchbay_schemas::nb::{Acl, AddressSet, LogicalRouter, LogicalSwitch};
use patchbay_schemas::uuids::UuidSource;
use proptest::prelude::*;

use crate::world::World;

/// Layer3 networks have ids below 10.
const NETWORKS: [(&str, i64); 4] = [("red", 1), ("blue", 2), ("gold", 3), ("lime", 11)];
const CONNECTIVITY: [&[&str]; 3] =
    [&["PodNetwork"], &["ServiceNetwork"], &["PodNetwork", "ServiceNetwork"]];

/// Connect and networks: joined networks, connectivity, and pod subnets of each network.
#[derive(Clone, Debug)]
struct Wanted {
    is_there: bool,
    networks: u8,
    connectivity: usize,
    subnets: [u8; NETWORKS.len()],
    nodes: i64,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let subnets = prop::array::uniform4(1_u8..3);
    (prop::bool::weighted(0.9), any::<u8>(), 0..CONNECTIVITY.len(), subnets, 1_i64..4).prop_map(
        |(is_there, networks, connectivity, subnets, nodes)| Wanted {
            is_there,
            networks,
            connectivity,
            subnets,
            nodes,
        },
    )
}

/// A second subnet is the first one of another network: what a network gives up, another may take.
fn subnets_of(place: usize, count: u8) -> Vec<String> {
    let id = NETWORKS[place].1;
    let subnets = [format!("10.{id}.0.0/16"), format!("10.{}.0.0/16", 100 + id)];
    subnets.into_iter().take(count.into()).collect()
}

fn build(wanted: &Wanted) -> World {
    let mut world = World::new();
    for (place, (name, id)) in NETWORKS.into_iter().enumerate() {
        let subnets = subnets_of(place, wanted.subnets[place]);
        let subnets: Vec<&str> = subnets.iter().map(String::as_str).collect();
        if id < 10 {
            world.add_layer3(name, id, &subnets);
        } else {
            world.add_layer2(name, id, &subnets);
        }
    }
    for node in 0..wanted.nodes {
        world.add_node(&format!("n{}", node + 1), node + 2);
    }
    if wanted.is_there {
        let subnets: Vec<(String, String)> = NETWORKS
            .into_iter()
            .enumerate()
            .filter(|(place, _)| wanted.networks & (1 << place) != 0)
            .map(|(place, (_, id))| {
                let (kind, length) = if id < 10 { ("layer3", 24) } else { ("layer2", 31) };
                (format!("{kind}_{id}"), format!("192.168.{place}.0/{length}"))
            })
            .collect();
        let subnets: Vec<(&str, &str)> = subnets.iter().map(|(a, b)| (&**a, &**b)).collect();
        world.connect("c", CONNECTIVITY[wanted.connectivity], &subnets);
    }
    world
}

/// The subnets of other networks to which pods of a network in this zone can send: some policy
/// leads there, and no ACL of the network's switch drops it.
fn open(snapshot: &Snapshot) -> BTreeSet<(&'static str, String)> {
    let routers: Vec<LogicalRouter> = rows(snapshot);
    let switches: Vec<LogicalSwitch> = rows(snapshot);
    let sets: Vec<AddressSet> = rows(snapshot);
    let mut open = BTreeSet::new();
    for (place, (name, id)) in NETWORKS.into_iter().enumerate() {
        let (router, switch) = if id < 10 {
            ("ovn_cluster_router", "n1")
        } else {
            ("transit_router", "ovn_layer2_switch")
        };
        let (router, switch) = (format!("{name}_{router}"), format!("{name}_{switch}"));
        let router = routers.iter().find(|row| row.name == router).unwrap();
        let switch = switches.iter().find(|row| row.name == switch).unwrap();
        let policies: Vec<_> =
            router.policies.iter().map(|row| snapshot.get(*row).unwrap().unwrap()).collect();
        let mut acls: Vec<Acl> =
            switch.acls.iter().map(|row| snapshot.get(*row).unwrap().unwrap()).collect();
        acls.sort_by_key(|acl| -acl.priority);
        let others = (0..NETWORKS.len()).filter(|other| *other != place);
        for subnet in others.flat_map(|other| subnets_of(other, 2)) {
            let matched = format!("ip4.dst == {subnet}");
            let decides = |acl: &&Acl| {
                let in_set = |set: &AddressSet| {
                    acl.r#match.contains(&format!("${} ", set.name))
                        && set.addresses.contains(&subnet)
                };
                acl.r#match.contains(&matched) || sets.iter().any(in_set)
            };
            let is_dropped = acls.iter().find(decides).is_some_and(|acl| acl.priority == 450);
            if !is_dropped && policies.iter().any(|policy| policy.r#match.contains(&matched)) {
                open.insert((name, subnet));
            }
        }
    }
    open
}

fn rows<T: patchbay_schemas::typed::TableRow>(snapshot: &Snapshot) -> Vec<T> {
    let table = snapshot.typed::<T>();
    table.iter().map(|row| row.unwrap().1).collect()
}

/// Passes until nothing is left to do. Returns the number of transactions.
fn come_to_rest(world: &mut World, mut look: impl FnMut(&Snapshot)) -> usize {
    for count in 0..1000 {
        let plan = world.plan();
        if plan.is_empty() {
            assert!(!plan.has_more());
            return count;
        }
        for connect in plan.connects {
            if let Some(transaction) = connect.change.unwrap().transaction {
                world.database.transact(transaction.operations()).unwrap();
                look(&world.database.snapshot());
            }
        }
    }
    panic!("no rest after 1000 transactions");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_intermediate_state_permits_traffic_denied_before_and_after(
        history in prop::collection::vec(wanted(), 2..4),
        limit in 1_usize..12,
        restarts in any::<bool>(),
    ) {
        let mut world = build(&history[0]);
        world.controller = ZoneController::new(UuidSource::seeded(2)).with_transaction_rows(limit);
        world.former = None;
        for (place, wanted) in history.iter().enumerate() {
            let end = {
                let mut whole = build(wanted);
                let transactions = come_to_rest(&mut whole, |_| {});
                prop_assert!(transactions <= 1);
                whole.database.snapshot()
            };
            let (before, after) = (open(&world.database.snapshot()), open(&end));
            let target = build(wanted);
            world.inputs = target.inputs;
            world.networks = target.networks;
            let mut ways = Vec::new();
            come_to_rest(&mut world, |snapshot| ways.push(open(snapshot)));
            for on_the_way in ways {
                let either: BTreeSet<_> = before.union(&after).cloned().collect();
                prop_assert!(on_the_way.is_subset(&either), "{on_the_way:?} is not in {either:?}");
            }
            prop_assert_eq!(northbound(&world.database.snapshot()), northbound(&end));
            if restarts {
                let uuids = UuidSource::seeded(100 + place as u64);
                world.controller = ZoneController::new(uuids).with_transaction_rows(limit);
                world.former = None;
            }
        }
    }
}

#[test]
fn a_change_that_fits_is_one_transaction() {
    let wanted = |connectivity| Wanted {
        is_there: true,
        networks: 0b1111,
        connectivity,
        subnets: [1; 4],
        nodes: 3,
    };
    let mut world = build(&wanted(1));
    assert_eq!(come_to_rest(&mut world, |_| {}), 1);
    world.inputs = build(&wanted(0)).inputs;
    assert_eq!(come_to_rest(&mut world, |_| {}), 1);
    world.inputs.connects.clear();
    assert_eq!(come_to_rest(&mut world, |_| {}), 1);
}

#[test]
fn a_change_above_the_bound_is_several_transactions() {
    let mut world = build(&Wanted {
        is_there: true,
        networks: 0b1111,
        connectivity: 1,
        subnets: [1; 4],
        nodes: 3,
    });
    world.controller = ZoneController::new(UuidSource::seeded(2)).with_transaction_rows(10);
    world.former = None;
    let rows = world.database.snapshot().row_count();
    assert!(come_to_rest(&mut world, |_| {}) > 4);
    world.inputs.connects.clear();
    assert!(come_to_rest(&mut world, |_| {}) > 4);
    assert_eq!(world.database.snapshot().row_count(), rows);
}
