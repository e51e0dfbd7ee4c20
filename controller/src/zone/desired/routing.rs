//! How traffic gets from one network to another: policies lead to the connect router, routes lead out of it.

use ipnet::IpNet;
use patchbay_schemas::nb::{
    LogicalRouterPolicy, LogicalRouterPolicyAction, LogicalRouterStaticRoute,
};

use crate::model::external_ids::{OwnedRow, key};
use crate::model::{Connect, IpFamily, Network};
use crate::zone::report::{ConnectReport, NodeSkip, SkippedNode};

use super::links::Link;
use super::members::Member;
use super::{NetworkRouterRows, owned};

/// Priority of the policies.
const POLICY_PRIORITY: i64 = 9001;

/// The routes of the connect router: to the nodes' subnets of layer3 networks, to layer2 networks as a whole.
pub(super) fn routes(
    connect: &Connect,
    links: &[Link<'_>],
    report: &mut ConnectReport,
) -> Vec<LogicalRouterStaticRoute> {
    let mut routes = Vec::with_capacity(links.len());
    for link in links {
        let network = link.member.network;
        let before = routes.len();
        if let Some(node) = link.node {
            add_routes(connect, link, node.subnets_of(&network.name), &mut routes);
        } else {
            let subnets: Vec<IpNet> = network.pod_subnets.iter().map(|net| net.cidr).collect();
            add_routes(connect, link, &subnets, &mut routes);
        }
        if routes.len() == before {
            report.skipped_nodes.push(SkippedNode {
                network: network.name.clone(),
                node: link.node.map(|node| node.name.clone()),
                reason: NodeSkip::NoSubnet,
            });
        }
    }
    routes
}

fn add_routes(
    connect: &Connect,
    link: &Link<'_>,
    subnets: &[IpNet],
    routes: &mut Vec<LogicalRouterStaticRoute>,
) {
    for family in IpFamily::BOTH {
        let Some((_, nexthop)) = link.addresses_of(family) else {
            continue;
        };
        let of_family = subnets
            .iter()
            .filter(|subnet| IpFamily::of_net(**subnet) == family);
        for (place, subnet) in of_family.enumerate() {
            let row = OwnedRow::StaticRoute {
                network: link.member.network.id,
                attachment: link.attachment,
                family,
            };
            let mut external_ids = owned(row.external_ids(&connect.name));
            if place > 0 {
                // The identity knows one subnet of a family; of several, all but the first one add the subnet to it.
                external_ids
                    .entry(key::ID.to_owned())
                    .and_modify(|id| *id = format!("{id}:{subnet}"));
            }
            routes.push(LogicalRouterStaticRoute {
                ip_prefix: subnet.to_string(),
                nexthop: nexthop.to_string(),
                external_ids,
                ..LogicalRouterStaticRoute::default()
            });
        }
    }
}

/// The rows on the routers of the networks in this zone: the port to the connect router, and a policy for each other
/// network and family.
pub(super) fn network_routers(
    connect: &Connect,
    members: &[Member<'_>],
    links: &[Link<'_>],
) -> Vec<NetworkRouterRows> {
    let local = links
        .iter()
        .filter_map(|link| Some((link, link.network_port.clone()?)));
    local
        .map(|(link, port)| NetworkRouterRows {
            router: link.member.router.clone(),
            port,
            policies: members
                .iter()
                .filter(|other| other.network.id != link.member.network.id)
                .flat_map(|other| policies(connect, link, other.network))
                .collect(),
        })
        .collect()
}

fn policies(
    connect: &Connect,
    link: &Link<'_>,
    destination: &Network,
) -> impl Iterator<Item = LogicalRouterPolicy> {
    let source = link.member;
    let node = link.node.map_or("", |node| &node.name);
    let inport = source.network.inport(node);
    IpFamily::BOTH.into_iter().filter_map(move |family| {
        let (nexthop, _) = link.addresses_of(family)?;
        let subnets: Vec<IpNet> = destination.pod_subnets_of(family).collect();
        let destinations = match &subnets[..] {
            [] => return None,
            [_] => destinations(&subnets),
            _ => format!("({})", destinations(&subnets)),
        };
        let row = OwnedRow::RouterPolicy {
            source: source.network.id,
            destination: destination.id,
            family,
            router: &source.router,
        };
        Some(LogicalRouterPolicy {
            priority: POLICY_PRIORITY,
            r#match: format!("inport == \"{inport}\" && {destinations}"),
            action: LogicalRouterPolicyAction::Reroute,
            nexthops: [nexthop.to_string()].into(),
            external_ids: owned(row.external_ids(&connect.name)),
            ..LogicalRouterPolicy::default()
        })
    })
}

/// The part of a match that is true for packets to any of the subnets: `ip4.dst == … || ip6.dst == …`.
pub(super) fn destinations(subnets: &[IpNet]) -> String {
    let terms: Vec<String> = subnets
        .iter()
        .map(|subnet| match subnet {
            IpNet::V4(subnet) => format!("ip4.dst == {subnet}"),
            IpNet::V6(subnet) => format!("ip6.dst == {subnet}"),
        })
        .collect();
    terms.join(" || ")
}
