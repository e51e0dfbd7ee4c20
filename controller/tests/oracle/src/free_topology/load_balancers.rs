//! Random load balancers.

use serde_json::json;

use super::rows::{Rows, map, references, set};
use super::{Exit, Topology};
use crate::random::Random;

impl Topology {
    pub(super) fn load_balancers(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        exit: Exit,
    ) -> Vec<String> {
        (0..random.below(3))
            .map(|index| {
                let vip = match random.below(20) {
                    0..6 if exit != Exit::None => format!("172.18.0.5{index}"),
                    // Address of a router port.
                    6 if exit != Exit::None => "172.18.0.2".to_owned(),
                    // Address of a NAT rule, if there is one.
                    7 | 8 if exit != Exit::None => format!("172.18.0.1{index}"),
                    9 | 10 => format!("10.1.0.9{index}"),
                    11 => "10.1.0.1".to_owned(),
                    _ => format!("10.96.0.{index}"),
                };
                self.destinations.extend([vip.clone(), vip.clone()]);
                let has_port = random.chance(70);
                let backend = self.backend(random);
                let other = self.backend(random);
                let backends = match (random.chance(15), has_port) {
                    (false, true) if random.chance(20) => format!("{backend}:8080,{other}:80"),
                    (true, _) => String::new(),
                    (false, true) => format!("{backend}:8080"),
                    (false, false) => backend,
                };
                let key = if has_port { format!("{vip}:80") } else { vip.clone() };
                let mut vips = vec![(key, backends)];
                if random.chance(25) {
                    let machine = random.pick(&self.machines).address.clone();
                    vips.push((format!("{vip}:22"), format!("{machine}:22")));
                }
                if has_port && random.chance(15) {
                    let machine = random.pick(&self.machines).address.clone();
                    vips.push((vip, machine));
                }
                let mut options = vec![];
                for option in
                    ["reject", "skip_snat", "add_route", "event", "ct_flush", "distributed"]
                {
                    if random.chance(if option == "distributed" { 5 } else { 25 }) {
                        options.push((option, "true"));
                    }
                }
                if random.chance(30) {
                    options.push(("hairpin_snat_ip", "169.254.0.5"));
                }
                if random.chance(30) {
                    let responders = ["all", "none", "reachable"];
                    options.push(("neighbor_responder", *random.pick(&responders)));
                }
                if random.chance(15) {
                    options.push(("affinity_timeout", "180"));
                }
                if random.chance(8) {
                    options.push(("use_stateless_nat", "true"));
                }
                if random.chance(20) {
                    options.push(("template", "true"));
                    let families = [Some("ipv4"), Some("ipv4"), Some("ipv6"), None];
                    let family = *random.pick(&families);
                    options.extend(family.map(|family| ("address-family", family)));
                    for (place, vip) in vips.iter_mut().enumerate() {
                        *vip = self.template(random, &format!("{index}{place}"), vip);
                    }
                }
                let protocol = *random.pick(&["tcp", "tcp", "tcp", "udp", "sctp"]);
                let fields = ["eth_src", "ip_src"];
                let fields = if random.chance(15) { &fields[..] } else { &[] };
                let mut checks = Vec::new();
                let mut mappings = Vec::new();
                if random.chance(15) {
                    let row = json!({"vip": vips[0].0});
                    checks.push(rows.insert("Load_Balancer_Health_Check", row));
                    self.destinations.extend(["10.1.0.250".to_owned(), "10.1.0.250".to_owned()]);
                    for machine in self.machines.iter().filter(|_| random.chance(70)) {
                        let source = format!("{}:10.1.0.250", machine.port);
                        mappings.push((machine.address.clone(), source));
                    }
                }
                let mut row = json!({"name": self.name(&format!("lb{index}")),
                    "vips": map(&vips), "options": map(&options),
                    "selection_fields": set(fields), "health_check": references(&checks),
                    "ip_port_mappings": map(&mappings)});
                if random.chance(90) {
                    row["protocol"] = json!(protocol);
                }
                rows.insert("Load_Balancer", row)
            })
            .collect()
    }

    /// Address of a machine, or of one outside.
    fn backend(&self, random: &mut Random) -> String {
        if random.chance(85) {
            return random.pick(&self.machines).address.clone();
        }
        let others = ["172.18.0.60", "172.18.0.77", "8.8.8.8", "10.1.0.200"];
        (*random.pick(&others)).to_owned()
    }

    /// A VIP and its backends with variables in place of some of their parts.
    fn template(
        &mut self,
        random: &mut Random,
        number: &str,
        (vip, backends): &(String, String),
    ) -> (String, String) {
        let is_literal = random.chance(30);
        let mut replace = |topology: &mut Self, name: &str, value: &str| {
            let name = topology.variable(&format!("{name}{number}"));
            if random.chance(90) {
                topology.variables.push((name.clone(), value.to_owned()));
            }
            format!("^{name}")
        };
        let key = match vip.split_once(':') {
            Some((address, port)) => {
                let address = replace(self, "VIP", address);
                format!("{address}:{}", replace(self, "PORT", port))
            }
            None => replace(self, "VIP", vip),
        };
        if backends.is_empty() || is_literal {
            return (key, backends.clone());
        }
        (key, replace(self, "BACKENDS", backends))
    }
}
