//! Networks that the annotation names and of which nobody knows at the moment what they should have.
//!
//! What is connected stays connected until the input says otherwise: the rows of a network that is not known are left as
//! they are until it is known again or the annotation does not name it any more. Then they are what they should be, or go.
//! The same holds for the links of layer3 networks while the zone's node has no id, and for those that may be of a node
//! whose id cannot be read: that some node is not known to be there does not mean that it is gone.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::ConnectState;
use crate::desired::{Around, Member};
use crate::index::Kind;
use crate::report::NetworkSkip;
use crate::unit::{LinkId, Unit};
use patchbay_model::external_ids::{AclKind, OwnedRow};
use patchbay_model::{Connect, NetworkId, NodeId, OwnerKey, Topology, names};

/// What frozen networks keep.
#[derive(Debug, Default)]
pub(super) struct FrozenRows {
    /// Those that keep links.
    pub(super) linked: BTreeSet<NetworkId>,
    /// Those whose pods are kept apart from others.
    isolated: BTreeSet<NetworkId>,
    /// Names of the switches that they are attached to.
    pub(super) switches: BTreeSet<String>,
}

impl ConnectState {
    /// Whether the rows of this network are left as they are.
    pub(super) fn is_frozen(&self, network: NetworkId) -> bool {
        let member = self.members.get(&network);
        self.is_unknown(network) || member.is_some_and(is_held)
    }

    /// Whether the annotation names this network and nobody knows it.
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

    /// The networks whose rows are left as they are.
    pub(crate) fn frozen(&self) -> impl Iterator<Item = NetworkId> {
        let unknown = self.unknown.iter();
        let unknown = unknown.filter(|(_, (_, reason))| matches!(reason, NetworkSkip::Unknown));
        let held = self.members.values().filter(|member| is_held(member));
        let unknown = unknown.map(|(owner, _)| owner.network_id);
        unknown.chain(held.map(|member| member.id))
    }

    /// All networks that policies may lead from or to.
    pub(super) fn annotated_networks(&self) -> BTreeSet<NetworkId> {
        self.members.keys().copied().chain(self.frozen()).collect()
    }

    /// Which switches and load balancers stay depends on the rows that are there.
    pub(super) fn look_at_what_frozen_networks_hold(&mut self, around: &Around<'_>) {
        let touched = self.with_kept_links(around).any(|network| {
            let mut links = self.pending.units.range(Unit::links_of(network));
            links.next().is_some()
        });
        if touched {
            self.look_again_beside_frozen();
        }
        if self.pending.units.contains(&Unit::Isolation) {
            let annotated = self.annotated_networks();
            for network in self.frozen().collect::<Vec<_>>() {
                for other in annotated.iter().filter(|other| **other != network) {
                    self.pending.policies(network, *other);
                    self.pending.policies(*other, network);
                }
            }
        }
    }

    pub(super) fn look_again_beside_frozen(&mut self) {
        let waiting = self.waiting.keys().map(|id| Unit::Link(*id));
        self.pending.units.extend(waiting);
        self.pending.units.extend([Unit::Services, Unit::Isolation]);
    }

    /// Whether the rows of a link are left as they are. Those of nodes that are gone are not.
    pub(super) fn keeps_link(&self, id: LinkId, around: &Around<'_>) -> bool {
        let node = NodeId::try_new(id.index.into()).ok();
        let is_there = || node.is_some_and(|node| around.nodes.owner(node).is_some());
        (self.is_frozen(id.network) && (id.index == 0 || is_there()))
            || self.is_unreadable(id.network, around) && !is_there()
    }

    /// Whether nodes may have links of this network and nobody knows which.
    pub(super) fn is_unreadable(&self, network: NetworkId, around: &Around<'_>) -> bool {
        let is_member = |member: &Member| {
            member.topology == Topology::Layer3 && (member.is_connected() || is_held(member))
        };
        around.nodes.has_unreadable()
            && (self.is_unknown(network) || self.members.get(&network).is_some_and(is_member))
    }

