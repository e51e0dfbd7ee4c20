//! Pending parts of a connect.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::{Member, PlanContext};
use crate::part::{LinkId, Part};
use patchbay_model::{NetworkId, Topology};

/// Parts of a connect whose rows may differ from the desired rows.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// `true` if all parts are pending, including parts that only the database has.
    pub(super) everything: bool,
    /// Networks whose annotation entries must be resolved again.
    pub(crate) networks: BTreeSet<NetworkId>,
    /// Changed networks: all parts that involve them are pending.
    pub(super) changed: BTreeSet<NetworkId>,
    pub(crate) parts: BTreeSet<Part>,
    /// `true` if the report must be made again.
    pub(crate) report: bool,
}

impl Pending {
    pub(super) fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    pub(crate) fn mark_everything(&mut self) {
        self.everything = true;
    }

    /// Marks all parts that involve a network.
    pub(crate) fn mark_network(&mut self, network: NetworkId) {
        self.networks.insert(network);
        self.changed.insert(network);
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            everything,
            networks,
            changed,
            parts,
            report,
        } = self;
        !(*everything || *report) && networks.is_empty() && changed.is_empty() && parts.is_empty()
    }

    pub(super) fn links(&self) -> impl Iterator<Item = LinkId> {
        let links = Part::links_of(NetworkId::DEFAULT).start().to_owned()
            ..=Part::links_of(NetworkId::MAX).end().to_owned();
        self.parts.range(links).filter_map(|part| match part {
            Part::Link(link) => Some(*link),
            _ => None,
        })
    }

    /// Adds the parts that depend on the changed networks.
    pub(super) fn expand(
        &mut self,
        connect: &str,
        members: &BTreeMap<NetworkId, Member>,
        annotated: &BTreeSet<NetworkId>,
        context: &PlanContext<'_>,
    ) {
        let everything = std::mem::take(&mut self.everything);
        if everything {
            // The parts are sorted, and `append` merges sorted sets in linear time.
            let owned = context.index.owned(connect).map(|row| row.part);
            self.parts.append(&mut owned.collect());
            self.parts.insert(Part::Router);
            self.changed.extend(members.keys().copied());
        }
        if everything || !self.changed.is_empty() {
            self.parts.extend([Part::Services, Part::Isolation]);
        }
        for network in std::mem::take(&mut self.changed) {
            let parts = [Part::links_of(network), Part::policies_from(network)];
            for range in parts.into_iter().filter(|_| !everything) {
                let rows = context.index.owned_of(connect, range);
                self.parts.extend(rows.map(|row| row.part));
            }
            for other in annotated.iter().filter(|other| **other != network) {
                self.policies(network, *other);
                self.policies(*other, network);
            }
            if let Some(member) = members.get(&network) {
                self.all_links(member, context);
            }
        }
    }

    /// Adds the policies that depend on pending local links, because traffic from a network takes
    /// its local link.
    pub(super) fn expand_local(
        &mut self,
        members: &BTreeMap<NetworkId, Member>,
        annotated: &BTreeSet<NetworkId>,
        context: &PlanContext<'_>,
    ) {
        let local: Vec<NetworkId> = members
            .values()
            .filter(|member| {
                let link = super::local_link_id(member, context);
                link.is_some_and(|link| self.parts.contains(&Part::Link(link)))
            })
            .map(|member| member.id)
            .collect();
        for network in local {
            for other in annotated.iter().filter(|other| **other != network) {
                self.policies(network, *other);
            }
        }
    }

    pub(super) fn policies(&mut self, source: NetworkId, destination: NetworkId) {
        self.parts.insert(Part::Policies {
            source,
            destination,
        });
    }

    fn all_links(&mut self, member: &Member, context: &PlanContext<'_>) {
        let links = |index| {
            Part::Link(LinkId {
                network: member.id,
                index,
            })
        };
        match member.topology {
            Topology::Layer2 => {
                self.parts.insert(links(0));
            }
            Topology::Layer3 => {
                let ids = context.nodes.ids();
                self.parts.extend(ids.map(|id| links(id.get())));
            }
        }
    }

    /// Keeps only the parts with changes.
    pub(super) fn keep_only(&mut self, changed_parts: Vec<Part>) {
        let changed_parts = BTreeSet::from_iter(changed_parts);
        self.parts = self.parts.intersection(&changed_parts).copied().collect();
        self.report = false;
    }
}
