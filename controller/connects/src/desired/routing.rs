//! Policies that send traffic to the connect router, and routes from it to the networks.

use ipnet::IpNet;
use patchbay_schemas::nb::LogicalRouterPolicyAction;

use patchbay_model::external_ids::{OwnedRow, key};
use patchbay_model::{IpFamily, format_address, format_net};

use super::{Link, Member};
use crate::tables::{PolicyRow, RouteRow};

/// Priority of the policies.
const POLICY_PRIORITY: i64 = 9001;

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

/// Policies on the source network's router that send traffic to the destination, one for each IP
/// family.
pub(crate) fn policies(
    source: &Member,
    link: &Link<'_>,
    destination: &Member,
) -> impl Iterator<Item = PolicyRow> {
    let connect = source.link_rows.connect();
    let inport = source.inport(link.node.map_or("", |node| &node.name));
    IpFamily::BOTH.into_iter().filter_map(move |family| {
        let (nexthop, _) = link.addresses_of(family)?;
        let subnets: Vec<IpNet> = destination.pod_subnets_of(family).collect();
        let destinations = match &subnets[..] {
            [] => return None,
            [_] => destinations(&subnets),
            _ => format!("({})", destinations(&subnets)),
        };
        let row = OwnedRow::RouterPolicy {
            source: source.id,
            destination: destination.id,
            family,
            router: &source.router,
        };
        Some(PolicyRow {
            priority: POLICY_PRIORITY,
            r#match: format!("inport == \"{inport}\" && {destinations}"),
            action: LogicalRouterPolicyAction::Reroute,
            nexthops: [nexthop.to_string()].into(),
            external_ids: row.external_ids(connect),
            ..PolicyRow::default()
        })
    })
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
