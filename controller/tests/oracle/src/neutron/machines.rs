//! Ports of machines, and those of metadata services.

use std::net::IpAddr;

use serde_json::json;

use super::{Cloud, Machine, NetworkKind, host};
use crate::free_topology::{Rows, map, set};
use crate::random::Random;

/// First address of machines in a subnet.
const FIRST_HOST: u32 = 10;
/// Address of the metadata port in a subnet.
const METADATA_HOST: u32 = 2;

impl Cloud {
    pub(super) fn add_machines(&mut self, random: &mut Random, rows: &mut Rows) {
        for network in 0..self.networks.len() {
            let count = match self.networks[network].kind {
                NetworkKind::External => usize::from(random.chance(40)),
                NetworkKind::Tunnel | NetworkKind::Vlan => 1 + random.below(3),
            };
            if random.chance(70) {
                self.add_metadata_port(random, rows, network);
            }
            let options: Vec<_> = (0..self.networks[network].subnets.len())
                .map(|number| {
                    let is_served = self.networks[network].subnets[number].has_dhcp;
                    is_served.then(|| self.dhcp_options(random, rows, (network, number)))?
                })
                .collect();
            for place in 0..count {
                self.add_machine(random, rows, (network, FIRST_HOST + place as u32), &options);
            }
        }
    }

    /// A port of the type `localport`, with an address of each subnet that has DHCP.
    fn add_metadata_port(&mut self, random: &mut Random, rows: &mut Rows, network: usize) {
        let mut addresses = Vec::new();
        for subnet in &mut self.networks[network].subnets {
            if subnet.has_dhcp {
                let address = host(subnet.range, METADATA_HOST);
                subnet.metadata = Some(address);
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return;
        }
        let ids = [
            ("neutron:device_owner", "network:distributed".to_owned()),
            ("neutron:device_id", format!("ovnmeta-{}", Self::id(random))),
        ];
        let interface = interface(&self.mac(), &addresses);
        let row = json!({"name": Self::id(random), "type": "localport", "addresses": interface,
            "external_ids": map(&ids)});
        self.networks[network].ports.push(rows.insert("Logical_Switch_Port", row));
        let services = addresses.iter().map(|address| (network, *address));
        self.services.extend(services);
        self.destinations.extend(addresses);
    }

    /// `options`: rows of the DHCP options of the subnets.
    fn add_machine(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (network, number): (usize, u32),
        options: &[Option<String>],
    ) {
        let (port, mac) = (Self::id(random), self.mac());
        let ranges: Vec<_> = self.networks[network].subnets.iter().map(|own| own.range).collect();
        let (ipv4, ipv6): (Vec<usize>, Vec<usize>) =
            (0..ranges.len()).partition(|own| ranges[*own].addr().is_ipv4());
        let first = *random.pick(&ipv4);
        let chosen = [first].into_iter().chain(ipv6);
        let addresses: Vec<_> = chosen.map(|own| host(ranges[own], number)).collect();
        let own = interface(&mac, &addresses);
        let has_security = random.chance(80);
        let is_enabled = random.chance(96);
        let ids = [("neutron:device_owner", "compute:nova"), ("neutron:revision_number", "4")];
        let mut row = json!({"name": port, "enabled": is_enabled,
            "options": map(&[("requested-chassis", "c1"), ("mcast_flood_reports", "true")]),
            "external_ids": map(&ids)});
        if has_security {
            row["addresses"] = json!(own);
            row["port_security"] = set(&self.security(random, network, &mac, &own));
        } else if options[first].is_some() || random.chance(50) {
            row["addresses"] = set(&[own.as_str(), "unknown"]);
        } else {
            // Neutron writes no address of a port with neither security nor DHCP.
            row["addresses"] = json!("unknown");
        }
        if let Some(options) = &options[first] {
            row["dhcpv4_options"] = json!(["named-uuid", options]);
        }
        let has_address = row["addresses"] != "unknown";
        let row = rows.insert("Logical_Switch_Port", row);
        self.networks[network].ports.push(row.clone());
        if has_address {
            self.machines.push(Machine {
                port,
                row,
                network,
                mac,
                addresses,
                is_enabled,
                has_security,
            });
        }
    }

    /// Elements of the column `port_security`: the port's addresses, and pairs that are allowed
    /// beside them.
    fn security(
        &mut self,
        random: &mut Random,
        network: usize,
        mac: &str,
        own: &str,
    ) -> Vec<String> {
        if !random.chance(20) {
            return vec![own.to_owned()];
        }
        let pair = host(self.networks[network].subnets[0].range, 150);
        if random.chance(50) {
            return vec![format!("{own} {pair}")];
        }
        let virtual_mac = "00:00:5e:00:01:07";
        vec![
            own.to_owned(),
            format!("VRRPv3 {mac} {virtual_mac} {pair}"),
            format!("{virtual_mac} {pair}"),
        ]
    }
}

/// Value of the column `addresses`.
pub(super) fn interface(mac: &str, addresses: &[IpAddr]) -> String {
    let addresses = addresses.iter();
    addresses.fold(mac.to_owned(), |text, address| format!("{text} {address}"))
}
