//! Random routers: routes, policies, NAT rules, ways outside.

use patchbay_reach::Mac;
use serde_json::{Value, json};

use super::rows::{Rows, map, references, set};
use super::{Exit, Outside, Topology, some_of};
use crate::random::Random;

impl Topology {
    pub(super) fn router(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        exit: Exit,
        mut ports: Vec<String>,
        balancers: &[String],
        external_sets: &[String],
    ) {
        let mut routes = Vec::new();
        let mut nats = Vec::new();
        if exit == Exit::GatewayPort {
            let mut gateways = vec![self.external_port(random, rows, true)];
            if random.chance(40) {
                gateways.push(self.second_gateway_port(rows));
            }
            routes.push(json!({"ip_prefix": "0.0.0.0/0", "nexthop": "172.18.0.1"}));
            ports.extend(gateways.iter().cloned());
            gateways.extend(self.inner_gateways.iter().cloned());
            nats = self.nats(random, rows, &gateways, external_sets);
        }
        if exit == Exit::GatewayRouter {
            ports.push(self.gateway_router(random, rows, balancers, external_sets));
            let policy = if random.chance(30) { "src-ip" } else { "dst-ip" };
            let prefix = if policy == "src-ip" { "10.0.0.0/8" } else { "0.0.0.0/0" };
            let route = json!({"ip_prefix": prefix, "nexthop": "100.64.0.2", "policy": policy});
            routes.push(route);
        }
        if random.chance(10) {
            // ovn-northd 26.03 ends if there are equal routes without a next hop.
            let output = *random.pick(&["rp1", "rp2"]);
            let output = self.name(output);
            routes.push(json!({"ip_prefix": "50.0.0.0/24", "output_port": output}));
            self.destinations.push("50.0.0.5".to_owned());
        }
        for _ in 0..random.below(4) {
            let mut route = self.random_route(random);
            let next_hop = route["nexthop"].as_str().unwrap_or_default().to_owned();
            if let Some(session) = self.bfd_session(random, rows, &next_hop) {
                route["bfd"] = json!(["named-uuid", session]);
            }
            if random.chance(15) {
                let mut equal = route.clone();
                equal["nexthop"] = json!(self.next_hop(random));
                routes.push(equal);
            }
            routes.push(route);
        }
        if random.chance(40) {
            let (port, route) = self.second_router(random, rows, balancers);
            ports.push(port);
            routes.push(route);
        }
        let translates = if self.inner_gateways.is_empty() { 20 } else { 80 };
        if exit != Exit::GatewayPort && random.chance(translates) {
            let gateways = self.inner_gateways.clone();
            nats = self.nats(random, rows, &gateways, external_sets);
        }
        let routes: Vec<_> = routes
            .into_iter()
            .map(|route| rows.insert("Logical_Router_Static_Route", route))
            .collect();
        let mut policies = Vec::new();
        for _ in 0..random.below(4) {
            let policy = self.policy(random, rows, &ports, &mut policies);
            policies.push(policy);
        }
        if random.chance(30) {
            ports.push(self.remote_port(random, rows));
        }
        self.static_macs(random, rows);
        let own = some_of(random, balancers);
        let mut row = json!({"name": self.name("lr"), "ports": references(&ports),
            "static_routes": references(&routes), "policies": references(&policies),
            "nat": references(&nats), "load_balancer": references(&own)});
        if random.chance(15) {
            row["load_balancer_group"] = self.group(random, rows, "lr-lbg", balancers);
        }
        self.vary_router(random, rows, &mut row, Vec::new());
        rows.insert("Logical_Router", row);
    }

    /// References to a new load balancer group with some of the load balancers.
    fn group(
        &self,
        random: &mut Random,
        rows: &mut Rows,
        name: &str,
        balancers: &[String],
    ) -> Value {
        let members = some_of(random, balancers);
        let group = json!({"name": self.name(name), "load_balancer": references(&members)});
        references(&[rows.insert("Load_Balancer_Group", group)])
    }

    fn next_hop(&self, random: &mut Random) -> String {
        let choices = [
            random.pick(&self.machines).address.clone(),
            random.pick(&self.machines).address.clone(),
            "172.18.0.1".to_owned(),
            "100.64.0.2".to_owned(),
            "30.0.0.7".to_owned(),
            "10.1.0.200".to_owned(),
            "9.9.9.9".to_owned(),
            self.link_local(random),
        ];
        random.pick(&choices).clone()
    }