    /// The networks of which links may be left as they are.
    fn with_kept_links(&self, around: &Around<'_>) -> impl Iterator<Item = NetworkId> {
        let members = self.members.keys().copied();
        let unreadable = members.filter(|network| self.is_unreadable(*network, around));
        self.frozen().chain(unreadable)
    }

    /// Whether a network's attachment in this zone is left as it is, because the id of the zone's node cannot be read.
    pub(super) fn keeps_local_link(&self, network: NetworkId) -> bool {
        let member = self.members.get(&network);
        let obstacle = member.and_then(|member| member.obstacle.as_ref());
        matches!(obstacle, Some(NetworkSkip::UnreadableLocalId(_)))
    }

    /// Whether policies are left as they are. `is_linked` says whether the source has a link for them.
    ///
    /// Where traffic from pod to pod has to be dropped, a network that nobody knows stays connected only if it is kept
    /// apart already: what would have to be dropped cannot be told now.
    pub(super) fn keeps_policies(
        &self,
        connect: &Connect,
        (source, destination): (NetworkId, NetworkId),
        is_linked: bool,
        rows: &FrozenRows,
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

    /// What frozen networks keep, as their own ports say.
    pub(super) fn frozen_rows(&self, connect: &str, around: &Around<'_>) -> FrozenRows {
        let mut found = FrozenRows::default();
        let index = around.index;
        let marks = index.marks(Kind::Port);
        for network in self.frozen() {
            let mut switches = BTreeSet::new();
            for row in index.owned_of(connect, Unit::links_of(network)) {
                let Unit::Link(link) = row.unit else { continue };
                if !self.keeps_link(link, around) {
                    continue;
                }
                found.linked.insert(network);
                let port = index.get(row.kind, row.uuid);
                let Some(port) = port.filter(|_| row.kind == Kind::Port) else {
                    continue;
                };
                // An identity ends with the name of the router.
                let router = marks.id(port).rsplit(':').next().unwrap_or_default();
                switches.extend(names::switch_of_router(router, &around.inputs.zone));
            }
            let mut there = switches.iter().filter_map(|name| index.switch(name));
            if there.any(|switch| is_isolated(network, connect, switch.uuid, around)) {
                found.isolated.insert(network);
            }
            found.switches.extend(switches);
        }
        found
    }

    /// Whether a link that is left as it is has this port.
    pub(super) fn is_kept_port(&self, port: Uuid, connect: &str, around: &Around<'_>) -> bool {
        self.with_kept_links(around).any(|network| {
            let mut rows = around.index.owned_of(connect, Unit::links_of(network));
            rows.any(|row| match row.unit {
                Unit::Link(link) => row.uuid == port && self.keeps_link(link, around),
                _ => false,
            })
        })
    }
}

/// Whether a network waits for the id of the zone's node.
fn is_held(member: &Member) -> bool {
    matches!(
        member.obstacle,
        Some(NetworkSkip::NoLocalId(_) | NetworkSkip::UnreadableLocalId(_))
    )
}

/// Whether a switch has the ACLs that keep the network's pods apart from others.
fn is_isolated(network: NetworkId, connect: &str, switch: Uuid, around: &Around<'_>) -> bool {
    let index = around.index;
    let marks = index.marks(Kind::Acl);
    let has = |kind| {
        let id = OwnedRow::Acl(kind).id(connect);
        let mut rows = index.owned_of(connect, Unit::Isolation..=Unit::Isolation);
        rows.any(|row| {
            let acl = index.get(row.kind, row.uuid);
            row.kind == Kind::Acl
                && acl.is_some_and(|acl| Some(marks.id(acl)) == id.as_deref())
                && index.acls.has(switch, row.uuid)
        })
    };
    has(AclKind::PassSameNetwork(network)) && has(AclKind::DropPod)
}
