//! A ClusterNetworkConnect as the zone half sees it: what the cluster-wide half published, and the mode.

use thiserror::Error;

use super::connect_range::{ConnectRangeError, ConnectRanges};
use super::connect_subnets::{ConnectSubnetMap, SubnetAnnotationError};
use super::ids::{DatapathKey, IdError};

/// Annotation with the tunnel key of the connect router.
pub const ROUTER_TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";

/// What is let through between connected networks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Connectivity {
    /// Pods reach pods.
    pub pod_network: bool,
    /// Pods reach cluster IPs.
    pub service_network: bool,
}

impl Connectivity {
    /// Services only: traffic from pod to pod is dropped.
    pub const fn is_service_only(self) -> bool {
        self.service_network && !self.pod_network
    }
}

/// A ClusterNetworkConnect that a zone cannot serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The tunnel key annotation is not a key.
    #[error("annotation {ROUTER_TUNNEL_KEY}: {0}")]
    TunnelKey(#[from] IdError),
    /// The subnet annotation cannot be read.
    #[error(transparent)]
    Subnets(#[from] SubnetAnnotationError),
    /// An entry of `spec.connectSubnets` cannot be used.
    #[error(transparent)]
    Range(#[from] ConnectRangeError),
    /// The object is not one that this version understands.
    #[error("{0}")]
    Object(String),
}

/// A connect.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connect {
    /// Name of the object.
    pub name: String,
    /// Tunnel key of the connect router; there is nothing to do before it is known.
    pub tunnel_key: Option<DatapathKey>,
    /// The connected networks with their subnets.
    pub subnets: ConnectSubnetMap,
    /// Entries of the subnet annotation that name no owner.
    pub unknown_owners: Vec<IdError>,
    /// The ranges that the subnets come from.
    pub ranges: ConnectRanges,
    /// What is let through.
    pub connectivity: Connectivity,
}

/// A connect as it was read.
#[derive(Debug)]
pub struct ConnectInput {
    /// Tells an object from a later one of the same name.
    pub uid: Option<String>,
    /// What the object says. An object that cannot be understood leaves its rows as they are.
    pub connect: Result<Connect, ConnectError>,
}

/// Objects that cannot be understood are equal if the same is wrong with them.
impl PartialEq for ConnectInput {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
            && match (&self.connect, &other.connect) {
                (Ok(one), Ok(other)) => one == other,
                (Err(one), Err(other)) => one.to_string() == other.to_string(),
                _ => false,
            }
    }
}
