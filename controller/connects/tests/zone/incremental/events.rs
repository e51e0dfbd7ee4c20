//! Events of a cluster and of a database.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use patchbay_model::{Networks, Node, PodSubnet, Protocol, UnreadableSubnets};
use patchbay_schemas::nb::{Copp, LoadBalancer, LogicalRouter, LogicalRouterPort, LogicalSwitch};
use patchbay_schemas::typed::{Ref, TableRow};
use proptest::prelude::*;
use uuid::Uuid;

use super::edits::{Edit, edit, edit_row};
use crate::world::World;

/// Layer3 networks have ids below 10. The last two names are such that names of ports can clash.
const NETWORKS: [(&str, i64, &str); 5] = [
    ("red", 1, "10.1.0.0/16"),
    ("blue", 2, "10.2.0.0/16"),
    ("lime", 11, "10.11.0.0/16"),
    ("cluster_udn", 3, "10.3.0.0/16"),
    ("cluster_udn_n2", 12, "10.12.0.0/16"),
];
const CONNECTIVITY: [&[&str]; 3] =
    [&["PodNetwork"], &["ServiceNetwork"], &["PodNetwork", "ServiceNetwork"]];
const CONNECTS: [&str; 2] = ["c", "d"];

/// Something that happens to the cluster or to the database.
#[derive(Clone, Debug)]
pub(super) enum Event {
    PutNode {
        node: usize,
        id: i64,
        created: i64,
    },
    RemoveNode {
        node: usize,
    },
    Chassis {
        node: usize,
        chassis: Option<u8>,
    },
    Subnet {
        node: usize,
        network: usize,
        number: Option<u8>,
    },
    UnreadableId {
        node: usize,
        is_unreadable: bool,
    },
    UnreadableSubnets {
        node: usize,
        networks: u8,
    },
    PutNetwork {
        network: usize,
    },
    RemoveNetwork {
        network: usize,
    },
    AddPodSubnet {
        network: usize,
    },
    Active {
        network: usize,
        nodes: u8,
    },
    PutConnect {
        connect: usize,
        connectivity: usize,
        networks: u8,
        shift: bool,
    },
    RemoveConnect {
        connect: usize,
    },
    BreakConnect {
        connect: usize,
    },
    Service {
        network: usize,
        count: usize,
    },
    LoadBalancer {
        network: usize,
    },
    NoLoadBalancer,
    Place {
        network: usize,
        router: bool,
        is_there: bool,
    },
    NoCopp,
    PutCopp,
    Edit {
        place: usize,
        what: Edit,
    },
    Foreign {
        network: usize,
        is_there: bool,
    },
    /// The transactions of the next pass are not committed.
    Rejected,
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let node = || 0_usize..4;
    let network = || 0_usize..NETWORKS.len();
    let connect = || 0_usize..CONNECTS.len();
    prop_oneof![
        3 => (node(), 1_i64..6, 0_i64..3)
            .prop_map(|(node, id, created)| Event::PutNode { node, id, created }),
        1 => node().prop_map(|node| Event::RemoveNode { node }),
        1 => (node(), prop::option::of(0_u8..3)).prop_map(|(node, chassis)| Event::Chassis { node, chassis }),
        2 => (node(), network(), prop::option::of(1_u8..9))
            .prop_map(|(node, network, number)| Event::Subnet { node, network, number }),
        2 => (node(), any::<bool>())
            .prop_map(|(node, is_unreadable)| Event::UnreadableId { node, is_unreadable }),
        2 => (node(), 0_u8..8).prop_map(|(node, networks)| Event::UnreadableSubnets { node, networks }),
        2 => network().prop_map(|network| Event::PutNetwork { network }),
        1 => network().prop_map(|network| Event::RemoveNetwork { network }),
        1 => network().prop_map(|network| Event::AddPodSubnet { network }),
        2 => (network(), any::<u8>()).prop_map(|(network, nodes)| Event::Active { network, nodes }),
        4 => (connect(), 0..CONNECTIVITY.len(), any::<u8>(), any::<bool>()).prop_map(
            |(connect, connectivity, networks, shift)| Event::PutConnect { connect, connectivity, networks, shift }
        ),
        1 => connect().prop_map(|connect| Event::RemoveConnect { connect }),
        1 => connect().prop_map(|connect| Event::BreakConnect { connect }),
        1 => (network(), 0_usize..3).prop_map(|(network, count)| Event::Service { network, count }),
        1 => network().prop_map(|network| Event::LoadBalancer { network }),
        1 => Just(Event::NoLoadBalancer),
        2 => (network(), any::<bool>(), any::<bool>())
            .prop_map(|(network, router, is_there)| Event::Place { network, router, is_there }),
        1 => Just(Event::NoCopp),
        1 => Just(Event::PutCopp),
        6 => (0_usize..50, edit()).prop_map(|(place, what)| Event::Edit { place, what }),
        1 => (network(), any::<bool>()).prop_map(|(network, is_there)| Event::Foreign { network, is_there }),
        1 => Just(Event::Rejected),
    ]
}

