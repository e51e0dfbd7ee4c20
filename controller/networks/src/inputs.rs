//! Inputs of the networks' rows: settings, nodes, networks and services of a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    ClusterSettings, Feature, NadProblem, Network, NetworkActivity, NetworkObjects, Networks, Node,
    NodeObject, NodeSubnetOwners, Role, ServiceObject, Topology, UnreadNetworks,
};
use patchbay_rows::{Inputs, changed_keys};
use patchbay_schemas::nb::AddressSet;

use super::advertised::{Advertised, AdvertisedNetworks};
use super::default_services::DefaultServices;
use super::definition::{Details, OutboundSnat};
use super::isolation::isolated_ports;
use super::localnet::{self, Localnet};
use super::node::ZoneNode;
use super::remotes::Remotes;
use super::site::Site;
use super::skipped::SkippedNetworks;
use super::{NetworkRows, PortGroupRows, RemoteRows, SkipReason, SkippedNetwork, layer2, layer3};

/// Everything that the rows of the networks in one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference. Networks are known by the prefix of their rows' names, because rows show nothing
/// else.
#[derive(Clone, Debug, Default)]
pub struct ZoneNetworks {
    zone: Arc<Zone>,
    nodes: OrdMap<Arc<str>, Arc<ZoneNode>>,
    networks: OrdMap<Arc<str>, Arc<ZoneNetwork>>,
    services: Arc<DefaultServices>,
    unread: Arc<UnreadNetworks>,
    /// Networks whose rows would have the names of those of another network.
    without_names: Arc<[SkippedNetwork]>,
}

/// The zone and the cluster's settings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Zone {
    name: Arc<str>,
    settings: ClusterSettings,
}

/// A network, with the fields of its definition that only its rows depend on.
#[derive(Clone, Debug, PartialEq)]
struct ZoneNetwork {
    name: Arc<str>,
    kind: NetworkKind,
    /// Nodes on which the network is rendered. `None`: all.
    nodes: Option<BTreeSet<Arc<str>>>,
}

#[derive(Clone, Debug, PartialEq)]
enum NetworkKind {
    Overlay {
        network: Box<Network>,
        details: Result<Details, SkipReason>,
        advertised: Advertised,
    },
    Localnet(Localnet),
}

/// A piece of [`ZoneNetworks`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum NetworkCell {
    /// The zone and the cluster's settings.
    Zone,
    /// A node.
    Node(Arc<str>),
    /// A network, by the prefix of its rows' names.
    Network(Arc<str>),
    /// Everything that decides which networks have rows.
    Networks,
    /// Services of the default network that networks reach.
    Services,
    /// Networks that may exist although they are not known.
    Unread,
    /// All nodes.
    Nodes,
    /// Addresses of the hosts of all nodes.
    Hosts,
    /// Nodes in the older layout of layer2 networks.
    OlderLayout,
}

impl ZoneNetworks {
    /// Reads objects with ids, keys and subnets, for the zone of the node with this name.
    pub fn read(objects: &NetworkObjects<'_>, zone: &str, settings: &ClusterSettings) -> Self {
        Self::read_with_owners(objects, zone, settings).0
    }

    /// Reads objects as [`read`](Self::read) does. Returns the owners of node subnets, too, with which
    /// [`put_node`](Self::put_node) follows nodes.
    pub fn read_with_owners(
        objects: &NetworkObjects<'_>,
        zone: &str,
        settings: &ClusterSettings,
    ) -> (Self, NodeSubnetOwners) {
        let networks = &objects.networks;
        let mut this = Self {
            zone: Arc::new(Zone {
                name: zone.into(),
                settings: settings.clone(),
            }),
            unread: Arc::new(UnreadNetworks::new(networks)),
            without_names: without_names(networks).into(),
            ..Self::default()
        };
        this.set_services(&objects.services);
        let nodes: Vec<Node> = objects.nodes.iter().map(ZoneNode::annotations).collect();
        let owners = NodeSubnetOwners::of_nodes(networks.iter(), &nodes);
        for (object, node) in objects.nodes.iter().zip(nodes) {
            this.insert_node(ZoneNode::new(node, object, &owners));
        }
        for localnet in objects.definitions.values().filter_map(Localnet::read) {
            let name = localnet.name.clone();
            this.put_network(&name, NetworkKind::Localnet(localnet));
        }
        let advertised = AdvertisedNetworks::read(objects, zone, settings);
        for network in networks.iter() {
            let definition = networks.definition(&network.name);
            let definition = definition.and_then(|key| objects.definitions.get(key));
            let kind = NetworkKind::Overlay {
                network: Box::new(network.clone()),
                details: Details::read(definition),
                advertised: advertised.get(&network.name),
            };
            this.put_network(&network.name, kind);
        }
        (this, owners)
    }

