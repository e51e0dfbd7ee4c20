//! Rules P about routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_resources::object::kube_ovn::VpcStaticRoute;

use crate::cluster::{Cluster, VpcView};
use crate::ranges::{is_ipv4, is_ipv4_net, nets_overlap, read_addresses, read_net};
use crate::report::Report;

/// A static route of a VPC.
pub(super) struct Route<'a> {
    pub(super) index: usize,
    pub(super) spec: &'a VpcStaticRoute,
    pub(super) is_by_source: bool,
    /// `None`: not readable.
    pub(super) net: Option<IpNet>,
    /// `None`: not readable.
    pub(super) next_hop: Option<IpAddr>,
}

impl Route<'_> {
    /// `true` for the default route of a family.
    pub(super) fn is_default(&self, is_ipv4: bool) -> bool {
        !self.is_by_source
            && self.net.is_some_and(|net| net.prefix_len() == 0 && net.addr().is_ipv4() == is_ipv4)
    }
}

/// Static routes of a VPC.
pub(super) fn routes<'a>(vpc: &VpcView<'a>) -> impl Iterator<Item = Route<'a>> {
    vpc.spec.static_routes.iter().enumerate().map(|(index, spec)| Route {
        index,
        spec,
        is_by_source: spec.policy == "policySrc",
        net: read_net(&spec.cidr),
        next_hop: spec.next_hop_ip.trim().parse().ok(),
    })
}

pub(super) fn no_default_route(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let external = cluster.externals_of(vpc).next();
        let families: Vec<bool> = match external {
            Some(subnet) => subnet.cidrs.iter().map(|net| net.addr().is_ipv4()).collect(),
            // The families are unknown; any default route will do.
            None if routes(vpc).any(|route| route.is_default(true) || route.is_default(false)) => {
                continue;
            }
            None => vec![true],
        };
        for is_ipv4 in families {
            if routes(vpc).any(|route| route.is_default(is_ipv4)) {
                continue;
            }
            let all = if is_ipv4 { "0.0.0.0/0" } else { "::/0" };
            let gateways = external.into_iter().flat_map(|subnet| &subnet.gateways);
            let gateway = gateways.into_iter().find(|one| one.is_ipv4() == is_ipv4);
            let route = match gateway {
                Some(gateway) => format!("{all} via {gateway}"),
                None => format!("{all} via the gateway of the external subnet"),
            };
            let message = format!(
                "Vpc {} has an external port but no default route; expected {route}.",
                vpc.name
            );
            let draft = report.about(vpc.sourced).field("spec.staticRoutes");
            draft.found(message, format!("Add a static route {route}, policy: policyDst."));
        }
    }
}

/// Path of a route.
fn field(route: &Route<'_>) -> String {
    format!("spec.staticRoutes[{}]", route.index)
}

pub(super) fn unreachable_next_hop(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| cluster.is_router_known(vpc)) {
        let networks = cluster.router_networks(vpc);
        let is_on_link = |hop: &IpAddr| networks.iter().any(|(_, net)| net.contains(hop));
        let static_hops = routes(vpc)
            .map(|route| (format!("{}.nextHopIP", field(&route)), route.spec))
            .map(|(field, spec)| (field, &spec.next_hop_ip));
        let policies = vpc
            .spec
            .policy_routes
            .iter()
            .enumerate()
            .filter(|(_, policy)| policy.action == "reroute");
        let hops = policies.map(|(index, policy)| {
            (format!("spec.policyRoutes[{index}].nextHopIP"), &policy.next_hop_ip)
        });
        for (field, text) in static_hops.chain(hops) {
            for hop in read_addresses(text).iter().filter(|hop| !is_on_link(hop)) {
                let message = format!(
                    "Vpc {}: next hop {hop} is not on-link; northd drops the route with only a log line.",
                    vpc.name
                );
                let draft = report.about(vpc.sourced).field(&field);
                draft.found(message, "Use an address of a network of the router.");
            }
        }
    }
}

pub(super) fn other_gateway(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        for route in routes(vpc).filter(|route| route.is_default(true) || route.is_default(false)) {
            let Some(hop) = route.next_hop else {
                continue;
            };
            for external in cluster.externals_of(vpc) {
                let is_inside = external.cidrs.iter().any(|net| net.contains(&hop));
                let mut gateways = external.gateways.iter();
                let gateway = gateways.find(|one| is_ipv4(one) == is_ipv4(&hop));
                if let Some(gateway) = gateway.filter(|gateway| is_inside && **gateway != hop) {
                    let message = format!(
                        "Vpc {}: next hop {hop} is not the gateway {gateway} of {}.",
                        vpc.name, external.name
                    );
                    let draft = report
                        .about(vpc.sourced)
                        .other(external.sourced)
                        .field(format!("{}.nextHopIP", field(&route)));
                    draft.found(message, format!("Use nextHopIP: {gateway}."));
                }
            }
        }
    }
}

pub(super) fn several_next_hops(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        let mut first: BTreeMap<(&str, bool, IpNet), Option<IpAddr>> = BTreeMap::new();
        for route in routes(vpc).filter(|route| route.spec.ecmp_mode.is_empty()) {
            let Some(net) = route.net else {
                continue;
            };
            let key = (&*route.spec.route_table, route.is_by_source, net);
            let hop = *first.entry(key).or_insert(route.next_hop);
            if hop != route.next_hop {
                let message = format!(
                    "Vpc {}: ECMP here for {net}; in Kube-OVN the entries replace each other without end.",
                    vpc.name
                );
                let draft = report.about(vpc.sourced).field(field(&route));
                draft.found(message, "Keep one next hop of each route.");
            }
        }
    }
}

