//! Network that a UserDefinedNetwork or ClusterUserDefinedNetwork requests, in one form.

use thiserror::Error;

use patchbay_model::{CniEvpn, names};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::udn::{
    ClusterUserDefinedNetworkSpec, CudnTopology, EvpnConfig, Layer2Config, Layer3Config,
    LocalnetConfig, NetworkRole, NoOverlayConfig, Transport, UdnTopology, UserDefinedNetworkSpec,
};

/// Error of a custom resource without the configuration of its topology.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("invalid topology specified: topology {0} is specified but {0} config is nil")]
pub(in crate::networks) struct RequestError(&'static str);

/// Network that a custom resource requests.
#[derive(Clone, Debug)]
pub(in crate::networks) struct NetworkRequest<'a> {
    /// Name of the network.
    pub(in crate::networks) network: String,
    /// Configuration of the topology.
    pub(in crate::networks) config: TopologyConfig<'a>,
    /// Transport of packets between nodes. `None`: Geneve.
    pub(in crate::networks) transport: Option<Transport>,
    /// Place on an EVPN fabric, with transport `EVPN`.
    pub(in crate::networks) fabric: Option<&'a EvpnConfig>,
    /// The same with VLAN ids.
    pub(super) fabric_ids: Option<CniEvpn>,
    pub(super) no_overlay: Option<&'a NoOverlayConfig>,
    pub(super) uplink: Option<&'a str>,
}

/// Configuration of a topology, the field `layer3`, `layer2` or `localnet`.
#[derive(Clone, Copy, Debug)]
pub(in crate::networks) enum TopologyConfig<'a> {
    Layer3(&'a Layer3Config),
    Layer2(&'a Layer2Config),
    Localnet(&'a LocalnetConfig),
}

impl<'a> NetworkRequest<'a> {
    pub(in crate::networks) fn of_udn(
        key: &ObjectKey,
        spec: &'a UserDefinedNetworkSpec,
    ) -> Result<Self, RequestError> {
        let config = match spec.topology {
            UdnTopology::Layer3 => {
                spec.layer3.as_ref().map(TopologyConfig::Layer3).ok_or(RequestError("Layer3"))
            }
            UdnTopology::Layer2 => {
                spec.layer2.as_ref().map(TopologyConfig::Layer2).ok_or(RequestError("Layer2"))
            }
        };
        Ok(Self {
            network: names::udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name),
            config: config?,
            transport: None,
            fabric: None,
            fabric_ids: None,
            no_overlay: None,
            uplink: None,
        })
    }

    pub(in crate::networks) fn of_cudn(
        name: &str,
        spec: &'a ClusterUserDefinedNetworkSpec,
    ) -> Result<Self, RequestError> {
        let network = &spec.network;
        let config = match network.topology {
            CudnTopology::Layer3 => {
                network.layer3.as_ref().map(TopologyConfig::Layer3).ok_or(RequestError("Layer3"))
            }
            CudnTopology::Layer2 => {
                network.layer2.as_ref().map(TopologyConfig::Layer2).ok_or(RequestError("Layer2"))
            }
            CudnTopology::Localnet => network
                .localnet
                .as_ref()
                .map(TopologyConfig::Localnet)
                .ok_or(RequestError("Localnet")),
        };
        Ok(Self {
            network: names::cudn_network(name),
            config: config?,
            transport: network.transport,
            fabric: network.evpn.as_ref(),
            fabric_ids: None,
            no_overlay: network.no_overlay.as_ref(),
            uplink: spec.uplinks.iter().flatten().next().map(String::as_str),
        })
    }
}

impl NetworkRequest<'_> {
    /// The request with the VLAN ids of a network on an EVPN fabric.
    pub(in crate::networks) fn with_fabric_ids(self, fabric_ids: Option<CniEvpn>) -> Self {
        Self { fabric_ids, ..self }
    }
}

impl<'a> TopologyConfig<'a> {
    /// The value of `topology` in CNI configurations.
    pub(super) fn topology(self) -> &'static str {
        match self {
            Self::Layer3(_) => "layer3",
            Self::Layer2(_) => "layer2",
            Self::Localnet(_) => "localnet",
        }
    }

    pub(in crate::networks) fn role(self) -> NetworkRole {
        match self {
            Self::Layer3(config) => config.role,
            Self::Layer2(config) => config.role,
            Self::Localnet(config) => config.role,
        }
    }

    pub(super) fn join_subnets(self) -> Option<&'a Vec<String>> {
        match self {
            Self::Layer3(config) => config.join_subnets.as_ref(),
            Self::Layer2(config) => config.join_subnets.as_ref(),
            Self::Localnet(_) => None,
        }
    }
}