    /// Sets the services, of which those are needed that the settings name.
    pub fn set_services(&mut self, services: &[ServiceObject<'_>]) {
        self.services = Arc::new(DefaultServices::read(services, &self.zone.settings));
    }

    fn put_network(&mut self, name: &str, kind: NetworkKind) {
        let name: Arc<str> = name.into();
        let prefix = network_prefix(&name).into();
        let nodes = None;
        let network = ZoneNetwork { name, kind, nodes };
        self.networks.insert(prefix, Arc::new(network));
    }

    /// Limits rows that lead to other nodes to those on which the network is rendered.
    pub fn set_activity(&mut self, activity: &NetworkActivity) {
        let networks = self.networks.iter();
        let differs =
            |network: &ZoneNetwork| activity.nodes(&network.name) != network.nodes.as_ref();
        let changed = networks.filter(|(_, network)| differs(network));
        let changed: Vec<Arc<str>> = changed.map(|(prefix, _)| prefix.clone()).collect();
        for prefix in changed {
            if let Some(network) = self.networks.get_mut(&prefix) {
                let nodes = activity.nodes(&network.name).cloned();
                Arc::make_mut(network).nodes = nodes;
            }
        }
    }

    /// Adds a node, or replaces the one of its name. `owners` contains the node: subnets that are
    /// not its own are refused.
    pub fn put_node(&mut self, object: NodeObject<'_>, owners: &NodeSubnetOwners) {
        let node = ZoneNode::annotations(&object);
        self.insert_node(ZoneNode::new(node, &object, owners));
    }

    fn insert_node(&mut self, mut node: ZoneNode) {
        if let Some(earlier) = self.nodes.get(node.name.as_str()) {
            node.chassis.follow(&earlier.chassis);
        }
        self.nodes.insert(node.name.as_str().into(), Arc::new(node));
    }

    /// Takes over what a running controller has known of nodes, if the inputs were read from nothing.
    pub fn follow(&mut self, earlier: &Self) {
        for (name, former) in &earlier.nodes {
            let Some(node) = self.nodes.get_mut(name) else {
                continue;
            };
            let mut chassis = node.chassis.clone();
            chassis.follow(&former.chassis);
            if chassis != node.chassis {
                Arc::make_mut(node).chassis = chassis;
            }
        }
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Removes the network of this name.
    pub fn remove_network(&mut self, name: &str) {
        self.networks.remove(network_prefix(name).as_str());
    }

    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    /// Names of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// Names of all networks.
    pub fn networks(&self) -> impl Iterator<Item = &Arc<str>> {
        self.networks.values().map(|network| &network.name)
    }

    /// Prefixes of the names of all networks' rows.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.networks.keys()
    }

    pub(super) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.networks.contains_key(prefix)
    }

    /// `true` if a network with this prefix may exist although it is not known.
    pub(super) fn is_unread(&self, prefix: &str) -> bool {
        self.unread.may_have_prefix(prefix)
    }

    /// Networks that have no place in the zone or are incomplete there, and why.
    pub fn skipped(&self) -> Vec<SkippedNetwork> {
        SkippedNetworks::default().update(self)
    }

    /// The network of this prefix, if it has no place in the zone or is incomplete there.
    pub(super) fn skipped_network(&self, prefix: &str) -> Option<SkippedNetwork> {
        let network = &self.networks.get(prefix)?.name;
        let reason = match self.network_rows(network)? {
            Ok(rows) => rows.incomplete?,
            Err(reason) => reason,
        };
        Some(SkippedNetwork {
            network: network.to_string(),
            reason,
        })
    }

