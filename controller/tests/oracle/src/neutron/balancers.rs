//! Load balancers as Octavia's OVN provider makes them.

use serde_json::json;

use super::machines::interface;
use super::{Cloud, NetworkKind, Translated, host};
use crate::free_topology::{Rows, map, references, set};
use crate::random::Random;

/// Address of the first VIP in a subnet.
const FIRST_HOST: u32 = 200;

impl Cloud {
    pub(super) fn add_balancers(&mut self, random: &mut Random, rows: &mut Rows) {
        for number in 0..random.below(3) as u32 {
            let inner: Vec<_> = (0..self.networks.len())
                .filter(|own| self.networks[*own].kind != NetworkKind::External)
                .collect();
            let network = *random.pick(&inner);
            self.add_balancer(random, rows, (network, FIRST_HOST + number));
        }
    }

    fn add_balancer(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (network, number): (usize, u32),
    ) {
        let routers: Vec<_> = self.ports_on(network).map(|(router, _)| router).collect();
        let router = (!routers.is_empty()).then(|| *random.pick(&routers));
        let reached: Vec<_> = match router {
            Some(router) => self.routers[router].ports.iter().map(|port| port.network).collect(),
            None => vec![network],
        };
        let machines = self.machines.iter().filter(|machine| reached.contains(&machine.network));
        let members: Vec<_> = machines
            .filter(|_| random.chance(50))
            .map(|machine| (machine.port.clone(), machine.addresses[0]))
            .take(2)
            .collect();
        let vip = host(self.networks[network].subnets[0].range, number);
        let (protocol, port, target) =
            *random.pick(&[("tcp", "80", "8080"), ("tcp", "80", "80"), ("udp", "53", "53")]);
        let backends = members.iter().map(|(_, address)| format!("{address}:{target}"));
        let backends = backends.collect::<Vec<_>>().join(",");
        let mut vips = vec![(format!("{vip}:{port}"), backends.clone())];
        self.destinations.extend([vip, vip]);
        let external = router
            .filter(|_| random.chance(40))
            .and_then(|own| Some((own, self.floating_address(random, own)?)));
        if let Some((router, (external, _))) = external {
            vips.push((format!("{external}:{port}"), backends));
            let row = json!({"type": "dnat_and_snat", "external_ip": external.to_string(),
                "logical_ip": vip.to_string()});
            self.routers[router].nats.push(row);
            self.translated.push(Translated { address: external, router, mac: None });
        }
        let mut options = Vec::new();
        if random.chance(20) {
            options.push(("affinity_timeout", "360"));
        }
        if random.chance(20) {
            options.push(("hairpin_snat_ip", "169.254.0.5"));
        }
        let mut checks = Vec::new();
        let mut mappings = Vec::new();
        if random.chance(15) {
            let row = json!({"vip": vips[0].0, "options": map(&[("interval", "5")])});
            checks.push(rows.insert("Load_Balancer_Health_Check", row));
            let source = host(self.networks[network].subnets[0].range, 3);
            let own = members.iter();
            mappings = own
                .map(|(port, address)| (address.to_string(), format!("{port}:{source}")))
                .collect();
        }
        let fields = set(&["ip_dst", "ip_src", "tp_dst", "tp_src"]);
        let port = format!("ovn-lb-vip-{}", Self::id(random));
        let row = json!({"name": Self::id(random), "protocol": protocol, "vips": map(&vips),
            "options": map(&options), "selection_fields": fields,
            "health_check": references(&checks), "ip_port_mappings": map(&mappings),
            "external_ids": map(&[("neutron:vip", vip.to_string()),
                ("neutron:vip_port_id", port.clone())])});
        let row = rows.insert("Load_Balancer", row);
        match router {
            Some(router) => {
                self.attach_balancer(router, &row);
                self.translated.push(Translated { address: vip, router, mac: None });
            }
            None => self.networks[network].balancers.push(row),
        }
        let mut row =
            json!({"name": Self::id(random), "external_ids": map(&[("neutron:port_name", port)])});
        // The port of the VIP has no address while it has no owner.
        if random.chance(40) {
            row["addresses"] = json!(interface(&self.mac(), &[vip]));
            self.services.push((network, vip));
        }
        self.networks[network].ports.push(rows.insert("Logical_Switch_Port", row));
    }
}
