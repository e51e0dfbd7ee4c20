//! Fields of attachment definitions on which only rows depend.

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use patchbay_model::{AttachmentDefinition, CniConfig, DatapathKey, UninterpretedValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Topology of localnet networks in configurations.
const LOCALNET: &str = "localnet";

/// Reason why the fields of a definition cannot be read.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum DefinitionError {
    /// A field of the configuration.
    #[error("spec.config: {0}")]
    Config(String),
    /// The keys that the definition is annotated with.
    #[error("the network's tunnel keys: {0}")]
    Keys(String),
}

/// Translation of the source addresses of pods' packets that leave the cluster, in a network
/// without an overlay.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OutboundSnat {
    /// They become the node's addresses.
    Enabled,
    /// They stay, because the network outside has routes to pods.
    Disabled,
}

/// Settings of attachment definitions that only the rows of a network need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkDetails {
    /// MTU in bytes. `None`: that of the cluster.
    pub mtu: Option<u32>,
    /// Gateways in place of the first addresses.
    pub default_gateways: Vec<IpAddr>,
    /// Subnets for gateways and management ports.
    pub infrastructure_subnets: Vec<IpNet>,
    /// Keys of the network's datapaths.
    pub tunnel_keys: Vec<DatapathKey>,
    /// Translation of sources. `None`: the definition does not specify it.
    pub outbound_snat: Option<OutboundSnat>,
    /// `true` if the network leaves nodes by a bridge of its own.
    pub has_uplink: bool,
}

impl NetworkDetails {
    /// Reads the definition of a network.
    ///
    /// # Errors
    /// The definition's configuration or keys cannot be read.
    pub(crate) fn read(
        definition: Option<&AttachmentDefinition<'_>>,
    ) -> Result<Self, DefinitionError> {
        let Some(definition) = definition else {
            return Ok(Self::default());
        };
        let config = match definition.config {
            Some(config) => CniConfig::from_json(config)
                .map_err(|error| DefinitionError::Config(error.to_string()))?
                .unwrap_or_default(),
            None => CniConfig::default(),
        };
        let keys = definition.tunnel_keys.filter(|keys| !keys.is_empty()).unwrap_or("[]");
        let keys: Vec<i64> =
            serde_json::from_str(keys).map_err(|error| DefinitionError::Keys(error.to_string()))?;
        let keys = keys.into_iter().map(DatapathKey::try_new);
        Ok(Self {
            mtu: interpret("mtu", &config.mtu)?,
            outbound_snat: interpret("outboundSNAT", &config.outbound_snat)?,
            has_uplink: interpret::<String>("uplink", &config.uplink)?.is_some(),
            default_gateways: addresses("defaultGatewayIPs", &config.default_gateway_ips)?,
            infrastructure_subnets: addresses(
                "infrastructureSubnets",
                &config.infrastructure_subnets,
            )?,
            tunnel_keys: keys
                .collect::<Result<_, _>>()
                .map_err(|error| DefinitionError::Keys(error.to_string()))?,
        })
    }
}

fn interpret<T: DeserializeOwned>(
    field: &str,
    value: &UninterpretedValue,
) -> Result<Option<T>, DefinitionError> {
    let wrong = |error| DefinitionError::Config(format!("{field}: {error}"));
    value.interpret().map_err(wrong)
}

/// The entries of a comma-separated field. An absent field has none.
fn addresses<T: FromStr>(field: &str, value: &UninterpretedValue) -> Result<Vec<T>, DefinitionError>
where
    T::Err: Display,
{
    let list: Option<String> = interpret(field, value)?;
    entries(field, &list.unwrap_or_default())
}

/// Configuration of a localnet network: a switch that is part of a physical network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Localnet {
    /// Name of the network.
    pub name: String,
    /// Empty if it is the name of the network.
    pub physical_network_name: String,
    /// Comma-separated; empty if addresses of pods are not managed.
    pub subnets: String,
    /// `None`: packets have no VLAN tag.
    pub vlan_id: Option<i64>,
}

impl Localnet {
    /// Reads a definition. `None`: it is not that of a localnet network with an id.
    pub(crate) fn read(definition: &AttachmentDefinition<'_>) -> Option<Self> {
        definition.network_id?;
        let config = CniConfig::from_json(definition.config?).ok()??;
        if config.topology != LOCALNET || config.name.is_empty() {
            return None;
        }
        let physical_network_name: Option<String> =
            config.physical_network_name.interpret().ok()?;
        Some(Self {
            name: config.name,
            physical_network_name: physical_network_name.unwrap_or_default(),
            subnets: config.subnets.unwrap_or_default(),
            vlan_id: config.vlan_id.interpret().ok()?,
        })
    }
}

/// Reads the entries of a comma-separated list of a configuration.
///
/// # Errors
/// An entry cannot be read.
pub fn entries<T: FromStr>(field: &str, list: &str) -> Result<Vec<T>, DefinitionError>
where
    T::Err: Display,
{
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let read = entries.map(|entry| {
        let wrong = |error| DefinitionError::Config(format!("{field}: {entry:?}: {error}"));
        entry.parse().map_err(wrong)
    });
    read.collect()
}
