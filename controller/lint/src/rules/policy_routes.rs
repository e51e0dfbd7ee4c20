//! Rules P about policy routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::cluster::{Cluster, VpcView};
use crate::policies::{Policy, Probes};
use crate::report::Report;

use super::routes::routes;

/// Priorities that OVN accepts.
const PRIORITIES: std::ops::RangeInclusive<i64> = 0..=32_767;
/// Lowest priority of rows that a platform writes itself, from the highest, with their purpose.
const BANDS: [(i64, &str); 7] = [
    (31_000, "local delivery to subnets (31000)"),
    (30_000, "policies of nodes and underlays (30000)"),
    (29_500, "policies of interconnected clusters (29500)"),
    (29_250, "policies of gateways (29250)"),
    (29_090, "policies of egress gateways (29090)"),
    (29_000, "ways out of the default VPC (29000)"),
    (9_001, "connections with other networks (9001)"),
];

pub(super) fn invalid_policy(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        let mut first: BTreeMap<(i64, &str), usize> = BTreeMap::new();
        for (index, policy) in vpc.spec.policy_routes.iter().enumerate() {
            let hops = policy.next_hop_ip.split(',');
            let is_wrong_hop = |hop: &str| hop.parse::<IpAddr>().is_err();
            let mut reasons = Vec::new();
            let other = *first.entry((policy.priority, &policy.match_)).or_insert(index);
            if other != index {
                reasons.push(("match", format!("priority and match are those of policy {other}")));
            }
            if !PRIORITIES.contains(&policy.priority) {
                let reason = format!("priority {} is not in 0..32767", policy.priority);
                reasons.push(("priority", reason));
            }
            match &*policy.action {
                "allow" | "drop" => {}
                "reroute" if policy.next_hop_ip.is_empty() => {
                    reasons.push(("nextHopIP", "reroute without an address".to_owned()));
                }
                "reroute" => {
                    if let Some(hop) = hops.into_iter().find(|hop| is_wrong_hop(hop)) {
                        let reason = format!(
                            "nextHopIP has {hop:?}, which is no address; addresses have commas between them and no \
                             blanks"
                        );
                        reasons.push(("nextHopIP", reason));
                    }
                }
                other => reasons.push(("action", format!("unknown action {other:?}"))),
            }
            for (field, reason) in reasons {
                let message = format!("Vpc {}, policy {index}: {reason}.", vpc.name);
                let draft =
                    report.about(vpc.sourced).field(format!("spec.policyRoutes[{index}].{field}"));
                draft.found(
                    message,
                    "Correct the field; Kube-OVN makes nothing of the VPC until then.",
                );
            }
        }
    }
}

pub(super) fn invalid_match(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        for policy in Policy::of(cluster, vpc) {
            if let Err(error) = &policy.parsed {
                let message = format!(
                    "Vpc {}, policy {}: {error}; every node would skip the flow and only log it.",
                    vpc.name, policy.index
                );
                let draft = report.about(vpc.sourced).field(format!("{}.match", policy.field()));
                draft.found(
                    message,
                    "Correct the match; see ovn-sb(5), column match of Logical_Flow.",
                );
            }
        }
    }
}

pub(super) fn reserved_priority(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        for (index, policy) in vpc.spec.policy_routes.iter().enumerate() {
            let band = BANDS.iter().find(|(lowest, _)| policy.priority >= *lowest);
            if let Some((_, band)) = band.filter(|_| PRIORITIES.contains(&policy.priority)) {
                let message = format!(
                    "Vpc {}, policy {index}: priority {} overrides {band}.",
                    vpc.name, policy.priority
                );
                let draft =
                    report.about(vpc.sourced).field(format!("spec.policyRoutes[{index}].priority"));
                draft.found(message, "Use a priority below 9001.");
            }
        }
    }
}

/// `true` if a packet has a route, so that policies see it.
fn is_routed(
    cluster: &Cluster<'_>,
    vpc: &VpcView<'_>,
    source: IpAddr,
    destination: IpAddr,
) -> bool {
    let mut networks = cluster.router_networks(vpc).into_iter();
    let has_route = routes(vpc).any(|route| {
        let address = if route.is_by_source { source } else { destination };
        route.net.is_some_and(|net| net.contains(&address))
    });
    has_route || networks.any(|(_, net)| net.contains(&destination))
}

pub(super) fn unrouted_policy(cluster: &Cluster<'_>, report: &mut Report) {
    if !cluster.facts.is_northd_stock {
        return;
    }
    for vpc in cluster.custom_vpcs().filter(|vpc| cluster.is_router_known(vpc)) {
        for policy in Policy::of(cluster, vpc) {
            if policy.next_hops().is_empty() {
                continue;
            }
            let probes = Probes::of(cluster, vpc).with_constants(&policy.spec.match_);
            let unrouted = probes.find(|packet| {
                policy.matches(packet)
                    && !is_routed(cluster, vpc, packet.source, packet.destination)
            });
            if let Some((_, destination)) = unrouted {
                let message = format!(
                    "Vpc {}, policy {}: packets without a route, as to {destination}, never reach the policies.",
                    vpc.name, policy.index
                );
                let draft = report.about(vpc.sourced).field(policy.field());
                draft.found(message, "Add a static route that covers the destinations.");
            }
        }
    }
}

pub(super) fn looped_next_hop(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        let message =
            |hop: IpAddr| format!("Vpc {}: packets of {hop} itself come back to it.", vpc.name);
        let repair =
            "Except the next hop from the match, or use policies with a higher priority for it.";
        for policy in Policy::of(cluster, vpc) {
            for hop in policy.next_hops() {
                let mut probes = Probes::of(cluster, vpc).with_constants(&policy.spec.match_);
                probes.sources = vec![hop];
                probes.destinations.retain(|destination| *destination != hop);
                if probes.find(|packet| policy.matches(packet)).is_some() {
                    let draft = report.about(vpc.sourced).field(policy.field());
                    draft.found(message(hop), repair);
                }
            }
        }
        for route in routes(vpc).filter(|route| route.is_by_source) {
            let (Some(net), Some(hop)) = (route.net, route.next_hop) else {
                continue;
            };
            // The gateway of a subnet is the router.
            let mut subnets = cluster.subnets_of(vpc);
            let is_router = subnets.any(|subnet| subnet.gateways.contains(&hop));
            if net.contains(&hop) && !is_router {
                let draft =
                    report.about(vpc.sourced).field(format!("spec.staticRoutes[{}]", route.index));
                draft.found(message(hop), "Use policy routes that except the next hop.");
            }
        }
    }
}
