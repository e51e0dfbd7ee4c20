//! Random switches and routers that belong together, isolated from all others.

mod dual_stack;
mod extras;
mod family;
mod linked;
mod load_balancers;
mod matches;
mod nats;
mod questions;
mod routers;
mod rows;
mod switch_ports;
mod tenant;
mod variants;

use std::ops::Range;

use serde_json::json;

use crate::ovn::LearnedNeighbor;
use crate::random::Random;
use dual_stack::add_ipv6;
use family::to_ipv6;
pub(crate) use questions::question;
pub use rows::{Rows, map, references, set};
use switch_ports::port_security;

/// Switches and routers whose names begin with `prefix`, and what to ask about them.
pub(crate) struct Topology {
    pub(super) prefix: String,
    pub(crate) families: Families,
    pub(crate) machines: Vec<Machine>,
    /// Addresses that questions ask for.
    pub(crate) destinations: Vec<String>,
    /// External networks.
    pub(crate) outside: Vec<Outside>,
    /// Rows of gateway ports to switches of machines.
    inner_gateways: Vec<String>,
    /// Row of the collector of samples.
    pub(super) collector: String,
    /// Reference to the group of network functions. `None`: no ACL has it yet.
    function_group: Option<serde_json::Value>,
    /// Machines that routers know behind ports of type `switch`.
    pub(crate) learned: Vec<LearnedNeighbor>,
    /// `true` if a switch answers ARP requests by `arp_proxy`.
    pub(super) has_proxy: bool,
    /// `true` if a route has a session of BFD.
    pub(super) has_session: bool,
    /// Variables of templates on the chassis.
    pub(crate) variables: Vec<(String, String)>,
    /// Numbers of its rows.
    pub(crate) rows: Range<usize>,
    priority: i64,
}

/// Switch port of a machine.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) port: String,
    pub(crate) switch: String,
    pub(crate) mac: String,
    pub(crate) address: String,
    pub(crate) gateway_address: String,
    pub(crate) gateway_mac: String,
    pub(crate) has_unknown: bool,
    row: String,
}

/// External network with a router.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) localnet: String,
    pub(crate) switch: String,
    pub(crate) router_port: String,
    pub(crate) router_mac: String,
    /// Address of a machine that the database does not know.
    pub(crate) address: String,
}

/// Address families of a topology.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Families {
    Ipv4,
    Ipv6,
    Both,
}

/// Way from a router to the outside.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Exit {
    None,
    GatewayPort,
    GatewayRouter,
}

impl Topology {
    /// Adds the rows of topology `number`.
    pub(crate) fn new(number: usize, random: &mut Random, rows: &mut Rows) -> Self {
        let mut topology = Self {
            prefix: format!("t{number}"),
            families: match random.below(100) {
                0..25 => Families::Ipv6,
                25..50 => Families::Both,
                _ => Families::Ipv4,
            },
            machines: Vec::new(),
            destinations: ["8.8.8.8", "20.0.0.5", "172.18.0.77", "10.96.0.99", "10.2.0.255"]
                .map(str::to_owned)
                .into(),
            outside: Vec::new(),
            inner_gateways: Vec::new(),
            collector: String::new(),
            function_group: None,
            learned: Vec::new(),
            has_proxy: false,
            has_session: false,
            variables: Vec::new(),
            rows: 0..0,
            priority: 0,
        };
        let start = rows.len();
        topology.build(random, rows);
        match topology.families {
            Families::Ipv4 => {}
            Families::Ipv6 => {
                rows.rewrite(start, to_ipv6);
                for neighbor in &mut topology.learned {
                    neighbor.address = to_ipv6(&neighbor.address);
                }
                for (_, value) in &mut topology.variables {
                    *value = to_ipv6(value);
                }
            }
            Families::Both => {
                add_ipv6(rows, start);
                for mut neighbor in topology.learned.clone() {
                    neighbor.address = to_ipv6(&neighbor.address);
                    topology.learned.push(neighbor);
                }
            }
        }
        topology.rows = start..rows.len();
        topology
    }

