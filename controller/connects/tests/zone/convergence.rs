//! Convergence: from any database, a pass leads to the state that the inputs require.

use std::sync::Arc;

use patchbay_nbctl_text::northbound;
use proptest::prelude::*;

use crate::world::World;

const CONNECTIVITY: [&[&str]; 3] =
    [&["PodNetwork"], &["ServiceNetwork"], &["PodNetwork", "ServiceNetwork"]];

/// Variable part of a state. The arrays of four have an element for each network.
#[derive(Clone, Debug)]
struct Variation {
    connected: [bool; 4],
    known: [bool; 4],
    active_here: [bool; 4],
    nodes: [bool; 3],
    connectivity: usize,
    second_connect: bool,
    first_connect: bool,
}

fn variation() -> impl Strategy<Value = Variation> {
    let mostly = || prop::array::uniform4(prop::bool::weighted(0.8));
    (
        mostly(),
        mostly(),
        mostly(),
        prop::array::uniform3(prop::bool::weighted(0.8)),
        0..CONNECTIVITY.len(),
        any::<bool>(),
        prop::bool::weighted(0.9),
    )
        .prop_map(
            |(
                connected,
                known,
                active_here,
                nodes,
                connectivity,
                second_connect,
                first_connect,
            )| {
                Variation {
                    connected,
                    known,
                    active_here,
                    nodes,
                    connectivity,
                    second_connect,
                    first_connect,
                }
            },
        )
}

/// Two layer3 and two layer2 networks.
const NETWORKS: [(&str, i64, &str); 4] = [
    ("red", 1, "10.1.0.0/16"),
    ("blue", 2, "10.2.0.0/16"),
    ("lime", 11, "10.11.0.0/16"),
    ("gold", 12, "10.12.0.0/16"),
];
const SUBNETS: [(&str, &str); 4] = [
    ("layer3_1", "192.168.0.0/24"),
    ("layer3_2", "192.168.1.0/24"),
    ("layer2_11", "192.168.2.0/31"),
    ("layer2_12", "192.168.2.2/31"),
];

fn base() -> World {
    let mut world = World::new();
    for (name, id, subnet) in NETWORKS {
        if id < 10 {
            world.add_layer3(name, id, &[subnet]);
        } else {
            world.add_layer2(name, id, &[subnet]);
        }
        world.add_load_balancer(name, "ns/web");
    }
    world
}

fn vary(world: &mut World, variation: &Variation) {
    let all = base();
    world.networks = all.networks;
    world.inputs.networks = Arc::new(world.networks.values().cloned().collect());
    world.inputs.nodes.clear();
    for (place, is_there) in variation.nodes.into_iter().enumerate() {
        if is_there {
            world.add_node(&format!("n{}", place + 1), place as i64 + 2);
        }
    }
    for (place, (name, ..)) in NETWORKS.into_iter().enumerate() {
        if !variation.known[place] {
            world.forget_network(name);
        }
        let nodes = ["n2".to_owned(), "n3".to_owned()].into();
        world.inputs.limited.remove(name);
        if !variation.active_here[place] {
            world.inputs.limited.insert(name.to_owned(), nodes);
        }
    }
    world.inputs.connects.clear();
    let subnets: Vec<_> = SUBNETS
        .into_iter()
        .zip(variation.connected)
        .filter_map(|(subnet, connected)| connected.then_some(subnet))
        .collect();
    let connectivity = CONNECTIVITY[variation.connectivity];
    if variation.first_connect {
        world.connect("c", connectivity, &subnets);
    }
    if variation.second_connect {
        let subnets = [("layer3_1", "172.16.0.0/24"), ("layer2_12", "172.16.1.0/31")];
        world.connect_through("d", ("172.16.0.0/16", 24), &["ServiceNetwork"], &subnets);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn history_does_not_matter(history in prop::collection::vec(variation(), 1..5)) {
        let mut history = history;
        let last = history.last_mut().unwrap();
        // What is connected stays while its network is unknown: there history matters.
        last.known = [true; 4];
        let last = last.clone();
        let mut world = base();
        for variation in &history {
            vary(&mut world, variation);
            world.pass();
        }
        let mut fresh = base();
        vary(&mut fresh, &last);
        fresh.pass();
        prop_assert_eq!(northbound(&world.database.snapshot()), northbound(&fresh.database.snapshot()));
    }
}
