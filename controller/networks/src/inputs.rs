//! Inputs of the networks' rows: settings, nodes, networks and services of a zone, and their
//! changes.

mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    ClusterSettings, Feature, NadProblem, Network, NetworkActivity, NetworkObjects, Networks, Node,
    NodeObject, NodeSubnetOwners, Role, ServiceObject, UnreadNetworks,
};
use patchbay_rows::{Inputs, changed_keys};

use super::advertised::{Advertised, AdvertisedNetworks};
use super::default_services::DefaultServices;
use super::definition::Details;
use super::localnet::Localnet;
use super::node::ZoneNode;
use super::site::NodeSwitch;
use super::{SkipReason, SkippedNetwork};

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
    /// Names of the primary networks of namespaces.
    primary: Arc<BTreeMap<String, String>>,
    unread: Arc<UnreadNetworks>,
    /// Networks whose rows would have the names of those of another network.
    without_names: Arc<[SkippedNetwork]>,
    /// Subnets of networks that have gone while the controller runs.
    former_subnets: Arc<BTreeSet<IpNet>>,
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
    switch: NodeSwitch,
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

impl NetworkKind {
    /// Subnets of the pods of an overlay network.
    fn pod_subnets(&self) -> impl Iterator<Item = IpNet> {
        let subnets = match self {
            Self::Overlay { network, .. } => network.pod_subnets.as_slice(),
            Self::Localnet(_) => &[],
        };
        subnets.iter().map(|subnet| subnet.cidr)
    }

    /// `true` if OVN-Kubernetes makes the switch of the zone's node again after this change: its
    /// advertising or, where others depend on them, its subnets.
    fn remakes_switch(&self, former: &Self, has_egress_ips: bool) -> bool {
        let (
            Self::Overlay {
                network,
                advertised,
                ..
            },
            Self::Overlay {
                network: former,
                advertised: was_advertised,
                ..
            },
        ) = (self, former)
        else {
            return false;
        };
        let was_known =
            *advertised != Advertised::AsBefore && *was_advertised != Advertised::AsBefore;
        let matters = has_egress_ips || *advertised == Advertised::Yes;
        was_known && advertised != was_advertised
            || matters && network.pod_subnets != former.pod_subnets
    }
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

    /// Reads objects as [`read`](Self::read) does. Returns the owners of node subnets, too, with
    /// which [`put_node`](Self::put_node) follows nodes.
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
            primary: Arc::new(primary_networks(networks)),
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
        let definitions = objects.definitions.iter();
        let usable = definitions.filter(|(key, _)| !networks.problems().contains_key(*key));
        for localnet in usable.filter_map(|(_, definition)| Localnet::read(definition)) {
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
        let services = DefaultServices::read(services, &self.zone.settings, &self.primary);
        self.services = Arc::new(services);
    }

    fn put_network(&mut self, name: &str, kind: NetworkKind) {
        let name: Arc<str> = name.into();
        let prefix = network_prefix(&name).into();
        let network = ZoneNetwork {
            name,
            kind,
            nodes: None,
            switch: NodeSwitch::default(),
        };
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
        let earlier = self.nodes.get(node.name.as_str()).cloned();
        if let Some(earlier) = &earlier {
            node.chassis.follow(&earlier.chassis);
        }
        let is_own = *node.name == *self.zone.name;
        self.nodes.insert(node.name.as_str().into(), Arc::new(node));
        if is_own {
            self.make_management_ports(earlier.as_deref());
        }
    }

    /// Takes over what a running controller has known of nodes and networks, if the inputs were
    /// read from nothing.
    pub fn follow(&mut self, earlier: &Self) {
        for (name, former) in &earlier.nodes {
            if let Some(node) = self.nodes.get_mut(name) {
                Arc::make_mut(node).chassis.follow(&former.chassis);
            }
        }
        let mut former_subnets = (*earlier.former_subnets).clone();
        let gone = earlier.networks.iter();
        let gone = gone.filter(|(prefix, _)| !self.networks.contains_key(*prefix));
        former_subnets.extend(gone.flat_map(|(_, network)| network.kind.pod_subnets()));
        self.former_subnets = Arc::new(former_subnets);
        let has_egress_ips = self.zone.settings.has_feature(Feature::EgressIp);
        let remade: Vec<Arc<str>> = changed_keys(&earlier.networks, &self.networks)
            .filter(|prefix| {
                let pair = earlier
                    .networks
                    .get(*prefix)
                    .zip(self.networks.get(*prefix));
                pair.is_some_and(|(former, network)| {
                    former.switch == NodeSwitch::New
                        || network.kind.remakes_switch(&former.kind, has_egress_ips)
                })
            })
            .cloned()
            .collect();
        for prefix in remade {
            if let Some(network) = self.networks.get_mut(&prefix) {
                Arc::make_mut(network).switch = NodeSwitch::New;
            }
        }
        let own = earlier.nodes.get(&self.zone.name).cloned();
        self.make_management_ports(own.as_deref());
    }

    /// Notes that management ports are made again in subnets that the zone's node did not have
    /// before.
    fn make_management_ports(&mut self, earlier: Option<&ZoneNode>) {
        let Some(node) = self.nodes.get(&self.zone.name) else {
            return;
        };
        let subnets = |node: &ZoneNode, network: &str| node.subnets_of(network).to_vec();
        let is_stale = |network: &ZoneNetwork| {
            let before = earlier.map(|node| subnets(node, &network.name));
            network.switch == NodeSwitch::New && before != Some(subnets(node, &network.name))
        };
        let networks = self.networks.iter();
        let stale = networks.filter(|(_, network)| is_stale(network));
        let stale: Vec<Arc<str>> = stale.map(|(prefix, _)| prefix.clone()).collect();
        for prefix in stale {
            if let Some(network) = self.networks.get_mut(&prefix) {
                Arc::make_mut(network).switch = NodeSwitch::Complete;
            }
        }
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Removes the network of this name.
    pub fn remove_network(&mut self, name: &str) {
        if let Some(network) = self.networks.remove(network_prefix(name).as_str()) {
            Arc::make_mut(&mut self.former_subnets).extend(network.kind.pod_subnets());
        }
    }
}

impl Inputs for ZoneNetworks {
    type Cell = NetworkCell;
    type Kind = ();

    fn kind(_: &NetworkCell) {}

    fn diff(&self, earlier: Option<&Self>, _: &[()], changed: &mut dyn FnMut(NetworkCell)) {
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
            nodes.get(name).is_some_and(|node| node.layer2.is_older())
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

/// The primary networks of namespaces, by name.
fn primary_networks(networks: &Networks) -> BTreeMap<String, String> {
    let primary = networks.iter().filter(|of| of.role == Role::Primary);
    let of_namespaces = primary.flat_map(|network| {
        let namespaces = network.namespaces.iter();
        namespaces.map(|namespace| (namespace.clone(), network.name.clone()))
    });
    of_namespaces.collect()
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
