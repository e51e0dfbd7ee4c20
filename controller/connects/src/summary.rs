//! Report of a connect without its links, and the reports of all connects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::external_ids::key;
use patchbay_model::{NetworkId, OwnerKey, Topology};
use patchbay_rows::Engine;
use patchbay_zone::Cell;
use smol_str::SmolStr;

use super::capability::{Connects, PartReport, Rows};
use super::link_report::{LinkReport, LinkSkip};
use super::part::{ConnectPart, LinkId, Part};
use super::report::{
    ConnectReport, ConnectedNetwork, HeldReason, NetworkSkip, Notice, SkippedNetwork, SkippedNode,
};
use super::schema_facts::version_without_remote_ports;
use super::shared::{ConnectReader, Standing};

/// Report of a connect without its links.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Summary {
    held: Option<HeldReason>,
    /// Networks whose rows stay while the connect is not accepted.
    kept: Vec<ConnectedNetwork>,
    /// Networks that have rows, by id.
    connected: BTreeMap<NetworkId, (OwnerKey, Arc<str>)>,
    skipped_networks: Vec<SkippedNetwork>,
    /// Nodes without an id, for each connected network.
    without_id: Vec<(NetworkId, SkippedNode)>,
    notices: Vec<Notice>,
}

impl Connects {
    pub(super) fn summary(&self, name: &SmolStr, reader: &ConnectReader<'_>, rows: &mut Rows) {
        let mut summary = Summary::default();
        match Self::standing(name, reader) {
            Standing::Absent => return,
            Standing::Held(reason) => {
                if matches!(reason, HeldReason::NotAccepted(_)) {
                    summary.kept = self.kept_networks(name, reader);
                }
                summary.held = Some(reason);
            }
            Standing::Planned => summary.read(name, reader),
        }
        rows.report(PartReport::Summary(Box::new(summary)));
    }

    /// Networks whose rows stay although the connect is not accepted, with the numbers of rows that
    /// are there.
    fn kept_networks(&self, name: &SmolStr, reader: &ConnectReader<'_>) -> Vec<ConnectedNetwork> {
        let inputs = reader.read(&Cell::Connect(name.clone()));
        let owners = inputs.connect(name).map(|connect| connect.subnets.owners());
        let mut kept = Vec::new();
        for owner in owners.into_iter().flatten() {
            let id = owner.network_id;
            let inputs = reader.read(&Cell::ConnectableNetwork(id));
            let Some(network) = inputs.connectable_network(id) else {
                continue;
            };
            let router = network.router();
            let mut counts = LinkCounts::default();
            for (_, row) in reader.owned_in(ConnectPart::range(name, Part::links_of(id))) {
                let id = row.view().external_id(key::ID).unwrap_or_default();
                if row.is_of(self.tables.routes) {
                    counts.routes += 1;
                } else if id.ends_with(&router) {
                    counts.local_ports += 1;
                } else {
                    counts.ports += 1;
                }
            }
            if counts.ports > 0 {
                kept.push(ConnectedNetwork {
                    owner,
                    network: network.name.clone(),
                    is_local: counts.local_ports > 0,
                    ports: counts.ports,
                    routes: counts.routes,
                });
            }
        }
        kept.sort_by_key(|network| network.owner.network_id);
        kept
    }
}

