//! State of one connect in one zone, and its pending parts.
//!
//! A part stays pending until the database has its desired rows. A transaction that fails or is
//! incomplete therefore needs no rollback here.

mod claims;
mod evaluation;
mod pending;
mod report;
mod retained;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::{Change, PlanError};
use patchbay_schemas::nb::Copp;
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::Ref;

use super::desired::{Link, Member, PlanContext};
use super::part::{LinkId, Part};
use super::reconcile::{ManagedColumns, Writer};
use super::report::{ConnectReport, HeldReason, NetworkSkip, NodeSkip, Notice};
use claims::{Claims, Fingerprint, Fingerprints};
use evaluation::Evaluation;
use patchbay_model::{Connect, DatapathKey, NetworkId, NodeId, OwnerKey, Topology, TunnelKey};
use pending::Pending;

/// Desired state of a connect's rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum DesiredState<'c> {
    /// All rows are removed.
    Absent,
    /// The rows match the connect.
    Present {
        connect: &'c Connect,
        key: DatapathKey,
        /// `None`: the router exists already, and the `Copp` row does not.
        copp: Option<Ref<Copp>>,
    },
}

/// Derived data of a connect that is kept from one pass to the next.
#[derive(Debug, Default)]
pub(super) struct ConnectState {
    pub(super) pending: Pending,
    /// Known networks of the subnet annotation.
    members: BTreeMap<NetworkId, Member>,
    /// Other entries of the annotation, with the name of the network if one has the id.
    unknown: BTreeMap<OwnerKey, (Option<String>, NetworkSkip)>,
    /// Links with valid addresses and keys, including those whose name or key is in use.
    links: BTreeMap<LinkId, LinkFacts>,
    fingerprints: Fingerprints,
    names: Claims<Fingerprint>,
    keys: Claims<TunnelKey>,
    /// Links without rows, with the reasons.
    skips: BTreeMap<LinkId, NodeSkip>,
    /// Links without routes.
    unrouted: BTreeSet<LinkId>,
    /// Port names that rows of other owners have, by waiting link.
    waiting: BTreeMap<LinkId, String>,
    counts: BTreeMap<NetworkId, LinkCounts>,
    service_notices: Vec<Notice>,
    shared_notices: Vec<Notice>,
    report: Option<Arc<ConnectReport>>,
}

/// Derived data of a link.
#[derive(Clone, Copy, Debug)]
struct LinkFacts {
    /// Fingerprint of the port name on the connect router.
    name: Fingerprint,
    key: TunnelKey,
    /// `true` if the link has rows, because its names and key are free.
    is_made: bool,
    is_local: bool,
    routes: u16,
}

/// Row counts of a network's links.
#[derive(Clone, Copy, Debug, Default)]
struct LinkCounts {
    ports: usize,
    local_ports: usize,
    routes: usize,
}

impl ConnectState {
    /// Creates the state of a new connect; every part is pending.
    pub(super) fn new() -> Self {
        Self {
            pending: Pending::everything(),
            ..Self::default()
        }
    }

    /// Report of the last pass.
    pub(super) fn report(&self) -> Option<Arc<ConnectReport>> {
        self.report.clone()
    }

    /// Reports why the connect cannot be planned, and marks every part pending.
    pub(super) fn hold(&mut self, reason: HeldReason) {
        self.pending = Pending::everything();
        let report = ConnectReport {
            notices: self.shared_notices.clone(),
            ..ConnectReport::held(reason)
        };
        self.report = Some(Arc::new(report));
    }

    /// True if a link waits for a port name that a row of another owner has.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sets the notices about connects that join the same networks.
    pub(super) fn set_shared_notices(&mut self, notices: Vec<Notice>) {
        if self.shared_notices != notices {
            self.shared_notices = notices;
            self.pending.report = true;
        }
    }

    /// Plans the changes of the pending parts. Parts without changes are no longer pending.
    pub(super) fn plan(
        &mut self,
        name: &str,
        wanted: DesiredState<'_>,
        context: PlanContext<'_>,
        managed: &ManagedColumns,
        limit: usize,
        txn: impl FnOnce() -> TxnBuilder,
    ) -> Result<Change, PlanError> {
        if self.pending.is_empty() {
            return Ok(Change::default());
        }
        let mut evaluation = Evaluation::new(name, context, managed);
        match wanted {
            DesiredState::Absent => evaluation.remove_all(),
            DesiredState::Present { connect, key, copp } => {
                self.refresh_members(connect, &context);
                self.mark_known_links();
                let networks = self.annotated_networks();
                self.pending
                    .expand(name, &self.members, &networks, &context);
                self.mark_parts_beside_retained(&context);
                let links = self.refresh_links(connect, &context);
                self.pending
                    .expand_local(&self.members, &networks, &context);
                let evaluated = evaluation.connect(self, connect, (key, copp), links);
                self.report = Some(Arc::new(self.make_report(connect, &context)));
                evaluated?;
            }
        }
        let group = evaluation.group();
        let Evaluation {
            steps,
            new_acls,
            changed_parts,
            ..
        } = evaluation;
        let change = if steps.is_empty() {
            Change::default()
        } else {
            let writer = Writer::new(managed, context.index, txn(), new_acls, group);
            let comment = format!("patchbay: ClusterNetworkConnect {name}");
            writer.write(steps, limit, comment)?
        };
        self.pending.keep_only(changed_parts);
        Ok(change)
    }

