//! Comparisons: random databases with random questions, until enough are answered.

use std::net::IpAddr;

use patchbay_engine::db::Snapshot;
use patchbay_ovn_programs::testing::{RealServer, Release};
use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender};
use patchbay_reconcile::Cluster;
use serde_json::json;
use tokio::runtime::Builder;

use crate::arp::ArpRequest;
use crate::cluster_text::ClusterText;
use crate::compare::{Asked, Tally, compare};
use crate::free_topology::{Rows, Topology, map, question};
use crate::json_rpc::transact;
use crate::neighbor::Resolved;
use crate::neutron::{self, Cloud, insert_drop_group};
use crate::ovn::{Ovn, read_northbound, start_server};
use crate::random::Random;
use crate::recorded::RecordedState;
use crate::wiring::{Frame, Wiring};
use crate::zone::{read_cluster, write_zone};

/// Number of questions about one zone of a random cluster.
const QUESTIONS_PER_ZONE: usize = 100;
/// Port of nodes that some manifests give to a service.
const NODE_PORT: u16 = 30_021;
/// Addresses that no manifest names.
const FOREIGN_ADDRESSES: [&str; 5] =
    ["8.8.8.8", "10.11.0.222", "172.18.0.77", "2001:db8::8", "fd11::222"];
/// Source of packets from outside.
const OUTSIDE_ADDRESSES: [&str; 2] = ["172.18.0.77", "fd18::77"];
/// Number of topologies of one database.
const TOPOLOGIES: usize = 20;
/// Number of questions about one topology.
const QUESTIONS_PER_TOPOLOGY: usize = 20;
/// Number of clouds of one database.
const CLOUDS: usize = 8;
/// Number of questions about one cloud.
const QUESTIONS_PER_CLOUD: usize = 40;

/// Asks `wanted` questions about random switches and routers.
///
/// # Panics
/// A program of the release does not start.
pub fn ask_free_topologies(release: &Release, wanted: usize, random: &mut Random) -> Tally {
    let mut tally = Tally::default();
    while tally.asked < wanted {
        ask_database(release, random, &mut tally);
    }
    tally
}

/// Asks about one random database.
fn ask_database(release: &Release, random: &mut Random, tally: &mut Tally) {
    let mut rows = Rows::default();
    let options: Vec<_> = [
        (15, "default_acl_drop", "true"),
        (10, "use_ct_inv_match", "false"),
        (10, "install_ls_lb_from_router", "true"),
        (10, "ignore_lsp_down", "false"),
        (10, "use_common_zone", "true"),
        (10, "use_logical_dp_groups", "false"),
    ]
    .into_iter()
    .filter(|(percent, _, _)| random.chance(*percent))
    .map(|(_, key, value)| (key, value))
    .collect();
    rows.insert("NB_Global", json!({"options": map(&options)}));
    let topologies: Vec<_> =
        (0..TOPOLOGIES).map(|number| Topology::new(number, random, &mut rows)).collect();
    let variables: Vec<_> =
        topologies.iter().flat_map(|topology| &topology.variables).cloned().collect();
    let row = json!({"chassis": "c1", "variables": map(&variables)});
    rows.insert("Chassis_Template_Var", row);
    let request = rows.request();
    let server = start_server(release);
    let request = serde_json::from_str(&request).expect("the request is JSON");
    transact(server.socket(), &request);
    let learned: Vec<_> =
        topologies.iter().flat_map(|topology| &topology.learned).cloned().collect();
    let mut ovn = Ovn::start(release, &server, &learned);
    let northbound = Northbound::new(&read_northbound(&server), None);
    for topology in &topologies {
        let first = tally.wrong.len();
        let text = rows.text(topology.rows.clone());
        for _ in 0..QUESTIONS_PER_TOPOLOGY {
            let trace = &mut ovn.trace;
            let mut resolve =
                |switch: &str, request: &ArpRequest| Resolved::trace(trace, switch, request);
            if let Some(asked) = question(topology, random, &mut resolve) {
                compare(&northbound, &mut ovn.trace, &asked, tally);
            }
        }
        tally.explain(first, &text);
    }
}

/// Asks `wanted` questions about random networks and routers as Neutron writes them.
///
/// # Panics
/// A program of the release does not start.
pub fn ask_clouds(release: &Release, wanted: usize, random: &mut Random) -> Tally {
    let mut tally = Tally::default();
    while tally.asked < wanted {
        let mut rows = Rows::default();
        let mut guarded = Vec::new();
        let clouds: Vec<_> =
            (0..CLOUDS).map(|number| Cloud::new(number, random, &mut rows, &mut guarded)).collect();
        insert_drop_group(&mut rows, &guarded);
        let server = start_server(release);
        let request = serde_json::from_str(&rows.request()).expect("the request is JSON");
        transact(server.socket(), &request);
        let learned: Vec<_> = clouds.iter().flat_map(|cloud| &cloud.learned).cloned().collect();
        let mut ovn = Ovn::start(release, &server, &learned);
        let northbound = Northbound::new(&read_northbound(&server), None);
        for cloud in &clouds {
            let first = tally.wrong.len();
            for _ in 0..QUESTIONS_PER_CLOUD {
                let trace = &mut ovn.trace;
                let mut resolve =
                    |switch: &str, request: &ArpRequest| Resolved::trace(trace, switch, request);
                if let Some(asked) = neutron::question(cloud, random, &mut resolve) {
                    compare(&northbound, &mut ovn.trace, &asked, &mut tally);
                }
            }
            tally.explain(first, &rows.text(cloud.rows.clone()));
        }
    }
    tally
}