impl Summary {
    fn read(&mut self, name: &SmolStr, reader: &ConnectReader<'_>) {
        let networks = Connects::networks(name, reader);
        let version = version_without_remote_ports(reader.schema())
            .filter(|_| reader.read(&Cell::SeveralNodes).has_several_nodes());
        for (id, network) in &networks {
            for (owner, name, reason) in &network.unknown {
                self.skipped_networks.push(SkippedNetwork {
                    owner: *owner,
                    network: name.clone(),
                    reason: reason.clone(),
                });
            }
            let Some(member) = &network.member else {
                continue;
            };
            let owner = member.owner_key();
            if member.is_connected() {
                self.connected.insert(*id, (owner, member.name.clone()));
            }
            let lost = || {
                let version = version.filter(|_| member.topology == Topology::Layer3);
                version.map(|version| NetworkSkip::NoRemoteRouterPorts(version.to_owned()))
            };
            if let Some(reason) = member.obstacle.clone().or_else(lost) {
                self.skipped_networks.push(SkippedNetwork {
                    owner,
                    network: Some(member.name.to_string()),
                    reason,
                });
            }
        }
        self.skipped_networks.sort_by_key(|skipped| skipped.owner.network_id);
        let inputs = reader.read(&Cell::WithoutId);
        for (node, reason) in inputs.node_ids().without_id() {
            for (id, (owner, network)) in &self.connected {
                reader.read(&Cell::Activity(network.clone()));
                let is_active = inputs.has_users(network, node);
                if owner.topology == Topology::Layer3 && is_active {
                    let skipped = SkippedNode {
                        network: network.to_string(),
                        node: Some(node.to_owned()),
                        reason: reason.clone().into(),
                    };
                    self.without_id.push((*id, skipped));
                }
            }
        }
        let connect = reader.read(&Cell::Connect(name.clone())).connect(name);
        let unknown = connect.into_iter().flat_map(|connect| &connect.unknown_owners);
        self.notices = unknown.map(|error| Notice::UnknownOwner(error.to_string())).collect();
        let services = reader.report(&ConnectPart::new(name, Part::Services));
        if let Some(PartReport::Services(notices)) = services {
            self.notices.extend(notices.iter().cloned());
        }
    }
}

/// Outcomes of a connect's links.
#[derive(Debug, Default)]
struct Links {
    counts: BTreeMap<NetworkId, LinkCounts>,
    /// Links without ports.
    skipped: BTreeMap<LinkId, LinkSkip>,
    /// Links with ports and without routes.
    unrouted: BTreeMap<LinkId, LinkSkip>,
}

/// Row counts of a network's links.
#[derive(Clone, Copy, Debug, Default)]
struct LinkCounts {
    ports: usize,
    local_ports: usize,
    routes: usize,
}

impl Links {
    fn add(&mut self, id: LinkId, report: &LinkReport) {
        let (is_local, routes) = match report {
            LinkReport::Skipped(skip) => {
                self.skipped.insert(id, (**skip).clone());
                return;
            }
            LinkReport::Unrouted { is_local, skip } => {
                self.unrouted.insert(id, (**skip).clone());
                (*is_local, 0)
            }
            LinkReport::Made { is_local, routes } => (*is_local, *routes),
        };
        let counts = self.counts.entry(id.network).or_default();
        counts.ports += 1;
        counts.local_ports += usize::from(is_local);
        counts.routes += usize::from(routes);
    }

    fn remove(&mut self, id: LinkId, report: &LinkReport) {
        let (is_local, routes) = match report {
            LinkReport::Skipped(_) => {
                self.skipped.remove(&id);
                return;
            }
            LinkReport::Unrouted { is_local, .. } => {
                self.unrouted.remove(&id);
                (*is_local, 0)
            }
            LinkReport::Made { is_local, routes } => (*is_local, *routes),
        };
        let counts = self.counts.entry(id.network).or_default();
        counts.ports -= 1;
        counts.local_ports -= usize::from(is_local);
        counts.routes -= usize::from(routes);
        if counts.ports == 0 {
            self.counts.remove(&id.network);
        }
    }

    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.skipped.is_empty() && self.unrouted.is_empty()
    }
}

/// Reports of all connects, each made again when something in it has changed.
#[derive(Debug, Default)]
pub(super) struct ConnectReports {
    links: BTreeMap<SmolStr, Links>,
    /// Notices about connects that join the same networks.
    shared: BTreeMap<String, Vec<Notice>>,
    reports: BTreeMap<SmolStr, Arc<ConnectReport>>,
    /// Connects whose reports have to be made again.
    outdated: BTreeSet<SmolStr>,
}

