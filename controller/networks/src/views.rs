//! Views of a zone's networks, from which their rows follow. Networks are known by the prefix of
//! their rows' names, because rows show nothing else.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{Feature, Topology};
use patchbay_zone::{Advertised, NetworkKind, OutboundSnat, ZoneNetwork, ZoneObjects};

use super::isolation::isolated_ports;
use super::node::way_to;
use super::remotes::Remotes;
use super::site::Site;
use super::skipped::SkippedNetworks;
use super::{
    NetworkRows, PortGroupRows, RemoteRows, SkipReason, SkippedNetwork, layer2, layer3, localnet,
};

/// Networks that have no place in the zone or are incomplete there, and why.
pub fn skipped_networks(objects: &ZoneObjects) -> Vec<SkippedNetwork> {
    SkippedNetworks::default().update(objects)
}

/// `true` if some rows may wait for others, because they refer to them by UUID: then a plan may be
/// complete only after another one.
pub(crate) fn has_waiting_rows(objects: &ZoneObjects) -> bool {
    let features = [Feature::RouteAdvertisements, Feature::EgressIp];
    let is_exempting = |network: &ZoneNetwork| {
        let details = network.kind.overlay().map(|overlay| &overlay.details);
        details.is_some_and(|details| {
            let details = details.as_ref();
            details.is_ok_and(|details| details.outbound_snat == Some(OutboundSnat::Enabled))
        })
    };
    let has_feature = |feature: &Feature| objects.settings().has_feature(*feature);
    features.iter().any(has_feature) || objects.networks().any(|(_, network)| is_exempting(network))
}

/// The rows of a network, but for those that lead to other nodes. `None`: there is no such network.
pub fn network_rows(
    objects: &ZoneObjects,
    network: &str,
) -> Option<Result<NetworkRows, SkipReason>> {
    let prefix = network_prefix(network);
    let is_advertised = advertised(objects, &prefix) == Advertised::Yes;
    rows_of_prefix(objects, &prefix, is_advertised)
}

/// The rows of a network that lead to another node; `None` if there are none.
pub fn remote_rows(objects: &ZoneObjects, network: &str, node: &str) -> Option<RemoteRows> {
    let prefix = network_prefix(network);
    let Some(remotes) = remotes(objects, &prefix) else {
        return remote_layer2_rows(objects, &prefix, node);
    };
    let node = objects.node(node)?;
    remotes.rows(node, &way_to(node))
}

/// The network of this prefix, if it has no place in the zone or is incomplete there.
pub(crate) fn skipped_network(objects: &ZoneObjects, prefix: &str) -> Option<SkippedNetwork> {
    let network = &objects.network(prefix)?.name;
    let reason = match network_rows(objects, network)? {
        Ok(rows) => rows.incomplete?,
        Err(reason) => reason,
    };
    Some(SkippedNetwork { network: network.to_string(), reason })
}

/// Advertisement of a network on the zone's node.
pub(crate) fn advertised(objects: &ZoneObjects, prefix: &str) -> Advertised {
    let overlay = objects.network(prefix).and_then(|of| of.kind.overlay());
    overlay.map_or(Advertised::No, |overlay| overlay.advertised)
}

/// Value of the id of the ACL that a network has while it is advertised.
pub(crate) fn pass_acl_id(objects: &ZoneObjects, prefix: &str) -> Option<String> {
    Some(site(objects, prefix)?.ok()?.pass_acl_id())
}

/// The switch port of a primary network towards its router.
pub(crate) fn router_side_port(objects: &ZoneObjects, prefix: &str) -> Option<String> {
    let site = site(objects, prefix)?.ok()?;
    site.is_primary().then(|| site.router_side_port())
}

/// `true` if another node has a network in the older layer2 layout.
fn has_older_nodes(objects: &ZoneObjects, network: &str) -> bool {
    let mut others = objects.nodes().filter(|(name, _)| *name != objects.zone());
    others.any(|(_, node)| node.layer2.older_key(network).is_some())
}

/// `true` if the rows of a network depend on whether it leads to other nodes.
pub(crate) fn follows_nodes(objects: &ZoneObjects, prefix: &str) -> bool {
    let site = site(objects, prefix).and_then(Result::ok);
    site.is_some_and(|site| {
        site.network.topology == Topology::Layer3 && layer3::follows_remotes(&site)
    })
}

fn has_remote_nodes(objects: &ZoneObjects, prefix: &str) -> bool {
    remotes(objects, prefix).is_some_and(|remotes| {
        let mut nodes = objects.nodes();
        nodes.any(|(_, node)| remotes.rows(node, &way_to(node)).is_some())
    })
}

