//! Retained networks: listed in the subnet annotation but missing from the inputs.
//!
//! Their rows are retained until the network returns or leaves the annotation. Links of layer3
//! networks are also retained while the zone's node has no id. The same applies to links that may
//! belong to a node whose id cannot be read, because such a node may still exist.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::ConnectState;
use crate::desired::{Member, PlanContext};
use crate::index::TableKind;
use crate::part::{LinkId, Part};
use crate::report::NetworkSkip;
use patchbay_model::external_ids::{AclKind, OwnedRow};
use patchbay_model::{Connect, NetworkId, NodeId, OwnerKey, Topology, names};

/// Rows that retained networks keep.
#[derive(Debug, Default)]
pub(super) struct RetainedRows {
    /// Networks that keep links.
    pub(super) linked: BTreeSet<NetworkId>,
    /// Networks whose switches have the isolation ACLs.
    isolated: BTreeSet<NetworkId>,
    /// Names of the switches of these networks.
    pub(super) switches: BTreeSet<String>,
}

impl ConnectState {
    /// True if the rows of this network are retained.
    pub(super) fn is_retained(&self, network: NetworkId) -> bool {
        let member = self.members.get(&network);
        self.is_unknown(network) || member.is_some_and(waits_for_local_id)
    }

    /// True if the annotation lists this network and the inputs lack it.
    fn is_unknown(&self, network: NetworkId) -> bool {
        [Topology::Layer2, Topology::Layer3]
            .into_iter()
            .any(|topology| {
                let owner = OwnerKey {
                    topology,
                    network_id: network,
                };
                matches!(self.unknown.get(&owner), Some((_, NetworkSkip::Unknown)))
            })
    }

    /// Networks whose rows are retained.
    pub(crate) fn retained(&self) -> impl Iterator<Item = NetworkId> {
        let unknown = self
            .unknown
            .iter()
            .filter(|(_, (_, reason))| matches!(reason, NetworkSkip::Unknown))
            .map(|(owner, _)| owner.network_id);
        let held = self
            .members
            .values()
            .filter(|member| waits_for_local_id(member));
        unknown.chain(held.map(|member| member.id))
    }

    /// All networks that can be source or destination of policies.
    pub(super) fn annotated_networks(&self) -> BTreeSet<NetworkId> {
        self.members
            .keys()
            .copied()
            .chain(self.retained())
            .collect()
    }

    /// Marks the parts whose retained switches and load balancers depend on existing rows.
    pub(super) fn mark_parts_beside_retained(&mut self, context: &PlanContext<'_>) {
        let touched = self.networks_with_retained_links(context).any(|network| {
            let mut links = self.pending.parts.range(Part::links_of(network));
            links.next().is_some()
        });
        if touched {
            self.mark_dependents_of_retained();
        }
        if self.pending.parts.contains(&Part::Isolation) {
            let annotated = self.annotated_networks();
            for network in self.retained().collect::<Vec<_>>() {
                for other in annotated.iter().filter(|other| **other != network) {
                    self.pending.policies(network, *other);
                    self.pending.policies(*other, network);
                }
            }
        }
    }

    pub(super) fn mark_dependents_of_retained(&mut self) {
        let waiting = self.waiting.keys().map(|id| Part::Link(*id));
        self.pending.parts.extend(waiting);
        self.pending.parts.extend([Part::Services, Part::Isolation]);
    }

    /// True if the rows of a link are retained. Links of deleted nodes are not.
    pub(super) fn retains_link(&self, id: LinkId, context: &PlanContext<'_>) -> bool {
        let node = NodeId::try_new(id.index.into()).ok();
        let is_there = || node.is_some_and(|node| context.nodes.owner(node).is_some());
        (self.is_retained(id.network) && (id.index == 0 || is_there()))
            || self.is_unreadable(id.network, context) && !is_there()
    }

    /// True if this network may have links on nodes whose ids cannot be read.
    pub(super) fn is_unreadable(&self, network: NetworkId, context: &PlanContext<'_>) -> bool {
        let is_member = |member: &Member| {
            member.topology == Topology::Layer3
                && (member.is_connected() || waits_for_local_id(member))
        };
        context.nodes.has_unreadable()
            && (self.is_unknown(network) || self.members.get(&network).is_some_and(is_member))
    }

