//! What is connected in a zone, what is not, and why.

use thiserror::Error;

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::{ConnectError, OwnerKey, PointToPointError, TunnelKeyError};

/// How many networks a notice names.
const NAMED: usize = 10;

/// Why nothing of a connect is touched in this pass.
#[derive(Debug, Error)]
pub enum HeldReason {
    /// The object or its annotations cannot be understood.
    #[error("{0}")]
    Invalid(String),
    /// The cluster-wide half has not given the connect router its key yet.
    #[error("the connect router has no tunnel key yet")]
    NoTunnelKey,
    /// Another controller has not created the row that all routers share yet.
    #[error("unable to create router control plane protection: Copp row {0} does not exist yet")]
    NoCopp(&'static str),
    /// The database does not accept the rows, again and again.
    #[error("the Northbound database refuses its rows: {0}")]
    Refused(String),
}

impl From<&ConnectError> for HeldReason {
    fn from(error: &ConnectError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Why a network is not connected in this zone.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum NetworkSkip {
    /// The annotation names a network that nobody knows (yet).
    #[error("the network is not known")]
    Unknown,
    /// The annotation and the network disagree.
    #[error("the network is of topology {0}")]
    OtherTopology(patchbay_model::Topology),
    /// The network's router does not exist (yet): another controller creates it.
    #[error("its router {0} does not exist yet")]
    NoRouter(String),
    /// The switch that must drop traffic between pods does not exist (yet).
    #[error("its switch {0} does not exist yet, so traffic between pods could not be dropped")]
    NoSwitch(String),
    /// Its addresses and keys in this zone follow from the id of the zone's node.
    #[error("node {0} of this zone has no id yet")]
    NoLocalId(String),
    /// The same, and what is connected stays.
    #[error("the id of node {0} of this zone cannot be read")]
    UnreadableLocalId(String),
    /// There is nothing to route to.
    #[error("it has no subnets")]
    NoSubnets,
    /// The database cannot express what keeps pods apart.
    #[error(
        "the Northbound database does not know the ACL action \"pass\", which service-only connectivity needs"
    )]
    NoPassAction,
}

/// Why a network is not connected on one node.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum NodeSkip {
    /// The node has no id (yet).
    #[error("the node has no id yet")]
    NoId,
    /// What the node has instead of an id cannot be read. What is connected stays.
    #[error("the node's id cannot be read")]
    UnreadableId,
    /// Two nodes have one id, and so the same addresses and keys.
    #[error("the node has the id of node {0}")]
    SharedId(String),
    /// The node has no chassis (yet).
    #[error("the node has no chassis id yet")]
    NoChassis,
    /// The network's connect subnet is too small for this node's id.
    #[error(transparent)]
    Address(#[from] PointToPointError),
    /// There is no tunnel key for the port.
    #[error(transparent)]
    TunnelKey(#[from] TunnelKeyError),
    /// Another port of the connect router has the tunnel key.
    #[error("tunnel key {key} is already that of port {port}")]
    SharedTunnelKey {
        /// The key.
        key: u16,
        /// The port that keeps it.
        port: String,
    },
    /// Another row has the name that the port should have.
    #[error("the name {0} is taken")]
    NameTaken(String),
    /// The node has a port, but nothing is routed to it.
    #[error("the node has no subnet of the network yet")]
    NoSubnet,
    /// The node's subnets cannot be read. What is routed stays.
    #[error("the node's subnets cannot be read")]
    UnreadableSubnets,
}

/// What is odd without keeping anything from being connected.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum Notice {
    /// Load balancers are missing, or there are too many.
    #[error("network {network}: found {found} ClusterIP LBs but expected {expected}")]
    LoadBalancers {
        /// Name of the network.
        network: String,
        /// How many there are.
        found: usize,
        /// How many its services should have.
        expected: usize,
    },
    /// Services cannot be reached from the network.
    #[error(
        "network {network}: its switch {switch} does not exist yet, so its pods do not reach services of others"
    )]
    NoSwitch {
        /// Name of the network.
        network: String,
        /// Name of the switch.
        switch: String,
    },
    /// Another connect joins two or more of the same networks.
    #[error(
        "connect {connect} joins networks {}, too: which way their traffic takes is undefined, and what either connect drops is dropped",
        abbreviate_list(networks, NAMED)
    )]
    SharedNetworks {
        /// Name of the other connect.
        connect: String,
        /// Names of the networks.
        networks: Vec<String>,
    },
    /// The subnet annotation has an entry that names no owner.
    #[error("annotation: {0}")]
    UnknownOwner(String),
}

