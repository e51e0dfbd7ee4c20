//! Warnings about ranges that have no address for a node or a network.

use ipnet::IpNet;
use patchbay_allocate::networks::NumberedNetworks;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{ClusterSettings, IpFamily, MasqueradePlace, Network, NodeId, Role, Topology};
use patchbay_resources::manifests::Problem;

/// IP families, in the order of warnings.
const FAMILIES: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

/// Returns a warning for each range that is too small for the primary networks and the nodes: rows
/// with addresses of the range are missing then, and packets are lost.
pub(crate) fn range_warnings(
    settings: &ClusterSettings,
    NumberedNetworks { networks, node_ids, .. }: &NumberedNetworks,
) -> Vec<Problem> {
    // The addresses of a node follow from its id.
    let last = node_ids.iter().max_by_key(|(_, id)| *id);
    let primary = || networks.iter().filter(|one| one.role == Role::Primary);
    let mut warnings = Vec::new();
    if let Some((node, id)) = last {
        let has_layer3 = primary().any(|one| one.topology == Topology::Layer3);
        let transit = settings.transit_subnets.iter().filter(|_| has_layer3);
        let small = transit.filter(|range| nth_address(**range, id.get().into()).is_none());
        warnings.extend(small.map(|range| node_warning("transit range", *range, node, id)));
        for network in primary() {
            let owner = format!("network {}: ", network.name);
            let small = small_ranges(network, id);
            warnings.extend(
                small.map(|(kind, range)| owner.clone() + &node_warning(kind, range, node, id)),
            );
        }
    }
    for range in &settings.masquerade_subnets {
        let family = IpFamily::of_net(*range);
        let lacks = |network: &&Network| {
            let place = MasqueradePlace::ManagementPort(network.id);
            network.has_family(family) && settings.masquerade_address(place, family).is_none()
        };
        if let Some(network) = primary().find(lacks) {
            warnings.push(format!(
                "the masquerade range {range} has no addresses for network {}, whose id is {}",
                network.name, network.id
            ));
        }
    }
    warnings.into_iter().map(Problem::from).collect()
}

/// Ranges of a network without an address for the node of this id.
fn small_ranges(network: &Network, id: NodeId) -> impl Iterator<Item = (&'static str, IpNet)> {
    let of_family = |ranges: &[IpNet], family| {
        let mut ranges = ranges.iter().copied();
        ranges.find(|range| IpFamily::of_net(*range) == family)
    };
    let families = FAMILIES.into_iter().filter(|family| network.has_family(*family));
    families.filter_map(move |family| {
        let (kind, range, is_there) = match network.topology {
            Topology::Layer3 => (
                "join subnet",
                of_family(&network.join_subnets, family)?,
                network.join_address(id, family).is_some(),
            ),
            Topology::Layer2 => (
                "transit subnet",
                of_family(&network.transit_subnets, family)?,
                network.transit_pair(id, family).is_some(),
            ),
            Topology::Vpc => return None,
        };
        (!is_there).then_some((kind, range))
    })
}

fn node_warning(kind: &str, range: IpNet, node: &str, id: NodeId) -> String {
    format!("the {kind} {range} has no address for node {node}, whose id is {id}")
}
