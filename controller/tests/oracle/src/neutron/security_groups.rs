//! Security groups: port groups, and ACLs for their rules.

use serde_json::json;

use super::Cloud;
use crate::free_topology::{Rows, map, references, set};
use crate::random::Random;

/// Priority of the ACLs that allow.
const ALLOW_PRIORITY: i64 = 1002;

/// Direction of a rule.
#[derive(Clone, Copy)]
enum Direction {
    Ingress,
    Egress,
}

impl Cloud {
    /// `guarded`: rows of ports with security, to which those of the cloud come.
    pub(super) fn add_security_groups(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        guarded: &mut Vec<String>,
    ) {
        let count = 1 + random.below(3);
        let names: Vec<_> =
            (0..count).map(|_| format!("pg_{}", Self::id(random).replace('-', "_"))).collect();
        let addresses = address_group(random, rows);
        let mut members = vec![Vec::new(); count];
        for machine in self.machines.iter().filter(|machine| machine.has_security) {
            guarded.push(machine.row.clone());
            for group in &mut members {
                if random.chance(55) {
                    group.push(machine.row.clone());
                }
            }
        }
        for (name, members) in names.iter().zip(&members) {
            let action = if random.chance(12) { "allow-stateless" } else { "allow-related" };
            let mut matches = Vec::new();
            if random.chance(80) {
                matches.push((Direction::Egress, format!("inport == @{name} && ip4")));
                matches.push((Direction::Egress, format!("inport == @{name} && ip6")));
            }
            if random.chance(60) {
                for version in ["ip4", "ip6"] {
                    let text = format!(
                        "outport == @{name} && {version} && {version}.src == ${name}_{version}"
                    );
                    matches.push((Direction::Ingress, text));
                }
            }
            for _ in 0..random.below(5) {
                matches.push(rule(random, name, &names, &addresses));
            }
            let acls: Vec<_> = matches
                .into_iter()
                .map(|(direction, text)| {
                    let direction = match direction {
                        Direction::Ingress => "to-lport",
                        Direction::Egress => "from-lport",
                    };
                    let row = json!({"direction": direction, "priority": ALLOW_PRIORITY,
                        "match": text, "action": action,
                        "external_ids": map(&[("neutron:security_group_rule_id", Self::id(random))])});
                    rows.insert("ACL", row)
                })
                .collect();
            let row = json!({"name": name, "ports": references(members), "acls": references(&acls),
                "external_ids": map(&[("neutron:security_group_id", name.clone())])});
            rows.insert("Port_Group", row);
        }
    }
}

/// Address set of an address group. Returns its name without the family.
fn address_group(random: &mut Random, rows: &mut Rows) -> String {
    let name = format!("ag_{}", Cloud::id(random).replace('-', "_"));
    let ipv4 = ["203.0.113.77", "10.0.1.0/24", "10.0.2.10", "8.8.8.8"];
    let ipv6 = ["2001:db8::/64", "fd00:0:0:1::a"];
    for (version, addresses) in [("ip4", &ipv4[..]), ("ip6", &ipv6[..])] {
        let chosen: Vec<_> = addresses.iter().filter(|_| random.chance(60)).collect();
        let row = json!({"name": format!("{name}_{version}"), "addresses": set(&chosen)});
        rows.insert("Address_Set", row);
    }
    name
}

/// Match of a rule, in the order of parts in which Neutron writes it.
fn rule(
    random: &mut Random,
    name: &str,
    groups: &[String],
    addresses: &str,
) -> (Direction, String) {
    let direction = if random.chance(75) { Direction::Ingress } else { Direction::Egress };
    let (port, side) = match direction {
        Direction::Ingress => ("outport", "src"),
        Direction::Egress => ("inport", "dst"),
    };
    let version = if random.chance(80) { "ip4" } else { "ip6" };
    let remote = match (random.below(6), version) {
        (0, "ip4") => {
            let ranges =
                ["0.0.0.0/0", "10.0.1.0/24", "10.0.0.0/16", "203.0.113.0/24", "10.0.2.10/32"];
            format!(" && {version}.{side} == {}", random.pick(&ranges))
        }
        (0, _) => format!(" && {version}.{side} == fd00::/16"),
        (1, _) => format!(" && {version}.{side} == ${}_{version}", random.pick(groups)),
        (2, _) => format!(" && {version}.{side} == ${addresses}_{version}"),
        _ => String::new(),
    };
    let icmp = if version == "ip4" { "icmp4" } else { "icmp6" };
    let ports = [
        " && tcp && tcp.dst == 22".to_owned(),
        " && tcp && tcp.dst == 80".to_owned(),
        " && tcp && tcp.dst >= 80 && tcp.dst <= 8080".to_owned(),
        " && tcp".to_owned(),
        " && udp && udp.dst == 53".to_owned(),
        format!(" && {icmp}"),
        format!(" && {icmp} && {icmp}.type == 8 && {icmp}.code == 0"),
        " && ip.proto == 112".to_owned(),
        String::new(),
    ];
    let text = format!("{port} == @{name} && {version}{remote}{}", random.pick(&ports));
    (direction, text)
}