    /// Link-local IPv6 address of a machine.
    fn link_local(&self, random: &mut Random) -> String {
        let mac = Mac::parse(&random.pick(&self.machines).mac);
        mac.expect("machines have MAC addresses").link_local().to_string()
    }

    fn random_route(&self, random: &mut Random) -> Value {
        const PREFIXES: [&str; 9] = [
            "20.0.0.0/16",
            "20.0.0.9/16",
            "10.2.0.10/24",
            "20.0.0.5",
            "8.8.8.0/24",
            "10.2.0.0/24",
            "10.2.0.10/32",
            "10.0.0.0/8",
            "0.0.0.0/0",
        ];
        let next_hop = if random.chance(10) { "discard".to_owned() } else { self.next_hop(random) };
        let policy = if random.chance(30) { "src-ip" } else { "dst-ip" };
        let table = if random.chance(20) { "rtb" } else { "" };
        let mut row = json!({"ip_prefix": random.pick(&PREFIXES), "nexthop": next_hop,
            "policy": policy, "route_table": table});
        if random.chance(20) {
            let index = 1 + random.below(3);
            row["output_port"] = json!(self.name(&format!("rp{index}")));
        }
        let mut options = Vec::new();
        if random.chance(10) {
            options.push(("ecmp_symmetric_reply", "true"));
        }
        if random.chance(10) {
            options.push(("origin", "connected"));
        }
        row["options"] = map(&options);
        row
    }

