//! ClusterNetworkConnect as a zone controller sees it: the spec, and the annotations that the
//! cluster manager has written.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use thiserror::Error;

use super::connect_range::{ConnectRangeError, ConnectRanges};
use super::connect_subnets::{ConnectSubnetMap, SubnetAnnotationError};
use super::ids::{DatapathKey, IdError, NetworkId};
use super::network::Network;

/// Annotation with the tunnel key of the connect router.
pub const ROUTER_TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";

/// Traffic that is allowed between connected networks, `spec.connectivity`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Connectivity {
    /// `true` if pods reach pods.
    pub pod_network: bool,
    /// `true` if pods reach cluster IPs.
    pub service_network: bool,
}

impl Connectivity {
    /// `true` if pods reach cluster IPs only; traffic from pod to pod is dropped.
    pub const fn is_service_only(self) -> bool {
        self.service_network && !self.pod_network
    }
}

/// Reason why a zone controller cannot process a ClusterNetworkConnect.
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
    /// The object is not valid for this version of the resource.
    #[error("{0}")]
    Object(String),
}

/// ClusterNetworkConnect, checked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connect {
    /// Name of the ClusterNetworkConnect.
    pub name: String,
    /// Tunnel key of the connect router. `None`: not allocated yet, so there is nothing to do.
    pub tunnel_key: Option<DatapathKey>,
    /// Connect subnets of the connected networks.
    pub subnets: ConnectSubnetMap,
    /// Errors of the entries in the subnet annotation whose key is not an owner key.
    pub unknown_owners: Vec<IdError>,
    /// Ranges of the connect subnets, `spec.connectSubnets`.
    pub ranges: ConnectRanges,
    /// Traffic that is allowed between the networks.
    pub connectivity: Connectivity,
    /// VPCs that the connect joins, by id. They are not among the networks of the cluster, because
    /// each connect selects its own subnets.
    pub vpcs: BTreeMap<NetworkId, Arc<ConnectedVpc>>,
}

/// VPC of a connect, with the selected subnets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedVpc {
    /// The VPC as a network whose pod subnets are the ranges of the selected subnets.
    pub network: Network,
    /// Selected subnets.
    pub subnets: Vec<ConnectedSubnet>,
    /// Other subnets of the VPC.
    pub others: Vec<ConnectedSubnet>,
    /// Prefixes of the router's routes by destination, each with its route table.
    pub routes: Vec<(String, IpNet)>,
    /// Ranges that no other network of the connect may have, each with the object that has it: all
    /// subnets of the VPC, and its external subnets.
    pub occupied: Vec<(String, IpNet)>,
}

/// Subnet of a VPC with a port on its router.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedSubnet {
    /// Name.
    pub name: String,
    /// Route table of packets from the subnet; empty: the main one.
    pub route_table: String,
}

impl ConnectedVpc {
    /// Port of the router through which packets of a subnet arrive.
    pub fn inport(&self, subnet: &str) -> String {
        format!("{}-{subnet}", self.network.name)
    }

    /// `true` if the router has a route for all packets to a range, in a table.
    pub fn has_route(&self, table: &str, range: &IpNet) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|(of, prefix)| of == table && prefix.contains(range))
    }
}

/// Result of reading a ClusterNetworkConnect.
#[derive(Debug)]
pub struct ConnectInput {
    /// Uid, which differs between objects of the same name.
    pub uid: Option<String>,
    /// Reason why the networks must not be connected as they are now. Rows of a refused connect
    /// stay as they are. `None`: nothing is against it.
    pub refusal: Option<String>,
    /// The checked object. Rows of an object with an error stay as they are.
    pub connect: Result<Connect, ConnectError>,
}

/// Errors are equal if their messages are.
impl PartialEq for ConnectInput {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.refusal == other.refusal
            && match (&self.connect, &other.connect) {
                (Ok(one), Ok(other)) => one == other,
                (Err(one), Err(other)) => one.to_string() == other.to_string(),
                _ => false,
            }
    }
}
