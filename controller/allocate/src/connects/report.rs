//! What comes out of a reconcile.

use thiserror::Error;

use super::status::ACCEPTED;
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    ConnectSubnetMap, DatapathKey, IdError, NadKey, NodeId, OwnerKey, ROUTER_TUNNEL_KEY,
};
use patchbay_resources::cnc::ClusterNetworkConnectStatus;

/// What a connect should have now.
#[derive(Clone, Debug, PartialEq)]
pub struct CncOutcome {
    /// Name of the connect.
    pub name: String,
    /// Tunnel key of the connect router; `None`: the annotation stays as it is.
    pub tunnel_key: Option<DatapathKey>,
    /// Subnets of all connected networks; `None`: the annotation stays as it is.
    pub subnets: Option<ConnectSubnetMap>,
    /// The status, complete.
    pub status: ClusterNetworkConnectStatus,
}

impl CncOutcome {
    /// The annotations to write, the tunnel key first. Others stay as they are.
    pub fn annotations(&self) -> Vec<(&'static str, String)> {
        let key = self
            .tunnel_key
            .map(|key| (ROUTER_TUNNEL_KEY, key.to_string()));
        let subnets = self
            .subnets
            .as_ref()
            .map(|subnets| (ConnectSubnetMap::ANNOTATION, subnets.to_string()));
        key.into_iter().chain(subnets).collect()
    }

    /// Whether everything about the connect went well in this half.
    pub fn is_accepted(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == ACCEPTED && condition.status == "True")
    }
}

/// The result of a reconcile.
#[derive(Debug, Default)]
pub struct Report {
    /// What every connect should have, in the order of their names.
    pub outcomes: Vec<CncOutcome>,
    /// What could not be read or taken over, and no status tells.
    pub warnings: Vec<Warning>,
}

/// Something in the annotations of an object that does not count.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Warning {
    /// An entry of the subnet annotation names no network.
    #[error("CNC {connect}: annotation {}: {source}", ConnectSubnetMap::ANNOTATION)]
    Owner {
        /// Name of the connect.
        connect: String,
        /// What is wrong with it.
        source: IdError,
    },
    /// An entry of the subnet annotation cannot be kept: the network gets new subnets in place of those.
    #[error(
        "CNC {connect}: annotation {}: the subnets of {owner} are not free or not from connectSubnets",
        ConnectSubnetMap::ANNOTATION
    )]
    NotRestored {
        /// Name of the connect.
        connect: String,
        /// Whose subnets they are.
        owner: OwnerKey,
    },
    /// Nodes have, or soon will have, ids for which the blocks of the connect have no addresses.
    #[error(
        "CNC {connect}: spec.connectSubnets: blocks have addresses and keys for node ids below {capacity}, and node {node} has id {id}: networks cannot be connected on nodes with higher ids"
    )]
    NodeIds {
        /// Name of the connect.
        connect: String,
        /// The first id without addresses.
        capacity: u64,
        /// Name of the node with the highest id.
        node: String,
        /// The highest id.
        id: NodeId,
    },
    /// The tunnel keys annotation of an attachment definition cannot be read: its keys may be handed out again.
    #[error("network attachment definition {nad}: annotation {TUNNEL_KEYS}: {reason}")]
    NetworkKeys {
        /// The definition.
        nad: NadKey,
        /// What is wrong with it.
        reason: String,
    },
    /// A selected attachment definition cannot be read: its network is not connected anew, and not disconnected.
    #[error("CNC {connect}: network attachment definition {nad}: {problem}")]
    Definition {
        /// Name of the connect.
        connect: String,
        /// The definition.
        nad: NadKey,
        /// What is wrong with it.
        problem: String,
    },
}
