//! Validation of the selected networks and the ranges of a connect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{ClusterSettings, ConnectedVpc, IpFamily, Network, NetworkId, OwnerKey};
use thiserror::Error;

use super::error::format_list;
use super::owner_ranges::OwnerRanges;

/// Reason why networks cannot be connected through the ranges of a connect, in the order of the
/// checks.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum ValidationError {
    #[error(
        "cluster subnets overlap with cluster network connect subnets: {range} subnet with subnets {subnets} and ClusterNetworkConnect.connectSubnets with subnets {connect}"
    )]
    ClusterRange {
        /// Purpose of the range.
        range: &'static str,
        subnets: String,
        connect: String,
    },
    #[error(
        "selected networks overlap with cluster network connect subnets: network {network} with {kind}subnets {subnets} and ClusterNetworkConnect.connectSubnets with subnets {connect}"
    )]
    NetworkRange {
        network: String,
        /// Kind of the subnets and a space; empty for pod subnets.
        kind: &'static str,
        subnets: String,
        connect: String,
    },
    #[error(
        "can not connect selected networks: selected networks have overlapping subnets: network {left} with subnets {left_subnets} and network {right} with subnets {right_subnets}"
    )]
    PodSubnets { left: String, left_subnets: String, right: String, right_subnets: String },
    #[error(
        "can not connect selected networks: network {network} with subnets {subnets} overlaps with {range} of {of}, which Vpc {vpc} uses"
    )]
    Occupied { network: String, subnets: String, vpc: String, of: String, range: IpNet },
    #[error("IP family conflict: connected network {left} has only {} subnets, but another connected network {right} has only {} subnets", left_family.long_name(), left_family.other().long_name())]
    Families { left: String, left_family: IpFamily, right: String },
    #[error("IP family conflict: connected network {network} is {0}-only but connectSubnets do not contain an {0} subnet", family.long_name())]
    MissingFamily { network: String, family: IpFamily },
    #[error(
        "IP family conflict: connectSubnets contain no subnet of an IP family that the cluster runs"
    )]
    NoFamily,
}

/// Error of two connects with the same networks and overlapping ranges.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "connectSubnets overlap detected between CNC {connect} and CNC {other} which both select networks {networks}"
)]
pub(super) struct SharedNetworks {
    pub(super) connect: String,
    pub(super) other: String,
    /// List of owner keys.
    pub(super) networks: String,
}

/// Other connects with overlapping ranges that have some of the selected networks. `ranges`: those
/// of the networks that connects have.
pub(super) fn shared_networks(
    connect: &str,
    cidrs: &[IpNet],
    selected: impl IntoIterator<Item = OwnerKey>,
    ranges: &OwnerRanges,
) -> Vec<SharedNetworks> {
    let selected: BTreeSet<OwnerKey> = selected.into_iter().collect();
    let mut shared = BTreeMap::<&str, Vec<OwnerKey>>::new();
    for owner in selected {
        let overlapping = ranges.overlapping(owner, cidrs).into_iter();
        for other in overlapping.filter(|other| *other != connect) {
            shared.entry(other).or_default().push(owner);
        }
    }
    shared
        .into_iter()
        .map(|(other, networks)| SharedNetworks {
            connect: connect.to_owned(),
            other: other.to_owned(),
            networks: format_list(networks),
        })
        .collect()
}

/// Finds networks with addresses that a VPC uses besides those of its selected subnets: packets to
/// them would not leave the VPC.
fn occupied_ranges(
    errors: &mut Vec<ValidationError>,
    vpc: &ConnectedVpc,
    networks: &BTreeMap<&str, &Network>,
) {
    let others = networks.values().filter(|network| network.name != vpc.network.name);
    for network in others {
        let subnets = cidrs(network);
        let mut occupied = vpc.occupied.iter();
        let found = occupied.find(|(_, range)| overlap(&subnets, std::slice::from_ref(range)));
        if let Some((of, range)) = found {
            errors.push(ValidationError::Occupied {
                network: network.name.clone(),
                subnets: format_list(subnets),
                vpc: vpc.network.name.clone(),
                of: of.clone(),
                range: *range,
            });
        }
    }
}

/// Checks the selected networks, by name, and the ranges of a connect. Returns all overlaps, in the
/// order of the checks and then of the names; without an overlap, the errors of IP families.
pub(super) fn validate(
    settings: &ClusterSettings,
    connect: &[IpNet],
    networks: &BTreeMap<&str, &Network>,
    vpcs: Option<&BTreeMap<NetworkId, Arc<ConnectedVpc>>>,
) -> Vec<ValidationError> {
    let mut errors = Vec::new();
    cluster_ranges(&mut errors, settings, connect);
    network_ranges(&mut errors, connect, networks);
    pod_subnets(&mut errors, networks);
    if errors.is_empty() {
        let vpcs = vpcs.into_iter().flat_map(BTreeMap::values);
        vpcs.for_each(|vpc| occupied_ranges(&mut errors, vpc, networks));
    }
    // As in OVN-Kubernetes, an overlap is reported first.
    if errors.is_empty() {
        families(&mut errors, settings, connect, networks);
    }
    errors
}

