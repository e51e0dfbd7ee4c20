//! Checked form of a layer2 or layer3 network's CNI configuration.

use ipnet::IpNet;
use thiserror::Error;

use super::cni_config::CniConfig;
use super::host_subnets::{HostSubnetError, check_host_subnets};
use super::ids::Topology;
use super::network::{IpFamily, PodSubnet, Role, Transport};
use super::settings::USER_DEFINED_JOIN_SUBNETS;
use super::transit_subnets::derived_transit_subnets;

/// Error of a CNI configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetConfError {
    /// The attachment definition has no configuration.
    #[error("there is no spec.config")]
    Missing,
    /// The text is not a JSON object, or a field has the wrong type.
    #[error("spec.config: {0}")]
    Json(#[from] serde_json::Error),
    /// The configuration has no network name.
    #[error("spec.config has no name")]
    NoName,
    /// A field has none of its known values.
    #[error("spec.config: {field} {value:?} is not known")]
    Unknown {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// An entry of a comma-separated list is not a subnet.
    #[error("spec.config: {field}: {value:?} is not a subnet")]
    Subnet {
        /// Name of the field.
        field: &'static str,
        /// The entry.
        value: String,
    },
    /// The pod subnets cannot be divided into node subnets.
    #[error("spec.config: subnets: {0}")]
    HostSubnet(#[from] HostSubnetError),
    /// A primary layer2 network has no subnets, but its pods need addresses.
    #[error(
        "spec.config: the subnet attribute must be defined for layer2 primary user defined networks"
    )]
    NoSubnets,
}

/// Checked CNI configuration of a layer2 or layer3 network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NetConf {
    /// Name of the network.
    pub name: String,
    /// Topology of the network.
    pub topology: Topology,
    /// Role of the network for its pods.
    pub role: Role,
    /// Transport of packets between nodes.
    pub transport: Transport,
    /// Pod subnets, in the order of the configuration.
    pub pod_subnets: Vec<PodSubnet>,
    /// Join subnets, configured or default; primary networks only.
    pub join_subnets: Vec<IpNet>,
    /// Transit subnets, configured or derived; primary layer2 networks only.
    pub transit_subnets: Vec<IpNet>,
    /// `netAttachDefName`: the attachment definition, as `<namespace>/<name>`.
    pub definition: String,
    /// The [canonical form](CniConfig::canonical) of the configuration.
    pub canonical: CniConfig,
}

impl NetConf {
    /// Reads the text of a configuration.
    ///
    /// `None`: the configuration of another plugin, of a localnet network or of the default
    /// network.
    ///
    /// # Errors
    /// [`NetConfError`], if the configuration is not that of a valid network.
    pub fn parse(text: &str) -> Result<Option<Self>, NetConfError> {
        CniConfig::from_json(text)?.map_or(Ok(None), Self::from_config)
    }

    /// Checks a configuration as [`parse`](Self::parse) does.
    ///
    /// # Errors
    /// [`NetConfError`], if the configuration is not that of a valid network.
    pub(super) fn from_config(config: CniConfig) -> Result<Option<Self>, NetConfError> {
        let canonical = config.canonical();
        let topology = match config.topology.as_str() {
            "layer2" => Topology::Layer2,
            "layer3" => Topology::Layer3,
            "localnet" | "" => return Ok(None),
            _ => return Err(unknown("topology", config.topology)),
        };
        if config.name.is_empty() {
            return Err(NetConfError::NoName);
        }
        let role = match config.role.as_str() {
            "primary" => Role::Primary,
            "secondary" | "" => Role::Secondary,
            _ => return Err(unknown("role", config.role)),
        };
        let transport = match config.transport.as_deref().unwrap_or_default() {
            "" => Transport::Overlay,
            "no-overlay" => Transport::NoOverlay,
            "evpn" => Transport::Evpn,
            other => return Err(unknown("transport", other.to_owned())),
        };
        let pod_subnets = entries(config.subnets.as_deref().unwrap_or_default())
            .map(|entry| {
                parse_pod_subnet(entry, topology).ok_or_else(|| not_a_subnet("subnets", entry))
            })
            .collect::<Result<Vec<_>, _>>()?;
        check_host_subnets(
            pod_subnets.iter().filter_map(|subnet| Some((subnet.cidr, subnet.host_prefix?.into()))),
        )?;
        if (role, topology) == (Role::Primary, Topology::Layer2) && pod_subnets.is_empty() {
            return Err(NetConfError::NoSubnets);
        }
        let join_subnets = match role {
            Role::Primary => join_subnets(config.join_subnet.as_deref().unwrap_or_default())?,
            Role::Secondary => Vec::new(),
        };
        let configured = config.transit_subnet.filter(|text| !text.is_empty());
        let transit_subnets = match (role, topology, configured) {
            (Role::Primary, Topology::Layer2, Some(text)) => parse_subnets("transitSubnet", &text)?,
            (Role::Primary, Topology::Layer2, None) => {
                let pods: Vec<IpNet> = pod_subnets.iter().map(|subnet| subnet.cidr).collect();
                derived_transit_subnets(&pods, &join_subnets)
            }
            _ => Vec::new(),
        };
        Ok(Some(Self {
            name: config.name,
            topology,
            role,
            transport,
            pod_subnets,
            join_subnets,
            transit_subnets,
            definition: config.net_attach_def_name,
            canonical,
        }))
    }
}

fn unknown(field: &'static str, value: String) -> NetConfError {
    NetConfError::Unknown { field, value }
}

fn not_a_subnet(field: &'static str, entry: &str) -> NetConfError {
    NetConfError::Subnet { field, value: entry.to_owned() }
}

/// Entries of a comma-separated list, without spaces around them.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Reads a comma-separated list of subnets and clears their host bits.
fn parse_subnets(field: &'static str, list: &str) -> Result<Vec<IpNet>, NetConfError> {
    entries(list)
        .map(|entry| {
            let net: IpNet = entry.parse().map_err(|_| not_a_subnet(field, entry))?;
            Ok(net.trunc())
        })
        .collect()
}

/// Reads `<cidr>` or, for layer3, `<cidr>/<host prefix>`. The default host prefix is 24 for IPv4
/// and 64 for IPv6.
fn parse_pod_subnet(entry: &str, topology: Topology) -> Option<PodSubnet> {
    let (cidr, host_prefix) = match entry.match_indices('/').nth(1) {
        Some((at, _)) => (&entry[..at], Some(entry[at + 1..].parse::<u8>().ok()?)),
        None => (entry, None),
    };
    let cidr = cidr.parse::<IpNet>().ok()?.trunc();
    let host_prefix = match topology {
        Topology::Layer2 | Topology::Vpc if host_prefix.is_some() => return None,
        Topology::Layer2 | Topology::Vpc => None,
        Topology::Layer3 => {
            let default = IpFamily::of_net(cidr).default_host_prefix();
            Some(host_prefix.unwrap_or(default))
        }
    };
    Some(PodSubnet { cidr, host_prefix })
}

/// One join subnet of each family: the last configured one, or the default.
fn join_subnets(configured: &str) -> Result<Vec<IpNet>, NetConfError> {
    let configured = parse_subnets("joinSubnet", configured)?;
    Ok(USER_DEFINED_JOIN_SUBNETS
        .into_iter()
        .map(|default| {
            let family = IpFamily::of_net(default);
            configured
                .iter()
                .rev()
                .find(|subnet| IpFamily::of_net(**subnet) == family)
                .copied()
                .unwrap_or(default)
        })
        .collect())
}

#[cfg(test)]
mod tests;
