//! Random NAT rules, and the sets of addresses for which some of them hold.

use serde_json::{Value, json};

use super::rows::{Rows, map, set};
use super::{Machine, Topology};
use crate::random::Random;

/// Number of the sets of addresses.
const SETS: usize = 2;

impl Topology {
    /// Sets of addresses outside and inside. Returns their rows.
    pub(super) fn external_sets(&self, random: &mut Random, rows: &mut Rows) -> Vec<String> {
        const CHOICES: [&[&str]; 7] = [
            &["8.8.8.8"],
            &["8.8.8.8", "fd00:9:9:9::9"],
            &["172.18.0.77"],
            &["8.8.8.8", "172.18.0.77", "172.19.0.77"],
            &["172.18.0.0/24", "10.1.0.0/16"],
            &["10.0.0.0/8"],
            &[],
        ];
        let name = self.name("ext").replace('-', "_");
        let sets = (0..SETS).map(|number| {
            let addresses: &&[&str] = random.pick(&CHOICES);
            let addresses = set(addresses);
            let row = json!({"name": format!("{name}{number}"), "addresses": addresses});
            rows.insert("Address_Set", row)
        });
        sets.collect()
    }

    /// Random rules of a router. `gateways`: rows of its gateway ports.
    pub(super) fn nats(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        gateways: &[String],
        external_sets: &[String],
    ) -> Vec<String> {
        (0..random.below(4))
            .map(|index| self.nat(random, rows, index, gateways, external_sets))
            .collect()
    }

    fn nat(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        index: usize,
        gateways: &[String],
        external_sets: &[String],
    ) -> String {
        let is_distributed = !gateways.is_empty();
        let network = match random.below(10) {
            0..3 if is_distributed => "172.19.0",
            3 => "10.1.0",
            _ => "172.18.0",
        };
        // Some rules have the address of a router port.
        let host = match network {
            "10.1.0" => 80 + index,
            _ if random.chance(15) => 2,
            _ => 10 + index,
        };
        let external = format!("{network}.{host}");
        let mut row = self.translation(random, index, &external, is_distributed);
        if row["type"] != "snat" {
            self.destinations.extend([external.clone(), external]);
        }
        let mut options = Vec::new();
        if random.chance(20) {
            options.push(("add_route", "true"));
        }
        if row["type"] == "dnat_and_snat" && random.chance(40) {
            options.push(("stateless", "true"));
        }
        row["options"] = map(&options);
        if is_distributed && random.chance(30) {
            row["gateway_port"] = json!(["named-uuid", random.pick(gateways)]);
        }
        if random.chance(10) {
            row["external_port_range"] = json!("1024-65000");
        }
        if random.chance(20) {
            row["match"] = json!(self.ip_match(random));
            row["priority"] = json!(self.next_priority(random));
        }
        let addresses = json!(["named-uuid", random.pick(external_sets)]);
        match random.below(6) {
            0 => row["allowed_ext_ips"] = addresses,
            1 => row["exempted_ext_ips"] = addresses,
            _ => {}
        }
        rows.insert("NAT", row)
    }

    /// Type and addresses of a rule.
    fn translation(
        &self,
        random: &mut Random,
        index: usize,
        external: &str,
        is_distributed: bool,
    ) -> Value {
        let machine: &Machine = random.pick(&self.machines);
        let host = &machine.address;
        let row = |kind: &str, logical: &str| json!({"type": kind, "external_ip": external, "logical_ip": logical});
        match random.below(3) {
            0 => {
                let logical = match random.below(10) {
                    0 | 1 => "10.0.0.0/8".to_owned(),
                    2 => "0.0.0.0/0".to_owned(),
                    3 => host.clone(),
                    _ => format!("10.{}.0.0/24", 1 + random.below(3)),
                };
                row("snat", &logical)
            }
            1 if is_distributed => {
                let mut row = row("dnat_and_snat", host);
                if random.chance(60) {
                    row["logical_port"] = json!(machine.port);
                }
                if random.chance(60) {
                    row["external_mac"] = json!(format!("0a:ee:00:00:00:0{index}"));
                }
                row
            }
            1 if random.chance(50) => row("dnat_and_snat", host),
            1 => row("snat", host),
            _ => row("dnat", host),
        }
    }
}
