//! Ranges of addresses in a CNI configuration.

use ipnet::IpNet;

use super::ConfigError;
use crate::cni_config::{CniConfig, UninterpretedValue};
use crate::host_subnets::check_host_subnets;
use crate::network::IpFamily;
use crate::settings::{ClusterSettings, USER_DEFINED_JOIN_SUBNETS};

/// Ranges of a network, without host bits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct NetworkRanges {
    /// Pod subnets.
    pub(super) subnets: Vec<IpNet>,
    /// One join subnet of each family, configured or default; empty for localnet.
    pub(super) join: Vec<IpNet>,
    /// Transit subnets; primary layer2 networks only.
    pub(super) transit: Vec<IpNet>,
    /// Ranges that pods get no addresses of.
    pub(super) excluded: Vec<IpNet>,
}

impl NetworkRanges {
    /// Reads the ranges of a configuration.
    ///
    /// # Errors
    /// The first range that cannot be read, that is outside of the network, or whose family the
    /// cluster does not run.
    pub(super) fn read(
        config: &CniConfig,
        settings: &ClusterSettings,
    ) -> Result<Self, ConfigError> {
        let ranges = match config.topology.as_str() {
            "layer3" => Self {
                subnets: layer3_subnets(config)?,
                join: join_subnets(config)?,
                ..Self::default()
            },
            "layer2" => layer2_ranges(config)?,
            "localnet" => return localnet_ranges(config),
            other => return Err(ConfigError::Topology(other.to_owned())),
        };
        if config.is_primary() {
            check_families(config, &ranges.subnets, settings)?;
        }
        Ok(ranges)
    }
}

fn check_families(
    config: &CniConfig,
    subnets: &[IpNet],
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let is_used = |family: &IpFamily| {
        let mut families = subnets.iter().map(|subnet| IpFamily::of_net(*subnet));
        families.any(|used| used == *family)
    };
    let mut foreign = IpFamily::BOTH.into_iter().filter(is_used);
    match foreign.find(|family| !settings.has_family(*family)) {
        Some(family) => {
            Err(ConfigError::Family { network: config.name.clone(), family: family.long_name() })
        }
        None => Ok(()),
    }
}

fn layer3_subnets(config: &CniConfig) -> Result<Vec<IpNet>, ConfigError> {
    let list = config.subnets.as_deref().unwrap_or_default();
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let entries = list.split(',').map(|entry| {
        let entry = entry.trim();
        let format = || ConfigError::Format(entry.to_owned());
        let mut parts = entry.split('/');
        let (Some(address), Some(length), host, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(format());
        };
        let subnet = parse_cidr(&format!("{address}/{length}"))?;
        let default = match IpFamily::of_net(subnet) {
            IpFamily::V4 => 24,
            IpFamily::V6 => 64,
        };
        let host = host.map_or(Ok(default), |host| host.parse().map_err(|_| format()))?;
        Ok((subnet, host))
    });
    let entries: Vec<(IpNet, i32)> = entries.collect::<Result<_, _>>()?;
    check_host_subnets(entries.iter().copied())?;
    Ok(entries.into_iter().map(|(subnet, _)| subnet).collect())
}

fn layer2_ranges(config: &CniConfig) -> Result<NetworkRanges, ConfigError> {
    let list = |purpose: &'static str, list: &str| {
        subnet_list(list).map_err(|reason| ConfigError::List {
            purpose,
            topology: config.topology.clone(),
            network: config.name.clone(),
            reason: Box::new(reason),
        })
    };
    let subnets = list("network subnets", config.subnets.as_deref().unwrap_or_default())?;
    let excluded = list("exclude subnets", text(&config.exclude_subnets))?;
    check_inside(&subnets, "excluded", &excluded)?;
    let reserved = list("reserved subnets", text(&config.reserved_subnets))?;
    check_inside(&subnets, "reserved", &reserved)?;
    let infrastructure = list("infrastructure subnets", text(&config.infrastructure_subnets))?;
    check_inside(&subnets, "infrastructure", &infrastructure)?;
    let join = join_subnets(config)?;
    let transit = config.transit_subnet.as_deref().unwrap_or_default();
    let transit = if config.is_primary() { list("transit subnet", transit)? } else { Vec::new() };
    Ok(NetworkRanges { subnets, join, transit, excluded })
}

fn localnet_ranges(config: &CniConfig) -> Result<NetworkRanges, ConfigError> {
    let list = |list: &str| {
        subnet_list(list).map_err(|reason| ConfigError::Localnet {
            network: config.name.clone(),
            reason: Box::new(reason),
        })
    };
    let subnets = list(config.subnets.as_deref().unwrap_or_default())?;
    let excluded = list(text(&config.exclude_subnets))?;
    check_inside(&subnets, "excluded", &excluded)?;
    Ok(NetworkRanges { subnets, excluded, ..NetworkRanges::default() })
}

/// One join subnet of each family: the last configured one, or the default.
fn join_subnets(config: &CniConfig) -> Result<Vec<IpNet>, ConfigError> {
    let configured = subnet_list(config.join_subnet.as_deref().unwrap_or_default())?;
    let of_family = |default: IpNet| {
        let mut configured = configured.iter().rev().copied();
        configured
            .find(|subnet| IpFamily::of_net(*subnet) == IpFamily::of_net(default))
            .unwrap_or(default)
    };
    Ok(USER_DEFINED_JOIN_SUBNETS.map(of_family).to_vec())
}

/// Text of a field; empty without the field.
fn text(value: &UninterpretedValue) -> &str {
    value.as_value().as_str().unwrap_or_default()
}

/// Reads a comma-separated list of subnets.
fn subnet_list(list: &str) -> Result<Vec<IpNet>, ConfigError> {
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let entries = list.split(',').map(|entry| {
        let entry = entry.trim();
        match entry.matches('/').count() {
            1 => parse_cidr(entry),
            _ => Err(ConfigError::Format(entry.to_owned())),
        }
    });
    entries.collect()
}

fn parse_cidr(text: &str) -> Result<IpNet, ConfigError> {
    let subnet: Result<IpNet, _> = text.parse();
    let subnet = subnet.map_err(|_| ConfigError::Cidr(text.to_owned()))?;
    Ok(subnet.trunc())
}

fn check_inside(
    subnets: &[IpNet],
    purpose: &'static str,
    ranges: &[IpNet],
) -> Result<(), ConfigError> {
    let is_outside = |range: &&IpNet| !subnets.iter().any(|subnet| subnet.contains(*range));
    match ranges.iter().find(is_outside) {
        Some(outside) => Err(ConfigError::Outside { purpose, outside: *outside }),
        None => Ok(()),
    }
}
