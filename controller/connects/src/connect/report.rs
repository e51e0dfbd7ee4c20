//! Report of a connect.

use super::ConnectState;
use crate::desired::PlanContext;
use crate::part::LinkId;
use crate::report::{
    ConnectReport, ConnectedNetwork, NetworkSkip, NodeSkip, Notice, SkippedNetwork, SkippedNode,
};
use patchbay_model::{Connect, NetworkId, NodeId, Topology};

impl ConnectState {
    pub(super) fn make_report(
        &self,
        connect: &Connect,
        context: &PlanContext<'_>,
    ) -> ConnectReport {
        let mut notices: Vec<Notice> = connect
            .unknown_owners
            .iter()
            .map(|error| Notice::UnknownOwner(error.to_string()))
            .collect();
        notices.extend_from_slice(&self.service_notices);
        notices.extend_from_slice(&self.shared_notices);
        ConnectReport {
            held: None,
            connected: self.connected(),
            skipped_networks: self.skipped_networks(context),
            skipped_nodes: self.skipped_nodes(context),
            notices,
        }
    }

    fn connected(&self) -> Vec<ConnectedNetwork> {
        let members = self.members.values().filter(|member| member.is_connected());
        members
            .map(|member| {
                let counts = self.counts.get(&member.id).copied().unwrap_or_default();
                ConnectedNetwork {
                    owner: member.owner_key(),
                    network: member.name.clone(),
                    is_local: counts.local_ports > 0,
                    ports: counts.ports,
                    routes: counts.routes,
                }
            })
            .collect()
    }

    fn skipped_networks(&self, context: &PlanContext<'_>) -> Vec<SkippedNetwork> {
        let without_remote_ports = context.version_without_remote_ports();
        let unknown = self
            .unknown
            .iter()
            .map(|(owner, (network, reason))| SkippedNetwork {
                owner: *owner,
                network: network.clone(),
                reason: reason.clone(),
            });
        let unconnected = self.members.values().filter_map(|member| {
            let lost = || {
                let version = without_remote_ports.filter(|_| member.topology == Topology::Layer3);
                version.map(|version| NetworkSkip::NoRemoteRouterPorts(version.to_owned()))
            };
            Some(SkippedNetwork {
                owner: member.owner_key(),
                network: Some(member.name.clone()),
                reason: member.obstacle.clone().or_else(lost)?,
            })
        });
        let mut skipped: Vec<SkippedNetwork> = unknown.chain(unconnected).collect();
        skipped.sort_by_key(|skipped| skipped.owner.network_id);
        skipped
    }

    /// Lists links without ports, then links without routes, each ordered by network and node name.
    fn skipped_nodes(&self, context: &PlanContext<'_>) -> Vec<SkippedNode> {
        let skips = self.skips.iter();
        let mut without_port: Vec<(NetworkId, SkippedNode)> = skips
            .map(|(id, reason)| self.skipped_node(*id, reason.clone(), context))
            .collect();
        let layer3 = || {
            let members = self.members.values();
            members.filter(|member| member.is_connected() && member.topology == Topology::Layer3)
        };
        for (node, reason) in context.nodes.without_id() {
            let members = layer3();
            let activity = &context.inputs.activity;
            let active = members.filter(|member| activity.is_active(&member.name, node));
            without_port.extend(active.map(|member| {
                let skipped = SkippedNode {
                    network: member.name.clone(),
                    node: Some(node.to_owned()),
                    reason: reason.clone(),
                };
                (member.id, skipped)
            }));
        }
        let mut without_route: Vec<(NetworkId, SkippedNode)> = self
            .unrouted
            .iter()
            .map(|id| self.skipped_node(*id, self.without_subnet(*id, context), context))
            .collect();
        for skipped in [&mut without_port, &mut without_route] {
            skipped.sort_by(|(left_id, left), (right_id, right)| {
                (left_id, &left.node).cmp(&(right_id, &right.node))
            });
        }
        let all = without_port.into_iter().chain(without_route);
        all.map(|(_, skipped)| skipped).collect()
    }

    /// Reason why a link has no route.
    fn without_subnet(&self, id: LinkId, context: &PlanContext<'_>) -> NodeSkip {
        let node_id = NodeId::try_new(id.index.into()).ok();
        let node = node_id.and_then(|id| context.nodes.owner(id));
        let member = self.members.get(&id.network);
        let member = member.filter(|member| member.topology == Topology::Layer3);
        let Some((node, member)) = node.zip(member) else {
            return NodeSkip::NoSubnet;
        };
        let refusal = node.refused_subnets_of(&member.name).first();
        if let Some(refusal) = refusal {
            NodeSkip::RefusedSubnet(refusal.clone())
        } else if node.has_unknown_subnets_of(&member.name) {
            NodeSkip::UnreadableSubnets
        } else {
            NodeSkip::NoSubnet
        }
    }

    fn skipped_node(
        &self,
        id: LinkId,
        reason: NodeSkip,
        context: &PlanContext<'_>,
    ) -> (NetworkId, SkippedNode) {
        let member = self.members.get(&id.network);
        let is_layer3 = member.is_some_and(|member| member.topology == Topology::Layer3);
        let node_id = NodeId::try_new(id.index.into()).ok();
        let node = node_id.and_then(|id| context.nodes.owner(id));
        let skipped = SkippedNode {
            network: member.map_or_else(String::new, |member| member.name.clone()),
            node: node.filter(|_| is_layer3).map(|node| node.name.clone()),
            reason,
        };
        (id.network, skipped)
    }
}
