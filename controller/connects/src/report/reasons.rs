//! Reasons and notices of the report about a connect.

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::{ConnectError, PointToPointError, SubnetRefusal, TunnelKeyError};
use patchbay_zone::MissingId;
use thiserror::Error;

/// Number of networks that a notice lists by name; further ones are counted.
const MAX_NAMED_NETWORKS: usize = 10;
/// Version of the first Northbound schema of an OVN with remote router ports (25.03).
const REMOTE_ROUTER_PORTS: &str = "7.11.0";

/// Reason why a pass changes no row of a connect.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum HeldReason {
    /// The object or one of its annotations is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The connect is not accepted as it is now. The rows of networks that are not in its annotation
    /// any more are removed; the others stay as they were when it was accepted. A connect for services
    /// only loses its policies if pods are not isolated yet.
    #[error("not accepted, so its rows stay as they were: {0}")]
    NotAccepted(String),
    /// The cluster manager has not allocated the tunnel key of the connect router yet.
    #[error("the connect router has no tunnel key yet")]
    NoTunnelKey,
    /// OVN-Kubernetes has not created the `Copp` row yet. All its routers share this row.
    #[error("unable to create router control plane protection: Copp row {0} does not exist yet")]
    NoCopp(&'static str),
    /// The database rejected the transaction repeatedly.
    #[error("the Northbound database refuses the connect's rows: {0}")]
    Refused(String),
}

impl From<&ConnectError> for HeldReason {
    fn from(error: &ConnectError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Reason why a network is not connected in this zone.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum NetworkSkip {
    /// The subnet annotation names a network id that no known network has.
    #[error("the network is not known")]
    Unknown,
    /// The subnet annotation names another topology than the network has.
    #[error("the network has topology {0}, but the annotation names another")]
    OtherTopology(patchbay_model::Topology),
    /// OVN-Kubernetes has not created the network's router in this zone yet.
    #[error("its router {0} does not exist yet")]
    NoRouter(String),
    /// OVN-Kubernetes has not created the switch yet. Its ACLs would drop traffic between pods.
    #[error("its switch {0} does not exist yet, so traffic between pods could not be dropped")]
    NoSwitch(String),
    /// The zone's node has no id yet. Addresses and tunnel keys are derived from it.
    #[error("node {0} of this zone has no id yet")]
    NoLocalId(String),
    /// The id of the zone's node cannot be read. The network's rows are retained.
    #[error("the id of node {0} of this zone cannot be read")]
    UnreadableLocalId(String),
    /// The network has no pod subnets, so there is no destination to route to.
    #[error("it has no subnets")]
    NoSubnets,
    /// The database schema lacks the ACL action `pass` (OVN before 23.06).
    #[error(
        "the Northbound database does not know the ACL action \"pass\", which service-only connectivity needs"
    )]
    NoPassAction,
    /// The network is a VPC, whose services are not connected.
    #[error("services of VPCs cannot be connected yet: spec.connectivity needs PodNetwork")]
    ServicesOfVpc,
    /// OVN is older than its remote router ports (25.03). The network has its rows, but packets
    /// between its pods on one node and connected networks on another node are lost.
    #[error(
        "packets to and from its pods on other nodes are lost, because OVN has remote router ports since 25.03 (Northbound schema {REMOTE_ROUTER_PORTS}; this one has version {0})"
    )]
    NoRemoteRouterPorts(String),
}

