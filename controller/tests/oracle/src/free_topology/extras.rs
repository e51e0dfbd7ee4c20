//! Rows that some topologies have: a second router with its machines, routers of other chassis,
//! sessions of BFD, MAC addresses of neighbours.

use serde_json::json;

use super::rows::{Rows, map, references};
use super::{Machine, Topology, some_of};
use crate::random::Random;

/// Number of the second router's switch.
const INDEX: usize = 40;

impl Topology {
    /// Adds a machine to the switch of another router, whose network has a number. Returns the
    /// machine.
    pub(super) fn add_plain_machine(
        &mut self,
        rows: &mut Rows,
        (switch, network): (&str, usize),
        host: usize,
        mac: String,
        gateway_mac: String,
    ) -> Machine {
        let (port, address) = (format!("{switch}-v{host}"), format!("10.{network}.0.{host}"));
        let row = json!({"name": port, "addresses": format!("{mac} {address}")});
        let machine = Machine {
            row: rows.insert("Logical_Switch_Port", row),
            port,
            switch: switch.to_owned(),
            mac,
            address,
            gateway_address: format!("10.{network}.0.1"),
            gateway_mac,
            has_unknown: false,
        };
        self.machines.push(machine.clone());
        machine
    }

    /// Adds a machine to the external switch, whose router port has a MAC address. Returns the row.
    pub(super) fn near_machine(&mut self, rows: &mut Rows, gateway_mac: &str) -> String {
        let (port, mac, address) = (self.name("near"), "0a:bb:00:00:00:01", "172.18.0.60");
        let row = json!({"name": port, "addresses": format!("{mac} {address}")});
        let row = rows.insert("Logical_Switch_Port", row);
        self.destinations.push(address.to_owned());
        self.machines.push(Machine {
            port,
            switch: self.name("ext"),
            mac: mac.to_owned(),
            address: address.to_owned(),
            gateway_address: "172.18.0.2".to_owned(),
            gateway_mac: gateway_mac.to_owned(),
            has_unknown: false,
            row: row.clone(),
        });
        row
    }

    /// Adds a router with a switch of its own, behind a port of the first router. Returns that port
    /// and the row of the first router's route to the network.
    pub(super) fn second_router(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        balancers: &[String],
    ) -> (String, serde_json::Value) {
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mac = |port: usize| format!("0a:{number:02x}:00:00:28:{port:02x}");
        let (first, second, inner) = (self.name("rpt"), self.name("ept"), self.name("eps"));
        let is_peer = random.chance(40);
        let mut ends = Vec::new();
        for (index, name, peer) in [(1, &first, &second), (2, &second, &first)] {
            let network = format!("100.70.0.{index}/24");
            let mut row = json!({"name": name, "mac": mac(index), "networks": network});
            if is_peer {
                row["peer"] = json!(peer);
            }
            ends.push(rows.insert("Logical_Router_Port", row));
        }
        if !is_peer {
            let ports = [&first, &second].map(|name| router_type_port(rows, name, random));
            let acls = if random.chance(40) {
                let text = self.ip_match(random);
                let action = *random.pick(&["drop", "allow-related", "allow"]);
                let direction = *random.pick(&["to-lport", "from-lport"]);
                let priority = self.next_priority(random);
                let row = json!({"direction": direction, "priority": priority, "match": text,
                    "action": action});
                vec![rows.insert("ACL", row)]
            } else {
                Vec::new()
            };
            let own = some_of(random, balancers);
            let row = json!({"name": self.name("transit"), "ports": references(&ports),
                "acls": references(&acls), "load_balancer": references(&own)});
            rows.insert("Logical_Switch", row);
        }
        let gateway_address = format!("10.{INDEX}.0.1");
        let row =
            json!({"name": inner, "mac": mac(9), "networks": format!("{gateway_address}/24")});
        let inner_port = rows.insert("Logical_Router_Port", row);
        let switch = self.name("s40");
        let mut ports = vec![router_type_port(rows, &inner, random)];
        for host in [10, 11] {
            let machine = self.add_plain_machine(rows, (&switch, INDEX), host, mac(host), mac(9));
            ports.push(machine.row);
            let address = machine.address;
            self.destinations.extend([address.clone(), address]);
        }
        self.destinations.extend([
            gateway_address,
            "100.70.0.1".to_owned(),
            "100.70.0.2".to_owned(),
            "40.0.0.1".to_owned(),
        ]);
        rows.insert("Logical_Switch", json!({"name": switch, "ports": references(&ports)}));
        let prefix = *random.pick(&["0.0.0.0/0", "10.0.0.0/8"]);
        let back = rows.insert(
            "Logical_Router_Static_Route",
            json!({"ip_prefix": prefix, "nexthop": "100.70.0.1"}),
        );
        let own = some_of(random, balancers);
        let router_ports = [ends.swap_remove(1), inner_port];
        let row = json!({"name": self.name("er"), "ports": references(&router_ports),
            "static_routes": references(&[back]), "load_balancer": references(&own)});
        rows.insert("Logical_Router", row);
        // Packets to 40.0.0.1 run in a circle if the way back is the default route.
        let prefix = *random.pick(&["10.40.0.0/24", "40.0.0.0/8", "10.40.0.0/16"]);
        let route = json!({"ip_prefix": prefix, "nexthop": "100.70.0.2"});
        (ends.swap_remove(0), route)
    }

