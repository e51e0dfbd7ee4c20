//! Routers: their ports, routes and policies.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Cloud, NetworkKind, Router, RouterPort, host};
use crate::free_topology::{Rows, map, references, set};
use crate::random::Random;

/// First address of routers in a subnet of which they are not the gateway.
const FIRST_HOST: u32 = 240;
/// First address of routers on an external network.
const FIRST_EXTERNAL_HOST: u32 = 20;

impl Cloud {
    pub(super) fn add_routers(&mut self, random: &mut Random, rows: &mut Rows) {
        for number in 0..=random.below(3) {
            self.routers.push(Router {
                name: format!("neutron-{}", Self::id(random)),
                is_enabled: random.chance(97),
                chassis: None,
                ports: Vec::new(),
                routes: Vec::new(),
                policies: Vec::new(),
                nats: Vec::new(),
                balancers: Vec::new(),
            });
            let (external, internal): (Vec<_>, Vec<_>) = (0..self.networks.len())
                .partition(|own| self.networks[*own].kind == NetworkKind::External);
            let mut chosen: Vec<_> =
                internal.iter().copied().filter(|_| random.chance(60)).collect();
            if chosen.is_empty() {
                chosen.push(*random.pick(&internal));
            }
            for network in chosen {
                self.add_interface(random, rows, (number, network));
            }
            let exits = match random.below(10) {
                0 | 1 => 0,
                2 => external.len(),
                _ => 1,
            };
            let first = random.below(external.len());
            for place in 0..exits {
                let network = external[(first + place) % external.len()];
                self.add_gateway_port(random, rows, (number, network));
            }
        }
    }

    /// One port for each IPv4 subnet; that of the first has the IPv6 address, too.
    fn add_interface(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (router, network): (usize, usize),
    ) {
        let ranges: Vec<_> = self.networks[network].subnets.iter().map(|own| own.range).collect();
        let (ipv4, ipv6): (Vec<_>, Vec<_>) =
            ranges.into_iter().partition(|range| range.addr().is_ipv4());
        for (place, range) in ipv4.into_iter().enumerate() {
            if place > 0 && random.chance(40) {
                continue;
            }
            let mut own = vec![self.router_address(random, (router, network), range)];
            if place == 0 {
                own.extend(
                    ipv6.iter().map(|range| self.router_address(random, (router, network), *range)),
                );
            }
            self.add_port(random, rows, (router, network), own);
        }
    }

    /// The gateway address of a subnet for the first router, mostly.
    fn router_address(
        &self,
        random: &mut Random,
        (router, network): (usize, usize),
        range: IpNet,
    ) -> IpNet {
        let first = host(range, 1);
        let is_free = !self.ports_on(network).any(|(_, port)| port.has(first));
        let is_gateway = self.networks[network].kind != NetworkKind::External && is_free;
        let address = if is_gateway && random.chance(85) {
            first
        } else if self.networks[network].kind == NetworkKind::External {
            host(range, FIRST_EXTERNAL_HOST + router as u32)
        } else {
            host(range, FIRST_HOST + router as u32)
        };
        IpNet::new(address, range.prefix_len()).expect("the length is that of a range")
    }

    /// Adds a router port and the switch port to it.
    fn add_port(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (router, network): (usize, usize),
        addresses: Vec<IpNet>,
    ) {
        let (id, mac) = (Self::id(random), self.mac());
        let name = format!("lrp-{id}");
        let kind = self.networks[network].kind;
        let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let mut row = json!({"name": name, "mac": mac, "networks": set(&texts),
            "external_ids": map(&[("neutron:router_name", self.routers[router].name.clone()),
                ("neutron:network_name", self.networks[network].switch.clone())])});
        let mut options = Vec::new();
        let is_gateway = kind == NetworkKind::External;
        if kind == NetworkKind::Vlan || is_gateway && self.networks[network].localnet.is_some() {
            let resides = if self.is_distributed && random.chance(50) { "false" } else { "true" };
            options.push(("reside-on-redirect-chassis", resides));
        }
        if addresses.iter().any(|own| own.addr().is_ipv6()) {
            let periodic = if is_gateway { "false" } else { "true" };
            row["ipv6_ra_configs"] =
                map(&[("address_mode", "slaac"), ("mtu", "1442"), ("send_periodic", periodic)]);
        }
        let mut switch_options = vec![("router-port", name.as_str())];
        if is_gateway {
            options.push(("gateway_mtu", "1442"));
            let is_bridged = self.is_distributed && random.chance(20);
            options.extend(is_bridged.then_some(("redirect-type", "bridged")));
            switch_options
                .extend([("nat-addresses", "router"), ("exclude-lb-vips-from-garp", "true")]);
            if self.networks[network].localnet.is_none() {
                self.routers[router].chassis = Some("c1");
            } else {
                add_chassis(random, rows, &mut row, &name);
            }
        }
        row["options"] = map(&options);
        let row = rows.insert("Logical_Router_Port", row);
        let switch_port = json!({"name": id, "type": "router", "addresses": "router",
            "options": map(&switch_options)});
        self.networks[network].ports.push(rows.insert("Logical_Switch_Port", switch_port));
        self.routers[router].ports.push(RouterPort {
            name,
            row,
            mac,
            network,
            addresses,
            is_gateway,
        });
    }

