//! What a custom resource asks for, in one form for both kinds.

use ipnet::IpNet;
use thiserror::Error;

use patchbay_model::{IpFamily, names};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::udn::{
    ClusterUserDefinedNetworkSpec, CudnTopology, Layer2Config, Layer3Config, LocalnetConfig,
    NetworkRole, NoOverlayConfig, Transport, UdnTopology, UserDefinedNetworkSpec,
};

/// A custom resource that does not say what its topology needs.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("invalid topology specified: topology {0} is specified but {0} config is nil")]
pub(in crate::networks) struct RequestError(&'static str);

/// A network as a custom resource asks for it.
#[derive(Clone, Debug)]
pub(in crate::networks) struct NetworkRequest<'a> {
    /// Name of the network.
    pub(in crate::networks) network: String,
    /// The member of its topology.
    pub(in crate::networks) config: Config<'a>,
    /// How packets travel between nodes, if not in the overlay.
    pub(in crate::networks) transport: Option<Transport>,
    pub(super) no_overlay: Option<&'a NoOverlayConfig>,
    pub(super) uplink: Option<&'a str>,
}

/// The member of a topology.
#[derive(Clone, Copy, Debug)]
pub(in crate::networks) enum Config<'a> {
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
            UdnTopology::Layer3 => spec
                .layer3
                .as_ref()
                .map(Config::Layer3)
                .ok_or(RequestError("Layer3")),
            UdnTopology::Layer2 => spec
                .layer2
                .as_ref()
                .map(Config::Layer2)
                .ok_or(RequestError("Layer2")),
        };
        Ok(Self {
            network: names::udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name),
            config: config?,
            transport: None,
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
            CudnTopology::Layer3 => network
                .layer3
                .as_ref()
                .map(Config::Layer3)
                .ok_or(RequestError("Layer3")),
            CudnTopology::Layer2 => network
                .layer2
                .as_ref()
                .map(Config::Layer2)
                .ok_or(RequestError("Layer2")),
            CudnTopology::Localnet => network
                .localnet
                .as_ref()
                .map(Config::Localnet)
                .ok_or(RequestError("Localnet")),
        };
        Ok(Self {
            network: names::cudn_network(name),
            config: config?,
            transport: network.transport,
            no_overlay: network.no_overlay.as_ref(),
            uplink: spec.uplinks.iter().flatten().next().map(String::as_str),
        })
    }
}

impl<'a> Config<'a> {
    /// The word for the topology in configurations.
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

    /// The network's ranges.
    pub(super) fn subnets(self) -> Vec<IpNet> {
        match self {
            Self::Layer3(config) => parsed(config.subnets.iter().map(|subnet| &subnet.cidr)),
            Self::Layer2(config) => parsed(config.subnets.iter().flatten()),
            Self::Localnet(config) => parsed(config.subnets.iter().flatten()),
        }
    }
}

/// The subnets in these texts; validation has refused what is none.
pub(super) fn parsed<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<IpNet> {
    texts
        .into_iter()
        .filter_map(|text| text.parse().ok())
        .map(|subnet: IpNet| subnet.trunc())
        .collect()
}

/// The length of the subnets that nodes get if the network does not say.
pub(super) const fn default_host_subnet(family: IpFamily) -> i32 {
    match family {
        IpFamily::V4 => 24,
        IpFamily::V6 => 64,
    }
}
