//! Reachability between networks, computed from rows, equals the connectivity of the connects.

use std::collections::BTreeSet;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{Acl, AddressSet, LogicalRouter, LogicalRouterPort, LogicalSwitch};
use patchbay_schemas::typed::{Ref, TableRow};
use proptest::prelude::*;

use crate::world::World;

const LAYER3: usize = 4;
const NETWORKS: usize = 6;

/// The networks of each connect, whether pods reach pods, and how many nodes there are.
#[derive(Clone, Debug)]
struct Graph {
    connects: Vec<(BTreeSet<usize>, bool)>,
    nodes: i64,
}

fn graph() -> impl Strategy<Value = Graph> {
    let connect = (prop::collection::btree_set(0..NETWORKS, 0..5), prop::bool::weighted(0.8));
    (prop::collection::vec(connect, 0..6), 1_i64..4)
        .prop_map(|(connects, nodes)| Graph { connects, nodes })
}

pub(crate) fn network_name(network: usize) -> String {
    format!("net{network}")
}

fn build(graph: &Graph) -> World {
    let mut world = World::new();
    for network in 0..NETWORKS {
        let (name, id) = (network_name(network), network as i64 + 1);
        let subnet = format!("10.{id}.0.0/16");
        if network < LAYER3 {
            world.add_layer3(&name, id, &[&subnet]);
        } else {
            world.add_layer2(&name, id, &[&subnet]);
        }
    }
    for node in 0..graph.nodes {
        world.add_node(&format!("n{}", node + 1), node + 2);
    }
    for (place, (networks, pods)) in graph.connects.iter().enumerate() {
        let subnets: Vec<(String, String)> = networks
            .iter()
            .map(|network| {
                let id = network + 1;
                let (kind, length) =
                    if *network < LAYER3 { ("layer3", 24) } else { ("layer2", 31) };
                (format!("{kind}_{id}"), format!("172.{}.{network}.0/{length}", 16 + place))
            })
            .collect();
        let subnets: Vec<(&str, &str)> = subnets.iter().map(|(a, b)| (&**a, &**b)).collect();
        let connectivity: &[&str] = if *pods { &["PodNetwork"] } else { &["ServiceNetwork"] };
        let cidr = format!("172.{}.0.0/16", 16 + place);
        world.connect_through(&format!("c{place}"), (&cidr, 24), connectivity, &subnets);
    }
    world
}

/// The pairs of networks that connects join for pods, less those that another connect keeps apart.
fn expected(graph: &Graph) -> BTreeSet<(usize, usize)> {
    let pairs = |pods: bool| -> BTreeSet<(usize, usize)> {
        let connects = graph.connects.iter().filter(move |(_, has)| *has == pods);
        connects
            .flat_map(|(networks, _)| {
                let to = |from: usize| networks.iter().map(move |to| (from, *to));
                networks.iter().copied().flat_map(to)
            })
            .filter(|(from, to)| from != to)
            .collect()
    };
    pairs(true).difference(&pairs(false)).copied().collect()
}

fn named<T: TableRow>(snapshot: &Snapshot, matches: impl Fn(&T) -> bool) -> Option<T> {
    let table = snapshot.typed::<T>();
    let mut rows = table.iter().map(|row| row.unwrap().1);
    rows.find(matches)
}

fn all<T: TableRow>(snapshot: &Snapshot, rows: &BTreeSet<Ref<T>>) -> Vec<T> {
    rows.iter().map(|row| snapshot.get(*row).unwrap().unwrap()).collect()
}

fn place(network: usize, layer3: &str, layer2: &str) -> String {
    let suffix = if network < LAYER3 { layer3 } else { layer2 };
    format!("{}_{suffix}", network_name(network))
}

