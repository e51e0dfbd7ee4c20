//! Fields of attachment definitions on which only rows depend.

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use patchbay_model::{AttachmentDefinition, DatapathKey};
use serde::Deserialize;

use super::SkipReason;

/// Settings of attachment definitions that only the rows of a network need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Details {
    pub(super) mtu: Option<u32>,
    pub(super) default_gateways: Vec<IpAddr>,
    pub(super) infrastructure_subnets: Vec<IpNet>,
    pub(super) tunnel_keys: Vec<DatapathKey>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDetails {
    mtu: Option<u32>,
    #[serde(rename = "defaultGatewayIPs")]
    default_gateway_ips: String,
    infrastructure_subnets: String,
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
        let raw: RawDetails = match definition.config {
            Some(config) => serde_json::from_str(config)
                .map_err(|error| SkipReason::Config(error.to_string()))?,
            None => RawDetails::default(),
        };
        let keys = definition.tunnel_keys.filter(|keys| !keys.is_empty());
        let keys = keys.unwrap_or("[]");
        let keys: Vec<i64> =
            serde_json::from_str(keys).map_err(|error| SkipReason::Keys(error.to_string()))?;
        let keys = keys.into_iter().map(DatapathKey::try_new);
        Ok(Self {
            mtu: raw.mtu,
            default_gateways: entries("defaultGatewayIPs", &raw.default_gateway_ips)?,
            infrastructure_subnets: entries("infrastructureSubnets", &raw.infrastructure_subnets)?,
            tunnel_keys: keys
                .collect::<Result<_, _>>()
                .map_err(|error| SkipReason::Keys(error.to_string()))?,
        })
    }
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
