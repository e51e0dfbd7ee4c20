//! Validation of a valid custom resource against the settings of the cluster.

use ipnet::IpNet;
use thiserror::Error;

use super::request::{default_host_subnet, parse_subnets};
use super::{NetworkRequest, TopologyConfig};
use patchbay_model::arithmetic::overlap;
use patchbay_model::{
    ClusterSettings, HostSubnetError, IpFamily, USER_DEFINED_JOIN_SUBNETS, check_host_subnets,
};
use patchbay_resources::udn::{IpamConfig, IpamLifecycle, IpamMode, Layer3Config, NetworkRole};

/// Reason why this cluster cannot have a network.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(in crate::networks) enum ConfigError {
    #[error("lifecycle Persistent is only supported when ipam.mode is Enabled")]
    PersistentWithoutIpam,
    #[error("subnets is required with ipam.mode is Enabled or unset")]
    SubnetsMissing,
    #[error("subnets must be unset when ipam.mode is Disabled")]
    SubnetsWithoutIpam,
    #[error(
        "invalid subnet configuration: pod or join subnet overlaps with already configured internal subnets: \
         {} \"{}\" overlaps {} \"{}\"", .0.purpose, .0.cidr, .1.purpose, .1.cidr
    )]
    Overlap(NamedRange, NamedRange),
    #[error("invalid subnet configuration: error while parsing subnets: {0}")]
    InvalidSubnets(Box<Self>),
    #[error("error while parsing subnets: {0}")]
    InvalidRanges(Box<Self>),
    #[error(
        "network {network} is attempting to use {family} subnets but the cluster does not support {family}"
    )]
    Family {
        network: String,
        family: &'static str,
    },
    #[error("the provided network subnets do not contain {purpose} subnets [{}]", join_with_spaces(.outside))]
    Outside {
        purpose: &'static str,
        outside: Vec<IpNet>,
    },
    #[error(transparent)]
    HostSubnet(#[from] HostSubnetError),
}

/// IP range and its purpose, as in error messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::networks) struct NamedRange {
    purpose: &'static str,
    cidr: IpNet,
}

fn join_with_spaces(subnets: &[IpNet]) -> String {
    subnets
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Checks a requested network.
///
/// # Errors
/// The first problem that is found.
pub(super) fn validate(
    request: &NetworkRequest<'_>,
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let subnets = request.config.subnets();
    let families = check_families(request, &subnets, settings);
    let invalid_subnets = |error: ConfigError| ConfigError::InvalidSubnets(Box::new(error));
    let invalid_ranges = |error: ConfigError| ConfigError::InvalidRanges(Box::new(error));
    match request.config {
        TopologyConfig::Layer3(config) => {
            families.map_err(invalid_subnets)?;
            check_host_subnets(host_subnets(config))
                .map_err(|error| invalid_subnets(error.into()))?;
            check_overlaps(request, &subnets, settings)
        }
        TopologyConfig::Layer2(config) => {
            check_ipam(config.ipam.as_ref(), config.subnets.is_some())?;
            families.map_err(invalid_subnets)?;
            check_inside(&subnets, "reserved", config.reserved_subnets.as_ref())
                .map_err(invalid_ranges)?;
            let infrastructure = config.infrastructure_subnets.as_ref();
            check_inside(&subnets, "infrastructure", infrastructure).map_err(invalid_ranges)?;
            check_overlaps(request, &subnets, settings)
        }
        TopologyConfig::Localnet(config) => {
            check_ipam(config.ipam.as_ref(), config.subnets.is_some())?;
            families?;
            check_inside(&subnets, "excluded", config.exclude_subnets.as_ref())
        }
    }
}

fn check_families(
    request: &NetworkRequest<'_>,
    subnets: &[IpNet],
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let families = subnets.iter().copied().map(IpFamily::of_net);
    match families
        .into_iter()
        .find(|family| !settings.has_family(*family))
    {
        Some(family) => Err(ConfigError::Family {
            network: request.network.clone(),
            family: family.long_name(),
        }),
        None => Ok(()),
    }
}

fn check_ipam(ipam: Option<&IpamConfig>, has_subnets: bool) -> Result<(), ConfigError> {
    let disabled = ipam.is_some_and(|ipam| ipam.mode == Some(IpamMode::Disabled));
    let persistent = ipam.is_some_and(|ipam| ipam.lifecycle == Some(IpamLifecycle::Persistent));
    match (disabled, has_subnets) {
        (true, _) if persistent => Err(ConfigError::PersistentWithoutIpam),
        (true, true) => Err(ConfigError::SubnetsWithoutIpam),
        (false, false) => Err(ConfigError::SubnetsMissing),
        _ => Ok(()),
    }
}

fn check_inside(
    subnets: &[IpNet],
    purpose: &'static str,
    texts: Option<&Vec<String>>,
) -> Result<(), ConfigError> {
    let mut outside = parse_subnets(texts.into_iter().flatten());
    outside.retain(|inner| !subnets.iter().any(|subnet| subnet.contains(inner)));
    if outside.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Outside { purpose, outside })
    }
}

fn host_subnets(config: &Layer3Config) -> impl Iterator<Item = (IpNet, i32)> {
    config.subnets.iter().filter_map(|subnet| {
        let cidr = subnet.cidr.parse::<IpNet>().ok()?;
        let default = default_host_subnet(IpFamily::of_net(cidr));
        Some((cidr, subnet.host_subnet.unwrap_or(default)))
    })
}

/// Checks that pod and join subnets overlap neither with each other nor with the cluster's ranges.
///
/// A layer2 network may overlap with the transit range, because its own transit range is moved.
fn check_overlaps(
    request: &NetworkRequest<'_>,
    subnets: &[IpNet],
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let named = |purpose: &'static str, cidrs: &[IpNet]| -> Vec<NamedRange> {
        cidrs
            .iter()
            .map(|cidr| NamedRange {
                purpose,
                cidr: *cidr,
            })
            .collect()
    };
    let mut ranges = named("built-in join subnet", &settings.join_subnets);
    ranges.extend(named("cluster subnet", &settings.cluster_subnets));
    ranges.extend(named("service subnet", &settings.service_cidrs));
    ranges.extend(named("masquerade subnet", &settings.masquerade_subnets));
    if !matches!(request.config, TopologyConfig::Layer2(_)) {
        ranges.extend(named("transit switch subnet", &settings.transit_subnets));
    }
    let requested = ranges.len();
    ranges.extend(named("user defined subnet", subnets));
    if request.config.role() == NetworkRole::Primary {
        let join = match request.config.join_subnets() {
            Some(configured) => parse_subnets(configured),
            None => USER_DEFINED_JOIN_SUBNETS.to_vec(),
        };
        ranges.extend(named("user defined join subnet", &join));
    }
    for (index, range) in ranges.iter().enumerate().skip(requested) {
        if let Some(other) = ranges[..index]
            .iter()
            .find(|other| overlap(other.cidr, range.cidr))
        {
            return Err(ConfigError::Overlap(*range, *other));
        }
    }
    Ok(())
}