    /// Networks whose rows would have the names of those of another network.
    pub(super) fn without_names(&self) -> &[SkippedNetwork] {
        &self.without_names
    }

    /// `true` if some rows may wait for others, because they refer to them by UUID: then a plan may be
    /// complete only after another one.
    pub fn has_waiting_rows(&self) -> bool {
        let settings = self.settings();
        let features = [Feature::RouteAdvertisements, Feature::EgressIp];
        let is_exempting = |network: &Arc<ZoneNetwork>| match &network.kind {
            NetworkKind::Overlay { details, .. } => details
                .as_ref()
                .is_ok_and(|details| details.outbound_snat == Some(OutboundSnat::Enabled)),
            NetworkKind::Localnet(_) => false,
        };
        features.iter().any(|one| settings.has_feature(*one))
            || self.networks.values().any(is_exempting)
    }

    /// The rows of a network, but for those that lead to other nodes. `None`: there is no such
    /// network.
    pub fn network_rows(&self, network: &str) -> Option<Result<NetworkRows, SkipReason>> {
        let prefix = network_prefix(network);
        let is_advertised = self.advertised(&prefix) == Advertised::Yes;
        self.rows_of_prefix(&prefix, is_advertised)
    }

    /// Whether a network is advertised on the zone's node.
    pub(super) fn advertised(&self, prefix: &str) -> Advertised {
        match self.networks.get(prefix).map(|network| &network.kind) {
            Some(NetworkKind::Overlay { advertised, .. }) => *advertised,
            Some(NetworkKind::Localnet(_)) | None => Advertised::No,
        }
    }

    /// Value of the id of the ACL that a network has while it is advertised.
    pub(super) fn pass_acl_id(&self, prefix: &str) -> Option<String> {
        Some(self.site(prefix)?.ok()?.pass_acl_id())
    }

    /// The switch port of a primary network towards its router.
    pub(super) fn router_side_port(&self, prefix: &str) -> Option<String> {
        let site = self.site(prefix)?.ok()?;
        site.is_primary().then(|| site.router_side_port())
    }

    /// Subnets of the pods of a network.
    pub(super) fn pod_subnets(&self, prefix: &str) -> impl Iterator<Item = IpNet> {
        let network = self.networks.get(prefix).map(|network| &network.kind);
        let subnets = match network {
            Some(NetworkKind::Overlay { network, .. }) => network.pod_subnets.as_slice(),
            Some(NetworkKind::Localnet(_)) | None => &[],
        };
        subnets.iter().map(|subnet| subnet.cidr)
    }

    /// `true` if there is a primary network.
    pub(super) fn has_primary(&self) -> bool {
        let mut networks = self.networks.values();
        networks.any(|network| match &network.kind {
            NetworkKind::Overlay { network, .. } => network.role == Role::Primary,
            NetworkKind::Localnet(_) => false,
        })
    }

    /// `true` if another node has a network in the older layer2 layout.
    fn has_older_nodes(&self, network: &str) -> bool {
        let nodes = self.nodes.iter();
        let mut others = nodes.filter(|(name, _)| **name != self.zone.name);
        others.any(|(_, node)| node.older_key(network).is_some())
    }

    /// `true` if the rows of a network depend on whether it leads to other nodes.
    pub(super) fn follows_nodes(&self, prefix: &str) -> bool {
        self.site(prefix).is_some_and(|site| {
            site.is_ok_and(|site| {
                site.network.topology == Topology::Layer3 && layer3::follows_remotes(&site)
            })
        })
    }

    fn has_remote_nodes(&self, prefix: &str) -> bool {
        let remotes = self.remotes(prefix);
        remotes.is_some_and(|remotes| {
            let mut nodes = self.nodes.values();
            nodes.any(|node| remotes.rows(node).is_some())
        })
    }

    /// Addresses of the hosts of all nodes.
    pub(super) fn host_addresses(&self) -> Vec<IpAddr> {
        let nodes = self.nodes.values();
        let addresses = nodes.flat_map(|node| node.host_addresses().iter().copied());
        addresses.collect()
    }