pub(super) fn base() -> World {
    let mut world = World::new();
    for (name, id, subnet) in NETWORKS {
        if id < 10 {
            world.add_layer3(name, id, &[subnet]);
        } else {
            world.add_layer2(name, id, &[subnet]);
        }
    }
    world.add_node("n1", 2);
    world.add_node("n2", 3);
    put_connect(&mut world, 0, 0, 0b1_1111, false);
    world
}

fn put_connect(world: &mut World, connect: usize, connectivity: usize, networks: u8, shift: bool) {
    let second = 16 * connect as i64;
    let subnets: Vec<(String, String)> = NETWORKS
        .into_iter()
        .enumerate()
        .filter(|(place, _)| networks & (1 << place) != 0)
        .map(|(place, (_, id, _))| {
            let block = place as i64 + 8 * i64::from(shift);
            let length = if id < 10 { 24 } else { 31 };
            let owner = if id < 10 { "layer3" } else { "layer2" };
            (format!("{owner}_{id}"), format!("172.{}.{block}.0/{length}", 16 + second))
        })
        .collect();
    let subnets: Vec<(&str, &str)> = subnets.iter().map(|(a, b)| (&**a, &**b)).collect();
    let cidr = format!("172.{}.0.0/16", 16 + second);
    let name = CONNECTS[connect];
    world.connect_through(name, (&cidr, 24), CONNECTIVITY[connectivity], &subnets);
}

/// The zone's node is neither the first nor the last by name: others can take its id away.
fn node_name(node: usize) -> String {
    ["n1", "n2", "n3", "a1"][node].to_owned()
}

/// The first row of a table that may be empty.
fn first<T: TableRow>(world: &World) -> Option<Uuid> {
    let snapshot = world.database.snapshot();
    let table = snapshot.typed::<T>();
    table.rows().map(|row| row.uuid).min()
}