    /// A router port on another chassis, or a transit switch with the port of a router there.
    /// Returns the row of the router port.
    pub(super) fn remote_port(&mut self, random: &mut Random, rows: &mut Rows) -> String {
        let name = self.name("rpr");
        let mut row = json!({"name": name, "mac": "0a:aa:00:00:00:01", "networks": "30.0.0.1/24"});
        self.destinations.push("30.0.0.9".to_owned());
        if random.chance(50) {
            row["options"] = map(&[("requested-chassis", "far")]);
            return rows.insert("Logical_Router_Port", row);
        }
        let far = json!({"name": self.name("far"), "type": "remote",
            "addresses": "0a:aa:00:00:00:02 30.0.0.7/24",
            "options": map(&[("requested-chassis", "far")])});
        let ports =
            [router_type_port(rows, &name, random), rows.insert("Logical_Switch_Port", far)];
        self.destinations.push("30.0.0.7".to_owned());
        let config = map(&[("interconn-ts", "ts")]);
        let switch = json!({"name": self.name("ts"), "ports": references(&ports),
            "other_config": config});
        rows.insert("Logical_Switch", switch);
        rows.insert("Logical_Router_Port", row)
    }

    /// `true` if a switch has a `localnet` port.
    pub(super) fn leads_outside(&self, switch: &str) -> bool {
        self.outside.iter().any(|outside| outside.switch == switch)
    }

    /// Adds a session of BFD for a next hop, at most one for each topology. `None`: the route has
    /// none.
    pub(super) fn bfd_session(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        next_hop: &str,
    ) -> Option<String> {
        let is_address = next_hop.parse::<std::net::Ipv4Addr>().is_ok();
        if !is_address || self.has_session || !random.chance(15) {
            return None;
        }
        self.has_session = true;
        let mut row = json!({"logical_port": self.name("rp1"), "dst_ip": next_hop});
        if random.chance(80) {
            row["status"] = json!(*random.pick(&["up", "down", "init", "admin_down"]));
        }
        Some(rows.insert("BFD", row))
    }

    /// MAC addresses of some next hops.
    pub(super) fn static_macs(&mut self, random: &mut Random, rows: &mut Rows) {
        for address in ["10.1.0.200", "10.1.0.10", "172.18.0.1", "172.18.0.60"] {
            if !random.chance(15) {
                continue;
            }
            let port = *random.pick(&["rp1", "rp2", "rpx", "rpj", "gpj"]);
            let mac = random.pick(&self.machines).mac.clone();
            let mac = if random.chance(70) { &mac } else { "0a:dd:00:00:00:01" };
            let row = json!({"logical_port": self.name(port), "ip": address, "mac": mac,
                "override_dynamic_mac": random.chance(50)});
            rows.insert("Static_MAC_Binding", row);
        }
    }
}

/// Adds the switch port to a router port.
fn router_type_port(rows: &mut Rows, router_port: &str, random: &mut Random) -> String {
    let mut options = vec![("router-port", router_port)];
    if random.chance(15) {
        options.push(("enable_router_port_acl", "true"));
    }
    rows.insert(
        "Logical_Switch_Port",
        json!({"name": format!("{router_port}-sp"), "type": "router", "addresses": "router",
            "options": map(&options)}),
    )
}