/// `true` if two sets of ranges have addresses in common.
pub(super) fn overlap(left: &[IpNet], right: &[IpNet]) -> bool {
    left.iter().any(|left| right.iter().any(|right| left.contains(right) || right.contains(left)))
}

fn cluster_ranges(
    errors: &mut Vec<ValidationError>,
    settings: &ClusterSettings,
    connect: &[IpNet],
) {
    for (range, subnets) in [
        ("service", &settings.service_cidrs),
        ("masquerade", &settings.masquerade_subnets),
        ("cluster", &settings.cluster_subnets),
        ("join", &settings.join_subnets),
        ("transit switch", &settings.transit_subnets),
    ] {
        if overlap(subnets, connect) {
            errors.push(ValidationError::ClusterRange {
                range,
                subnets: format_list(subnets),
                connect: format_list(connect),
            });
        }
    }
}

fn network_ranges(
    errors: &mut Vec<ValidationError>,
    connect: &[IpNet],
    networks: &BTreeMap<&str, &Network>,
) {
    let mut error = |network: &Network, kind, subnets| {
        errors.push(ValidationError::NetworkRange {
            network: network.name.clone(),
            kind,
            subnets,
            connect: format_list(connect),
        });
    };
    for network in networks.values() {
        if overlap(&cidrs(network), connect) {
            error(network, "", format_list(&network.pod_subnets));
        }
    }
    for network in networks.values() {
        if overlap(&network.transit_subnets, connect) {
            error(network, "transit ", format_list(&network.transit_subnets));
        }
    }
    for network in networks.values() {
        if overlap(&network.join_subnets, connect) {
            error(network, "join ", format_list(&network.join_subnets));
        }
    }
}

/// Finds every pair of networks with overlapping pod subnets.
///
/// Only neighbours in a list that is sorted by address can overlap, so the cost follows the number
/// of subnets and overlaps, not of pairs.
fn pod_subnets(errors: &mut Vec<ValidationError>, networks: &BTreeMap<&str, &Network>) {
    let mut subnets: Vec<(IpNet, &str)> = networks
        .iter()
        .flat_map(|(name, network)| network.pod_subnets.iter().map(move |net| (net.cidr, *name)))
        .collect();
    // A subnet comes before the subnets that it contains.
    subnets.sort_unstable();
    let mut pairs = Vec::new();
    for (index, (wide, network)) in subnets.iter().enumerate() {
        for (narrow, other) in &subnets[index + 1..] {
            if !wide.contains(narrow) {
                break;
            }
            if network != other {
                pairs.push((network.min(other), network.max(other)));
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    for (left, right) in pairs {
        let subnets = |name: &str| networks.get(name).map_or_else(Vec::new, |net| cidrs(net));
        errors.push(ValidationError::PodSubnets {
            left: (*left).to_owned(),
            left_subnets: format_list(subnets(left)),
            right: (*right).to_owned(),
            right_subnets: format_list(subnets(right)),
        });
    }
}

/// Checks the IP families of networks and ranges.
///
/// Networks of different families, a missing range and ranges of unused families usually have one
/// cause, which is reported once.
fn families(
    errors: &mut Vec<ValidationError>,
    settings: &ClusterSettings,
    connect: &[IpNet],
    networks: &BTreeMap<&str, &Network>,
) {
    let only = |family| networks.values().filter(move |network| network.is_only(family));
    if let (Some(v4), Some(v6)) = (only(IpFamily::V4).next(), only(IpFamily::V6).next()) {
        let (left, left_family, right) =
            if v4.name < v6.name { (v4, IpFamily::V4, v6) } else { (v6, IpFamily::V6, v4) };
        errors.push(ValidationError::Families {
            left: left.name.clone(),
            left_family,
            right: right.name.clone(),
        });
        return;
    }
    let before = errors.len();
    for family in IpFamily::BOTH {
        if connect.iter().any(|net| IpFamily::of_net(*net) == family) {
            continue;
        }
        if let Some(network) = only(family).next() {
            errors.push(ValidationError::MissingFamily { network: network.name.clone(), family });
        }
    }
    let is_run = |net: &IpNet| settings.has_family(IpFamily::of_net(*net));
    if errors.len() == before && !connect.iter().any(is_run) {
        errors.push(ValidationError::NoFamily);
    }
}

fn cidrs(network: &Network) -> Vec<IpNet> {
    network.pod_subnets.iter().map(|subnet| subnet.cidr).collect()
}

#[cfg(test)]
mod tests;