/// Reason why a network is not connected on one node.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum NodeSkip {
    /// The node has no annotation of OVN: it runs Windows or a virtual kubelet, or it is joining.
    /// It does not prevent the connect from being complete.
    #[error("OVN does not manage the node: it has no id, no chassis id and no subnets")]
    Unmanaged,
    /// The cluster manager has not allocated an id to the node yet.
    #[error("the node has no id yet")]
    NoId,
    /// The node's id annotation cannot be read. The rows of its links are retained.
    #[error("the node's id cannot be read")]
    UnreadableId,
    /// An older node has the same id, and so the same addresses and tunnel keys.
    #[error("the node has the id of node {0}")]
    SharedId(String),
    /// The node has no chassis id yet.
    #[error("the node has no chassis id yet")]
    NoChassis,
    /// The connect subnet of the network is too small for the node's id.
    #[error(transparent)]
    Address(#[from] PointToPointError),
    /// No tunnel key can be derived for the port.
    #[error(transparent)]
    TunnelKey(#[from] TunnelKeyError),
    /// Another port of the connect router uses the tunnel key.
    #[error("tunnel key {key} is in use by port {port}")]
    SharedTunnelKey {
        /// Tunnel key that both ports need.
        key: u16,
        /// Name of the port that uses the key.
        port: String,
    },
    /// A row of another owner has the name of the port.
    #[error("the port name {0} is in use")]
    NameTaken(String),
    /// The node has a port but no route, because it has no subnet of the network yet.
    #[error("the node has no subnet of the network yet")]
    NoSubnet,
    /// The node's subnet annotation cannot be read. Existing routes are retained.
    #[error("the node's subnets cannot be read")]
    UnreadableSubnets,
    /// The node's subnet annotation names a subnet that the node cannot have. Existing routes are
    /// retained, except those to refused subnets.
    #[error("the node's {0}")]
    RefusedSubnet(SubnetRefusal),
}

impl From<MissingId> for NodeSkip {
    fn from(reason: MissingId) -> Self {
        match reason {
            MissingId::Absent => Self::NoId,
            MissingId::Unreadable => Self::UnreadableId,
            MissingId::Unmanaged => Self::Unmanaged,
            MissingId::Shared(owner) => Self::SharedId(owner),
        }
    }
}

impl NodeSkip {
    /// `true` if OVN-Kubernetes is going to write what is missing, as it does while a node joins.
    pub const fn is_pending(&self) -> bool {
        matches!(self, Self::NoId | Self::NoChassis | Self::NoSubnet)
    }
}

/// Irregularity that prevents no connection.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum Notice {
    /// The number of load balancers differs from the expected number. The text up to the semicolon
    /// is that of OVN-Kubernetes.
    #[error(
        "network {network}: found {found} ClusterIP LBs but expected {expected}; connects share none of services with internalTrafficPolicy Local or endpoints outside of the network"
    )]
    LoadBalancers {
        /// Name of the network.
        network: String,
        /// Number of load balancers found.
        found: usize,
        /// Number that the network's services need.
        expected: usize,
    },
    /// The network's switch does not exist, so its pods cannot reach services.
    #[error(
        "network {network}: its switch {switch} does not exist yet, so its pods cannot reach services of other networks"
    )]
    NoSwitch {
        /// Name of the network.
        network: String,
        /// Name of the switch.
        switch: String,
    },
    /// Another connect joins two or more of the same networks.
    #[error(
        "connect {connect} also joins networks {}: the path of their traffic is undefined, and traffic that either connect drops is dropped",
        abbreviate_list(networks, MAX_NAMED_NETWORKS)
    )]
    SharedNetworks {
        /// Name of the other connect.
        connect: String,
        /// Names of the networks.
        networks: Vec<String>,
    },
    /// More connects join two or more of the connect's networks than its notices name.
    #[error(
        "further connects also join two or more of its networks: the path of their traffic is undefined, and traffic that one of them drops is dropped"
    )]
    FurtherSharedNetworks,
    /// Another connect joins one of the networks with one that has addresses of this connect's
    /// networks.
    #[error(
        "connect {connect} joins network {network} with {other}, whose subnets overlap with those of {own}: it is undefined which of the two gets packets from {network}"
    )]
    OverlappingNetworks {
        /// Name of the network that both connects join.
        network: String,
        /// Name of the network of this connect.
        own: String,
        /// Name of the other connect.
        connect: String,
        /// Name of the network of the other connect.
        other: String,
    },
    /// The subnet annotation has an entry with an invalid owner key.
    #[error("annotation: {0}")]
    UnknownOwner(String),
}

impl Notice {
    /// Returns the message without numbers that change with each service.
    ///
    /// Zone reports use this text, because each change of a report is written to the API server.
    pub fn lasting(&self) -> String {
        match self {
            Self::LoadBalancers { network, found, expected } => {
                let than = if found < expected { "fewer" } else { "more" };
                format!(
                    "network {network}: there are {than} ClusterIP LBs than its services should have"
                )
            }
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_notices_have_no_counts() {
        let notice = |found, expected| {
            let network = "red".to_owned();
            let notice = Notice::LoadBalancers { network, found, expected };
            notice.lasting()
        };
        assert_eq!(notice(1, 2), notice(2, 4));
        assert_eq!(
            notice(3, 2),
            "network red: there are more ClusterIP LBs than its services should have"
        );
        let owner = Notice::UnknownOwner("odd".to_owned());
        assert_eq!(owner.lasting(), "annotation: odd");
    }
}
