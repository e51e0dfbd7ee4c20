//! Connected and skipped networks of a CNC in one zone, with the reasons.

mod reasons;

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::OwnerKey;
use patchbay_model::abbreviation::abbreviate_list;

pub use reasons::{HeldReason, NetworkSkip, NodeSkip, Notice};

/// Number of networks that the message about a pending node lists by name; further ones are
/// counted.
const MAX_NAMED_PENDING: usize = 3;

/// Connected network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedNetwork {
    /// Network's key in the subnet annotation.
    pub owner: OwnerKey,
    /// Name of the network.
    pub network: String,
    /// `true` if the network is attached to the connect router in this zone.
    pub is_local: bool,
    /// Number of ports of the connect router for this network.
    pub ports: usize,
    /// Number of routes of the connect router to this network.
    pub routes: usize,
}

/// Network that is not connected, or whose pods are not reached on other nodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedNetwork {
    /// Network's key in the subnet annotation.
    pub owner: OwnerKey,
    /// Name of the network. `None`: no known network has the id.
    pub network: Option<String>,
    /// Reason.
    pub reason: NetworkSkip,
}

/// Node on which a connected network is not fully connected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedNode {
    /// Name of the network.
    pub network: String,
    /// Name of the node. `None`: the single port of a layer2 network.
    pub node: Option<String>,
    /// Reason.
    pub reason: NodeSkip,
}

impl SkippedNode {
    fn message(&self) -> String {
        let Self { network, node, reason } = self;
        match node {
            Some(node) => format!("network {network}, node {node}: {reason}"),
            None => format!("network {network}: {reason}"),
        }
    }

    /// Name of the node, if OVN-Kubernetes is going to write what is missing.
    fn pending_node(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| self.reason.is_pending())
    }
}

/// Result of one connect in one zone.
#[derive(Debug, Default)]
pub struct ConnectReport {
    /// Reason why the pass changed no row. `None`: the connect was planned.
    pub held: Option<HeldReason>,
    /// Connected networks, ordered by id.
    pub connected: Vec<ConnectedNetwork>,
    /// Networks that are not connected, or whose pods are not reached on other nodes.
    pub skipped_networks: Vec<SkippedNetwork>,
    /// Nodes on which connected networks are not fully connected.
    pub skipped_nodes: Vec<SkippedNode>,
    /// Irregularities that prevent no connection.
    pub notices: Vec<Notice>,
}

impl ConnectReport {
    /// Report of a connect that was not planned.
    pub(super) fn held(reason: HeldReason) -> Self {
        Self { held: Some(reason), ..Self::default() }
    }

    /// Report of a connect whose transaction the database rejected. Networks connected before
    /// stay listed.
    pub fn refused(error: String, before: Option<&Self>) -> Self {
        Self {
            connected: before.map_or_else(Vec::new, |before| before.connected.clone()),
            ..Self::held(HeldReason::Refused(error))
        }
    }

    /// `true` if every network is connected on every node that OVN manages.
    pub fn is_complete(&self) -> bool {
        self.obstacle_count() == 0
    }

    /// Number of obstacles: reasons, skipped networks and skipped nodes that OVN manages.
    pub fn obstacle_count(&self) -> usize {
        usize::from(self.held.is_some())
            + self.skipped_networks.len()
            + self.managed_skipped_nodes().count()
    }

    /// Skipped nodes that OVN manages.
    fn managed_skipped_nodes(&self) -> impl Iterator<Item = &SkippedNode> {
        self.skipped_nodes.iter().filter(|skipped| skipped.reason != NodeSkip::Unmanaged)
    }

    /// Nodes that OVN does not manage, by name.
    pub fn unmanaged_nodes(&self) -> BTreeSet<&str> {
        self.skipped_nodes
            .iter()
            .filter(|skipped| skipped.reason == NodeSkip::Unmanaged)
            .filter_map(|skipped| skipped.node.as_deref())
            .collect()
    }

