//! Ranges of a network beside the cluster's ranges.

use ipnet::IpNet;

use super::ConfigError;
use super::ranges::NetworkRanges;
use crate::arithmetic::{overlap, subnet_beside};
use crate::cni_config::CniConfig;
use crate::network::IpFamily;
use crate::settings::ClusterSettings;

/// IP range and its purpose, as in error messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NamedRange {
    pub(super) purpose: &'static str,
    pub(super) cidr: IpNet,
}

/// Checks that the ranges of a network overlap neither with each other nor with the cluster's
/// ranges.
///
/// A layer2 network may overlap with the cluster's transit range, because it has its own.
///
/// # Errors
/// The ranges cannot be read, or two of them overlap.
pub(super) fn check(config: &CniConfig, settings: &ClusterSettings) -> Result<(), ConfigError> {
    let ranges = NetworkRanges::read(config, settings)
        .map_err(|error| ConfigError::Parsing(Box::new(error)))?;
    let mut all = named("cluster subnet", &settings.cluster_subnets);
    all.extend(named("service subnet", &settings.service_cidrs));
    all.extend(named("built-in join subnet", &settings.join_subnets));
    all.extend(named("masquerade subnet", &settings.masquerade_subnets));
    if config.topology == "layer3" {
        all.extend(named("transit switch subnet", &settings.transit_subnets));
    }
    let of_cluster = all.len();
    all.extend(named("user defined subnet", &ranges.subnets));
    all.extend(named("user defined join subnet", &ranges.join));
    all.extend(named("transit switch subnet", &ranges.transit));
    let is_excluded = |range: &NamedRange| {
        let mut excluded = ranges.excluded.iter();
        excluded.any(|excluded| excluded.contains(&range.cidr))
    };
    // Networks may have hundreds of subnets and thousands of definitions.
    let kept = all.iter().filter(|range| !is_excluded(range));
    if are_disjoint(kept.map(|range| range.cidr.trunc()).collect()) {
        return Ok(());
    }
    let pairs = all.iter().enumerate().skip(of_cluster);
    let overlapping = pairs.filter(|(_, range)| !is_excluded(range)).find_map(|(index, range)| {
        let mut before = all[..index].iter().filter(|other| !is_excluded(other));
        let other = before.find(|other| overlap(other.cidr, range.cidr))?;
        Some((*range, *other))
    });
    match overlapping {
        Some((range, other)) => Err(ConfigError::Overlap(range, other)),
        None => Ok(()),
    }
}

/// `true` if no two of the ranges overlap. In their order, a range comes before those that it
/// contains.
fn are_disjoint(mut ranges: Vec<IpNet>) -> bool {
    ranges.sort_unstable();
    let mut pairs = ranges.windows(2);
    pairs.all(|pair| !overlap(pair[0], pair[1]))
}

fn named(purpose: &'static str, cidrs: &[IpNet]) -> Vec<NamedRange> {
    let cidrs = cidrs.iter();
    cidrs.map(|cidr| NamedRange { purpose, cidr: *cidr }).collect()
}

/// Transit ranges of a primary layer2 network, one for each of its subnets: the cluster's, or the
/// next range of that length that overlaps with no other range.
///
/// # Errors
/// The network's ranges cannot be read, or others of them overlap.
pub fn transit_subnets(
    config: &CniConfig,
    settings: &ClusterSettings,
) -> Result<String, ConfigError> {
    let subnets = config.subnets.as_deref().unwrap_or_default().split(',');
    let transits = subnets.map(|text| {
        let subnet: Result<IpNet, _> = text.parse();
        let subnet = subnet.map_err(|_| ConfigError::TransitCidr(text.to_owned()))?;
        let family = IpFamily::of_net(subnet);
        let mut ranges = settings.transit_subnets.iter();
        let first = ranges.find(|range| IpFamily::of_net(**range) == family);
        first.map(|first| find_transit(config, *first, settings)).transpose()
    });
    let transits: Vec<Option<IpNet>> = transits.collect::<Result<_, _>>()?;
    let texts: Vec<String> = transits.iter().flatten().map(ToString::to_string).collect();
    Ok(texts.join(","))
}

fn find_transit(
    config: &CniConfig,
    first: IpNet,
    settings: &ClusterSettings,
) -> Result<IpNet, ConfigError> {
    let overlapping = |candidate: IpNet| {
        let with_transit =
            CniConfig { transit_subnet: Some(candidate.to_string()), ..config.clone() };
        match check(&with_transit, settings) {
            Ok(()) => Ok(None),
            Err(ConfigError::Overlap(range, other)) if range.cidr == candidate => {
                Ok(Some(other.cidr))
            }
            Err(ConfigError::Overlap(range, other)) if other.cidr == candidate => {
                Ok(Some(range.cidr))
            }
            Err(error) => Err(error),
        }
    };
    subnet_beside(first, overlapping)?.ok_or(ConfigError::NoTransit)
}
