//! Fields of attachment definitions on which only rows depend.

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use patchbay_model::{AttachmentDefinition, CniConfig, DatapathKey, UninterpretedValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::SkipReason;

/// Translation of the source addresses of pods' packets that leave the cluster, in a network
/// without an overlay.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum OutboundSnat {
    /// They become the node's addresses.
    Enabled,
    /// They stay, because the network outside has routes to pods.
    Disabled,
}

/// Settings of attachment definitions that only the rows of a network need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Details {
    pub(super) mtu: Option<u32>,
    pub(super) default_gateways: Vec<IpAddr>,
    pub(super) infrastructure_subnets: Vec<IpNet>,
    pub(super) tunnel_keys: Vec<DatapathKey>,
    pub(super) outbound_snat: Option<OutboundSnat>,
    /// `true` if the network leaves nodes by a bridge of its own.
    pub(super) has_uplink: bool,
}

impl Details {
    /// Reads the definition of a network.
    ///
    /// # Errors
    /// The definition's configuration or keys cannot be read.
    pub(super) fn read(definition: Option<&AttachmentDefinition<'_>>) -> Result<Self, SkipReason> {
        let Some(definition) = definition else {
            return Ok(Self::default());
        };
        let config = match definition.config {
            Some(config) => CniConfig::from_json(config)
                .map_err(|error| SkipReason::Config(error.to_string()))?
                .unwrap_or_default(),
            None => CniConfig::default(),
        };
        let keys = definition.tunnel_keys.filter(|keys| !keys.is_empty());
        let keys = keys.unwrap_or("[]");
        let keys: Vec<i64> =
            serde_json::from_str(keys).map_err(|error| SkipReason::Keys(error.to_string()))?;
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
                .map_err(|error| SkipReason::Keys(error.to_string()))?,
        })
    }
}

fn interpret<T: DeserializeOwned>(
    field: &str,
    value: &UninterpretedValue,
) -> Result<Option<T>, SkipReason> {
    let wrong = |error| SkipReason::Config(format!("{field}: {error}"));
    value.interpret().map_err(wrong)
}

/// The entries of a comma-separated field. An absent field has none.
fn addresses<T: FromStr>(field: &str, value: &UninterpretedValue) -> Result<Vec<T>, SkipReason>
where
    T::Err: Display,
{
    let list: Option<String> = interpret(field, value)?;
    entries(field, &list.unwrap_or_default())
}

/// The entries of a comma-separated list.
pub(super) fn entries<T: FromStr>(field: &str, list: &str) -> Result<Vec<T>, SkipReason>
where
    T::Err: Display,
{
    let entries = list.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    let read = entries.map(|entry| {
        let wrong = |error| SkipReason::Config(format!("{field}: {entry:?}: {error}"));
        entry.parse().map_err(wrong)
    });
    read.collect()
}
