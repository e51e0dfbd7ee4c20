//! Whether networks can be connected through the ranges of a connect.

use std::collections::BTreeMap;

use ipnet::IpNet;
use thiserror::Error;

use super::error::listed;
use patchbay_model::{ClusterSettings, IpFamily, Network};

/// Why networks cannot be connected through the ranges of a connect. Declared, and found, in the order of the checks.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum ValidationError {
    #[error(
        "cluster subnets overlap with cluster network connect subnets: {range} subnet with subnets {subnets} and ClusterNetworkConnect.connectSubnets with subnets {connect}"
    )]
    ClusterRange {
        /// What the range is for.
        range: &'static str,
        subnets: String,
        connect: String,
    },
    #[error(
        "selected networks overlap with cluster network connect subnets: network {network} with {kind}subnets {subnets} and ClusterNetworkConnect.connectSubnets with subnets {connect}"
    )]
    NetworkRange {
        network: String,
        /// Empty for pod subnets, or a word and a space.
        kind: &'static str,
        subnets: String,
        connect: String,
    },
    #[error(
        "can not connect selected networks: selected networks have overlapping subnets: network {left} with subnets {left_subnets} and network {right} with subnets {right_subnets}"
    )]
    PodSubnets {
        left: String,
        left_subnets: String,
        right: String,
        right_subnets: String,
    },
    #[error("IP family conflict: connected network {left} has only {} subnets, but another connected network {right} has only {} subnets", left_family.long_name(), left_family.other().long_name())]
    Families {
        left: String,
        left_family: IpFamily,
        right: String,
    },
    #[error("IP family conflict: connected network {network} is {0}-only but connectSubnets do not contain an {0} subnet", family.long_name())]
    MissingFamily { network: String, family: IpFamily },
    #[error(
        "IP family conflict: connectSubnets contain no subnet of an IP family that the cluster runs"
    )]
    NoFamily,
}

/// Another connect that holds some of the same networks and has an overlapping range.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "connectSubnets overlap detected between CNC {connect} and CNC {other} which both select networks {networks}"
)]
pub(super) struct SharedNetworks {
    pub(super) connect: String,
    pub(super) other: String,
    /// Owner keys, listed.
    pub(super) networks: String,
}

/// Checks the selected networks, by name, and the ranges of a connect. Everything found is returned, in the order of
/// the checks and then of the names.
pub(super) fn validate(
    settings: &ClusterSettings,
    connect: &[IpNet],
    networks: &BTreeMap<&str, &Network>,
) -> Vec<ValidationError> {
    let mut errors = Vec::new();
    cluster_ranges(&mut errors, settings, connect);
    network_ranges(&mut errors, connect, networks);
    pod_subnets(&mut errors, networks);
    families(&mut errors, settings, connect, networks);
    errors
}

/// Whether two sets of ranges have addresses in common.
pub(super) fn overlap(left: &[IpNet], right: &[IpNet]) -> bool {
    left.iter().any(|left| {
        right
            .iter()
            .any(|right| left.contains(right) || right.contains(left))
    })
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
                subnets: listed(subnets),
                connect: listed(connect),
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
            connect: listed(connect),
        });
    };
    for network in networks.values() {
        if overlap(&cidrs(network), connect) {
            error(network, "", listed(&network.pod_subnets));
        }
    }
    for network in networks.values() {
        if overlap(&network.transit_subnets, connect) {
            error(network, "transit ", listed(&network.transit_subnets));
        }
    }
    for network in networks.values() {
        if overlap(&network.join_subnets, connect) {
            error(network, "join ", listed(&network.join_subnets));
        }
    }
}

/// Every pair of networks with overlapping pod subnets. Sorted by address, only neighbours can overlap: the cost
/// follows the number of subnets and of overlaps, not of pairs.
fn pod_subnets(errors: &mut Vec<ValidationError>, networks: &BTreeMap<&str, &Network>) {
    let mut subnets: Vec<(IpNet, &str)> = networks
        .iter()
        .flat_map(|(name, network)| network.pod_subnets.iter().map(move |net| (net.cidr, *name)))
        .collect();
    // Wider subnets come before the ones in them.
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
            left_subnets: listed(subnets(left)),
            right: (*right).to_owned(),
            right_subnets: listed(subnets(right)),
        });
    }
}

/// Whether families fit together. A network that does not go with another one, the range that it lacks, and ranges that
/// are all of no use mostly are one mistake, which is told once.
fn families(
    errors: &mut Vec<ValidationError>,
    settings: &ClusterSettings,
    connect: &[IpNet],
    networks: &BTreeMap<&str, &Network>,
) {
    let only = |family| {
        networks
            .values()
            .filter(move |network| network.is_only(family))
    };
    if let (Some(v4), Some(v6)) = (only(IpFamily::V4).next(), only(IpFamily::V6).next()) {
        let (left, left_family, right) = if v4.name < v6.name {
            (v4, IpFamily::V4, v6)
        } else {
            (v6, IpFamily::V6, v4)
        };
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
            errors.push(ValidationError::MissingFamily {
                network: network.name.clone(),
                family,
            });
        }
    }
    let is_run = |net: &IpNet| settings.has_family(IpFamily::of_net(*net));
    if errors.len() == before && !connect.iter().any(is_run) {
        errors.push(ValidationError::NoFamily);
    }
}

fn cidrs(network: &Network) -> Vec<IpNet> {
    network
        .pod_subnets
        .iter()
        .map(|subnet| subnet.cidr)
        .collect()
}

#[cfg(test)]
mod tests;