    /// Resolves the networks that may have changed.
    fn refresh_members(&mut self, connect: &Connect, context: &PlanContext<'_>) {
        if self.pending.everything {
            let known = self.members.keys().copied();
            let unknown = self.unknown.keys().map(|owner| owner.network_id);
            let annotated = connect.subnets.owners().map(|owner| owner.network_id);
            let networks: BTreeSet<NetworkId> = known.chain(unknown).chain(annotated).collect();
            self.pending.networks = networks;
        }
        for id in std::mem::take(&mut self.pending.networks) {
            let was_retained = self.is_retained(id);
            let was_unreadable = self.is_unreadable(id, context);
            let former = self.members.remove(&id);
            for topology in [Topology::Layer2, Topology::Layer3] {
                let owner = OwnerKey {
                    topology,
                    network_id: id,
                };
                self.unknown.remove(&owner);
                let Some(subnets) = connect.subnets.get(owner) else {
                    continue;
                };
                match Member::resolve(connect, owner, subnets, context) {
                    Ok(member) => {
                        self.members.insert(id, member);
                    }
                    Err(unknown) => {
                        self.unknown.insert(owner, unknown);
                    }
                }
            }
            let is_retained = self.is_retained(id);
            if former.as_ref() != self.members.get(&id) || was_retained != is_retained {
                self.pending.changed.insert(id);
            }
            let is_unreadable = self.is_unreadable(id, context);
            if was_retained && !is_retained || was_unreadable && !is_unreadable {
                self.mark_dependents_of_retained();
            }
        }
    }

    /// Marks the known links of changed networks, because some have no rows.
    fn mark_known_links(&mut self) {
        let Self {
            pending,
            links,
            skips,
            ..
        } = self;
        let known = links.keys().chain(skips.keys());
        let different = known
            .filter(|link| pending.everything || pending.changed.contains(&link.network))
            .map(|link| Part::Link(*link));
        pending.parts.extend(different);
    }

