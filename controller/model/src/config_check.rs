//! Validation of CNI configurations, which are rendered or are in attachment definitions that users
//! write.

mod overlaps;
mod ranges;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use ipnet::IpNet;
use serde_json::Value;
use thiserror::Error;

use super::cni_config::CniConfig;
use super::host_subnets::HostSubnetError;
use super::settings::{ClusterSettings, GatewayMode};
pub use overlaps::{NamedRange, transit_subnets};
use ranges::NetworkRanges;

/// Network names that are those of the default network.
const RESERVED_NAMES: [&str; 3] = ["", "default", "ovn-kubernetes"];

/// Reason why this cluster cannot have the network of a configuration. The texts are those of
/// OVN-Kubernetes.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the texts of the errors")]
pub enum ConfigError {
    #[error("lifecycle Persistent is only supported when ipam.mode is Enabled")]
    PersistentWithoutIpam,
    #[error("subnets is required with ipam.mode is Enabled or unset")]
    SubnetsMissing,
    #[error("subnets must be unset when ipam.mode is Disabled")]
    SubnetsWithoutIpam,
    #[error("error parsing Network Attachment Definition {nad}: {reason}")]
    Unreadable { nad: String, reason: String },
    #[error("net-attach-def name ({nad}) is inconsistent with config ({config})")]
    OtherDefinition { nad: String, config: String },
    #[error("layer3 topology does not allow persistent IPs")]
    Layer3Persistent,
    #[error(
        "unexpected network field \"role\" {0} for \"localnet\" topology, localnet topology does not \
         allow network roles to be set since its always a secondary network"
    )]
    LocalnetRole(String),
    #[error("invalid network role value {0}")]
    Role(String),
    #[error("invalid transport {0:?}: must be one of [\"no-overlay\" \"evpn\"]")]
    Transport(String),
    #[error("outboundSNAT is only valid when transport is \"no-overlay\"")]
    OutboundSnatTransport,
    #[error("invalid outboundSNAT {0:?}: must be one of [\"enabled\" \"disabled\"]")]
    OutboundSnat(String),
    #[error("uplink {0:?} is supported only in shared gateway mode")]
    Uplink(String),
    #[error(
        "localnet topology does not allow specifying join-subnet as services are not supported"
    )]
    LocalnetJoin,
    #[error("the subnet attribute must be defined for layer2 primary user defined networks")]
    NoSubnets,
    #[error("{0} is only supported for layer2 topology")]
    Layer2Only(&'static str),
    #[error("topology {0} not supported")]
    Topology(String),
    #[error("failed to set dynamic transit subnet for layer2 primary NAD {network}: {reason}")]
    Transit { network: String, reason: Box<Self> },
    #[error("invalid subnet configuration: {0}")]
    Subnets(Box<Self>),
    #[error("error while parsing subnets: {0}")]
    Parsing(Box<Self>),
    #[error("invalid {purpose} for {topology} netconf {network}: {reason}")]
    List { purpose: &'static str, topology: String, network: String, reason: Box<Self> },
    #[error("invalid localnet netconf {network}: {reason}")]
    Localnet { network: String, reason: Box<Self> },
    #[error("CIDR {0:?} not properly formatted")]
    Format(String),
    #[error("invalid CIDR address: {0}")]
    Cidr(String),
    #[error(
        "can't generate transit subnets: failed to parse CIDR {0:?}: invalid CIDR address: {0}"
    )]
    TransitCidr(String),
    #[error(
        "can't generate transit subnets: failed to find non-overlapping transit subnet after 10 attempts"
    )]
    NoTransit,
    #[error(
        "pod or join subnet overlaps with already configured internal subnets: \
         {} \"{}\" overlaps {} \"{}\"", .0.purpose, .0.cidr, .1.purpose, .1.cidr
    )]
    Overlap(NamedRange, NamedRange),
    #[error(
        "network {network} is attempting to use {family} subnets but the cluster does not support {family}"
    )]
    Family { network: String, family: &'static str },
    #[error("the provided network subnets do not contain {purpose} subnets {outside}")]
    Outside { purpose: &'static str, outside: IpNet },
    #[error(transparent)]
    HostSubnet(#[from] HostSubnetError),
}

/// Reads and checks the configuration `text` in the attachment definition `nad`
/// (`<namespace>/<name>`). `None`: there is none, or it is not that of a user-defined network.
///
/// # Errors
/// The first problem that is found.
pub fn checked_config(
    nad: &str,
    text: Option<&str>,
    settings: &ClusterSettings,
) -> Result<Option<CniConfig>, ConfigError> {
    let unreadable = |error: serde_json::Error| ConfigError::Unreadable {
        nad: nad.to_owned(),
        reason: error.to_string(),
    };
    let Some(config) = user_defined_config(text).map_err(unreadable)? else {
        return Ok(None);
    };
    check_definition(nad, &config, settings)?;
    Ok(Some(config))
}

/// Checks a configuration in the attachment definition `nad` (`<namespace>/<name>`), which users may
/// have written.
///
/// # Errors
/// The first problem that is found.
pub(super) fn check_definition(
    nad: &str,
    config: &CniConfig,
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable { nad: nad.to_owned(), reason };
    if config.net_attach_def_name.is_empty() {
        let name = &config.name;
        return Err(unreadable(format!("missing NADName in secondary network netconf {name}")));
    }
    if RESERVED_NAMES.contains(&config.name.as_str()) {
        let name = &config.name;
        return Err(unreadable(format!("invalid name in in secondary network netconf ({name})")));
    }
    check_config(nad, config, settings)
}

/// Reads the configuration `text` of an attachment definition. `None`: there is none, or it has no
/// topology, or it is that of another plugin.
///
/// # Errors
/// The text is not a CNI configuration.
pub fn user_defined_config(text: Option<&str>) -> Result<Option<CniConfig>, serde_json::Error> {
    let Some(text) = text else {
        return Ok(None);
    };
    Ok(CniConfig::from_json(text)?.filter(|config| !config.topology.is_empty()))
}

/// Checks a configuration in the attachment definition `nad` (`<namespace>/<name>`), in the order
/// of OVN-Kubernetes.
///
/// # Errors
/// The first problem that is found.
pub fn check_config(
    nad: &str,
    config: &CniConfig,
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    if config.net_attach_def_name != nad {
        return Err(ConfigError::OtherDefinition {
            nad: nad.to_owned(),
            config: config.net_attach_def_name.clone(),
        });
    }
    check_fields(nad, config, settings)?;
    let config = &with_transit_subnets(config, settings)?;
    if config.topology != "localnet" {
        overlaps::check(config, settings).map_err(|error| ConfigError::Subnets(error.into()))?;
    }
    NetworkRanges::read(config, settings).map(|_| ())
}

/// The configuration with the transit subnets that a primary layer2 network without them gets.
fn with_transit_subnets<'a>(
    config: &'a CniConfig,
    settings: &ClusterSettings,
) -> Result<Cow<'a, CniConfig>, ConfigError> {
    let has_transit = config.is_primary() && config.topology == "layer2";
    let configured = config.transit_subnet.as_deref().unwrap_or_default();
    if !has_transit || !configured.is_empty() {
        return Ok(Cow::Borrowed(config));
    }
    let derived = transit_subnets(config, settings).map_err(|reason| ConfigError::Transit {
        network: config.name.clone(),
        reason: reason.into(),
    })?;
    Ok(Cow::Owned(CniConfig { transit_subnet: Some(derived), ..config.clone() }))
}

