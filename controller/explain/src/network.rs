//! Explanation of one network: the nodes on which it is connected, and the reasons for the others.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_connects::{HeldReason, NetworkSkip, NodeSkip, SkippedNetwork};
use patchbay_model::{
    ConnectSubnetMap, Databases, NODE_ID, NODE_SUBNETS, NadKey, Network, Node, NodeError, Topology,
};
use patchbay_networks::SkipReason;

use super::explanation::{NetworkExplanation, NetworkState, NodeExplanation, ZoneView};
use super::reasons::{Reason, annotation, of_connect};
use super::rows::RowReasons;
use super::selection::SelectedNetwork;

#[cfg(test)]
mod tests;

/// State of a connect that the explanations of its networks use.
pub(super) struct ConnectState<'a> {
    pub(super) name: &'a str,
    pub(super) accepted: Option<(bool, String)>,
    pub(super) subnets: &'a ConnectSubnetMap,
    /// All nodes, with the errors of their annotations.
    pub(super) nodes: Vec<(Node, Vec<NodeError>)>,
    /// Rows of the zones' databases that are not as the connect wants them.
    pub(super) rows: &'a RowReasons,
    /// Zones whose databases were read, which may be only some.
    pub(super) zones: &'a BTreeMap<String, ZoneView>,
    /// `true` if all nodes have one database.
    pub(super) is_central: bool,
}

/// Reasons of zones that have not connected a network.
#[derive(Default)]
struct Skips<'a> {
    /// Reasons that concern all zones.
    everywhere: BTreeSet<Reason>,
    /// Reasons that concern single zones, by zone.
    of_zones: BTreeMap<&'a str, BTreeSet<Reason>>,
    /// Rows that are missing in the databases.
    missing: BTreeSet<Reason>,
}

impl<'a> ConnectState<'a> {
    pub(super) fn network(&self, selected: SelectedNetwork<'_>) -> NetworkExplanation {
        let SelectedNetwork { network, object, definition, without_subnets, by } = selected;
        let owner = network.owner_key();
        let subnets = self.subnets.get(owner).copied().unwrap_or_default();
        let mut held = self.zones.values().filter_map(|zone| zone.report.held.as_ref());
        let is_held = held.any(|held| !matches!(held, HeldReason::NotAccepted(_)));
        let is_somewhere = self.zones.values().any(|zone| {
            let mut connected = zone.report.connected.iter();
            connected.any(|connected| connected.owner == owner)
        });
        let skips = self.skips(network, &object, definition, is_somewhere);
        let mut reasons = skips.everywhere;
        if subnets.is_empty() {
            reasons.insert(self.without_subnet());
        }
        if self.is_central {
            reasons.extend(skips.of_zones.values().flatten().cloned());
            reasons.extend(skips.missing.iter().cloned());
            reasons.extend(self.rows.of_node(network.id, Databases::CENTRAL).cloned());
        }
        let is_possible = reasons.is_empty() && !is_held && is_somewhere;
        let mut explanation = NetworkExplanation {
            network: network.name.clone(),
            object,
            topology: network.topology.as_str(),
            id: network.id.get(),
            selected_by: by.into_iter().collect(),
            subnets: subnets.iter().collect(),
            state: if self.is_central && is_possible {
                NetworkState::Connected
            } else {
                NetworkState::NotConnected
            },
            reasons: Vec::new(),
            nodes: Vec::new(),
        };
        if self.is_central {
            explanation.reasons = reasons.into_iter().collect();
            return explanation;
        }
        let none = BTreeSet::new();
        let mut nodes: Vec<NodeExplanation> = self
            .nodes
            .iter()
            .map(|node| {
                let of_zone = skips.of_zones.get(&*node.0.name).unwrap_or(&none);
                let mut node = self.node(node, network, of_zone, is_possible);
                // The status of the network contains the cause of a missing subnet.
                let no_subnet = self.of_node(&NodeSkip::NoSubnet, &node.node);
                if let Some(known) = &without_subnets {
                    let mut reasons = node.reasons.iter_mut();
                    if let Some(reason) = reasons.find(|reason| **reason == no_subnet) {
                        reason.clone_from(known);
                    }
                }
                node
            })
            .collect();
        // Rows that are missing in the only database that was read are the reason for other nodes,
        // too.
        let has_reasons = nodes.iter().all(|node| node.connected || !node.reasons.is_empty());
        if reasons.is_empty() && !is_held && !has_reasons {
            reasons = skips.missing;
            if reasons.is_empty() {
                let others = nodes.iter_mut();
                let unknown = others.filter(|node| {
                    !node.connected && node.reasons.is_empty() && !self.zones.is_empty()
                });
                for node in unknown {
                    node.reasons.push(Reason::of_other_zone(&node.node));
                }
            }
        }
        let connected = nodes.iter().filter(|node| node.connected).count();
        let managed = self.nodes.iter().filter(|(node, _)| !node.is_unmanaged);
        if connected > 0 {
            explanation.state = if connected < managed.count() {
                NetworkState::Partly
            } else {
                NetworkState::Connected
            };
        }
        NetworkExplanation { reasons: reasons.into_iter().collect(), nodes, ..explanation }
    }