    /// The port on an external network, with the default route and the rules that hide subnets.
    fn add_gateway_port(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (router, network): (usize, usize),
    ) {
        let ranges: Vec<_> = self.networks[network].subnets.iter().map(|own| own.range).collect();
        let addresses: Vec<_> = ranges
            .iter()
            .map(|range| self.router_address(random, (router, network), *range))
            .collect();
        let own = addresses[0].addr();
        self.add_port(random, rows, (router, network), addresses);
        let name = self.routers[router].ports.last().map(|port| port.name.clone());
        for range in ranges {
            let any = if range.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let mut row = json!({"ip_prefix": any, "nexthop": host(range, 1).to_string(),
                "external_ids": map(&[("neutron:is_ext_gw", "true"),
                    ("neutron:is_static_route", "true")])});
            if random.chance(20) {
                row["output_port"] = json!(name);
            }
            self.routers[router].routes.push(row);
        }
        if random.chance(85) {
            let is_nested = random.chance(10);
            let inner = self.routers[router].ports.iter().filter(|port| !port.is_gateway);
            let ranges = inner.flat_map(|port| &port.addresses).map(IpNet::trunc);
            let mut hidden: Vec<_> = ranges
                .filter(|range| range.addr().is_ipv4())
                .map(|range| range.to_string())
                .collect();
            if is_nested {
                hidden = vec!["0.0.0.0/0".to_owned()];
            }
            let rules = hidden.iter().map(|range| {
                json!({"type": "snat", "logical_ip": range, "external_ip": own.to_string()})
            });
            self.routers[router].nats.extend(rules);
        }
    }

    /// Extra routes and policies: to other routers on the same networks, or to machines.
    pub(super) fn add_routes(&mut self, random: &mut Random) {
        for router in 0..self.routers.len() {
            let hops = self.next_hops(router);
            if hops.is_empty() {
                continue;
            }
            let others = self.networks.iter().filter(|other| other.kind != NetworkKind::External);
            let mut targets: Vec<_> =
                others.map(|other| other.subnets[0].range.to_string()).collect();
            targets.extend(["172.16.0.0/16", "8.8.8.8/32", "10.0.0.0/8"].map(str::to_owned));
            let mut seen = Vec::new();
            for _ in 0..random.below(4) {
                let (target, hop) = (random.pick(&targets).clone(), *random.pick(&hops));
                if seen.contains(&(target.clone(), hop)) {
                    continue;
                }
                self.routers[router].routes.push(json!({"ip_prefix": target,
                    "nexthop": hop.to_string(),
                    "external_ids": map(&[("neutron:is_static_route", "true")])}));
                seen.push((target, hop));
            }
            if random.chance(10) {
                let action = *random.pick(&["allow", "drop", "reroute", "reroute"]);
                let text = format!("ip4.src == {}", random.pick(&targets));
                let mut row = json!({"priority": 100, "match": text, "action": action});
                if action == "reroute" {
                    row["nexthops"] = json!(random.pick(&hops).to_string());
                }
                self.routers[router].policies.push(row);
            }
        }
    }

    /// IPv4 addresses of other routers and of machines on the networks of a router.
    fn next_hops(&self, router: usize) -> Vec<IpAddr> {
        let own: Vec<_> = self.routers[router].ports.iter().map(|port| port.network).collect();
        let ports = self.router_ports();
        let others = ports.filter(|(other, port)| *other != router && own.contains(&port.network));
        let of_routers = others.flat_map(|(_, port)| &port.addresses).map(IpNet::addr);
        let machines = self.machines.iter().filter(|machine| own.contains(&machine.network));
        let of_machines = machines.flat_map(|machine| machine.addresses.iter().copied());
        let all = of_routers.chain(of_machines);
        all.filter(IpAddr::is_ipv4).collect()
    }

    pub(super) fn insert_routers(&mut self, random: &mut Random, rows: &mut Rows) {
        for router in &self.routers {
            let insert = |rows: &mut Rows, table: &str, own: &[Value]| {
                let names: Vec<_> = own.iter().map(|row| rows.insert(table, row.clone())).collect();
                references(&names)
            };
            let ports: Vec<_> = router.ports.iter().map(|port| port.row.clone()).collect();
            let mut options = vec![
                ("always_learn_from_arp_request", "false"),
                ("dynamic_neigh_routers", if random.chance(85) { "true" } else { "false" }),
                ("mac_binding_age_threshold", "0"),
            ];
            options.extend(router.chassis.map(|chassis| ("chassis", chassis)));
            let row = json!({"name": router.name, "enabled": router.is_enabled,
                "ports": references(&ports), "options": map(&options),
                "static_routes": insert(rows, "Logical_Router_Static_Route", &router.routes),
                "policies": insert(rows, "Logical_Router_Policy", &router.policies),
                "nat": insert(rows, "NAT", &router.nats),
                "load_balancer": references(&router.balancers),
                "external_ids": map(&[("neutron:revision_number", "3")])});
            rows.insert("Logical_Router", row);
        }
    }
}

/// Binds a router port to chassis: by a group, or by rows of its own, as older releases do.
fn add_chassis(random: &mut Random, rows: &mut Rows, row: &mut Value, name: &str) {
    let chassis = (1..=1 + random.below(2)).map(|number| (format!("c{number}"), number));
    if random.chance(60) {
        let members: Vec<_> = chassis
            .map(|(chassis, number)| {
                let row = json!({"chassis_name": chassis, "priority": number});
                rows.insert("HA_Chassis", row)
            })
            .collect();
        let group = json!({"name": name, "ha_chassis": references(&members)});
        row["ha_chassis_group"] = json!(["named-uuid", rows.insert("HA_Chassis_Group", group)]);
    } else {
        let members: Vec<_> = chassis
            .map(|(chassis, number)| {
                let row = json!({"name": format!("{name}_{chassis}"),
                    "chassis_name": chassis, "priority": number});
                rows.insert("Gateway_Chassis", row)
            })
            .collect();
        row["gateway_chassis"] = references(&members);
    }
}