pub(super) fn happen(world: &mut World, event: &Event) {
    match event.clone() {
        Event::PutNode { node, id, created } => {
            let name = node_name(node);
            world.inputs.nodes.remove(&name);
            let node = world.add_node(&name, id);
            node.id = node.id.filter(|_| id > 1);
            node.created = Some(Timestamp::from_second(created).unwrap());
        }
        Event::RemoveNode { node } => {
            world.inputs.nodes.remove(&node_name(node));
        }
        Event::Chassis { node, chassis } => {
            if let Some(node) = node_of(world, node) {
                node.chassis_id = chassis.map(|number| format!("chassis-{number}"));
            }
        }
        Event::Subnet { node, network, number } => {
            let (name, id, _) = NETWORKS[network];
            if let Some(node) = node_of(world, node) {
                node.subnets.remove(name);
                if let Some(number) = number {
                    let subnet = format!("10.{id}.{number}.0/24").parse().unwrap();
                    node.subnets.insert(name.to_owned(), vec![subnet]);
                }
            }
        }
        Event::UnreadableId { node, is_unreadable } => {
            if let Some(node) = node_of(world, node) {
                node.id = node.id.filter(|_| !is_unreadable);
                node.unreadable.id = is_unreadable;
            }
        }
        Event::UnreadableSubnets { node, networks } => {
            let unreadable: BTreeSet<String> = NETWORKS
                .into_iter()
                .enumerate()
                .filter(|(place, _)| networks & (1 << place) != 0)
                .map(|(_, (name, ..))| name.to_owned())
                .collect();
            if let Some(node) = node_of(world, node) {
                node.subnets.retain(|network, _| !unreadable.contains(network));
                node.unreadable.subnets = match networks {
                    7 => UnreadableSubnets::All,
                    _ => UnreadableSubnets::Networks(unreadable),
                };
            }
        }
        Event::PutNetwork { network } => {
            let (name, ..) = NETWORKS[network];
            world.networks.insert(name.to_owned(), base().networks[name].clone());
            refresh_networks(world);
        }
        Event::RemoveNetwork { network } => world.forget_network(NETWORKS[network].0),
        Event::AddPodSubnet { network } => {
            let (name, id, _) = NETWORKS[network];
            if let Some(network) = world.networks.get_mut(name) {
                network.pod_subnets.push(PodSubnet {
                    cidr: format!("10.{}.0.0/16", 100 + id).parse().unwrap(),
                    host_prefix: None,
                });
                refresh_networks(world);
            }
        }
        Event::Active { network, nodes } => {
            let nodes = (0..4).filter(|place| nodes & (1 << place) != 0).map(node_name);
            let name = NETWORKS[network].0.to_owned();
            world.inputs.limited.insert(name, nodes.collect());
        }
        Event::PutConnect { connect, connectivity, networks, shift } => {
            put_connect(world, connect, connectivity, networks, shift);
        }
        Event::RemoveConnect { connect } => {
            world.inputs.connects.remove(CONNECTS[connect]);
        }
        Event::BreakConnect { connect } => {
            let annotations = serde_json::json!({
                "k8s.ovn.org/connect-router-tunnel-key": "16715779",
                "k8s.ovn.org/network-connect-subnet": "{",
            });
            let ranges = serde_json::json!([]);
            world.put_connect(CONNECTS[connect], &annotations, &ranges, &["PodNetwork"]);
        }
        Event::Service { network, count } => {
            let namespace = format!("{}-ns", NETWORKS[network].0);
            world.inputs.services = vec![(namespace, vec![Protocol::Tcp]); count];
        }
        Event::LoadBalancer { network } => {
            world.add_load_balancer(NETWORKS[network].0, "ns/web");
        }
        Event::NoLoadBalancer => delete_first::<LoadBalancer>(world),
        Event::Place { network, router, is_there } => {
            place(world, NETWORKS[network].0, router, is_there);
        }
        Event::NoCopp => delete_first::<Copp>(world),
        Event::PutCopp => {
            if world.count::<Copp>() == 0 {
                world.insert(&Copp { name: "ovnkube-default".to_owned(), ..Copp::default() });
            }
        }
        Event::Edit { place, what } => edit_row(world, place, what),
        Event::Foreign { network, is_there } => foreign_port(world, NETWORKS[network].0, is_there),
        Event::Rejected => {
            world.plan();
        }
    }
}

fn node_of(world: &mut World, node: usize) -> Option<&mut Node> {
    let node = world.inputs.nodes.get_mut(&node_name(node))?;
    Some(Arc::make_mut(node))
}

fn refresh_networks(world: &mut World) {
    let networks: Networks = world.networks.values().cloned().collect();
    world.inputs.networks = Arc::new(networks);
}

fn delete_first<T: TableRow>(world: &mut World) {
    if let Some(uuid) = first::<T>(world) {
        world.change(|txn| txn.delete(Ref::<T>::new(uuid)).unwrap());
    }
}

fn place(world: &mut World, network: &str, router: bool, is_there: bool) {
    let (_, id, _) = NETWORKS.into_iter().find(|(name, ..)| *name == network).unwrap();
    let suffix = match (id < 10, router) {
        (true, true) => "ovn_cluster_router",
        (true, false) => "n1",
        (false, true) => "transit_router",
        (false, false) => "ovn_layer2_switch",
    };
    let name = format!("{network}_{suffix}");
    let there = if router {
        world.names::<LogicalRouter>().contains(&name)
    } else {
        world.names::<LogicalSwitch>().contains(&name)
    };
    match (there, is_there, router) {
        (false, true, true) => {
            world.insert(&LogicalRouter { name, ..LogicalRouter::default() });
        }
        (false, true, false) => {
            world.insert(&LogicalSwitch { name, ..LogicalSwitch::default() });
        }
        (true, false, true) => world.delete::<LogicalRouter>(&name),
        (true, false, false) => world.delete::<LogicalSwitch>(&name),
        _ => {}
    }
}

/// Another owner inserts or deletes a port with the name of a connect port.
fn foreign_port(world: &mut World, network: &str, is_there: bool) {
    let name = format!("rtocr-{network}_n1_c");
    let owner_controller = "k8s.ovn.org/owner-controller";
    if !world.names::<LogicalRouterPort>().contains(&name) {
        return;
    }
    world.edit::<LogicalRouterPort>(&name, |port| {
        if is_there {
            port.external_ids.insert(owner_controller.to_owned(), "another-owner".to_owned());
        } else {
            port.external_ids.remove(owner_controller);
        }
    });
}