    /// Collects the reasons of the zones. If another zone has connected the network, a reason
    /// concerns only the node of its zone.
    fn skips(
        &self,
        network: &Network,
        object: &str,
        definition: Option<&NadKey>,
        is_somewhere: bool,
    ) -> Skips<'a> {
        let owner = network.owner_key();
        let mut skips = Skips::default();
        for (zone, view) in self.zones {
            let skipped = view.report.skipped_networks.iter();
            for SkippedNetwork { reason, .. } in skipped.filter(|skipped| skipped.owner == owner) {
                let (is_of_node, reason) = match reason {
                    NetworkSkip::NoLocalId(_) => (true, self.of_node(&NodeSkip::NoId, zone)),
                    NetworkSkip::UnreadableLocalId(_) => {
                        (true, self.of_node(&NodeSkip::UnreadableId, zone))
                    }
                    NetworkSkip::NoRouter(_) | NetworkSkip::NoSwitch(_) => {
                        match view.without_rows.get(&network.name) {
                            None => {
                                let missing =
                                    Reason::of_network(reason, self.name, network.topology, object);
                                skips.missing.insert(missing.clone());
                                (true, missing)
                            }
                            Some(SkipReason::NoNodeId) => {
                                (true, self.of_node(&NodeSkip::NoId, zone))
                            }
                            Some(SkipReason::NoChassisId) => {
                                (true, self.of_node(&NodeSkip::NoChassis, zone))
                            }
                            Some(SkipReason::NoNodeSubnets) => {
                                (true, self.of_node(&NodeSkip::NoSubnet, zone))
                            }
                            Some(SkipReason::UnreadableSubnets) => {
                                (true, self.of_node(&NodeSkip::UnreadableSubnets, zone))
                            }
                            Some(SkipReason::RefusedSubnet(refusal)) => {
                                let skip = NodeSkip::RefusedSubnet(refusal.clone());
                                (true, self.of_node(&skip, zone))
                            }
                            Some(reason) => {
                                (is_somewhere, Reason::of_rows(reason, definition, object))
                            }
                        }
                    }
                    reason => (
                        is_somewhere,
                        Reason::of_network(reason, self.name, network.topology, object),
                    ),
                };
                let reasons = if is_of_node {
                    skips.of_zones.entry(zone).or_default()
                } else {
                    &mut skips.everywhere
                };
                reasons.insert(reason);
            }
        }
        skips
    }

    fn without_subnet(&self) -> Reason {
        match &self.accepted {
            None => Reason::new(
                "it has no connect subnet, because the cluster manager has not reconciled the connect yet",
                of_connect(self.name),
                Some(annotation(ConnectSubnetMap::ANNOTATION)),
            ),
            Some((true, _)) => Reason::new(
                "it has no connect subnet yet",
                of_connect(self.name),
                Some(annotation(ConnectSubnetMap::ANNOTATION)),
            ),
            Some((false, message)) => Reason::new(
                format!("it has no connect subnet: {message}"),
                of_connect(self.name),
                Some("spec".to_owned()),
            ),
        }
    }

    /// Explains the network on a node. `of_zone` contains the reasons of the node's own zone.
    fn node(
        &self,
        (node, _): &(Node, Vec<NodeError>),
        network: &Network,
        of_zone: &BTreeSet<Reason>,
        is_possible: bool,
    ) -> NodeExplanation {
        if node.is_unmanaged {
            return NodeExplanation {
                node: node.name.clone(),
                connected: false,
                reasons: vec![self.of_node(&NodeSkip::Unmanaged, &node.name)],
            };
        }
        let mut reasons = of_zone.clone();
        let is_layer3 = network.topology == Topology::Layer3;
        // A zone does not report what other zones lack, and only some zones are read.
        let lacks = [
            (node.has_unknown_id(), NodeSkip::UnreadableId),
            (node.id.is_none(), NodeSkip::NoId),
            (node.chassis_id.is_none(), NodeSkip::NoChassis),
            (is_layer3 && node.has_unknown_subnets_of(&network.name), NodeSkip::UnreadableSubnets),
            (is_layer3 && node.subnets_of(&network.name).is_empty(), NodeSkip::NoSubnet),
        ];
        // The id comes first, because the other annotations follow it.
        let lacks = lacks.iter().find(|(is_lacking, _)| *is_lacking);
        let refusal = node.refused_subnets_of(&network.name).first();
        let refusal = refusal.map(|refusal| NodeSkip::RefusedSubnet(refusal.clone()));
        let skip = match lacks {
            Some((_, unreadable @ NodeSkip::UnreadableSubnets)) => {
                Some(refusal.as_ref().unwrap_or(unreadable))
            }
            lacks => lacks.map(|(_, skip)| skip),
        };
        reasons.extend(skip.map(|skip| self.of_node(skip, &node.name)));
        for ZoneView { report, .. } in self.zones.values() {
            let skipped = report.skipped_nodes.iter();
            let skipped = skipped.filter(|skipped| skipped.network == network.name);
            reasons.extend(skipped.filter_map(|skipped| match &skipped.node {
                None => Some(Reason::of_node(&skipped.reason, self.name, None)),
                Some(name) if *name == node.name => Some(self.of_node(&skipped.reason, name)),
                Some(_) => None,
            }));
        }
        reasons.extend(self.rows.of_node(network.id, &node.name).cloned());
        NodeExplanation {
            node: node.name.clone(),
            connected: is_possible && reasons.is_empty(),
            reasons: reasons.into_iter().collect(),
        }
    }

    /// Reason of a node with a missing annotation, or with one that cannot be read and its error.
    fn of_node(&self, skip: &NodeSkip, node: &str) -> Reason {
        let mut reason = Reason::of_node(skip, self.name, Some(node));
        let key = match skip {
            NodeSkip::NoId | NodeSkip::UnreadableId => NODE_ID,
            NodeSkip::NoSubnet | NodeSkip::UnreadableSubnets => NODE_SUBNETS,
            _ => return reason,
        };
        let mut nodes = self.nodes.iter();
        let errors = nodes.find(|(known, _)| known.name == node);
        let mut errors = errors.into_iter().flat_map(|(_, errors)| errors);
        if let Some(error) = errors.find(|error| error.annotation == key) {
            reason.message = format!("{}: {}", reason.message, error.reason);
        }
        reason
    }
}