    /// Families of the cluster.
    pub(super) fn settings(&self) -> &ClusterSettings {
        &self.zone.settings
    }

    pub(super) fn rows_of_prefix(
        &self,
        prefix: &str,
        is_advertised: bool,
    ) -> Option<Result<NetworkRows, SkipReason>> {
        let network = self.networks.get(prefix)?;
        if let NetworkKind::Localnet(localnet) = &network.kind {
            return Some(localnet::rows(localnet));
        }
        let made = self.site(prefix)?.and_then(|mut site| {
            site.is_advertised = is_advertised;
            site.has_older_nodes = self.has_older_nodes(&site.network.name);
            site.has_remote_nodes = self.follows_nodes(prefix) && self.has_remote_nodes(prefix);
            match site.network.topology {
                Topology::Layer3 => layer3::rows(&site),
                Topology::Layer2 => layer2::rows(&site),
            }
        });
        Some(made)
    }

    /// The rows of a network that lead to another node; `None` if there are none.
    pub fn remote_rows(&self, network: &str, node: &str) -> Option<RemoteRows> {
        let prefix = network_prefix(network);
        match self.remotes(&prefix) {
            Some(remotes) => remotes.rows(self.node(node)?),
            None => self.remote_layer2_rows(&prefix, node),
        }
    }

    /// What the rows of a layer3 network that lead to other nodes have in common. `None`: it has no
    /// such rows, or another topology.
    pub(super) fn remotes(&self, prefix: &str) -> Option<Remotes> {
        let site = self.site(prefix)?.ok()?;
        let is_layer3 = site.network.topology == Topology::Layer3;
        let nodes = self.networks.get(prefix)?.nodes.clone();
        Remotes::new(&site, nodes).filter(|_| is_layer3)
    }

    /// The rows of a layer2 network that lead to another node; `None` if there are none.
    pub(super) fn remote_layer2_rows(&self, prefix: &str, node: &str) -> Option<RemoteRows> {
        let site = self.site(prefix)?.ok()?;
        let is_made = site.network.topology == Topology::Layer2 && site.has_interconnect();
        let nodes = self.networks.get(prefix)?.nodes.as_ref();
        let is_rendered = nodes.is_none_or(|nodes| nodes.contains(node));
        let node = self.node(node).filter(|node| node.name != site.node.name);
        layer2::remote_rows(&site, node.filter(|_| is_made && is_rendered)?)
    }

    /// Topology of an overlay network.
    pub(super) fn topology(&self, prefix: &str) -> Option<Topology> {
        match &self.networks.get(prefix)?.kind {
            NetworkKind::Overlay { network, .. } => Some(network.topology),
            NetworkKind::Localnet(_) => None,
        }
    }

    pub(super) fn node(&self, name: &str) -> Option<&ZoneNode> {
        Some(self.nodes.get(name)?)
    }

    /// Names of the transit switches of networks that are not rendered on a node.
    pub(super) fn transit_switches_without(&self, node: &str) -> BTreeSet<String> {
        let networks = self.networks.iter();
        let without = networks.filter(|(_, network)| {
            let nodes = network.nodes.as_ref();
            nodes.is_some_and(|nodes| !nodes.contains(node))
        });
        without
            .map(|(prefix, _)| layer3::transit_switch_of(prefix))
            .collect()
    }

    /// `true` if the network is known, but its place in the zone is not.
    pub(super) fn lacks_place(&self, prefix: &str) -> bool {
        self.site(prefix).is_some_and(|site| match site {
            Ok(site) => site.network.topology == Topology::Layer3 && layer3::lacks_place(&site),
            Err(_) => true,
        })
    }