    /// Resolves the pending links and claims their names and keys. Returns the links that have rows,
    /// in order.
    fn refresh_links<'a>(
        &mut self,
        connect: &Connect,
        context: &PlanContext<'a>,
    ) -> Vec<(LinkId, Link<'a>)> {
        let mut pending: Vec<LinkId> = self.pending.links().collect();
        let mut links = Vec::with_capacity(pending.len());
        let mut next = 0;
        while let Some(id) = pending.get(next).copied() {
            next += 1;
            self.skips.remove(&id);
            self.unrouted.remove(&id);
            self.waiting.remove(&id);
            let facts = match self.find_link(id, connect, context) {
                None => None,
                Some(Err(reason)) => {
                    self.skips.insert(id, reason);
                    None
                }
                Some(Ok(link)) => {
                    let routes = link.route_count(&self.members[&id.network]);
                    let facts = LinkFacts {
                        name: self.fingerprints.of(&link.name),
                        key: link.key,
                        is_made: false,
                        is_local: link.is_local,
                        routes: u16::try_from(routes).unwrap_or(u16::MAX),
                    };
                    links.push((id, link));
                    Some(facts)
                }
            };
            let others = self.claim(id, facts).into_iter();
            pending.extend(others.filter(|other| self.pending.parts.insert(Part::Link(*other))));
        }
        links.retain(|(id, link)| self.claim_link(*id, link, connect, context));
        links.sort_by_key(|(id, _)| *id);
        links
    }

    /// The attachment, if there should be one.
    fn find_link<'a>(
        &self,
        id: LinkId,
        connect: &Connect,
        context: &PlanContext<'a>,
    ) -> Option<Result<Link<'a>, NodeSkip>> {
        let member = self.members.get(&id.network)?;
        if !member.is_connected() {
            return None;
        }
        let inputs = context.inputs;
        match member.topology {
            Topology::Layer2 => {
                let is_made = id.index == 0 && member.is_active_here;
                is_made.then(|| Link::of_layer2(connect, member, context))
            }
            Topology::Layer3 => {
                let node_id = NodeId::try_new(id.index.into()).ok()?;
                let node = context.nodes.owner(node_id)?;
                let is_active = inputs.activity.is_active(&member.name, &node.name);
                is_active.then(|| Link::of_layer3(connect, member, (node_id, node), context))
            }
        }
    }

    /// Changes what a link wants. Returns the links for which that makes a difference.
    fn claim(&mut self, id: LinkId, facts: Option<LinkFacts>) -> Vec<LinkId> {
        let former = match facts {
            Some(facts) => self.links.insert(id, facts),
            None => self.links.remove(&id),
        };
        let mut others = Vec::new();
        if let Some(former) = former {
            self.update_counts(id, former, false);
        }
        let (former_name, name) = (
            former.map(|facts| facts.name),
            facts.map(|facts| facts.name),
        );
        if former_name != name {
            others.extend(former_name.and_then(|name| self.names.remove(name, id)));
            others.extend(name.and_then(|name| self.names.add(name, id)));
        }
        let (former_key, key) = (former.map(|facts| facts.key), facts.map(|facts| facts.key));
        if former_key != key {
            others.extend(former_key.and_then(|key| self.keys.remove(key, id)));
            others.extend(key.and_then(|key| self.keys.add(key, id)));
        }
        others
    }

    /// Claims the name and key of a link, or records the conflict. Returns `true` if the link
    /// has rows.
    fn claim_link(
        &mut self,
        id: LinkId,
        link: &Link<'_>,
        connect: &Connect,
        context: &PlanContext<'_>,
    ) -> bool {
        let claimed = self.links[&id];
        if let Some(skip) = self.find_conflict(id, claimed, link, connect, context) {
            self.skips.insert(id, skip);
            return false;
        }
        let facts = LinkFacts {
            is_made: true,
            ..claimed
        };
        self.update_counts(id, facts, true);
        self.links.insert(id, facts);
        if facts.routes == 0 {
            self.unrouted.insert(id);
        }
        true
    }

    /// Returns the conflict of a link with another link or with a row of another owner.
    fn find_conflict(
        &mut self,
        id: LinkId,
        facts: LinkFacts,
        link: &Link<'_>,
        connect: &Connect,
        context: &PlanContext<'_>,
    ) -> Option<NodeSkip> {
        if self.names.holder(facts.name) != Some(id) {
            return Some(NodeSkip::NameTaken(link.name.to_string()));
        }
        let is_foreign = |port: &Row| {
            evaluation::is_foreign_port(port, &connect.name, context)
                || self.is_retained_port(port.uuid, &connect.name, context)
        };
        let network_name = link.network_name(connect, &self.members[&id.network]);
        let network_port = network_name.and_then(|name| {
            let port = context.index.port(&name)?;
            Some((name, &**port))
        });
        let connect_port = link.existing.map(|port| (link.name.clone(), port));
        let mut ports = connect_port.into_iter().chain(network_port);
        if let Some((name, _)) = ports.find(|(_, port)| is_foreign(port)) {
            self.waiting.insert(id, name.to_string());
            return Some(NodeSkip::NameTaken(name.into()));
        }
        match self.keys.holder(facts.key) {
            Some(holder) if holder != id => Some(NodeSkip::SharedTunnelKey {
                key: facts.key.get(),
                port: self.port_name(holder, connect, context),
            }),
            _ => None,
        }
    }

    /// Name of a link's port on the connect router.
    fn port_name(&self, id: LinkId, connect: &Connect, context: &PlanContext<'_>) -> String {
        let link = self.find_link(id, connect, context);
        link.and_then(Result::ok)
            .map_or_else(String::new, |link| link.name.into())
    }

    fn update_counts(&mut self, id: LinkId, facts: LinkFacts, is_there: bool) {
        if !facts.is_made {
            return;
        }
        let counts = self.counts.entry(id.network).or_default();
        let step = |count: &mut usize, by: usize| {
            *count = if is_there { *count + by } else { *count - by };
        };
        step(&mut counts.ports, 1);
        step(&mut counts.local_ports, usize::from(facts.is_local));
        step(&mut counts.routes, facts.routes.into());
        if counts.ports == 0 {
            self.counts.remove(&id.network);
        }
    }

    /// Link of a network in this zone, if it has rows.
    fn local_link<'a>(
        &self,
        network: NetworkId,
        connect: &Connect,
        context: &PlanContext<'a>,
    ) -> Option<Link<'a>> {
        let id = local_link_id(self.members.get(&network)?, context)?;
        if !self.links.get(&id)?.is_made {
            return None;
        }
        self.find_link(id, connect, context)?.ok()
    }

    /// Links that wait for one of the port names.
    pub(super) fn links_waiting_for(&self, names: &BTreeSet<String>) -> Vec<LinkId> {
        let waiting = self.waiting.iter();
        waiting
            .filter(|(_, name)| names.contains(*name))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Known networks of the subnet annotation.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }
}

/// Link id of a network in this zone.
fn local_link_id(member: &Member, context: &PlanContext<'_>) -> Option<LinkId> {
    match member.topology {
        Topology::Layer2 => Some(LinkId {
            network: member.id,
            index: 0,
        }),
        Topology::Layer3 => {
            let node = context.inputs.nodes.get(&context.inputs.zone)?;
            Some(LinkId::layer3(member.id, context.nodes.id_of(node)?))
        }
    }
}
