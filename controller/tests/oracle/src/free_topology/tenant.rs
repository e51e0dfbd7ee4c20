//! Another router with machines of its own on an external switch.

use serde_json::json;

use super::Topology;
use super::rows::{Rows, map, references};
use crate::random::Random;

/// Number of the switch of its machines.
const INDEX: usize = 41;

impl Topology {
    /// Adds a router with a gateway port on the external switch, two machines and NAT rules.
    /// Returns the row of its switch port there.
    pub(super) fn tenant(&mut self, random: &mut Random, rows: &mut Rows) -> String {
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mac = |port: usize| format!("0a:{number:02x}:00:00:{INDEX:02x}:{port:02x}");
        let (outer, inner) = (self.name("tpx"), self.name("tp"));
        let mut row = json!({"name": outer, "mac": mac(2), "networks": "172.18.0.3/24"});
        self.add_chassis(random, rows, &mut row, "gct");
        let outer_row = rows.insert("Logical_Router_Port", row);
        let gateway_address = format!("10.{INDEX}.0.1");
        let row =
            json!({"name": inner, "mac": mac(1), "networks": format!("{gateway_address}/24")});
        let inner_row = rows.insert("Logical_Router_Port", row);
        let switch_port = |rows: &mut Rows, name: &str| {
            let row = json!({"name": format!("{name}-sp"), "type": "router",
                "addresses": "router", "options": map(&[("router-port", name)])});
            rows.insert("Logical_Switch_Port", row)
        };
        let external = switch_port(rows, &outer);
        let mut ports = vec![switch_port(rows, &inner)];
        let switch = self.name("s41");
        let row = json!({"type": "snat", "external_ip": "172.18.0.3",
            "logical_ip": format!("10.{INDEX}.0.0/24")});
        let mut nats = vec![rows.insert("NAT", row)];
        for host in [10, 11] {
            let machine = self.add_plain_machine(rows, (&switch, INDEX), host, mac(host), mac(1));
            ports.push(machine.row);
            if random.chance(60) {
                let external = format!("172.18.0.1{host}");
                let mut row = json!({"type": "dnat_and_snat", "external_ip": external,
                    "logical_ip": machine.address});
                if random.chance(50) {
                    row["logical_port"] = json!(machine.port);
                    row["external_mac"] = json!(mac(host + 100));
                }
                nats.push(rows.insert("NAT", row));
                self.destinations.extend([external.clone(), external]);
            }
            self.destinations.push(machine.address);
        }
        self.destinations.push("172.18.0.3".to_owned());
        let row = json!({"name": switch, "ports": references(&ports)});
        rows.insert("Logical_Switch", row);
        let next_hop = *random.pick(&["172.18.0.1", "172.18.0.2"]);
        let row = json!({"ip_prefix": "0.0.0.0/0", "nexthop": next_hop});
        let route = rows.insert("Logical_Router_Static_Route", row);
        let row = json!({"name": self.name("tr"), "ports": references(&[outer_row, inner_row]),
            "static_routes": references(&[route]), "nat": references(&nats)});
        rows.insert("Logical_Router", row);
        external
    }
}