/// Asks `wanted` questions about the rows that Patchbay writes for random manifests.
///
/// # Panics
/// A program of the release does not start, or Patchbay does not write the rows.
pub fn ask_clusters(release: &Release, wanted: usize, random: &mut Random) -> Tally {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let mut tally = Tally::default();
    while tally.asked < wanted {
        let text = ClusterText::new(random);
        let cluster = read_cluster(&[], &text.manifests, text.settings.clone());
        let zone = random.pick(&text.nodes).clone();
        let server = start_server(release);
        let snapshot = runtime.block_on(write_zone(&cluster, &zone, &server.remote()));
        let mut addresses: Vec<_> = text
            .addresses
            .iter()
            .map(String::as_str)
            .chain(FOREIGN_ADDRESSES)
            .map(parse_address)
            .chain(pod_addresses(&cluster))
            .collect();
        let wiring = Wiring::new(&snapshot);
        addresses.extend(wiring.addresses());
        let first = tally.wrong.len();
        ask_rows(release, &server, &snapshot, &addresses, random, &mut tally);
        let origin = format!("zone {zone}, {:?}\n{}", text.settings, text.manifests);
        tally.explain(first, &origin);
    }
    tally
}

/// Asks `wanted` questions about recorded states, picked at random.
///
/// # Panics
/// A program of the release does not start, or a state does not fit the schema.
pub fn ask_recorded(
    release: &Release,
    states: &[RecordedState],
    wanted: usize,
    random: &mut Random,
) -> Tally {
    let mut tally = Tally::default();
    while tally.asked < wanted {
        let state = random.pick(states);
        let request = serde_json::from_str(&state.request()).expect("the request is JSON");
        let server = start_server(release);
        transact(server.socket(), &request);
        let snapshot = read_northbound(&server);
        let mut addresses = Wiring::new(&snapshot).addresses();
        addresses.extend(FOREIGN_ADDRESSES.map(parse_address));
        let first = tally.wrong.len();
        ask_rows(release, &server, &snapshot, &addresses, random, &mut tally);
        tally.explain(first, &state.name);
    }
    tally
}

/// Asks random questions about the rows of a server: from machines and from outside, to addresses.
fn ask_rows(
    release: &Release,
    server: &RealServer,
    snapshot: &Snapshot,
    addresses: &[IpAddr],
    random: &mut Random,
    tally: &mut Tally,
) {
    let wiring = Wiring::new(snapshot);
    let outside = OUTSIDE_ADDRESSES.map(parse_address);
    let mut ovn = Ovn::start(release, server, &wiring.learned(addresses));
    let northbound = Northbound::new(snapshot, None);
    let machines: Vec<_> = wiring.local_ports().map(Sender::port).collect();
    let localnets: Vec<_> = wiring.localnet_ports().collect();
    for _ in 0..QUESTIONS_PER_ZONE {
        let destination = *random.pick(addresses);
        let sender = if machines.is_empty() || !localnets.is_empty() && random.chance(15) {
            let Some(port) = (!localnets.is_empty()).then(|| *random.pick(&localnets)) else {
                return;
            };
            let source = outside[usize::from(destination.is_ipv6())];
            Sender { ip: Some(source), mac_of: wiring.router_port_of(port), ..Sender::port(port) }
        } else {
            random.pick(&machines).clone()
        };
        let protocols = [
            Protocol::Icmp,
            Protocol::Tcp(80),
            Protocol::Tcp(8080),
            Protocol::Tcp(443),
            Protocol::Tcp(NODE_PORT),
            Protocol::Udp(53),
        ];
        let protocol = *random.pick(&protocols);
        let packet = match wiring.frame(&sender, destination, protocol) {
            Frame::Packet(packet) => Some(packet),
            Frame::Nothing => None,
            Frame::Unclear => continue,
        };
        let asked = Asked {
            question: Question { sender, destination: Destination::Address(destination), protocol },
            packet,
        };
        compare(&northbound, &mut ovn.trace, &asked, tally);
    }
}

/// Addresses of all pods in all networks.
fn pod_addresses(cluster: &Cluster) -> Vec<IpAddr> {
    let Some(pods) = cluster.zone_pods("") else {
        return Vec::new();
    };
    let places = pods.pods().flat_map(|pod| pods.places(pod));
    places.flat_map(|place| place.addresses.addresses).map(|address| address.addr()).collect()
}

fn parse_address(text: &str) -> IpAddr {
    text.parse().expect("addresses are written as such")
}