    /// Networks that may have retained links.
    fn networks_with_retained_links(
        &self,
        context: &PlanContext<'_>,
    ) -> impl Iterator<Item = NetworkId> {
        let members = self.members.keys().copied();
        let unreadable = members.filter(|network| self.is_unreadable(*network, context));
        self.retained().chain(unreadable)
    }

    /// True if a network's link in this zone is retained, because the id of the zone's node
    /// cannot be read.
    pub(super) fn retains_local_link(&self, network: NetworkId) -> bool {
        let member = self.members.get(&network);
        let obstacle = member.and_then(|member| member.obstacle.as_ref());
        matches!(obstacle, Some(NetworkSkip::UnreadableLocalId(_)))
    }

    /// True if policies are retained. `is_linked`: the source has a link for them.
    ///
    /// With service-only connectivity, an unknown network stays connected only if it is isolated
    /// already, because the ACLs that it needs cannot be computed.
    pub(super) fn retains_policies(
        &self,
        connect: &Connect,
        (source, destination): (NetworkId, NetworkId),
        is_linked: bool,
        rows: &RetainedRows,
    ) -> bool {
        let is_connected = |network| {
            if self.is_unknown(network) {
                let is_service_only = connect.connectivity.is_service_only();
                rows.linked.contains(&network)
                    && (!is_service_only || rows.isolated.contains(&network))
            } else {
                self.members.contains_key(&network)
            }
        };
        (is_linked || self.is_unknown(source)) && is_connected(source) && is_connected(destination)
    }

    /// Finds the rows of retained networks from their ports.
    pub(super) fn retained_rows(&self, connect: &str, context: &PlanContext<'_>) -> RetainedRows {
        let mut found = RetainedRows::default();
        let index = context.index;
        let identity = index.identity(TableKind::Port);
        for network in self.retained() {
            let mut switches = BTreeSet::new();
            for row in index.owned_of(connect, Part::links_of(network)) {
                let Part::Link(link) = row.part else { continue };
                if !self.retains_link(link, context) {
                    continue;
                }
                found.linked.insert(network);
                if row.kind != TableKind::Port {
                    continue;
                }
                let Some(port) = index.get(row.kind, row.uuid) else {
                    continue;
                };
                // The identity of a port ends with the name of its router.
                let router = identity.id(port).rsplit(':').next().unwrap_or_default();
                switches.extend(names::switch_of_router(router, &context.inputs.zone));
            }
            let mut there = switches.iter().filter_map(|name| index.switch(name));
            if there.any(|switch| is_isolated(network, connect, switch.uuid, context)) {
                found.isolated.insert(network);
            }
            found.switches.extend(switches);
        }
        found
    }

    /// True if a retained link has this port.
    pub(super) fn is_retained_port(
        &self,
        port: Uuid,
        connect: &str,
        context: &PlanContext<'_>,
    ) -> bool {
        self.networks_with_retained_links(context).any(|network| {
            let mut rows = context.index.owned_of(connect, Part::links_of(network));
            rows.any(|row| match row.part {
                Part::Link(link) => row.uuid == port && self.retains_link(link, context),
                _ => false,
            })
        })
    }
}

/// True if a network waits for the id of the zone's node.
fn waits_for_local_id(member: &Member) -> bool {
    matches!(
        member.obstacle,
        Some(NetworkSkip::NoLocalId(_) | NetworkSkip::UnreadableLocalId(_))
    )
}

/// True if a switch has the ACLs that isolate the network's pods.
fn is_isolated(network: NetworkId, connect: &str, switch: Uuid, context: &PlanContext<'_>) -> bool {
    let index = context.index;
    let identity = index.identity(TableKind::Acl);
    let has = |kind| {
        let id = OwnedRow::Acl(kind).id(connect);
        let mut rows = index.owned_of(connect, Part::Isolation..=Part::Isolation);
        rows.any(|row| {
            let acl = index.get(row.kind, row.uuid);
            row.kind == TableKind::Acl
                && acl.is_some_and(|acl| Some(identity.id(acl)) == id.as_deref())
                && index.acls.has(switch, row.uuid)
        })
    };
    has(AclKind::PassSameNetwork(network)) && has(AclKind::DropPod)
}
