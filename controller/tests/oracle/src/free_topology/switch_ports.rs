//! Ports of the switches of machines beside those of the machines, and their port security.

use serde_json::json;

use super::rows::{Rows, map, references, set};
use super::{Outside, Topology};
use crate::random::Random;

impl Topology {
    /// Connects a switch with the router. Returns the router port.
    pub(super) fn attach(
        &mut self,
        rows: &mut Rows,
        ports: &mut Vec<String>,
        index: usize,
        mac: &str,
        address: &str,
        random: &mut Random,
    ) -> String {
        let router_port = self.name(&format!("rp{index}"));
        let mut options = vec![("router-port", router_port.clone())];
        options.extend(self.arp_proxy(random, index).map(|own| ("arp_proxy", own)));
        ports.push(rows.insert(
            "Logical_Switch_Port",
            json!({"name": self.name(&format!("sp{index}")), "type": "router",
                "addresses": "router", "options": map(&options),
                "enabled": !random.chance(2)}),
        ));
        let mut options = Vec::new();
        if random.chance(15) {
            options.push(("route_table", "rtb"));
        }
        if random.chance(20) {
            options.push(("gateway_mtu", "1400"));
        }
        let mut networks = vec![format!("{address}/24")];
        if random.chance(25) {
            networks.push(format!("10.{index}.9.1/24"));
        }
        let mut row = json!({"name": router_port, "mac": mac, "networks": set(&networks),
            "enabled": !random.chance(4)});
        self.vary_router_port(random, &mut row, options, &self.name(&format!("s{index}")));
        let is_gateway = index == 1 && random.chance(10);
        if is_gateway {
            let row_of_chassis = json!({"name": self.name("gci"), "chassis_name": "c1",
                "priority": 1});
            let chassis = rows.insert("Gateway_Chassis", row_of_chassis);
            row["gateway_chassis"] = references(&[chassis]);
        }
        let row = rows.insert("Logical_Router_Port", row);
        self.inner_gateways.extend(is_gateway.then(|| row.clone()));
        row
    }

    /// Adds a `localnet` port to the switch of machines with a number. Returns the row.
    pub(super) fn localnet_port(&mut self, rows: &mut Rows, index: usize) -> String {
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let localnet = self.name(&format!("ln{index}i"));
        self.outside.push(Outside {
            localnet: localnet.clone(),
            switch: self.name(&format!("s{index}")),
            router_port: self.name(&format!("rp{index}")),
            router_mac: format!("0a:{number:02x}:00:00:{index:02x}:01"),
            address: format!("10.{index}.0.77"),
        });
        let row = json!({"name": localnet, "type": "localnet", "addresses": "unknown",
            "options": map(&[("network_name", "physi")])});
        rows.insert("Logical_Switch_Port", row)
    }

    /// Ports of types that give packets to nobody here, or to a network that OVN does not know.
    pub(super) fn special_ports(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        switch: &str,
        index: usize,
    ) -> Vec<String> {
        if !random.chance(25) {
            return Vec::new();
        }
        let kind = *random.pick(&["localport", "external", "virtual", "l2gateway", "vtep"]);
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let address = format!("10.{index}.0.60");
        let mac = format!("0a:{number:02x}:00:00:{index:02x}:3c");
        self.destinations.push(address.clone());
        let parents = format!("{switch}-v10,{switch}-v11");
        let options = match kind {
            "virtual" => vec![("virtual-ip", address.as_str()), ("virtual-parents", &parents)],
            "l2gateway" => vec![("network_name", "phys"), ("l2gateway-chassis", "c1")],
            "vtep" => vec![("vtep-physical-switch", "ps"), ("vtep-logical-switch", "ls")],
            _ => vec![],
        };
        let row = json!({"name": format!("{switch}-x"), "type": kind,
            "addresses": format!("{mac} {address}"), "options": map(&options)});
        vec![rows.insert("Logical_Switch_Port", row)]
    }
}

/// Addresses of the column `port_security` for the machine with a number on a switch.
pub(super) fn port_security(
    random: &mut Random,
    mac: &str,
    index: usize,
    host: usize,
) -> Vec<String> {
    if !random.chance(40) {
        return Vec::new();
    }
    let own = format!("10.{index}.0.{host}");
    let choices = [
        vec![format!("{mac} {own}")],
        vec![format!("{mac} {own}")],
        vec![format!("{mac} {own}")],
        vec![mac.to_owned()],
        // ovn-trace compares with single addresses, where OVN allows networks.
        vec![format!("{mac} {own}/24")],
        vec![format!("{mac} 20.0.0.5 {own}")],
        vec![format!("0a:99:00:00:00:01 {own}"), format!("{mac} {own} 8.8.8.8")],
    ];
    random.pick(&choices).clone()
}