impl ConnectReports {
    /// Sets the notices about connects that join the same networks, or overlapping ones.
    pub(super) fn set_shared(&mut self, shared: BTreeMap<String, Vec<Notice>>) {
        let names = self.shared.keys().chain(shared.keys());
        let changed = names.filter(|name| self.shared.get(*name) != shared.get(*name));
        self.outdated.extend(changed.map(|name| name.as_str().into()));
        self.shared = shared;
    }

    /// Follows the reports that a plan has changed.
    pub(super) fn follow(&mut self, engine: &Engine<Connects>, is_first: bool) {
        if is_first {
            self.links.clear();
            self.outdated.extend(std::mem::take(&mut self.reports).into_keys());
        }
        for changed in engine.changed_reports() {
            let ConnectPart { connect, part } = changed.part;
            if self.outdated.last() != Some(connect) {
                self.outdated.insert(connect.clone());
            }
            let Part::Link(id) = part else { continue };
            if !self.links.contains_key(connect) {
                self.links.insert(connect.clone(), Links::default());
            }
            let Some(links) = self.links.get_mut(connect) else {
                continue;
            };
            if let Some(PartReport::Link(former)) = changed.former {
                links.remove(*id, former);
            }
            if let Some(PartReport::Link(report)) = engine.report(changed.part) {
                links.add(*id, report);
            }
            if links.is_empty() {
                self.links.remove(connect);
            }
        }
        for connect in std::mem::take(&mut self.outdated) {
            match engine.report(&ConnectPart::new(&connect, Part::Summary)) {
                Some(PartReport::Summary(summary)) => {
                    let report = Arc::new(self.report_of(&connect, summary));
                    self.reports.insert(connect, report);
                }
                _ => {
                    self.reports.remove(&connect);
                }
            }
        }
    }

    /// Report of a connect. `None`: it is gone.
    pub(super) fn get(&self, connect: &str) -> Option<Arc<ConnectReport>> {
        self.reports.get(connect).cloned()
    }

    fn report_of(&self, connect: &str, summary: &Summary) -> ConnectReport {
        let shared = self.shared.get(connect).into_iter().flatten();
        let notices = summary.notices.iter().chain(shared).cloned().collect();
        if let Some(reason) = &summary.held {
            return ConnectReport {
                notices,
                connected: summary.kept.clone(),
                ..ConnectReport::held(reason.clone())
            };
        }
        let nothing = Links::default();
        let links = self.links.get(connect).unwrap_or(&nothing);
        let connected = summary.connected.iter().map(|(id, (owner, network))| {
            let counts = links.counts.get(id).copied().unwrap_or_default();
            ConnectedNetwork {
                owner: *owner,
                network: network.to_string(),
                is_local: counts.local_ports > 0,
                ports: counts.ports,
                routes: counts.routes,
            }
        });
        ConnectReport {
            held: None,
            connected: connected.collect(),
            skipped_networks: summary.skipped_networks.clone(),
            skipped_nodes: skipped_nodes(summary, links),
            notices,
        }
    }
}

/// Links without ports, then links without routes, each ordered by network and node name.
fn skipped_nodes(summary: &Summary, links: &Links) -> Vec<SkippedNode> {
    let skipped = |(id, skip): (&LinkId, &LinkSkip)| {
        let network = summary.connected.get(&id.network);
        let skipped = SkippedNode {
            network: network.map_or_else(String::new, |(_, name)| name.to_string()),
            node: skip.node.clone(),
            reason: skip.reason.clone(),
        };
        (id.network, skipped)
    };
    let mut without_port: Vec<_> = links.skipped.iter().map(skipped).collect();
    without_port.extend(summary.without_id.iter().cloned());
    let mut without_route: Vec<_> = links.unrouted.iter().map(skipped).collect();
    for skipped in [&mut without_port, &mut without_route] {
        skipped.sort_by(|(left_id, left), (right_id, right)| {
            (left_id, &left.node).cmp(&(right_id, &right.node))
        });
    }
    let all = without_port.into_iter().chain(without_route);
    all.map(|(_, skipped)| skipped).collect()
}
