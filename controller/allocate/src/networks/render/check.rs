//! What a cluster cannot give, although the custom resource by itself is sound.

use ipnet::IpNet;
use thiserror::Error;

use super::request::{default_host_subnet, parsed};
use super::{Config, DEFAULT_JOIN_SUBNETS, NetworkRequest};
use patchbay_model::arithmetic::overlap;
use patchbay_model::{ClusterSettings, HostSubnetError, IpFamily, check_host_subnets};
use patchbay_resources::udn::{IpamConfig, IpamLifecycle, IpamMode, Layer3Config, NetworkRole};

/// A network that cannot be had in this cluster.
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
         {} \"{}\" overlaps {} \"{}\"", .0.what, .0.cidr, .1.what, .1.cidr
    )]
    Overlap(NamedRange, NamedRange),
    #[error(
        "network {network} is attempting to use {family} subnets but the cluster does not support {family}"
    )]
    Family {
        network: String,
        family: &'static str,
    },
    #[error("the provided network subnets do not contain {what} subnets [{}]", list(.outside))]
    Outside {
        what: &'static str,
        outside: Vec<IpNet>,
    },
    #[error(transparent)]
    HostSubnet(#[from] HostSubnetError),
}

/// A range and what it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::networks) struct NamedRange {
    what: &'static str,
    cidr: IpNet,
}

fn list(subnets: &[IpNet]) -> String {
    subnets
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn check(
    request: &NetworkRequest<'_>,
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let subnets = request.config.subnets();
    check_families(request, &subnets, settings)?;
    match request.config {
        Config::Layer3(config) => {
            check_host_subnets(host_subnets(config))?;
            check_overlaps(request, &subnets, settings)
        }
        Config::Layer2(config) => {
            check_ipam(config.ipam.as_ref(), config.subnets.is_some())?;
            check_inside(&subnets, "reserved", config.reserved_subnets.as_ref())?;
            check_inside(
                &subnets,
                "infrastructure",
                config.infrastructure_subnets.as_ref(),
            )?;
            check_overlaps(request, &subnets, settings)
        }
        Config::Localnet(config) => {
            check_ipam(config.ipam.as_ref(), config.subnets.is_some())?;
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
    what: &'static str,
    texts: Option<&Vec<String>>,
) -> Result<(), ConfigError> {
    let mut outside = parsed(texts.into_iter().flatten());
    outside.retain(|inner| !subnets.iter().any(|subnet| subnet.contains(inner)));
    if outside.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Outside { what, outside })
    }
}

fn host_subnets(config: &Layer3Config) -> impl Iterator<Item = (IpNet, i32)> {
    config.subnets.iter().filter_map(|subnet| {
        let cidr = subnet.cidr.parse::<IpNet>().ok()?;
        let default = default_host_subnet(IpFamily::of_net(cidr));
        Some((cidr, subnet.host_subnet.unwrap_or(default)))
    })
}

/// Neither pod nor join subnets may be in the way of ranges that the cluster itself uses. A layer2 network may be where
/// the transit switch is: its own transit range gives way.
fn check_overlaps(
    request: &NetworkRequest<'_>,
    subnets: &[IpNet],
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let named = |what: &'static str, cidrs: &[IpNet]| -> Vec<NamedRange> {
        cidrs
            .iter()
            .map(|cidr| NamedRange { what, cidr: *cidr })
            .collect()
    };
    let mut ranges = named("built-in join subnet", &settings.join_subnets);
    ranges.extend(named("cluster subnet", &settings.cluster_subnets));
    ranges.extend(named("service subnet", &settings.service_cidrs));
    ranges.extend(named("masquerade subnet", &settings.masquerade_subnets));
    if !matches!(request.config, Config::Layer2(_)) {
        ranges.extend(named("transit switch subnet", &settings.transit_subnets));
    }
    let users = ranges.len();
    ranges.extend(named("user defined subnet", subnets));
    if request.config.role() == NetworkRole::Primary {
        let default: Vec<_> = DEFAULT_JOIN_SUBNETS.split(',').map(str::to_owned).collect();
        let join = parsed(request.config.join_subnets().unwrap_or(&default));
        ranges.extend(named("user defined join subnet", &join));
    }
    for (index, user) in ranges.iter().enumerate().skip(users) {
        if let Some(other) = ranges[..index]
            .iter()
            .find(|other| overlap(other.cidr, user.cidr))
        {
            return Err(ConfigError::Overlap(*other, *user));
        }
    }
    Ok(())
}
