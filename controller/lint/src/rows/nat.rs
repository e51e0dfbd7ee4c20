//! NAT rules.

use std::collections::HashMap;

use patchbay_reach::RowRef;
use patchbay_schemas::nb::{Nat, NatType};

use super::index::Index;
use super::report::RowReport;

pub(super) fn no_gateway(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (router_row, router) in index.routers.iter() {
        let has_chassis = router.options.get("chassis").is_some_and(|name| !name.is_empty());
        let mut ports = index.router_ports.of(&router.ports);
        let has_gateway = ports.any(|(_, port)| {
            !port.gateway_chassis.is_empty()
                || port.ha_chassis_group.is_some()
                || port.options.contains_key("redirect-chassis")
        });
        if has_chassis || has_gateway {
            continue;
        }
        for (row, _) in index.nats.of(&router.nat) {
            report.found(
                row,
                &[router_row],
                "The router has no gateway port and no chassis of its own: OVN translates nothing \
                 on it.",
                "Give a port of the router gateway chassis, or set options:chassis of the router.",
            );
        }
    }
}

/// Rule as far as it decides which packets OVN translates.
type Key<'a> = (bool, &'a str, Vec<&'a str>);

/// Columns that select packets beside the address.
fn selection(rule: &Nat) -> Vec<String> {
    vec![
        rule.r#match.clone(),
        rule.priority.to_string(),
        rule.external_port_range.clone(),
        rule.gateway_port.map(|port| port.uuid.to_string()).unwrap_or_default(),
        rule.logical_port.clone().unwrap_or_default(),
        rule.allowed_ext_ips.map(|set| set.uuid.to_string()).unwrap_or_default(),
        rule.exempted_ext_ips.map(|set| set.uuid.to_string()).unwrap_or_default(),
    ]
}

pub(super) fn repeated(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (_, router) in index.routers.iter() {
        let rules: Vec<_> =
            index.nats.of(&router.nat).map(|(row, rule)| (row, rule, selection(rule))).collect();
        let mut first: HashMap<Key<'_>, (RowRef, &Nat)> = HashMap::new();
        for (row, rule, selection) in &rules {
            let selection: Vec<&str> = selection.iter().map(String::as_str).collect();
            let of_sources = (rule.r#type != NatType::Dnat)
                .then(|| (true, rule.logical_ip.as_str(), selection.clone()));
            let of_destinations = (rule.r#type != NatType::Snat).then_some((
                false,
                rule.external_ip.as_str(),
                selection,
            ));
            for key in [of_sources, of_destinations].into_iter().flatten() {
                let (side, address) = (key.0, key.1);
                let (other, before) = *first.entry(key).or_insert((*row, rule));
                let is_same_result = (&before.external_ip, &before.logical_ip)
                    == (&rule.external_ip, &rule.logical_ip);
                if other.uuid == row.uuid || is_same_result {
                    continue;
                }
                let (what, from) = if side {
                    ("packets from", &rule.external_ip)
                } else {
                    ("packets to", &rule.logical_ip)
                };
                let to = if side { &before.external_ip } else { &before.logical_ip };
                report.found(
                    *row,
                    &[other],
                    format!(
                        "Two rules translate {what} {address}, to {from} and to {to}: OVN leaves \
                         open which of them counts."
                    ),
                    "Delete one of the two, or distinguish them by match or priority.",
                );
            }
        }
    }
}
