//! Random switches and routers that belong together, isolated from all others.

use serde_json::{Value, json};

use super::random::Random;
use super::rows::{Rows, map, references, set};

/// Switches and routers whose names begin with `prefix`, and what to ask about them.
pub(crate) struct Topology {
    prefix: String,
    pub(crate) machines: Vec<Machine>,
    /// Addresses that questions ask for.
    pub(crate) destinations: Vec<String>,
    /// Localnet port and MAC address of the router behind it. `None`: no external network.
    pub(crate) outside: Option<(String, String)>,
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

/// How a router leads outside.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Exit {
    None,
    GatewayPort,
    GatewayRouter,
}

impl Topology {
    /// Adds the rows of topology `number`.
    pub(crate) fn new(number: usize, random: &mut Random, rows: &mut Rows) -> Self {
        let mut topology = Self {
            prefix: format!("t{number}"),
            machines: Vec::new(),
            destinations: ["8.8.8.8", "20.0.0.5", "172.18.0.77", "10.96.0.99"]
                .map(str::to_owned)
                .into(),
            outside: None,
            priority: 0,
        };
        topology.build(random, rows);
        topology
    }

    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn build(&mut self, random: &mut Random, rows: &mut Rows) {
        let number: usize = self.prefix[1..].parse().unwrap();
        let exit = *random.pick(&[Exit::None, Exit::GatewayPort, Exit::GatewayRouter]);
        let mut router_ports = Vec::new();
        let mut switches = Vec::new();
        for index in 1..=1 + random.below(3) {
            let switch = self.name(&format!("s{index}"));
            let mac = |host: usize| format!("0a:{number:02x}:00:00:{index:02x}:{host:02x}");
            let gateway_address = format!("10.{index}.0.1");
            let mut ports = Vec::new();
            let may_disable = random.chance(50);
            for host in 10..12 + random.below(2) {
                let port = format!("{switch}-v{host}");
                let address = format!("10.{index}.0.{host}");
                let interface = format!("{} {address}", mac(host));
                let has_unknown = !may_disable && random.chance(20);
                let mut addresses = vec![interface.clone()];
                addresses.extend(has_unknown.then(|| "unknown".to_owned()));
                // ovn-trace gives packets with an unknown MAC address to other ports.
                let is_enabled = may_disable && !random.chance(8);
                let security = if random.chance(30) {
                    vec![interface]
                } else {
                    vec![]
                };
                let row = rows.insert(
                    "Logical_Switch_Port",
                    json!({"name": port, "addresses": set(&addresses),
                        "port_security": set(&security), "enabled": is_enabled}),
                );
                ports.push(row.clone());
                self.destinations.push(address.clone());
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
            router_ports.push(self.attach(
                rows,
                &mut ports,
                index,
                &mac(1),
                &gateway_address,
                random,
            ));
            self.destinations.push(gateway_address);
            switches.push((switch, ports));
        }
        let address_set = self.name("as").replace('-', "_");
        let members: Vec<_> = (0..2)
            .map(|_| random.pick(&self.destinations).clone())
            .collect();
        rows.insert(
            "Address_Set",
            json!({"name": address_set, "addresses": set(&members)}),
        );
        let set_row = rows.insert(
            "Address_Set",
            json!({"name": format!("{address_set}_ext"), "addresses": set(&["8.8.8.8"])}),
        );
        let group = self.name("pg").replace('-', "_");
        let group_ports: Vec<_> = self
            .machines
            .iter()
            .filter(|_| random.chance(40))
            .map(|machine| machine.row.clone())
            .collect();
        let balancers = self.load_balancers(random, rows, exit);
        let group_acls = self.acls(random, rows, 2, &address_set, &group);
        rows.insert(
            "Port_Group",
            json!({"name": group, "ports": references(&group_ports), "acls": references(&group_acls)}),
        );
        for (name, ports) in switches {
            let count = if random.chance(60) {
                1 + random.below(4)
            } else {
                0
            };
            let acls = self.acls(random, rows, count, &address_set, &group);
            let own = some_of(random, &balancers);
            let marks = self.marks(random, rows);
            rows.insert(
                "Logical_Switch",
                json!({"name": name, "ports": references(&ports), "acls": references(&acls),
                    "load_balancer": references(&own), "qos_rules": references(&marks)}),
            );
        }
        self.router(random, rows, exit, router_ports, &balancers, &set_row);
    }

    /// Connects a switch with the router. Returns the router port.
    fn attach(
        &self,
        rows: &mut Rows,
        ports: &mut Vec<String>,
        index: usize,
        mac: &str,
        address: &str,
        random: &mut Random,
    ) -> String {
        let router_port = self.name(&format!("rp{index}"));
        ports.push(rows.insert(
            "Logical_Switch_Port",
            json!({"name": self.name(&format!("sp{index}")), "type": "router",
                "addresses": "router", "options": map(&[("router-port", &router_port)])}),
        ));
        let mut options = Vec::new();
        if random.chance(15) {
            options.push(("route_table", "rtb"));
        }
        rows.insert(
            "Logical_Router_Port",
            json!({"name": router_port, "mac": mac, "networks": format!("{address}/24"),
                "options": map(&options)}),
        )
    }

    /// A priority that no other row of the topology has, in nearly all cases.
    fn next_priority(&mut self, random: &mut Random) -> i64 {
        self.priority += 1;
        let base = 100 * random.below(5) as i64;
        if random.chance(3) {
            base
        } else {
            base + self.priority
        }
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
                let options = if after {
                    vec![("apply-after-lb", "true")]
                } else {
                    vec![]
                };
                let matches = self.switch_match(random, address_set, group, is_ingress);
                rows.insert(
                    "ACL",
                    json!({"direction": if is_ingress { "from-lport" } else { "to-lport" },
                        "priority": self.next_priority(random), "match": matches,
                        "action": random.pick(&ACTIONS), "tier": random.below(3),
                        "options": map(&options)}),
                )
            })
            .collect()
    }

    fn switch_match(
        &self,
        random: &mut Random,
        address_set: &str,
        group: &str,
        is_ingress: bool,
    ) -> String {
        let side = if is_ingress { "inport" } else { "outport" };
        let machine = random.pick(&self.machines);
        let choices = [
            format!("{side} == @{group}"),
            format!("{side} == @{group} && ip4"),
            format!("{side} == @{group} && tcp.dst == {{80, 22}}"),
            format!("{side} == \"{}\" && ip4", machine.port),
            format!("{side} == {{\"{}\", \"nowhere\"}}", machine.port),
            format!("eth.src == {}", machine.mac),
            // ovn-trace keeps the state of former switches, where OVN clears it.
            format!("outport == \"{}\" && ct.new", machine.port),
            format!("outport == \"{}\" && !ct.new", machine.port),
            format!("ip4.src == ${address_set}"),
            format!("ip4.dst != ${address_set}"),
            format!("ip4 && ip4.dst == $missing_{address_set}"),
            format!("{side} != \"{}\"", machine.port),
            "arp || icmp4".to_owned(),
            "eth.dst[0..7] == 1".to_owned(),
            "reg7 == 0 && ip".to_owned(),
            self.ip_match(random),
            self.ip_match(random),
            self.ip_match(random),
            self.ip_match(random),
        ];
        random.pick(&choices).clone()
    }

    fn ip_match(&self, random: &mut Random) -> String {
        let address = random.pick(&self.destinations);
        let other = random.pick(&self.destinations);
        let choices = [
            format!("ip4.src == {address}"),
            format!("ip4.dst == {address}"),
            format!("ip4.dst == {{{address}, {other}}} && tcp"),
            format!("ip4.src != {address} && ip4.dst == {other}"),
            format!("!(ip4.dst == {{{address}, {other}}})"),
            format!("ip4.dst == {address} /* a comment */ && (tcp || udp)"),
            format!("{address} == ip4.dst // to the end"),
            "ip4.dst == 10.2.0.0/16".to_owned(),
            "ip4.src == 10.1.0.0/255.255.255.0 && icmp4.type == 8".to_owned(),
            "ip4.dst[8..15] == 0 && ip.proto == 6".to_owned(),
            "80 <= tcp.dst < 100".to_owned(),
            "udp.dst > 52 || tcp.dst == 22".to_owned(),
            "tcp.dst != 80".to_owned(),
            "!(tcp.dst == 80 || udp)".to_owned(),
            "!(tcp.dst == 80) && !(ip4.src == 10.2.0.0/16)".to_owned(),
            "tcp.flags == 2/2".to_owned(),
            "ip.ttl == 64 || icmp".to_owned(),
            "pkt.mark == 5".to_owned(),
            "tcp.dst == 99999".to_owned(),
            "ip4 && tcp || udp".to_owned(),
            "ip4.src ==".to_owned(),
            "1".to_owned(),
            "ip4".to_owned(),
        ];
        random.pick(&choices).clone()
    }

    fn marks(&mut self, random: &mut Random, rows: &mut Rows) -> Vec<String> {
        if !random.chance(30) {
            return Vec::new();
        }
        let row = json!({"direction": "from-lport", "priority": self.next_priority(random),
            "match": self.ip_match(random), "action": ["map", [["mark", 5]]]});
        vec![rows.insert("QoS", row)]
    }

    fn load_balancers(&mut self, random: &mut Random, rows: &mut Rows, exit: Exit) -> Vec<String> {
        (0..random.below(3))
            .map(|index| {
                let vip = if exit != Exit::None && random.chance(30) {
                    format!("172.18.0.5{index}")
                } else {
                    format!("10.96.0.{index}")
                };
                self.destinations.extend([vip.clone(), vip.clone()]);
                let has_port = random.chance(70);
                let backend = random.pick(&self.machines).address.clone();
                let backends = match (random.chance(15), has_port) {
                    (true, _) => String::new(),
                    (false, true) => format!("{backend}:8080"),
                    (false, false) => backend,
                };
                let key = if has_port { format!("{vip}:80") } else { vip };
                let mut options = vec![];
                for option in ["reject", "skip_snat"] {
                    if random.chance(30) {
                        options.push((option, "true"));
                    }
                }
                if random.chance(30) {
                    options.push(("hairpin_snat_ip", "169.254.0.5"));
                }
                let protocol = if random.chance(75) { "tcp" } else { "udp" };
                rows.insert(
                    "Load_Balancer",
                    json!({"name": self.name(&format!("lb{index}")), "protocol": protocol,
                        "vips": map(&[(key, backends)]), "options": map(&options)}),
                )
            })
            .collect()
    }

    fn router(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        exit: Exit,
        mut ports: Vec<String>,
        balancers: &[String],
        external_set: &str,
    ) {
        let mut routes = Vec::new();
        let mut nats = Vec::new();
        if exit == Exit::GatewayPort {
            ports.push(self.external_port(rows, true));
            routes.push(json!({"ip_prefix": "0.0.0.0/0", "nexthop": "172.18.0.1"}));
            nats = self.nats(random, rows, true, external_set);
        }
        if exit == Exit::GatewayRouter {
            ports.push(self.gateway_router(random, rows, balancers, external_set));
            let policy = if random.chance(30) {
                "src-ip"
            } else {
                "dst-ip"
            };
            let prefix = if policy == "src-ip" {
                "10.0.0.0/8"
            } else {
                "0.0.0.0/0"
            };
            let route = json!({"ip_prefix": prefix, "nexthop": "100.64.0.2", "policy": policy});
            routes.push(route);
        }
        for _ in 0..random.below(4) {
            routes.push(self.random_route(random));
        }
        let routes: Vec<_> = routes
            .into_iter()
            .map(|route| rows.insert("Logical_Router_Static_Route", route))
            .collect();
        let policies: Vec<_> = (0..random.below(4))
            .map(|_| self.policy(random, rows))
            .collect();
        let own = some_of(random, balancers);
        rows.insert(
            "Logical_Router",
            json!({"name": self.name("lr"), "ports": references(&ports),
                "static_routes": references(&routes), "policies": references(&policies),
                "nat": references(&nats), "load_balancer": references(&own)}),
        );
    }

    fn next_hop(&self, random: &mut Random) -> String {
        let choices = [
            random.pick(&self.machines).address.clone(),
            random.pick(&self.machines).address.clone(),
            "172.18.0.1".to_owned(),
            "100.64.0.2".to_owned(),
            "10.1.0.200".to_owned(),
            "9.9.9.9".to_owned(),
        ];
        random.pick(&choices).clone()
    }

    fn random_route(&self, random: &mut Random) -> Value {
        const PREFIXES: [&str; 7] = [
            "20.0.0.0/16",
            "20.0.0.5",
            "8.8.8.0/24",
            "10.2.0.0/24",
            "10.2.0.10/32",
            "10.0.0.0/8",
            "0.0.0.0/0",
        ];
        let next_hop = if random.chance(10) {
            "discard".to_owned()
        } else {
            self.next_hop(random)
        };
        let policy = if random.chance(30) {
            "src-ip"
        } else {
            "dst-ip"
        };
        let table = if random.chance(20) { "rtb" } else { "" };
        json!({"ip_prefix": random.pick(&PREFIXES), "nexthop": next_hop, "policy": policy,
            "route_table": table})
    }

    fn policy(&mut self, random: &mut Random, rows: &mut Rows) -> String {
        let matches = if random.chance(30) {
            let index = 1 + random.below(3);
            format!("inport == \"{}\" && ip4", self.name(&format!("rp{index}")))
        } else {
            self.ip_match(random)
        };
        let mut row = json!({"priority": self.next_priority(random), "match": matches});
        match random.below(5) {
            0 => row["action"] = json!("allow"),
            1 => row["action"] = json!("drop"),
            2 => {
                row["action"] = json!("jump");
                row["jump_chain"] = json!("chain");
            }
            _ => {
                row["action"] = json!("reroute");
                row["nexthops"] = json!(self.next_hop(random));
            }
        }
        if random.chance(20) {
            row["chain"] = json!("chain");
        }
        if random.chance(20) {
            row["options"] = map(&[("pkt_mark", "5")]);
        }
        rows.insert("Logical_Router_Policy", row)
    }

    /// External switch and the router port on it.
    fn external_port(&mut self, rows: &mut Rows, is_gateway: bool) -> String {
        let localnet = self.name("ln");
        let router_port = self.name("rpx");
        let number: usize = self.prefix[1..].parse().unwrap();
        let mac = format!("0a:{number:02x}:00:00:ff:01");
        let ports = [
            rows.insert(
                "Logical_Switch_Port",
                json!({"name": localnet, "type": "localnet", "addresses": "unknown",
                    "options": map(&[("network_name", "phys")])}),
            ),
            rows.insert(
                "Logical_Switch_Port",
                json!({"name": self.name("spx"), "type": "router", "addresses": "router",
                    "options": map(&[("router-port", &router_port)])}),
            ),
        ];
        rows.insert(
            "Logical_Switch",
            json!({"name": self.name("ext"), "ports": references(&ports)}),
        );
        let mut row = json!({"name": router_port, "mac": mac, "networks": "172.18.0.2/24"});
        if is_gateway {
            let chassis = rows.insert(
                "Gateway_Chassis",
                json!({"name": self.name("gc"), "chassis_name": "c1", "priority": 1}),
            );
            row["gateway_chassis"] = references(&[chassis]);
        }
        self.outside = Some((localnet, mac));
        self.destinations.push("172.18.0.1".to_owned());
        rows.insert("Logical_Router_Port", row)
    }

    /// Gateway router behind a join switch or as peer. Returns the distributed router's port.
    fn gateway_router(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        balancers: &[String],
        external_set: &str,
    ) -> String {
        let is_peer = random.chance(50);
        let names = [self.name("rpj"), self.name("gpj")];
        let number: usize = self.prefix[1..].parse().unwrap();
        let mut ports = Vec::new();
        let mut switch_ports = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let mac = format!("0a:{number:02x}:00:00:fe:{index:02x}");
            let network = format!("100.64.0.{}/24", index + 1);
            let mut row = json!({"name": name, "mac": mac, "networks": network});
            if is_peer {
                row["peer"] = json!(names[1 - index]);
            } else {
                switch_ports.push(rows.insert(
                    "Logical_Switch_Port",
                    json!({"name": format!("{name}-sp"), "type": "router", "addresses": "router",
                        "options": map(&[("router-port", name)])}),
                ));
            }
            ports.push(rows.insert("Logical_Router_Port", row));
        }
        if !is_peer {
            rows.insert(
                "Logical_Switch",
                json!({"name": self.name("join"), "ports": references(&switch_ports)}),
            );
        }
        let gateway_ports = [ports[1].clone(), self.external_port(rows, false)];
        let routes = [("10.0.0.0/8", "100.64.0.1"), ("0.0.0.0/0", "172.18.0.1")]
            .map(|(prefix, next_hop)| json!({"ip_prefix": prefix, "nexthop": next_hop}))
            .map(|route| rows.insert("Logical_Router_Static_Route", route));
        let mut options = vec![("chassis", "c1")];
        match random.below(3) {
            0 => options.push(("lb_force_snat_ip", "router_ip")),
            1 => options.push(("lb_force_snat_ip", "100.64.0.9")),
            _ => {}
        }
        if random.chance(30) {
            options.push(("dnat_force_snat_ip", "100.64.0.8"));
        }
        let nats = self.nats(random, rows, false, external_set);
        let own = some_of(random, balancers);
        rows.insert(
            "Logical_Router",
            json!({"name": self.name("gr"), "ports": references(&gateway_ports),
                "static_routes": references(&routes), "nat": references(&nats),
                "load_balancer": references(&own), "options": map(&options)}),
        );
        ports.swap_remove(0)
    }

    fn nats(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        is_distributed: bool,
        external_set: &str,
    ) -> Vec<String> {
        let mut nats = Vec::new();
        for index in 0..random.below(4) {
            let machine = random.pick(&self.machines).clone();
            let external = format!("172.18.0.1{index}");
            let mut row = match random.below(3) {
                0 => json!({"type": "snat", "external_ip": external,
                    "logical_ip": format!("10.{}.0.0/24", 1 + random.below(3))}),
                1 if is_distributed => {
                    self.destinations
                        .extend([external.clone(), external.clone()]);
                    let mut row = json!({"type": "dnat_and_snat", "external_ip": external,
                        "logical_ip": machine.address});
                    if random.chance(50) {
                        row["logical_port"] = json!(machine.port);
                        row["external_mac"] = json!(format!("0a:ee:00:00:00:0{index}"));
                    }
                    row
                }
                1 => json!({"type": "snat", "external_ip": external,
                    "logical_ip": machine.address}),
                _ => {
                    self.destinations
                        .extend([external.clone(), external.clone()]);
                    json!({"type": "dnat", "external_ip": external,
                        "logical_ip": machine.address})
                }
            };
            if random.chance(20) {
                row["match"] = json!(self.ip_match(random));
                row["priority"] = json!(self.next_priority(random));
            }
            match random.below(6) {
                0 => row["allowed_ext_ips"] = references(&[external_set.to_owned()]),
                1 => row["exempted_ext_ips"] = references(&[external_set.to_owned()]),
                _ => {}
            }
            nats.push(rows.insert("NAT", row));
        }
        nats
    }
}

/// Some of the rows.
fn some_of(random: &mut Random, rows: &[String]) -> Vec<String> {
    rows.iter().filter(|_| random.chance(50)).cloned().collect()
}