/// `true` if the switch of a network drops traffic to this subnet, by its first matching ACL.
fn is_dropped(snapshot: &Snapshot, from: usize, subnet: &str) -> bool {
    let name = place(from, "n1", "ovn_layer2_switch");
    let switch = named::<LogicalSwitch>(snapshot, |switch| switch.name == name).unwrap();
    let mut acls: Vec<Acl> = all(snapshot, &switch.acls);
    acls.sort_by_key(|acl| -acl.priority);
    let sets: Vec<AddressSet> =
        snapshot.typed::<AddressSet>().iter().map(|row| row.unwrap().1).collect();
    let decides = |acl: &Acl| {
        let in_set = |set: &AddressSet| {
            acl.r#match.contains(&format!("${} ", set.name)) && set.addresses.contains(subnet)
        };
        acl.r#match.contains(&format!("ip4.dst == {subnet}")) || sets.iter().any(in_set)
    };
    let first = acls.iter().find(|acl| decides(acl));
    first.is_some_and(|acl| acl.priority == 450)
}

/// The ways of packets through the rows: the policy of the source's router leads to a port of a
/// connect router, that router has a route to the destination's subnet, and the route leads out of
/// a port for the destination.
pub(crate) fn open_pairs(snapshot: &Snapshot, nodes: i64) -> BTreeSet<(usize, usize)> {
    let mut open = BTreeSet::new();
    let connect_routers: Vec<LogicalRouter> = {
        let table = snapshot.typed::<LogicalRouter>();
        let rows = table.iter().map(|row| row.unwrap().1);
        rows.filter(|row| row.name.starts_with("connect_router_")).collect()
    };
    for from in 0..NETWORKS {
        let name = place(from, "ovn_cluster_router", "transit_router");
        let Some(router) = named::<LogicalRouter>(snapshot, |row| row.name == name) else {
            continue;
        };
        for policy in all(snapshot, &router.policies) {
            let nexthop = policy.nexthops.first().unwrap().clone();
            for to in (0..NETWORKS).filter(|to| *to != from) {
                let subnet = format!("10.{}.0.0/16", to + 1);
                if !policy.r#match.contains(&format!("ip4.dst == {subnet}"))
                    || is_dropped(snapshot, from, &subnet)
                {
                    continue;
                }
                let reached = connect_routers.iter().any(|router| {
                    let ports: Vec<LogicalRouterPort> = all(snapshot, &router.ports);
                    let routes = all(snapshot, &router.static_routes);
                    let address = |port: &LogicalRouterPort, address: &str| {
                        port.networks.contains(&format!("{address}/31"))
                    };
                    let enters = ports.iter().any(|port| {
                        let is_the_sources =
                            port.external_ids["network-id"] == (from + 1).to_string();
                        is_the_sources && port.peer.is_some() && address(port, &nexthop)
                    });
                    let leads = |prefix: &str| {
                        let route = routes.iter().find(|route| route.ip_prefix == prefix);
                        route.is_some_and(|route| {
                            let last: u32 =
                                route.nexthop.parse::<std::net::Ipv4Addr>().unwrap().into();
                            let near = std::net::Ipv4Addr::from(last - 1).to_string();
                            ports.iter().any(|port| {
                                port.external_ids["network-id"] == (to + 1).to_string()
                                    && address(port, &near)
                            })
                        })
                    };
                    let everywhere = if to < LAYER3 {
                        (0..nodes).all(|node| leads(&format!("10.{}.{}.0/24", to + 1, node + 2)))
                    } else {
                        leads(&subnet)
                    };
                    enters && everywhere
                });
                if reached {
                    open.insert((from, to));
                }
            }
        }
    }
    open
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn reachability_is_that_of_the_graph(history in prop::collection::vec(graph(), 1..3)) {
        let mut world = build(&history[0]);
        for graph in &history {
            let wanted = build(graph);
            world.inputs = wanted.inputs;
            world.networks = wanted.networks;
            world.pass();
            let open = open_pairs(&world.database.snapshot(), graph.nodes);
            prop_assert_eq!(&open, &expected(graph));
            let back: BTreeSet<(usize, usize)> = open.iter().map(|(from, to)| (*to, *from)).collect();
            prop_assert_eq!(open, back);
        }
    }
}