fn check_fields(
    nad: &str,
    config: &CniConfig,
    settings: &ClusterSettings,
) -> Result<(), ConfigError> {
    let (role, topology) = (config.role.as_str(), config.topology.as_str());
    if topology == "layer3" && config.allow_persistent_ips.as_value() == &Value::Bool(true) {
        return Err(ConfigError::Layer3Persistent);
    }
    if topology == "localnet" && !matches!(role, "" | "secondary") {
        return Err(ConfigError::LocalnetRole(role.to_owned()));
    }
    if !matches!(role, "" | "primary" | "secondary") {
        return Err(ConfigError::Role(role.to_owned()));
    }
    let ipam = config.ipam.as_value()["type"].as_str().unwrap_or_default();
    if !ipam.is_empty() {
        return Err(ConfigError::Unreadable {
            nad: nad.to_owned(),
            reason:
                "IPAM key is not supported. Use OVN-K provided IPAM via the `subnets` attribute"
                    .to_owned(),
        });
    }
    check_way_out(config, settings)?;
    if topology == "localnet" && !config.join_subnet.as_deref().unwrap_or_default().is_empty() {
        return Err(ConfigError::LocalnetJoin);
    }
    let subnets = config.subnets.as_deref().unwrap_or_default();
    if (role, topology) == ("primary", "layer2") && subnets.is_empty() {
        return Err(ConfigError::NoSubnets);
    }
    let layer2_only = [
        ("infrastructureSubnets", &config.infrastructure_subnets),
        ("reservedSubnets", &config.reserved_subnets),
        ("defaultGatewayIPs", &config.default_gateway_ips),
    ];
    let misplaced = layer2_only.into_iter().find(|(_, value)| !value.is_absent());
    match misplaced.filter(|_| topology != "layer2") {
        Some((field, _)) => Err(ConfigError::Layer2Only(field)),
        None => Ok(()),
    }
}

/// Checks the ways of packets to other nodes and out of the cluster.
fn check_way_out(config: &CniConfig, settings: &ClusterSettings) -> Result<(), ConfigError> {
    let transport = config.transport.as_deref().unwrap_or_default();
    if !matches!(transport, "" | "no-overlay" | "evpn") {
        return Err(ConfigError::Transport(transport.to_owned()));
    }
    if let Some(snat) = config.outbound_snat.as_value().as_str() {
        if transport != "no-overlay" {
            return Err(ConfigError::OutboundSnatTransport);
        }
        if !matches!(snat, "enabled" | "disabled") {
            return Err(ConfigError::OutboundSnat(snat.to_owned()));
        }
    }
    let uplink = config.uplink.as_value().as_str();
    match uplink.filter(|_| settings.gateway_mode != GatewayMode::Shared) {
        Some(uplink) => Err(ConfigError::Uplink(uplink.to_owned())),
        None => Ok(()),
    }
}