/// Addresses of the hosts of all nodes that are known from annotations.
pub(crate) fn host_addresses(objects: &ZoneObjects) -> Vec<IpAddr> {
    let annotated = objects.nodes().filter_map(|(_, node)| node.annotated_addresses());
    annotated.flatten().copied().collect()
}

/// The rows of the network of a prefix, but for those that lead to other nodes.
pub(crate) fn rows_of_prefix(
    objects: &ZoneObjects,
    prefix: &str,
    is_advertised: bool,
) -> Option<Result<NetworkRows, SkipReason>> {
    let network = objects.network(prefix)?;
    if let NetworkKind::Localnet(localnet) = &network.kind {
        return Some(localnet::rows(localnet));
    }
    let made = site(objects, prefix)?.and_then(|mut site| {
        site.is_advertised = is_advertised;
        site.switch = network.switch;
        site.has_older_nodes = has_older_nodes(objects, &site.network.name);
        site.has_remote_nodes = follows_nodes(objects, prefix) && has_remote_nodes(objects, prefix);
        match site.network.topology {
            Topology::Layer3 => layer3::rows(&site),
            Topology::Layer2 => layer2::rows(&site),
            // The rows of a VPC follow from its own objects.
            Topology::Vpc => Ok(NetworkRows::default()),
        }
    });
    Some(made)
}

/// Common part of the rows of a layer3 network that lead to other nodes. `None`: it has no such
/// rows, or another topology.
pub(crate) fn remotes(objects: &ZoneObjects, prefix: &str) -> Option<Remotes> {
    let site = site(objects, prefix)?.ok()?;
    let is_layer3 = site.network.topology == Topology::Layer3;
    let nodes = objects.active_nodes(&site.network.name).cloned();
    Remotes::new(&site, nodes).filter(|_| is_layer3)
}

/// The rows of a layer2 network that lead to another node; `None` if there are none.
pub(crate) fn remote_layer2_rows(
    objects: &ZoneObjects,
    prefix: &str,
    node: &str,
) -> Option<RemoteRows> {
    let site = site(objects, prefix)?.ok()?;
    let is_made = site.network.topology == Topology::Layer2
        && site.has_interconnect()
        && !site.is_central()
        && objects.is_rendered(&site.network.name, node)
        && *node != **objects.zone();
    layer2::remote_rows(&site, objects.node(node).filter(|_| is_made)?)
}

/// Topology of an overlay network.
pub(crate) fn topology(objects: &ZoneObjects, prefix: &str) -> Option<Topology> {
    Some(objects.network(prefix)?.kind.overlay()?.network.topology)
}

/// Names of the transit switches of networks that are not rendered on a node.
pub(crate) fn transit_switches_without(objects: &ZoneObjects, node: &str) -> BTreeSet<String> {
    let networks = objects.networks();
    let without = networks.filter(|(_, network)| !objects.is_rendered(&network.name, node));
    without.map(|(prefix, _)| layer3::transit_switch_of(prefix)).collect()
}

/// `true` if the network is known, but its place in the zone is not.
pub(crate) fn lacks_place(objects: &ZoneObjects, prefix: &str) -> bool {
    site(objects, prefix).is_some_and(|site| match site {
        Ok(site) => site.network.topology == Topology::Layer3 && layer3::lacks_place(&site),
        Err(_) => true,
    })
}

/// `true` if a route to this prefix of a network that leads to a node stays if it is there,
/// although the node has no such subnet: as in OVN-Kubernetes while the node has another one, or
/// because the node's annotation is wrong, so that its subnets are unknown.
pub(crate) fn retains_route(objects: &ZoneObjects, prefix: &str, node: &str, route: IpNet) -> bool {
    let known = objects.network(prefix).filter(|network| objects.is_rendered(&network.name, node));
    let (Some(network), Some(node)) = (known, objects.node(node)) else {
        return false;
    };
    let mut ranges = network.kind.pod_subnets();
    ranges.any(|range| range.contains(&route)) && node.node.may_lead_to(&network.name, route)
}

/// The port group that isolates pods from the default network.
pub(crate) fn isolated_ports_of(objects: &ZoneObjects) -> Option<PortGroupRows> {
    isolated_ports(objects.own_node()?, objects.settings())
}

/// An overlay network at the zone's node. `None`: there is no such network.
fn site<'a>(objects: &'a ZoneObjects, prefix: &str) -> Option<Result<Site<'a>, SkipReason>> {
    let overlay = objects.network(prefix)?.kind.overlay()?;
    let node = objects.own_node().ok_or(SkipReason::NoNode);
    Some(node.and_then(|node| {
        let details = overlay.details.as_ref().map_err(Clone::clone)?;
        Ok(Site::new(objects, &overlay.network, details, node))
    }))
}
