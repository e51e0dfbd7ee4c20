//! Policies that send traffic to the connect router, and routes from it to the networks.

use std::collections::BTreeMap;

use ipnet::IpNet;
use patchbay_schemas::nb::LogicalRouterPolicyAction;

use patchbay_model::external_ids::{OwnedRow, key};
use patchbay_model::{IpFamily, format_address, format_net};

use super::{Link, Member};
use crate::tables::{PolicyRow, RouteRow};

/// Priority of the policies.
const POLICY_PRIORITY: i64 = 9001;
/// Priority of the policies that drop what no policy sends to the connect router.
const OTHERS_PRIORITY: i64 = 9000;
/// External id of a policy on the router of a VPC: a subnet. Kube-OVN deletes policies without it.
const SUBNET: &str = "subnet";

/// Routes of the connect router over a link: to the node's subnets of a layer3 network, or to all
/// subnets of a layer2 network.
pub(crate) fn routes(member: &Member, link: &Link<'_>) -> Vec<RouteRow> {
    let subnets = link.routed_subnets(member);
    let mut routes = Vec::with_capacity(subnets.len());
    for family in IpFamily::BOTH {
        let (Some((_, nexthop)), Some(rows)) =
            (link.addresses_of(family), member.link_rows.routes(family))
        else {
            continue;
        };
        let of_family = subnets.iter().filter(|subnet| IpFamily::of_net(**subnet) == family);
        for (place, subnet) in of_family.enumerate() {
            let mut external_ids = rows.external_ids(link.attachment);
            if place > 0 {
                // The identity covers one subnet of a family. Further subnets are appended to it.
                let first = external_ids.get_str(key::ID).unwrap_or_default();
                let id = format!("{first}:{subnet}");
                external_ids.insert(key::ID.into(), id.into());
            }
            routes.push(RouteRow {
                ip_prefix: format_net(*subnet).into(),
                nexthop: format_address(nexthop).into(),
                external_ids,
                ..RouteRow::default()
            });
        }
    }
    routes
}

/// Policies on the source network's router that send traffic to the destination: one for each IP
/// family and port of the router. Where the router gets routes, another policy drops what comes in
/// by other ports, which had no way before.
pub(crate) fn policies(source: &Member, link: &Link<'_>, destination: &Member) -> Vec<PolicyRow> {
    let inports = source.inports(link.node.map_or("", |node| &node.name));
    let mut rows = Vec::new();
    for family in IpFamily::BOTH {
        let Some((nexthop, _)) = link.addresses_of(family) else {
            continue;
        };
        let subnets: Vec<IpNet> = destination.pod_subnets_of(family).collect();
        let destinations = match &subnets[..] {
            [] => continue,
            [_] => destinations(&subnets),
            _ => format!("({})", destinations(&subnets)),
        };
        for (place, (inport, subnet)) in inports.iter().enumerate() {
            let end = if place == 0 { "" } else { subnet.unwrap_or_default() };
            let mut external_ids = policy_ids(source, destination, family, end);
            external_ids.extend(subnet.map(|subnet| (SUBNET.to_owned(), subnet.to_owned())));
            rows.push(PolicyRow {
                priority: POLICY_PRIORITY,
                r#match: format!("inport == \"{inport}\" && {destinations}"),
                action: LogicalRouterPolicyAction::Reroute,
                nexthops: [nexthop.to_string()].into(),
                external_ids,
                ..PolicyRow::default()
            });
        }
        for table in source.route_tables() {
            let Some(others) = source.other_inports(table) else {
                continue;
            };
            let without_way = subnets.iter().filter(|subnet| source.needs_way(table, subnet));
            rows.extend(without_way.map(|subnet| {
                let destination_term = self::destinations(std::slice::from_ref(subnet));
                let end = format!("{table}:{subnet}");
                let mut external_ids = policy_ids(source, destination, family, &end);
                let subnets = source.vpc.iter().flat_map(|vpc| &vpc.subnets).take(1);
                external_ids.extend(subnets.map(|subnet| (SUBNET.to_owned(), subnet.name.clone())));
                PolicyRow {
                    priority: OTHERS_PRIORITY,
                    r#match: format!("{destination_term}{others}"),
                    action: LogicalRouterPolicyAction::Drop,
                    external_ids,
                    ..PolicyRow::default()
                }
            }));
        }
    }
    rows
}

/// External ids of a policy. `end`: further identity of all but the first one of a family.
fn policy_ids(
    source: &Member,
    destination: &Member,
    family: IpFamily,
    end: &str,
) -> BTreeMap<String, String> {
    let row = OwnedRow::RouterPolicy {
        source: source.id,
        destination: destination.id,
        family,
        router: &source.router,
    };
    let mut ids = row.external_ids(source.link_rows.connect());
    if let (Some(id), false) = (ids.get_mut(key::ID), end.is_empty()) {
        *id = format!("{id}:{end}");
    }
    ids
}

/// Routes of the source network's router to the destination. A policy is consulted only after a
/// route, so that a router without any way there gets one.
pub(crate) fn ways(source: &Member, link: &Link<'_>, destination: &Member) -> Vec<RouteRow> {
    let mut rows = Vec::new();
    for family in IpFamily::BOTH {
        let Some((nexthop, _)) = link.addresses_of(family) else {
            continue;
        };
        for table in source.route_tables() {
            let subnets = destination.pod_subnets_of(family);
            rows.extend(subnets.filter(|subnet| source.needs_way(table, subnet)).map(|subnet| {
                let end = format!("{table}:{subnet}");
                let external_ids = policy_ids(source, destination, family, &end).into_iter();
                RouteRow {
                    ip_prefix: format_net(subnet).into(),
                    nexthop: format_address(nexthop).into(),
                    route_table: table.into(),
                    external_ids: external_ids
                        .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                        .collect(),
                    ..RouteRow::default()
                }
            }));
        }
    }
    rows
}

/// Match term for packets to any of the subnets: `ip4.dst == … || ip6.dst == …`.
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