    /// A policy. `ports`: rows of the router's ports; `chained`: policies that it adds beside it.
    fn policy(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        ports: &[String],
        chained: &mut Vec<String>,
    ) -> String {
        let matches = if random.chance(30) {
            let index = 1 + random.below(3);
            format!("inport == \"{}\" && ip4", self.name(&format!("rp{index}")))
        } else {
            // Chains of other routers decide whether ovn-northd puts a match in parentheses.
            self.ip_match(random).replace("// to the end", "")
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
                let next_hops = [self.next_hop(random), self.next_hop(random)];
                let count = if random.chance(20) { 2 } else { 1 };
                row["nexthops"] = set(&next_hops[..count]);
                if random.chance(15) {
                    row["output_port"] = json!(["named-uuid", random.pick(ports)]);
                }
                if let Some(session) = self.bfd_session(random, rows, &next_hops[0]) {
                    row["bfd_sessions"] = references(&[session]);
                }
            }
        }
        // ovn-northd knows a chain of another router only if it has read that router before.
        if row["action"] == "jump" {
            let target = json!({"priority": 0, "match": "1", "action": "allow", "chain": "chain"});
            chained.push(rows.insert("Logical_Router_Policy", target));
        } else if random.chance(20) {
            row["chain"] = json!("chain");
        }
        if random.chance(20) {
            row["options"] = map(&[("pkt_mark", "5")]);
        }
        rows.insert("Logical_Router_Policy", row)
    }

    /// External switch and the router port on it.
    fn external_port(&mut self, random: &mut Random, rows: &mut Rows, is_gateway: bool) -> String {
        let localnet = self.name("ln");
        let router_port = self.name("rpx");
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mac = format!("0a:{number:02x}:00:00:ff:01");
        let mut ports = vec![
            self.near_machine(rows, &mac),
            rows.insert(
                "Logical_Switch_Port",
                json!({"name": self.name("spx"), "type": "router", "addresses": "router",
                    "options": map(&[("router-port", &router_port)])}),
            ),
        ];
        let is_overlay = is_gateway && random.chance(20);
        if !is_overlay {
            let row = json!({"name": localnet, "type": "localnet", "addresses": "unknown",
                "options": map(&[("network_name", "phys")])});
            ports.push(rows.insert("Logical_Switch_Port", row));
        }
        if random.chance(30) {
            ports.push(self.tenant(random, rows));
        }
        if !is_overlay && random.chance(20) {
            let row = json!({"name": self.name("lnb"), "type": "localnet", "addresses": "unknown",
                "options": map(&[("network_name", "physb")])});
            ports.push(rows.insert("Logical_Switch_Port", row));
        }
        rows.insert(
            "Logical_Switch",
            json!({"name": self.name("ext"), "ports": references(&ports)}),
        );
        let mut row = json!({"name": router_port, "mac": mac, "networks": "172.18.0.2/24"});
        if is_gateway {
            self.add_chassis(random, rows, &mut row, "gc");
        }
        if !is_overlay {
            self.outside.push(Outside {
                localnet,
                switch: self.name("ext"),
                router_port,
                router_mac: mac,
                address: "172.18.0.77".to_owned(),
            });
        }
        self.destinations.push("172.18.0.1".to_owned());
        rows.insert("Logical_Router_Port", row)
    }

    /// Another external switch and the gateway port on it.
    fn second_gateway_port(&mut self, rows: &mut Rows) -> String {
        let router_port = self.name("rpy");
        let near =
            json!({"name": self.name("near2"), "addresses": "0a:bb:00:00:00:02 172.19.0.60"});
        let ports = [
            rows.insert("Logical_Switch_Port", near),
            rows.insert(
                "Logical_Switch_Port",
                json!({"name": self.name("spy"), "type": "router", "addresses": "router",
                    "options": map(&[("router-port", &router_port)])}),
            ),
            rows.insert(
                "Logical_Switch_Port",
                json!({"name": self.name("ln2"), "type": "localnet", "addresses": "unknown",
                    "options": map(&[("network_name", "phys2")])}),
            ),
        ];
        rows.insert(
            "Logical_Switch",
            json!({"name": self.name("ext2"), "ports": references(&ports)}),
        );
        let chassis = rows.insert(
            "Gateway_Chassis",
            json!({"name": self.name("gc2"), "chassis_name": "c1", "priority": 1}),
        );
        self.destinations.extend(["172.19.0.60".to_owned(), "172.19.0.1".to_owned()]);
        self.outside.push(Outside {
            localnet: self.name("ln2"),
            switch: self.name("ext2"),
            router_port: router_port.clone(),
            router_mac: "0a:cc:00:00:00:02".to_owned(),
            address: "172.19.0.77".to_owned(),
        });
        rows.insert(
            "Logical_Router_Port",
            json!({"name": router_port, "mac": "0a:cc:00:00:00:02", "networks": "172.19.0.2/24",
                "gateway_chassis": references(&[chassis])}),
        )
    }

    /// Gateway router behind a join switch or as peer. Returns the distributed router's port.
    fn gateway_router(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        balancers: &[String],
        external_sets: &[String],
    ) -> String {
        let is_peer = random.chance(50);
        let names = [self.name("rpj"), self.name("gpj")];
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
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
        let gateway_ports = [ports[1].clone(), self.external_port(random, rows, false)];
        let routes = [("10.0.0.0/8", "100.64.0.1"), ("0.0.0.0/0", "172.18.0.1")]
            .map(|(prefix, next_hop)| json!({"ip_prefix": prefix, "nexthop": next_hop}));
        let mut routes = Vec::from(routes);
        routes.extend(random.chance(30).then(|| self.random_route(random)));
        let routes: Vec<_> = routes
            .into_iter()
            .map(|route| rows.insert("Logical_Router_Static_Route", route))
            .collect();
        let mut policies = Vec::new();
        if random.chance(25) {
            let policy = self.policy(random, rows, &gateway_ports, &mut policies);
            policies.push(policy);
        }
        let mut options = vec![("chassis", "c1")];
        match random.below(3) {
            0 => options.push(("lb_force_snat_ip", "router_ip")),
            1 => options.push(("lb_force_snat_ip", "100.64.0.9")),
            _ => {}
        }
        if random.chance(30) {
            options.push(("dnat_force_snat_ip", "100.64.0.8"));
        }
        let nats = self.nats(random, rows, &[], external_sets);
        let own = some_of(random, balancers);
        let mut row = json!({"name": self.name("gr"), "ports": references(&gateway_ports),
            "static_routes": references(&routes), "nat": references(&nats),
            "load_balancer": references(&own), "policies": references(&policies)});
        if random.chance(20) {
            row["load_balancer_group"] = self.group(random, rows, "gr-lbg", balancers);
        }
        self.vary_router(random, rows, &mut row, options);
        rows.insert("Logical_Router", row);
        ports.swap_remove(0)
    }
}
