//! Result of a reconcile: annotations, status and warnings.

use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    ConnectSubnetMap, DatapathKey, IdError, NadKey, NodeId, NodeIdCapacity, OwnerKey,
    ROUTER_TUNNEL_KEY,
};
use patchbay_resources::cnc::ClusterNetworkConnectStatus;
use thiserror::Error;

use super::status::ACCEPTED;
use super::unconnected::Unconnected;

/// Desired annotations and status of a connect.
#[derive(Clone, Debug, PartialEq)]
pub struct CncOutcome {
    /// Name of the connect.
    pub name: String,
    /// Tunnel key of the connect router. `None`: the annotation stays as it is.
    pub tunnel_key: Option<DatapathKey>,
    /// Subnets of all connected networks. `None`: the annotation stays as it is.
    pub subnets: Option<ConnectSubnetMap>,
    /// The complete status.
    pub status: ClusterNetworkConnectStatus,
    /// Networks that the zones know nothing of, for the condition `Connected`.
    pub unconnected: Unconnected,
}

impl CncOutcome {
    /// The annotations to write, the tunnel key first. Others stay as they are.
    pub fn annotations(&self) -> Vec<(&'static str, String)> {
        let key = self.tunnel_key.map(|key| (ROUTER_TUNNEL_KEY, key.to_string()));
        let subnets = self
            .subnets
            .as_ref()
            .map(|subnets| (ConnectSubnetMap::ANNOTATION, subnets.to_string()));
        key.into_iter().chain(subnets).collect()
    }

    /// `true` if the condition `Accepted` holds.
    pub fn is_accepted(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == ACCEPTED && condition.status == "True")
    }
}

/// Result of a reconcile.
#[derive(Debug, Default)]
pub struct AllocationReport {
    /// Desired state of every connect, in the order of their names.
    pub outcomes: Vec<CncOutcome>,
    /// Problems that no status reports.
    pub warnings: Vec<AllocationWarning>,
}

/// Problem in the annotations of an object that no status reports.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AllocationWarning {
    /// The key of an entry in the subnet annotation is not an owner key.
    #[error("CNC {connect}: annotation {}: {source}", ConnectSubnetMap::ANNOTATION)]
    Owner {
        /// Name of the connect.
        connect: String,
        /// The error.
        source: IdError,
    },
    /// An entry of the subnet annotation cannot be restored, so the network gets other subnets.
    #[error(
        "CNC {connect}: annotation {}: the subnets of {owner} are not free or not from connectSubnets",
        ConnectSubnetMap::ANNOTATION
    )]
    NotRestored {
        /// Name of the connect.
        connect: String,
        /// Owner of the subnets.
        owner: OwnerKey,
    },
    /// Node ids exceed, or will soon exceed, the addresses and keys of the connect's blocks.
    #[error(
        "CNC {connect}: spec.connectSubnets: {}: blocks have addresses and keys for node ids up to {}, and node {node} has id {id}",
        capacity.describe(*id), capacity.last()
    )]
    NodeIds {
        /// Name of the connect.
        connect: String,
        /// The ids with addresses and keys.
        capacity: NodeIdCapacity,
        /// Name of the node with the highest id.
        node: String,
        /// The highest id.
        id: NodeId,
    },
    /// The tunnel keys annotation of an attachment definition cannot be read, so its keys may be
    /// allocated again.
    #[error("network attachment definition {nad}: annotation {TUNNEL_KEYS}: {reason}")]
    NetworkKeys {
        /// The definition.
        nad: NadKey,
        /// The error.
        reason: String,
    },
    /// A further reason why a connect is not accepted. Its condition has the first one.
    #[error("CNC {connect}: another reason why it is not accepted: {cause}")]
    Refused {
        /// Name of the connect.
        connect: String,
        /// The reason.
        cause: String,
    },
    /// A selected attachment definition cannot be read. Its network is neither connected nor
    /// disconnected.
    #[error("CNC {connect}: network attachment definition {nad}: {problem}")]
    Definition {
        /// Name of the connect.
        connect: String,
        /// The definition.
        nad: NadKey,
        /// The error.
        problem: String,
    },
}