    pub(super) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Name of a variable of the topology.
    pub(super) fn variable(&self, name: &str) -> String {
        format!("{}_{name}", self.prefix)
    }

    fn build(&mut self, random: &mut Random, rows: &mut Rows) {
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let collector = json!({"name": self.name("collector"), "id": number + 1,
            "set_id": number + 1, "probability": 65_535});
        self.collector = rows.insert("Sample_Collector", collector);
        let exit = *random.pick(&[Exit::None, Exit::GatewayPort, Exit::GatewayRouter]);
        let mut router_ports = Vec::new();
        let mut switches = Vec::new();
        for index in 1..=1 + random.below(3) {
            let switch = self.name(&format!("s{index}"));
            let mac = |host: usize| format!("0a:{number:02x}:00:00:{index:02x}:{host:02x}");
            let gateway_address = format!("10.{index}.0.1");
            let mut ports = Vec::new();
            let may_disable = random.chance(50);
            for host in 10..13 + random.below(2) {
                let port = format!("{switch}-v{host}");
                let address = format!("10.{index}.0.{host}");
                let mut interface = format!("{} {address}", mac(host));
                if random.chance(15) {
                    let second = format!("10.{index}.9.{host}");
                    interface = format!("{interface} {second}");
                    self.destinations.push(second);
                }
                let has_unknown = !may_disable && random.chance(20);
                let mut addresses = vec![interface.clone()];
                addresses.extend(has_unknown.then(|| "unknown".to_owned()));
                // ovn-trace gives packets with an unknown MAC address to other ports.
                let is_enabled = !(may_disable && random.chance(8));
                let security = port_security(random, &mac(host), index, host);
                let kind = if host > 10 && random.chance(10) { "remote" } else { "" };
                let mut row = json!({"name": port, "type": kind, "addresses": set(&addresses),
                    "port_security": set(&security), "enabled": is_enabled});
                if kind.is_empty() {
                    self.vary_machine(random, rows, &mut row, has_unknown);
                    self.check_machine(random, rows, &mut row, &address);
                }
                let row = rows.insert("Logical_Switch_Port", row);
                ports.push(row.clone());
                self.destinations.push(address.clone());
                if kind == "remote" {
                    continue;
                }
                self.machines.push(Machine {
                    port,
                    switch: switch.clone(),
                    mac: mac(host),
                    address,
                    gateway_address: gateway_address.clone(),
                    gateway_mac: mac(1),
                    has_unknown,
                    row,
                });
            }
            ports.extend(self.special_ports(random, rows, &switch, index));
            if random.chance(7) {
                ports.push(self.localnet_port(rows, index));
            }
            let mut config = map::<&str, &str>(&[]);
            ports.extend(self.chosen_ports(random, rows, (&switch, index), &mut config));
            let linked = random.chance(15).then(|| {
                let (linked, port) = self.linked_switches(random, rows, index);
                ports.push(port);
                linked
            });
            router_ports.push(self.attach(
                rows,
                &mut ports,
                index,
                &mac(1),
                &gateway_address,
                random,
            ));
            self.destinations.push(gateway_address);
            switches.push((switch, ports, config));
            let linked = linked.into_iter().flatten();
            switches
                .extend(linked.map(|linked| (linked.name, linked.ports, map::<&str, &str>(&[]))));
        }
        let address_set = self.name("as").replace('-', "_");
        let mut members: Vec<_> = (0..2).map(|_| random.pick(&self.destinations).clone()).collect();
        if random.chance(25) {
            let networks = ["10.1.0.0/24", "10.2.0.0/16", "172.18.0.0/24", "10.1.0.10/24", "?"];
            members.push((*random.pick(&networks)).to_owned());
        }
        if self.families != Families::Ipv6 && random.chance(15) {
            let other = random.pick(&self.destinations);
            members.push(to_ipv6(other));
        }
        rows.insert("Address_Set", json!({"name": address_set, "addresses": set(&members)}));
        let external_sets = self.external_sets(random, rows);
        let group = self.name("pg").replace('-', "_");
        let mut group_ports: Vec<_> = self
            .machines
            .iter()
            .filter(|_| random.chance(40))
            .map(|machine| machine.row.clone())
            .collect();
        if random.chance(20) {
            // The last port of a switch is that of the router.
            let last = switches.first().and_then(|(_, ports, _)| ports.last());
            group_ports.extend(last.cloned());
        }
        if random.chance(50) {
            let address = random.pick(&self.destinations).clone();
            self.variables.push((self.variable("ADDRESS"), address));
        }
        let balancers = self.load_balancers(random, rows, exit);
        let group_acls = self.acls(random, rows, 2, &address_set, &group);
        rows.insert(
            "Port_Group",
            json!({"name": group, "ports": references(&group_ports), "acls": references(&group_acls)}),
        );
        for (name, ports, config) in switches {
            let count = if random.chance(60) { 1 + random.below(4) } else { 0 };
            let acls = self.acls(random, rows, count, &address_set, &group);
            let own = some_of(random, &balancers);
            let mut marks = self.marks(random, rows);
            if random.chance(15) {
                marks.push(self.limit(random, rows));
            }
            let group = some_of(random, &balancers);
            let groups = if random.chance(20) {
                let name = format!("{name}-lbg");
                let row = json!({"name": name, "load_balancer": references(&group)});
                vec![rows.insert("Load_Balancer_Group", row)]
            } else {
                Vec::new()
            };
            let mut row = json!({"name": name, "ports": references(&ports),
                "acls": references(&acls), "load_balancer": references(&own),
                "qos_rules": references(&marks), "load_balancer_group": references(&groups),
                "other_config": config});
            self.vary_switch(random, rows, &mut row);
            rows.insert("Logical_Switch", row);
        }
        self.router(random, rows, exit, router_ports, &balancers, &external_sets);
    }

