//! Random Northbound databases of the shape that Neutron writes, with its names, external ids,
//! priorities and matches, and those of Octavia's OVN provider.
//!
//! ```text
//! networks  -> routers   -> machines   -> security groups -> balancers -> switches
//! subnets      ports,       ports,        port groups,       VIPs         rows
//!              NAT, routes  DHCP options  ACLs
//! ```

mod balancers;
mod floating;
mod machines;
mod neighbors;
mod networks;
mod questions;
mod routers;
mod security_groups;

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::free_topology::{Rows, map, references};
use crate::ovn::LearnedNeighbor;
use crate::random::Random;
pub(crate) use questions::question;

/// Port group of all ports with security, whose ACLs drop what no other ACL allows.
const DROP_GROUP: &str = "neutron_pg_drop";
/// Priority of the ACLs that drop.
const DROP_PRIORITY: i64 = 1000;

/// Networks and routers of some projects, isolated from all others.
pub(crate) struct Cloud {
    number: usize,
    /// `true` if floating addresses are distributed.
    is_distributed: bool,
    /// `true` if floating addresses are translated without state.
    is_stateless: bool,
    networks: Vec<Network>,
    routers: Vec<Router>,
    machines: Vec<Machine>,
    /// Networks and addresses of the ports of metadata services and VIPs.
    services: Vec<(usize, IpAddr)>,
    /// Addresses beside those of ports that a router has on its external network or for a VIP.
    translated: Vec<Translated>,
    /// Addresses that questions ask for.
    destinations: Vec<IpAddr>,
    /// Machines outside and other routers that routers know.
    pub(crate) learned: Vec<LearnedNeighbor>,
    /// Numbers of its rows.
    pub(crate) rows: Range<usize>,
    macs: usize,
}

/// Kind of a network.
#[derive(Clone, Copy, Eq, PartialEq)]
enum NetworkKind {
    /// Network of a project, in tunnels.
    Tunnel,
    /// Network of a project, on a VLAN.
    Vlan,
    /// External network.
    External,
}

/// Logical switch.
struct Network {
    kind: NetworkKind,
    switch: String,
    subnets: Vec<Subnet>,
    /// Name of the `localnet` port. `None`: the network has no VLAN.
    localnet: Option<String>,
    /// Rows of the ports.
    ports: Vec<String>,
    /// Rows of the load balancers.
    balancers: Vec<String>,
}

/// Subnet of a network.
struct Subnet {
    range: IpNet,
    gateway: Option<IpAddr>,
    /// `true` if OVN gives addresses and routes.
    has_dhcp: bool,
    /// Address of the metadata port.
    metadata: Option<IpAddr>,
    host_routes: Vec<(IpNet, IpAddr)>,
}

/// Logical router.
struct Router {
    name: String,
    is_enabled: bool,
    /// Chassis of a gateway router.
    chassis: Option<&'static str>,
    ports: Vec<RouterPort>,
    routes: Vec<Value>,
    policies: Vec<Value>,
    nats: Vec<Value>,
    /// Rows of the load balancers.
    balancers: Vec<String>,
}

/// Logical router port.
struct RouterPort {
    name: String,
    row: String,
    mac: String,
    /// Number of the network.
    network: usize,
    addresses: Vec<IpNet>,
    is_gateway: bool,
}

/// Port of a machine that sends.
struct Machine {
    port: String,
    row: String,
    /// Number of the network.
    network: usize,
    mac: String,
    addresses: Vec<IpAddr>,
    is_enabled: bool,
    has_security: bool,
}

/// Address of a NAT rule or VIP.
struct Translated {
    address: IpAddr,
    /// Number of the router.
    router: usize,
    /// MAC address of a distributed floating address. `None`: that of the router's port.
    mac: Option<String>,
}

impl Cloud {
    /// Adds the rows of the cloud with a number. `guarded`: rows of the ports with security.
    pub(crate) fn new(
        number: usize,
        random: &mut Random,
        rows: &mut Rows,
        guarded: &mut Vec<String>,
    ) -> Self {
        let start = rows.len();
        let mut cloud = Self {
            number,
            is_distributed: random.chance(50),
            is_stateless: random.chance(15),
            networks: Vec::new(),
            routers: Vec::new(),
            machines: Vec::new(),
            services: Vec::new(),
            translated: Vec::new(),
            destinations: Vec::new(),
            learned: Vec::new(),
            rows: 0..0,
            macs: 0,
        };
        cloud.add_networks(random, rows);
        cloud.add_routers(random, rows);
        cloud.add_host_routes(random);
        cloud.add_machines(random, rows);
        cloud.add_security_groups(random, rows, guarded);
        cloud.add_routes(random);
        cloud.add_floating_addresses(random, rows);
        cloud.add_balancers(random, rows);
        cloud.insert_routers(random, rows);
        cloud.insert_switches(random, rows);
        cloud.collect_destinations();
        cloud.learn_neighbors();
        cloud.rows = start..rows.len();
        cloud
    }

    /// A new UUID of Neutron.
    fn id(random: &mut Random) -> String {
        let (high, low) = (random.draw(), random.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high & 0xffff,
            (high >> 16) & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }

    /// A new MAC address.
    fn mac(&mut self) -> String {
        self.macs += 1;
        let [.., high, low] = self.macs.to_be_bytes();
        format!("fa:16:3e:{:02x}:{high:02x}:{low:02x}", self.number)
    }

    /// The subnets of a family in a network.
    fn subnets(&self, network: usize, is_ipv4: bool) -> impl Iterator<Item = &Subnet> {
        let subnets = self.networks[network].subnets.iter();
        subnets.filter(move |subnet| subnet.range.addr().is_ipv4() == is_ipv4)
    }

    /// All router ports with the numbers of their routers.
    fn router_ports(&self) -> impl Iterator<Item = (usize, &RouterPort)> {
        let routers = self.routers.iter().enumerate();
        routers.flat_map(|(number, router)| router.ports.iter().map(move |port| (number, port)))
    }

    /// Router ports on a network, with the numbers of their routers.
    fn ports_on(&self, network: usize) -> impl Iterator<Item = (usize, &RouterPort)> {
        self.router_ports().filter(move |(_, port)| port.network == network)
    }
}

impl RouterPort {
    fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }

    fn is_near(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.contains(&address))
    }
}

/// Adds the port group of all ports with security.
pub(crate) fn insert_drop_group(rows: &mut Rows, guarded: &[String]) {
    let acls = [("from-lport", "inport"), ("to-lport", "outport")].map(|(direction, side)| {
        let row = json!({"direction": direction, "priority": DROP_PRIORITY, "action": "drop",
            "match": format!("{side} == @{DROP_GROUP} && ip")});
        rows.insert("ACL", row)
    });
    let row = json!({"name": DROP_GROUP, "ports": references(guarded),
        "acls": references(&acls),
        "external_ids": map(&[("neutron:security_group_id", DROP_GROUP)])});
    rows.insert("Port_Group", row);
}

/// The address with a number in a range.
fn host(range: IpNet, number: u32) -> IpAddr {
    match range.network() {
        IpAddr::V4(base) => IpAddr::V4((u32::from(base) + number).into()),
        IpAddr::V6(base) => IpAddr::V6((u128::from(base) + u128::from(number)).into()),
    }
}
