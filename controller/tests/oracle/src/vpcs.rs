//! Comparisons about random VPCs: verdicts, and the rows that decide.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_ovn_programs::testing::{RealServer, Release};
use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender};
use patchbay_schemas::nb::{LoadBalancer, LogicalRouter, LogicalRouterPort, Nat};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::compare::{Asked, Tally, TracedPacket, compare};
use crate::deciding::DecidingRows;
use crate::headers::Headers;
use crate::json_rpc::transact;
use crate::ovn::{LearnedNeighbor, Ovn, read_northbound, start_server};
use crate::random::Random;
use crate::vpc_text::{ForeignRow, TenantText, VpcText};
use crate::wiring::{Frame, Wiring};
use crate::zone::{read_cluster, write_zone};

/// MAC address of machines outside.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:77";
/// Number of tenants of one database.
const TENANTS: usize = 25;
/// Number of questions about one tenant.
const QUESTIONS_PER_TENANT: usize = 12;

/// MAC addresses by which routers answer on external subnets.
#[derive(Debug, Default)]
pub struct ExternalOwners {
    macs: BTreeMap<IpAddr, String>,
}

impl ExternalOwners {
    /// The addresses of routers, of their NAT rules and of their load balancers.
    ///
    /// # Panics
    /// A row has values that the schema of this project forbids.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut owners = Self::default();
        for row in snapshot.typed::<LogicalRouter>().iter() {
            owners.add(snapshot, &row.expect("rows fit the schema").1);
        }
        owners
    }

    fn add(&mut self, snapshot: &Snapshot, router: &LogicalRouter) {
        let ports = router.ports.iter();
        let ports = ports.filter_map(|port| snapshot.get(*port).expect("rows fit the schema"));
        let mut networks: Vec<(IpNet, String)> = Vec::new();
        for LogicalRouterPort { mac, networks: own, .. } in ports {
            let own = own.iter().filter_map(|text| text.parse().ok());
            networks.extend(own.map(|network| (network, mac.clone())));
        }
        self.macs.extend(networks.iter().map(|(network, mac)| (network.addr(), mac.clone())));
        let mac_of = |address: &IpAddr| {
            let mut fitting = networks.iter().filter(|(network, _)| network.contains(address));
            Some(fitting.next()?.1.clone())
        };
        for reference in &router.nat {
            let Some(nat) = snapshot.get::<Nat>(*reference).expect("rows fit the schema") else {
                continue;
            };
            let Ok(address) = nat.external_ip.parse() else { continue };
            let is_distributed = nat.logical_port.is_some();
            let mac = nat.external_mac.filter(|_| is_distributed).or_else(|| mac_of(&address));
            self.macs.extend(mac.map(|mac| (address, mac)));
        }
        for reference in &router.load_balancer {
            let Some(balancer) =
                snapshot.get::<LoadBalancer>(*reference).expect("rows fit the schema")
            else {
                continue;
            };
            for vip in balancer.vips.keys() {
                let Some(address) =
                    vip.rsplit_once(':').and_then(|(address, _)| address.parse().ok())
                else {
                    continue;
                };
                self.macs.extend(mac_of(&address).map(|mac| (address, mac)));
            }
        }
    }

    /// The MAC address that answers for an address. `None`: no router has it.
    pub fn mac(&self, address: IpAddr) -> Option<&str> {
        self.macs.get(&address).map(String::as_str)
    }

    /// A neighbour as the router of a tenant learns it. `None`: the router itself has the address.
    fn answer(&self, neighbor: LearnedNeighbor, ports: &RouterPorts) -> Option<LearnedNeighbor> {
        let address = neighbor.address.parse().expect("a neighbour has an address");
        let Some(mac) = self.mac(address) else {
            return Some(neighbor);
        };
        let mut own = ports.external.iter();
        let is_own = own.any(|[name, _, own]| *name == neighbor.router_port && own == mac);
        (!is_own).then(|| LearnedNeighbor { mac: mac.to_owned(), ..neighbor })
    }
}

/// Asks about `wanted` random tenants with VPCs. Beside the verdicts, the rows that decide are
/// compared. `report` gets the numbers after each database.
///
/// # Panics
/// A program of the release does not start, or Patchbay does not write the rows.
pub fn ask_vpcs(
    release: &Release,
    wanted: usize,
    random: &mut Random,
    mut report: impl FnMut(usize, &Tally),
) -> Tally {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let mut tally = Tally::default();
    let mut count = 0;
    while count < wanted {
        let text = VpcText::new(TENANTS.min(wanted - count), random);
        let settings =
            ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() };
        let cluster = read_cluster(&[], &text.manifests, settings);
        let server = start_server(release);
        let remote = server.remote();
        let written = runtime.block_on(write_zone(&cluster, Databases::CENTRAL, &remote));
        add_foreign(&server, &written, &text.tenants);
        ask_database(release, &server, &text, random, &mut tally);
        count += text.tenants.len();
        report(count, &tally);
    }
    tally
}