    /// A priority that no other row of the topology has, in nearly all cases.
    pub(super) fn next_priority(&mut self, random: &mut Random) -> i64 {
        self.priority += 1;
        let base = 100 * random.below(5) as i64;
        if random.chance(3) { base } else { base + self.priority }
    }

    fn acls(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        count: usize,
        address_set: &str,
        group: &str,
    ) -> Vec<String> {
        const ACTIONS: [&str; 8] = [
            "allow",
            "allow-related",
            "allow-related",
            "allow-stateless",
            "drop",
            "drop",
            "reject",
            "pass",
        ];
        (0..count)
            .map(|_| {
                let is_ingress = random.chance(50);
                let after = is_ingress && random.chance(30);
                let options = if after { vec![("apply-after-lb", "true")] } else { vec![] };
                let matches = self.switch_match(random, address_set, group, is_ingress);
                let mut row = json!({
                    "direction": if is_ingress { "from-lport" } else { "to-lport" },
                    "priority": self.next_priority(random), "match": matches,
                    "action": random.pick(&ACTIONS), "tier": random.below(4),
                    "log": random.chance(20), "label": if random.chance(20) { 7 } else { 0 },
                    "options": map(&options)});
                self.vary_acl(random, rows, &mut row);
                rows.insert("ACL", row)
            })
            .collect()
    }

    fn marks(&mut self, random: &mut Random, rows: &mut Rows) -> Vec<String> {
        if !random.chance(30) {
            return Vec::new();
        }
        let row = json!({"direction": "from-lport", "priority": self.next_priority(random),
            "match": self.ip_match(random), "action": ["map", [["mark", 5]]]});
        vec![rows.insert("QoS", row)]
    }
}

/// Some of the rows.
pub(super) fn some_of(random: &mut Random, rows: &[String]) -> Vec<String> {
    rows.iter().filter(|_| random.chance(50)).cloned().collect()
}