    /// `true` if a route to this prefix of a network that leads to a node stays if it is there,
    /// although the node has no such subnet: as in OVN-Kubernetes while the node has another one, or
    /// because the node's annotation is wrong, so that its subnets are unknown.
    pub(super) fn retains_route(&self, prefix: &str, node: &str, route: IpNet) -> bool {
        let known = self.networks.get(prefix).filter(|network| {
            let nodes = network.nodes.as_ref();
            nodes.is_none_or(|nodes| nodes.contains(node))
        });
        let network = known.map(|network| &network.kind);
        let (Some(NetworkKind::Overlay { network, .. }), Some(node)) =
            (network, self.nodes.get(node))
        else {
            return false;
        };
        let mut ranges = network.pod_subnets.iter();
        ranges.any(|range| range.cidr.contains(&route)) && node.may_lead_to(&network.name, route)
    }

    /// The address sets of the default network's services that networks reach.
    pub(super) fn service_address_sets(&self) -> Vec<AddressSet> {
        self.services.address_sets(&self.zone.settings)
    }

    /// The port group that isolates pods from the default network.
    pub(super) fn isolated_ports(&self) -> Option<PortGroupRows> {
        let node = self.nodes.get(&self.zone.name)?;
        isolated_ports(node, &self.zone.settings)
    }

    /// An overlay network at the zone's node. `None`: there is no such network.
    fn site(&self, prefix: &str) -> Option<Result<Site<'_>, SkipReason>> {
        let NetworkKind::Overlay {
            network, details, ..
        } = &self.networks.get(prefix)?.kind
        else {
            return None;
        };
        let node = self.nodes.get(&self.zone.name).ok_or(SkipReason::NoNode);
        Some(node.and_then(|node| {
            let details = details.as_ref().map_err(Clone::clone)?;
            let settings = &self.zone.settings;
            Ok(Site::new(network, details, node, settings, &self.services))
        }))
    }
}

impl Inputs for ZoneNetworks {
    type Cell = NetworkCell;

    fn diff(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(NetworkCell)) {
        let nothing = Self::default();
        let mut networks_changed = false;
        if earlier.is_none_or(|earlier| earlier.zone != self.zone) {
            changed(NetworkCell::Zone);
            networks_changed = true;
        }
        if earlier.is_none_or(|earlier| earlier.services != self.services) {
            changed(NetworkCell::Services);
        }
        if earlier.is_none_or(|earlier| earlier.unread != self.unread) {
            changed(NetworkCell::Unread);
        }
        let earlier = earlier.unwrap_or(&nothing);
        let features = [Feature::RouteAdvertisements, Feature::EgressIp];
        let has = |feature: &Feature| self.zone.settings.has_feature(*feature);
        if changed_keys(&earlier.nodes, &self.nodes).next().is_some() {
            changed(NetworkCell::Nodes);
            if features.iter().any(has) {
                changed(NetworkCell::Hosts);
            }
        }
        let has_older_layout = |nodes: &OrdMap<Arc<str>, Arc<ZoneNode>>, name: &Arc<str>| {
            nodes.get(name).is_some_and(|node| node.has_older_layout())
        };
        let mut changed_nodes = changed_keys(&earlier.nodes, &self.nodes);
        let is_older = |name: &Arc<str>| {
            has_older_layout(&earlier.nodes, name) || has_older_layout(&self.nodes, name)
        };
        if changed_nodes.any(is_older) {
            changed(NetworkCell::OlderLayout);
        }
        for network in changed_keys(&earlier.networks, &self.networks) {
            networks_changed = true;
            changed(NetworkCell::Network(network.clone()));
        }
        for node in changed_keys(&earlier.nodes, &self.nodes) {
            networks_changed |= *node == self.zone.name;
            changed(NetworkCell::Node(node.clone()));
        }
        if networks_changed {
            changed(NetworkCell::Networks);
        }
    }
}

/// The networks whose rows would have the names of those of another network.
fn without_names(networks: &Networks) -> Vec<SkippedNetwork> {
    let problems = networks.problems().values();
    let skipped: BTreeMap<_, _> = problems
        .filter_map(|problem| match problem {
            NadProblem::NameTaken { network, other } => Some((network, other)),
            _ => None,
        })
        .collect();
    let skipped = skipped.into_iter().map(|(network, other)| SkippedNetwork {
        network: network.clone(),
        reason: SkipReason::NameTaken(other.clone()),
    });
    skipped.collect()
}