pub(super) fn source_before_destination(cluster: &Cluster<'_>, report: &mut Report) {
    if !cluster.facts.is_northd_stock {
        return;
    }
    for vpc in cluster.custom_vpcs() {
        for source in routes(vpc).filter(|route| route.is_by_source) {
            let (Some(net), Some(hop)) = (source.net, source.next_hop) else {
                continue;
            };
            let mut others = routes(vpc).filter(|route| !route.is_by_source);
            let overruled = others.find(|route| {
                route.spec.route_table == source.spec.route_table
                    && route.next_hop != Some(hop)
                    // A source route is meant to come before the default route.
                    && route.net.is_some_and(|other| {
                        other.prefix_len() > 0
                            && other.prefix_len() < net.prefix_len()
                            && is_ipv4_net(&other) == is_ipv4_net(&net)
                    })
            });
            let destination = overruled.and_then(|route| Some((route.net?, route.next_hop)));
            if let Some((destination, peer)) = destination {
                let peer = peer.map_or_else(|| destination.to_string(), |peer| peer.to_string());
                let message = format!(
                    "Vpc {}: source routes rank by prefix length: {net} wins over {destination}; answers to \
                     {peer} go to {hop}.",
                    vpc.name
                );
                let draft = report.about(vpc.sourced).field(field(&source));
                draft.found(
                    message,
                    "Use a policy route with a match that excepts the destination.",
                );
            }
        }
    }
}

pub(super) fn changing_next_hop(cluster: &Cluster<'_>, report: &mut Report) {
    if !cluster.facts.is_northd_stock {
        return;
    }
    for vpc in cluster.custom_vpcs() {
        let message = |hops: &str| {
            format!(
                "Vpc {}: connections of one client take different next hops (stock OVN hashes the connection, \
                 Kube-OVN's the source); a stateful next hop sees half of them: {hops}.",
                vpc.name
            )
        };
        let repair = "Use one next hop, or next hops that keep no state.";
        for (index, policy) in vpc.spec.policy_routes.iter().enumerate() {
            let hops = read_addresses(&policy.next_hop_ip);
            if policy.action == "reroute" && hops.len() > 1 {
                let draft = report
                    .about(vpc.sourced)
                    .field(format!("spec.policyRoutes[{index}].nextHopIP"));
                draft.found(message(&policy.next_hop_ip), repair);
            }
        }
        let mut hops: BTreeMap<(&str, bool, IpNet), Vec<_>> = BTreeMap::new();
        for route in routes(vpc) {
            if let (Some(net), Some(hop)) = (route.net, route.next_hop) {
                let key = (&*route.spec.route_table, route.is_by_source, net);
                hops.entry(key).or_default().push((route.index, hop));
            }
        }
        for hops in hops.into_values() {
            let texts: BTreeSet<String> = hops.iter().map(|(_, hop)| hop.to_string()).collect();
            if let (Some((index, _)), 2..) = (hops.last(), texts.len()) {
                let texts: Vec<String> = texts.into_iter().collect();
                let draft = report.about(vpc.sourced).field(format!("spec.staticRoutes[{index}]"));
                draft.found(message(&texts.join(", ")), repair);
            }
        }
    }
}

pub(super) fn tied_source_routes(cluster: &Cluster<'_>, report: &mut Report) {
    if cluster.facts.is_northd_stock {
        return;
    }
    for vpc in cluster.custom_vpcs() {
        let own: Vec<_> = routes(vpc)
            .filter(|route| route.is_by_source)
            .filter_map(|route| Some((route.index, route.net?, route.next_hop)))
            .collect();
        let automatic: Vec<_> = cluster
            .subnets_of(vpc)
            .flat_map(|subnet| {
                let nets = subnet.cidrs.iter();
                nets.map(move |net| (format!("the route of subnet {}", subnet.name), *net, subnet))
            })
            .collect();
        let is_host = |net: &IpNet| net.prefix_len() == net.max_prefix_len();
        for (place, (index, net, hop)) in own.iter().enumerate() {
            let other_own = own[..place].iter().find(|(_, other, other_hop)| {
                nets_overlap(net, other) && !is_host(other) && (net, hop) != (other, other_hop)
            });
            let other = other_own.map(|(index, other, _)| format!("route {index} ({other})"));
            let other_automatic = || {
                let mut automatic = automatic.iter();
                let found = automatic.find(|(_, other, subnet)| {
                    let is_same =
                        net == other && hop.is_some_and(|hop| subnet.gateways.contains(&hop));
                    nets_overlap(net, other) && !is_same
                });
                found.map(|(name, other, _)| format!("{name} ({other})"))
            };
            if is_host(net) {
                continue;
            }
            if let Some(other) = other.or_else(other_automatic) {
                let message = format!(
                    "Vpc {}: route {index} ({net}) and {other} have one priority in Kube-OVN's northd: OVN takes \
                     either.",
                    vpc.name
                );
                let draft = report.about(vpc.sourced).field(format!("spec.staticRoutes[{index}]"));
                draft.found(message, "Use policy routes, whose order their priorities give.");
            }
        }
    }
}