    /// Obstacles as messages: at most one for each network and each node of each network.
    pub fn obstacles(&self) -> impl Iterator<Item = String> {
        let nodes = self.managed_skipped_nodes().map(SkippedNode::message);
        self.zone_obstacles().chain(nodes)
    }

    /// Obstacles other than skipped nodes, as messages.
    fn zone_obstacles(&self) -> impl Iterator<Item = String> {
        let held = self.held.iter().map(ToString::to_string);
        let networks = self.skipped_networks.iter().map(|skipped| {
            let name =
                skipped.network.as_ref().map_or_else(|| skipped.owner.to_string(), Clone::clone);
            format!("network {name}: {}", skipped.reason)
        });
        held.chain(networks)
    }

    /// Obstacles that OVN-Kubernetes does not remove on its own, as messages.
    pub(super) fn lasting_obstacles(&self) -> impl Iterator<Item = String> {
        let nodes = self.managed_skipped_nodes().filter(|skipped| skipped.pending_node().is_none());
        self.zone_obstacles().chain(nodes.map(SkippedNode::message))
    }

    /// Nodes whose annotations are not complete yet, each with one message for all networks.
    pub(super) fn pending_nodes(&self) -> BTreeMap<String, String> {
        let mut networks = BTreeMap::<&str, BTreeMap<String, Vec<&str>>>::new();
        for skipped in &self.skipped_nodes {
            if let Some(node) = skipped.pending_node() {
                let reasons = networks.entry(node).or_default();
                let reason = reasons.entry(skipped.reason.to_string()).or_default();
                reason.push(&skipped.network);
            }
        }
        let message = |node: &str, reasons: BTreeMap<String, Vec<&str>>| {
            let reasons = reasons.into_iter().map(|(reason, networks)| {
                let plural = if networks.len() == 1 { "" } else { "s" };
                let networks = abbreviate_list(&networks, MAX_NAMED_PENDING);
                format!("network{plural} {networks}, node {node}: {reason}")
            });
            reasons.collect::<Vec<_>>().join("; ")
        };
        networks
            .into_iter()
            .map(|(node, reasons)| (node.to_owned(), message(node, reasons)))
            .collect()
    }

    /// Obstacles, then notices and nodes that OVN does not manage, as messages.
    pub fn messages(&self) -> Vec<String> {
        let notices = self.notices.iter().map(ToString::to_string);
        let unmanaged = self
            .unmanaged_nodes()
            .into_iter()
            .map(|node| format!("node {node}: {}", NodeSkip::Unmanaged));
        self.obstacles().chain(notices).chain(unmanaged).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn skipped(network: &str, node: &str, reason: NodeSkip) -> SkippedNode {
        SkippedNode { network: network.to_owned(), node: Some(node.to_owned()), reason }
    }

    #[test]
    fn a_node_that_ovn_does_not_manage_is_noted() {
        let report = ConnectReport {
            skipped_nodes: vec![
                skipped("blue", "win-1", NodeSkip::Unmanaged),
                skipped("red", "win-1", NodeSkip::Unmanaged),
            ],
            ..ConnectReport::default()
        };
        assert!(report.is_complete());
        assert_eq!(
            report.messages(),
            [
                "node win-1: OVN does not manage the node: it has no id, no chassis id and no subnets"
            ]
        );
    }

    #[test]
    fn pending_nodes_have_one_message_for_all_networks() {
        let report = ConnectReport {
            skipped_nodes: vec![
                skipped("blue", "n1", NodeSkip::NoChassis),
                skipped("red", "n1", NodeSkip::NoChassis),
                skipped("red", "n2", NodeSkip::NoSubnet),
                skipped("red", "n3", NodeSkip::UnreadableId),
            ],
            ..ConnectReport::default()
        };
        let pending: Vec<String> = report.pending_nodes().into_values().collect();
        assert_eq!(
            pending,
            [
                "networks blue, red, node n1: the node has no chassis id yet",
                "network red, node n2: the node has no subnet of the network yet",
            ]
        );
        assert_eq!(
            report.lasting_obstacles().collect::<Vec<_>>(),
            ["network red, node n3: the node's id cannot be read"]
        );
    }
}
