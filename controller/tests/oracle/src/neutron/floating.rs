//! Floating addresses: rules of NAT, and port forwarding by load balancers.

use std::net::IpAddr;

use serde_json::json;

use super::{Cloud, Translated, host};
use crate::free_topology::{Rows, map};
use crate::random::Random;

/// First floating address of a router on an external network.
const FIRST_HOST: u32 = 100;
/// Floating addresses of a router at most.
const ADDRESSES_PER_ROUTER: u32 = 20;

impl Cloud {
    pub(super) fn add_floating_addresses(&mut self, random: &mut Random, rows: &mut Rows) {
        for router in 0..self.routers.len() {
            for machine in 0..self.machines.len() {
                let is_near = self.machines[machine].is_near(&self.routers[router]);
                if is_near && random.chance(35) {
                    self.add_floating_address(random, router, machine);
                } else if is_near && random.chance(12) {
                    self.add_forwarding(random, rows, router, machine);
                }
            }
        }
    }

    /// A free address on the external network of a router, and the row of the port there.
    pub(super) fn floating_address(
        &self,
        random: &mut Random,
        router: usize,
    ) -> Option<(IpAddr, String)> {
        let ports = self.routers[router].ports.iter();
        let gateways: Vec<_> = ports.filter(|port| port.is_gateway).collect();
        if gateways.is_empty() {
            return None;
        }
        let port = random.pick(&gateways);
        let range = port.addresses[0].trunc();
        let first = FIRST_HOST + ADDRESSES_PER_ROUTER * router as u32;
        let mut numbers = first..first + ADDRESSES_PER_ROUTER;
        let is_free = |address: &IpAddr| self.translated.iter().all(|own| own.address != *address);
        let address = numbers.find_map(|number| Some(host(range, number)).filter(is_free))?;
        Some((address, port.row.clone()))
    }

    fn add_floating_address(&mut self, random: &mut Random, router: usize, machine: usize) {
        let Some((external, gateway)) = self.floating_address(random, router) else {
            return;
        };
        let mac = self.mac();
        let machine = &self.machines[machine];
        let stateless = if self.is_stateless { "true" } else { "false" };
        let mut row = json!({"type": "dnat_and_snat", "external_ip": external.to_string(),
            "logical_ip": machine.addresses[0].to_string(),
            "options": map(&[("stateless", stateless)]),
            "external_ids": map(&[("neutron:fip_id", Self::id(random)),
                ("neutron:fip_external_mac", mac.clone())])});
        // Members of load balancers have central addresses, and no port.
        let has_port = random.chance(85);
        if has_port {
            row["logical_port"] = json!(machine.port);
        }
        let is_distributed = self.is_distributed && has_port && random.chance(85);
        if is_distributed {
            row["external_mac"] = json!(mac);
        }
        if self.is_distributed && self.routers[router].chassis.is_none() {
            row["gateway_port"] = json!(["named-uuid", gateway]);
        }
        self.translated.push(Translated {
            address: external,
            router,
            mac: is_distributed.then_some(mac),
        });
        self.routers[router].nats.push(row);
    }

    /// One port of a floating address, by a load balancer of the router and its switches.
    fn add_forwarding(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        router: usize,
        machine: usize,
    ) {
        let Some((external, _)) = self.floating_address(random, router) else {
            return;
        };
        let inner = self.machines[machine].addresses[0];
        let (port, target) = *random.pick(&[("80", "80"), ("8080", "80"), ("22", "22")]);
        let (vip, backend) = (format!("{external}:{port}"), format!("{inner}:{target}"));
        let row = json!({"name": format!("pf-floatingip-{}-tcp", Self::id(random)),
            "protocol": "tcp", "vips": map(&[(vip, backend)]),
            "external_ids": map(&[("neutron:device_owner", "port_forwarding_plugin")])});
        let row = rows.insert("Load_Balancer", row);
        self.attach_balancer(router, &row);
        self.translated.push(Translated { address: external, router, mac: None });
    }

    /// Gives a load balancer to a router and to the switches of projects behind it.
    pub(super) fn attach_balancer(&mut self, router: usize, row: &str) {
        self.routers[router].balancers.push(row.to_owned());
        let ports = self.routers[router].ports.iter();
        for port in ports.filter(|port| !port.is_gateway) {
            let balancers = &mut self.networks[port.network].balancers;
            if balancers.iter().all(|own| own != row) {
                balancers.push(row.to_owned());
            }
        }
    }
}
