//! Rules P10, T9 and T6: peers of VPCs, and names that collide.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::cluster::{Cluster, VpcView};
use crate::ranges::{is_ipv4_net, nets_overlap};
use crate::report::Report;

use super::routes::routes;

/// Addresses of a VPC's port to a peer, with their host bits. `None`: the VPC does not declare the
/// peer.
fn addresses(vpc: &VpcView<'_>, peer: &str) -> Option<Vec<IpNet>> {
    let mut peerings = vpc.spec.vpc_peerings.iter();
    let peering = peerings.find(|peering| peering.remote_vpc == peer)?;
    let texts = peering.local_connect_ip.split(',');
    Some(texts.filter_map(|text| text.trim().parse().ok()).collect())
}

pub(super) fn one_sided(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        for (index, peering) in vpc.spec.vpc_peerings.iter().enumerate() {
            let remote = &peering.remote_vpc;
            let Some(reason) = peering_problem(cluster, vpc, remote) else {
                continue;
            };
            let message = format!("Vpc {}: peering with {remote} needs {reason}.", vpc.name);
            let mut draft = report.about(vpc.sourced);
            if let Some(remote) = cluster.vpc(remote) {
                draft = draft.other(remote.sourced);
            }
            let draft = draft.field(format!("spec.vpcPeerings[{index}]"));
            draft.found(
                message,
                "Declare the peering on both sides, with two addresses of one network.",
            );
        }
    }
}

/// What a peering needs on the other side. `None`: nothing.
fn peering_problem(cluster: &Cluster<'_>, vpc: &VpcView<'_>, remote: &str) -> Option<String> {
    let own = addresses(vpc, remote).unwrap_or_default();
    let Some(peer) = cluster.vpc(remote) else {
        return Some(format!("a Vpc {remote}, which does not exist"));
    };
    let Some(theirs) = addresses(peer, vpc.name) else {
        return Some(format!("an entry for {} on {remote}", vpc.name));
    };
    if own.is_empty() {
        return Some("a localConnectIP with a prefix length".to_owned());
    }
    own.iter().find_map(|own| {
        let mut theirs = theirs.iter();
        let other = theirs.find(|other| is_ipv4_net(other) == is_ipv4_net(own));
        match other {
            Some(other) if other.trunc() != own.trunc() => {
                Some(format!("an address of {} on {remote}, not {other}", own.trunc()))
            }
            Some(other) if other.addr() == own.addr() => {
                Some(format!("another address than {} on {remote}", own.addr()))
            }
            Some(_) => None,
            None => Some(format!("an address of {} on {remote}", own.trunc())),
        }
    })
}

pub(super) fn through_a_peer(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs() {
        for route in routes(vpc).filter(|route| !route.is_by_source) {
            let (Some(net), Some(hop)) = (route.net, route.next_hop) else {
                continue;
            };
            let mut peers =
                vpc.spec.vpc_peerings.iter().filter_map(|one| cluster.vpc(&one.remote_vpc));
            let is_hop = |peer: &&VpcView<'_>| {
                let theirs = addresses(peer, vpc.name).unwrap_or_default();
                theirs.iter().any(|address| address.addr() == hop)
            };
            let Some(peer) = peers.find(is_hop) else {
                continue;
            };
            if let Some(further) = further_peer(cluster, vpc, peer, net) {
                let message = format!(
                    "Vpc {} reaches {} through {}; peering is not limited to two.",
                    vpc.name, further.name, peer.name
                );
                let draft = report
                    .about(vpc.sourced)
                    .other(peer.sourced)
                    .other(further.sourced)
                    .field(format!("spec.staticRoutes[{}]", route.index));
                draft.found(
                    message,
                    format!("Remove the route, or drop the way by a policy of {}.", peer.name),
                );
            }
        }
    }
}

/// Peer through which a peer of a VPC reaches a network that it has not itself.
fn further_peer<'c, 'a>(
    cluster: &'c Cluster<'a>,
    vpc: &VpcView<'a>,
    peer: &VpcView<'a>,
    net: IpNet,
) -> Option<&'c VpcView<'a>> {
    let mut own = cluster.subnets_of(peer).flat_map(|subnet| &subnet.cidrs);
    if own.any(|own| nets_overlap(own, &net)) {
        return None;
    }
    let hops: Vec<_> = routes(peer)
        .filter(|route| !route.is_by_source)
        .filter(|route| route.net.is_some_and(|other| other.contains(&net)))
        .filter_map(|route| route.next_hop)
        .collect();
    let mut others = peer
        .spec
        .vpc_peerings
        .iter()
        .filter(|one| one.remote_vpc != vpc.name)
        .filter_map(|one| cluster.vpc(&one.remote_vpc));
    others.find(|other| {
        let theirs = addresses(other, peer.name).unwrap_or_default();
        theirs.iter().any(|address| hops.contains(&address.addr()))
    })
}

pub(super) fn colliding_names(cluster: &Cluster<'_>, report: &mut Report) {
    let mut ports: BTreeMap<String, (String, &VpcView<'_>)> = BTreeMap::new();
    let mut vpcs: Vec<&VpcView<'_>> = cluster.vpcs.iter().collect();
    vpcs.sort_by_key(|vpc| vpc.sourced.position);
    for vpc in vpcs {
        let subnets = cluster.connected_with(vpc).map(|subnet| subnet.name);
        let peers = vpc.spec.vpc_peerings.iter().map(|peering| &*peering.remote_vpc);
        for other in subnets.chain(peers) {
            let pair = format!("Vpc {} with {other}", vpc.name);
            let port = format!("{}-{other}", vpc.name);
            let (first, owner) = ports.entry(port.clone()).or_insert_with(|| (pair.clone(), vpc));
            if *first != pair {
                let message = format!("{first} and {pair} both need the port name {port}.");
                let draft = report.about(vpc.sourced).other(owner.sourced);
                draft.found(message, "Rename one of them.");
            }
        }
    }
    for vpc in cluster.custom_vpcs() {
        if let Some(subnet) = cluster.subnet(vpc.name) {
            let message = format!(
                "Vpc {} and Subnet {} share a name: both need the name {} for a router and a switch.",
                vpc.name, subnet.name, vpc.name
            );
            let draft = report.about(subnet.sourced).other(vpc.sourced);
            draft.field("metadata.name").found(message, "Rename one of them.");
        }
        if vpc.name.starts_with(|c: char| c.is_ascii_digit()) {
            let message = format!(
                "Vpc {}: its address sets need a name that does not start with a digit.",
                vpc.name
            );
            let draft = report.about(vpc.sourced).field("metadata.name");
            draft.found(message, "Use a name that starts with a letter.");
        }
    }
}

pub(super) fn open_nat(cluster: &Cluster<'_>, report: &mut Report) {
    for vpc in cluster.custom_vpcs().filter(|vpc| vpc.has_external()) {
        let external = cluster.externals_of(vpc).next();
        let (Some(network), true) = (
            external.and_then(|subnet| cluster.network_of(subnet)),
            cluster.overlays_of(vpc).next().is_some(),
        ) else {
            continue;
        };
        let message = format!(
            "NAT is not a wall: a host on provider network {} reaches machines of {} by their private address \
             through the router's MAC.",
            crate::cluster::name_of(network),
            vpc.name
        );
        let draft = report.about(vpc.sourced).other(network);
        draft.field("spec.enableExternal").found(
            message,
            "Let only the gateway into the provider network, or use security groups.",
        );
    }
}
