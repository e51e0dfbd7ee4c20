//! Rules about external addresses, services, and rows that only Kube-OVN writes.

use serde_json::{Value, json};

use super::platform::{EXTERNAL, kube_ovn};
use super::{Builder, ForeignRow, Subnet};

impl Builder<'_> {
    /// Translations of a VPC.
    pub(super) fn add_rules(&mut self, vpc: usize) {
        let Some(first) = self.vpcs[vpc].external.first().copied() else {
            return;
        };
        let name = self.vpcs[vpc].name.clone();
        for place in 0..self.vpcs[vpc].subnets.len() {
            let external = *self.random.pick(&self.vpcs[vpc].external);
            let subnet = &self.vpcs[vpc].subnets[place];
            let (subnet_name, cidr) = (subnet.name.clone(), subnet.cidr.clone());
            if self.random.chance(65) {
                let eip = if self.random.chance(50) {
                    format!("{name}-{}", EXTERNAL[first].name)
                } else {
                    self.add_eip(external).0
                };
                let source = if self.random.chance(70) {
                    json!({"ovnEip": eip, "vpcSubnet": subnet_name})
                } else {
                    json!({"ovnEip": eip, "vpc": name, "v4IpCidr": cidr})
                };
                self.add_rule("OvnSnatRule", &source);
            }
            for (address, port) in self.vpcs[vpc].subnets[place].machines.clone() {
                if self.random.chance(20) {
                    let eip = self.add_eip(external).0;
                    let kind = *self.random.pick(&["centralized", "centralized", "distributed"]);
                    let spec = json!({"ovnEip": eip, "ipName": port, "type": kind});
                    self.add_rule("OvnFip", &spec);
                }
                if self.random.chance(20) {
                    let eip = self.add_eip(external).0;
                    for protocol in ["tcp", "udp"] {
                        if self.random.chance(70) {
                            let spec = json!({"ovnEip": eip, "vpc": name, "v4Ip": address,
                                "protocol": protocol, "externalPort": "80",
                                "internalPort": *self.random.pick(&["80", "8080"])});
                            self.add_rule("OvnDnatRule", &spec);
                        }
                    }
                }
            }
        }
    }

    /// Name and address of a new external address.
    fn add_eip(&mut self, external: usize) -> (String, String) {
        let external = &EXTERNAL[external];
        let address = external.address(*self.next_address);
        *self.next_address += 1;
        let name = format!("{}-eip{}", self.tenant.prefix, self.next_address);
        let spec = json!({"externalSubnet": external.name, "v4Ip": address, "type": "nat"});
        self.tenant.items.push(kube_ovn("OvnEip", &name, &spec));
        self.tenant.addresses.push(address.clone());
        (name, address)
    }

    fn add_rule(&mut self, kind: &str, spec: &Value) {
        self.names += 1;
        let name = format!("{}-rule{}", self.tenant.prefix, self.names);
        self.tenant.items.push(kube_ovn(kind, &name, spec));
    }

    /// Services, and rows that only Kube-OVN writes.
    pub(super) fn add_balancers(&mut self, vpc: usize) {
        let own = &self.vpcs[vpc];
        let machines: Vec<_> =
            own.subnets.iter().flat_map(|subnet| subnet.machines.clone()).collect();
        let name = own.name.clone();
        if self.random.chance(35) {
            let address = "10.96.0.9".to_owned();
            let count = self.random.below(3).min(machines.len());
            let backends: Vec<_> =
                machines.iter().take(count).map(|(address, _)| format!("{address}:8080")).collect();
            self.tenant.foreign.push(ForeignRow::Vip {
                vpc: name.clone(),
                vip: format!("{address}:80"),
                backends: backends.join(","),
            });
            if self.random.chance(30) {
                self.tenant.foreign.push(ForeignRow::OnRouter { vpc: name.clone() });
            }
            self.tenant.addresses.push(address);
        }
        if self.random.chance(12) {
            for Subnet { cidr, gateway, .. } in &self.vpcs[vpc].subnets {
                self.tenant.foreign.push(ForeignRow::SourceRoute {
                    vpc: name.clone(),
                    cidr: cidr.clone(),
                    gateway: gateway.clone(),
                });
            }
        }
    }
}
