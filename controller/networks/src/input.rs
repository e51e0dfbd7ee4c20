//! What rows follow from, beyond what connects need.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::Deserialize;

use super::SkipReason;
use patchbay_model::{
    AttachmentDefinition, ClusterSettings, DatapathKey, Network, Node, NodeId, NodeObject,
    transit_addresses,
};

/// Node annotation: `"false"` if ports of the node cannot tell packets that are too big.
const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";

/// A node with its addresses on transit switches.
#[derive(Clone, Debug)]
pub(super) struct ZoneNode {
    pub(super) name: String,
    id: Option<NodeId>,
    chassis: Option<String>,
    pub(super) subnets: BTreeMap<String, Vec<IpNet>>,
    /// IPv4 first, with the length of the range.
    pub(super) transit: Vec<IpNet>,
    has_gateway_mtu: bool,
}

impl ZoneNode {
    /// Reads a node. What cannot be read is missing: it has been told when the node was resolved.
    pub(super) fn read(object: NodeObject<'_>) -> Self {
        let (
            Node {
                name,
                id,
                chassis_id,
                subnets,
                ..
            },
            _,
        ) = Node::read(object.name, object.annotations, None);
        Self {
            name,
            id,
            chassis: chassis_id,
            subnets,
            transit: transit_addresses(object.annotations).unwrap_or_default(),
            has_gateway_mtu: object
                .annotations
                .and_then(|annotations| annotations.get(GATEWAY_MTU_SUPPORT))
                .is_none_or(|value| value != "false"),
        }
    }

    /// Id and chassis id.
    pub(super) fn identity(&self) -> Result<(NodeId, &str), SkipReason> {
        let id = self.id.ok_or(SkipReason::NoNodeId)?;
        Ok((id, self.chassis.as_deref().ok_or(SkipReason::NoChassisId)?))
    }

    /// The address on transit switches in the family of a subnet.
    pub(super) fn transit_address(&self, family_of: IpNet) -> Option<IpAddr> {
        let mut addresses = self.transit.iter().map(IpNet::addr);
        addresses.find(|address| address.is_ipv4() == family_of.addr().is_ipv4())
    }
}

/// What attachment definitions say about a network for its rows only.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    mtu: Option<u32>,
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
    /// What the definition says, which is that of a network.
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
fn entries<T: FromStr>(field: &str, list: &str) -> Result<Vec<T>, SkipReason>
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

/// A network in the zone of a node.
pub(super) struct Site<'a> {
    pub(super) network: &'a Network,
    pub(super) details: &'a Details,
    pub(super) node: &'a ZoneNode,
    pub(super) node_id: NodeId,
    pub(super) chassis: &'a str,
    pub(super) remote: &'a [ZoneNode],
    settings: &'a ClusterSettings,
}

impl<'a> Site<'a> {
    pub(super) fn new(
        network: &'a Network,
        details: &'a Details,
        node: &'a ZoneNode,
        remote: &'a [ZoneNode],
        settings: &'a ClusterSettings,
    ) -> Result<Self, SkipReason> {
        let (node_id, chassis) = node.identity()?;
        Ok(Self {
            network,
            details,
            node,
            node_id,
            chassis,
            remote,
            settings,
        })
    }

    /// MTU of the network.
    pub(super) fn mtu(&self) -> u32 {
        self.details.mtu.unwrap_or(self.settings.mtu)
    }

    /// The option of ports towards pods that makes them tell packets that are too big for the cluster.
    pub(super) fn gateway_mtu(&self) -> Option<(String, String)> {
        self.node
            .has_gateway_mtu
            .then(|| ("gateway_mtu".to_owned(), self.settings.mtu.to_string()))
    }
}