impl Notice {
    /// The notice in words that stay: without numbers that change with each service. What all zones report is written
    /// whenever it is something else.
    pub fn lasting(&self) -> String {
        match self {
            Self::LoadBalancers {
                network,
                found,
                expected,
            } => {
                let than = if found < expected { "fewer" } else { "more" };
                format!(
                    "network {network}: there are {than} ClusterIP LBs than its services should have"
                )
            }
            other => other.to_string(),
        }
    }
}

/// One connected network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedNetwork {
    /// Its key in the annotation.
    pub owner: OwnerKey,
    /// Its name.
    pub network: String,
    /// Whether this zone's node has a port of its own on it.
    pub is_local: bool,
    /// How many ports the connect router has for it.
    pub ports: usize,
    /// How many routes lead to it.
    pub routes: usize,
}

/// One network that is not connected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedNetwork {
    /// Its key in the annotation.
    pub owner: OwnerKey,
    /// Its name, if it is known.
    pub network: Option<String>,
    /// Why.
    pub reason: NetworkSkip,
}

/// One node on which a connected network is not connected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedNode {
    /// Name of the network.
    pub network: String,
    /// Name of the node; none for the single port of a layer2 network.
    pub node: Option<String>,
    /// Why.
    pub reason: NodeSkip,
}

/// What is connected for one connect in one zone, and what is not.
#[derive(Debug, Default)]
pub struct ConnectReport {
    /// Set if the pass left everything as it was.
    pub held: Option<HeldReason>,
    /// The connected networks, by id.
    pub connected: Vec<ConnectedNetwork>,
    /// The networks that are not connected.
    pub skipped_networks: Vec<SkippedNetwork>,
    /// Where connected networks are not connected.
    pub skipped_nodes: Vec<SkippedNode>,
    /// What is odd otherwise.
    pub notices: Vec<Notice>,
}

impl ConnectReport {
    /// A report that says only why nothing was touched.
    pub(super) fn held(reason: HeldReason) -> Self {
        Self {
            held: Some(reason),
            ..Self::default()
        }
    }

    /// A report that the database refuses what the connect should have; what it has stays.
    pub fn refused(error: String, before: Option<&Self>) -> Self {
        Self {
            connected: before.map_or_else(Vec::new, |before| before.connected.clone()),
            ..Self::held(HeldReason::Refused(error))
        }
    }

    /// Whether everything that should be connected is connected.
    pub fn is_complete(&self) -> bool {
        self.held.is_none() && self.skipped_networks.is_empty() && self.skipped_nodes.is_empty()
    }

    /// How much is not connected.
    pub fn obstacle_count(&self) -> usize {
        usize::from(self.held.is_some()) + self.skipped_networks.len() + self.skipped_nodes.len()
    }

    /// What is not connected and why, a sentence each. There may be one for each node of each network.
    pub fn obstacles(&self) -> impl Iterator<Item = String> {
        let held = self.held.iter().map(ToString::to_string);
        let networks = self.skipped_networks.iter().map(|skipped| {
            let name = skipped.network.as_ref();
            let name = name.map_or_else(|| skipped.owner.to_string(), Clone::clone);
            format!("network {name}: {}", skipped.reason)
        });
        let nodes = self.skipped_nodes.iter().map(|skipped| {
            let SkippedNode {
                network,
                node,
                reason,
            } = skipped;
            match node {
                Some(node) => format!("network {network}, node {node}: {reason}"),
                None => format!("network {network}: {reason}"),
            }
        });
        held.chain(networks).chain(nodes)
    }

    /// What is not connected and what is odd, a sentence each.
    pub fn messages(&self) -> Vec<String> {
        let notices = self.notices.iter().map(ToString::to_string);
        self.obstacles().chain(notices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_has_no_counts() {
        let notice = |found, expected| {
            let network = "red".to_owned();
            let notice = Notice::LoadBalancers {
                network,
                found,
                expected,
            };
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

    #[test]
    fn messages_name_network_and_node() {
        let report = ConnectReport {
            skipped_networks: vec![SkippedNetwork {
                owner: "layer3_7".parse().unwrap(),
                network: None,
                reason: NetworkSkip::Unknown,
            }],
            skipped_nodes: vec![SkippedNode {
                network: "red".to_owned(),
                node: Some("n1".to_owned()),
                reason: NodeSkip::NoChassis,
            }],
            ..ConnectReport::default()
        };
        assert!(!report.is_complete());
        assert_eq!(report.obstacle_count(), 2);
        assert_eq!(
            report.messages(),
            [
                "network layer3_7: the network is not known",
                "network red, node n1: the node has no chassis id yet",
            ]
        );
        let held = ConnectReport::held(HeldReason::NoTunnelKey);
        assert!(!held.is_complete());
        assert_eq!(held.messages().len(), 1);
        assert!(ConnectReport::default().is_complete());
    }
}