/// Adds the rows of other programs.
fn add_foreign(server: &RealServer, snapshot: &Snapshot, tenants: &[TenantText]) {
    let balancers = snapshot.typed::<LoadBalancer>();
    let balancers: BTreeMap<String, Value> = balancers
        .iter()
        .map(|row| row.expect("rows fit the schema"))
        .map(|(uuid, row)| (row.name, json!(["uuid", uuid.uuid.to_string()])))
        .collect();
    let name_of = |vpc: &str| format!("vpc-{vpc}-tcp-load");
    let mut request = vec![json!("OVN_Northbound")];
    let foreign = tenants.iter().flat_map(|tenant| &tenant.foreign);
    for (number, row) in foreign.enumerate() {
        let mutate = |table: &str, name: &str, column: &str, value: Value| {
            json!({"op": "mutate", "table": table, "where": [["name", "==", name]],
                "mutations": [[column, "insert", value]]})
        };
        match row {
            ForeignRow::Vip { vpc, vip, backends } => {
                let vips = json!(["map", [[vip, backends]]]);
                request.push(mutate("Load_Balancer", &name_of(vpc), "vips", vips));
            }
            ForeignRow::OnRouter { vpc } => {
                if let Some(balancer) = balancers.get(&name_of(vpc)) {
                    let balancer = balancer.clone();
                    request.push(mutate("Logical_Router", vpc, "load_balancer", balancer));
                }
            }
            ForeignRow::SourceRoute { vpc, cidr, gateway } => {
                let name = format!("route{number}");
                request.push(json!({"op": "insert", "table": "Logical_Router_Static_Route",
                    "uuid-name": name, "row": {"policy": "src-ip", "ip_prefix": cidr,
                    "nexthop": gateway}}));
                let route = json!(["named-uuid", name]);
                request.push(mutate("Logical_Router", vpc, "static_routes", route));
            }
        }
    }
    transact(server.socket(), &Value::Array(request));
}

/// Asks about the tenants of a database.
fn ask_database(
    release: &Release,
    server: &RealServer,
    text: &VpcText,
    random: &mut Random,
    tally: &mut Tally,
) {
    let snapshot = read_northbound(server);
    let northbound = Northbound::new(&snapshot, None);
    let wiring = Wiring::new(&snapshot);
    let owners = ExternalOwners::new(&snapshot);
    let mut learned = BTreeSet::new();
    let mut asked = Vec::new();
    for tenant in &text.tenants {
        let ports = RouterPorts::of(tenant, &snapshot);
        let addresses: Vec<IpAddr> = tenant
            .addresses
            .iter()
            .map(|text| text.parse().expect("addresses are written as such"))
            .chain(ports.addresses.iter().copied())
            .collect();
        let known = wiring.learned(&addresses).into_iter();
        let known = known.filter(|one| one.router_port.starts_with(&tenant.prefix));
        learned.extend(known.filter_map(|neighbor| owners.answer(neighbor, &ports)));
        let questions = (0..QUESTIONS_PER_TENANT)
            .filter_map(|_| question(tenant, (&wiring, &ports), &addresses, random));
        asked.push(questions.collect::<Vec<_>>());
    }
    let learned: Vec<_> = learned.into_iter().collect();
    let mut ovn = Ovn::start(release, server, &learned);
    let rows = DecidingRows::read(server);
    for (tenant, questions) in text.tenants.iter().zip(asked) {
        let first = tally.wrong.len();
        for one in questions {
            let before = (tally.wrong.len(), tally.open, tally.excused);
            compare(&northbound, &mut ovn.trace, &one, tally);
            if before == (tally.wrong.len(), tally.open, tally.excused) {
                tally.wrong.extend(rows.difference(&northbound, &mut ovn.trace, &one));
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": tenant.items});
        tally.explain(first, &format!("{list}\n{:?}", tenant.foreign));
    }
}

/// Ports of a tenant's routers.
struct RouterPorts {
    /// Ports on external subnets: name, subnet and MAC address.
    external: Vec<[String; 3]>,
    addresses: Vec<IpAddr>,
}

impl RouterPorts {
    fn of(tenant: &TenantText, snapshot: &Snapshot) -> Self {
        let mut ports = Self { external: Vec::new(), addresses: Vec::new() };
        for row in snapshot.typed::<LogicalRouterPort>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            if !row.name.starts_with(&tenant.prefix) {
                continue;
            }
            let networks = row.networks.iter().filter_map(|text| text.parse::<IpNet>().ok());
            ports.addresses.extend(networks.map(|network| network.addr()));
            if !row.gateway_chassis.is_empty()
                && let Some((_, subnet)) = row.name.split_once('-')
            {
                ports.external.push([row.name.clone(), subnet.to_owned(), row.mac]);
            }
        }
        ports
    }
}

/// A random question: from a machine of the tenant, or from outside to one of its routers.
fn question(
    tenant: &TenantText,
    (wiring, ports): (&Wiring, &RouterPorts),
    addresses: &[IpAddr],
    random: &mut Random,
) -> Option<Asked> {
    let destination = *random.pick(addresses);
    let protocols = [Protocol::Icmp, Protocol::Tcp(80), Protocol::Tcp(8080), Protocol::Udp(80)];
    let protocol = *random.pick(&protocols);
    let to = Destination::Address(destination);
    if destination.is_ipv6() || ports.external.is_empty() || !random.chance(30) {
        let sender = Sender::port(random.pick(&tenant.ports));
        let packet = match wiring.frame(&sender, destination, protocol) {
            Frame::Packet(packet) => Some(packet),
            Frame::Nothing => None,
            Frame::Unclear => return None,
        };
        return Some(Asked { question: Question { sender, destination: to, protocol }, packet });
    }
    let [router_port, subnet, target] = random.pick(&ports.external);
    let outside = ["203.0.113.7", "172.30.15.7", "198.51.100.9"];
    let source: IpAddr = random.pick(&outside).parse().expect("addresses are written as such");
    let port = format!("localnet.{subnet}");
    let headers =
        Headers { port: &port, macs: [OUTSIDE_MAC, target], source, destination, protocol };
    let packet =
        TracedPacket { datapath: subnet.clone(), expression: headers.expression(), arp: None };
    let sender = Sender {
        ip: Some(source),
        mac: Some(OUTSIDE_MAC.to_owned()),
        mac_of: Some(router_port.clone()),
        ..Sender::port(port)
    };
    let question = Question { sender, destination: to, protocol };
    Some(Asked { question, packet: Some(packet) })
}
