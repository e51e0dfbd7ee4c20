//! Networks of a zone, with what only their own rows follow from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    AttachmentDefinition, Feature, NadKey, NadProblem, Network, NetworkActivity, Networks, Role,
    RouteAdvertisement, UnreadNetworks,
};
use patchbay_rows::changed_keys;

use super::definition::{DefinitionError, Localnet, NetworkDetails};
use super::node::ZoneNode;
use super::objects::ZoneObjects;

/// A network of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneNetwork {
    /// Name of the network.
    pub name: Arc<str>,
    /// The network, with the fields of its definition that only its rows depend on.
    pub kind: NetworkKind,
    /// Switch of a layer3 network on the zone's node.
    pub switch: NodeSwitch,
}

/// Kind of a network, and its definition.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkKind {
    /// A network with routers, or with a switch of all nodes.
    Overlay(OverlayNetwork),
    /// A switch that is part of a physical network.
    Localnet(Localnet),
}

/// A layer2 or layer3 network.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlayNetwork {
    /// The network.
    pub network: Arc<Network>,
    /// Further fields of its definition.
    pub details: Result<NetworkDetails, DefinitionError>,
    /// RouteAdvertisements that the annotations of its definitions name. `None`: an annotation
    /// cannot be read.
    advertisements: Vec<Option<Vec<String>>>,
    /// Advertisement of the network on the zone's node.
    pub advertised: Advertised,
}

/// Advertisement of a network on the zone's node. If several objects select it, the last of these
/// counts.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Advertised {
    /// Routers outside of the cluster do not know the way to its pods.
    #[default]
    No,
    /// Routers outside of the cluster know the way to its pods.
    Yes,
    /// As before: one of its RouteAdvertisements is not known or not accepted.
    AsBefore,
}

/// The switch of a layer3 network on the zone's node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NodeSwitch {
    /// Its management port is that of the node's subnets.
    #[default]
    Complete,
    /// It has been made again, but not its management port.
    New,
}

/// Nodes on which a network is rendered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActiveNodes {
    nodes: BTreeSet<Arc<str>>,
    /// `true` if the network stays on the zone's node without users there.
    is_kept: bool,
}

impl NetworkKind {
    /// The network, if it has an overlay.
    pub fn overlay(&self) -> Option<&OverlayNetwork> {
        match self {
            Self::Overlay(network) => Some(network),
            Self::Localnet(_) => None,
        }
    }

    /// Subnets of the pods of an overlay network.
    pub fn pod_subnets(&self) -> impl Iterator<Item = IpNet> {
        let subnets = self.overlay().into_iter();
        subnets.flat_map(|network| &network.network.pod_subnets).map(|subnet| subnet.cidr)
    }

    /// `true` if OVN-Kubernetes makes the switch of the zone's node again after this change: its
    /// advertising or, where others depend on them, its subnets.
    fn remakes_switch(&self, former: &Self, has_egress_ips: bool) -> bool {
        let Some((now, former)) = self.overlay().zip(former.overlay()) else {
            return false;
        };
        let is_known = |of: &OverlayNetwork| of.advertised != Advertised::AsBefore;
        let matters = has_egress_ips || now.advertised == Advertised::Yes;
        is_known(now) && is_known(former) && now.advertised != former.advertised
            || matters && now.network.pod_subnets != former.network.pod_subnets
    }
}

impl ZoneObjects {
    pub(crate) fn replace_networks(
        &mut self,
        networks: &Networks,
        definitions: &BTreeMap<NadKey, AttachmentDefinition<'_>>,
    ) {
        let earlier = std::mem::take(&mut self.networks);
        self.primary.clear();
        let usable = definitions.iter().filter(|(key, _)| !networks.problems().contains_key(*key));
        for localnet in usable.filter_map(|(_, definition)| Localnet::read(definition)) {
            let name = localnet.name.clone();
            self.insert_network(&name, NetworkKind::Localnet(localnet), &earlier);
        }
        let mut advertisements = advertisements_by_network(networks, definitions);
        for network in networks.iter() {
            let definition = networks.definition(&network.name);
            let advertisements = advertisements.remove(&*network.name).unwrap_or_default();
            let overlay = OverlayNetwork {
                details: NetworkDetails::read(definition.and_then(|key| definitions.get(key))),
                network: Arc::new(network.clone()),
                advertised: self.advertised(&advertisements),
                advertisements,
            };
            self.insert_network(&network.name, NetworkKind::Overlay(overlay), &earlier);
            if network.role == Role::Primary {
                let name: Arc<str> = network.name.as_str().into();
                for namespace in &network.namespaces {
                    self.primary.insert(namespace.as_str().into(), name.clone());
                }
            }
        }
        self.unread = Arc::new(UnreadNetworks::new(networks));
        let problems = networks.problems().values();
        let conflicts = problems.filter_map(|problem| match problem {
            NadProblem::NameTaken { network, other } => Some((network.clone(), other.clone())),
            _ => None,
        });
        self.name_conflicts = Arc::new(conflicts.collect());
    }

    fn insert_network(
        &mut self,
        name: &str,
        kind: NetworkKind,
        earlier: &OrdMap<Arc<str>, Arc<ZoneNetwork>>,
    ) {
        let prefix: Arc<str> = network_prefix(name).into();
        let known = earlier.get(&prefix).filter(|known| *known.name == *name && known.kind == kind);
        let network = known.cloned().unwrap_or_else(|| {
            Arc::new(ZoneNetwork { name: name.into(), kind, switch: NodeSwitch::default() })
        });
        self.networks.insert(prefix, network);
    }

    /// Adds RouteAdvertisements, or replaces those of the name.
    pub fn put_advertisement(&mut self, object: RouteAdvertisement) {
        self.advertisements.insert(object.name.as_str().into(), Arc::new(object));
        self.follow_advertisements();
    }

    /// Removes RouteAdvertisements.
    pub fn remove_advertisement(&mut self, name: &str) {
        self.advertisements.remove(name);
        self.follow_advertisements();
    }

    /// Follows what the zone's node announces.
    pub(crate) fn follow_advertisements(&mut self) {
        let networks = self.networks.iter();
        let changed = networks.filter_map(|(prefix, network)| {
            let overlay = network.kind.overlay()?;
            let advertised = self.advertised(&overlay.advertisements);
            (advertised != overlay.advertised).then(|| (prefix.clone(), advertised))
        });
        for (prefix, advertised) in changed.collect::<Vec<_>>() {
            if let Some(network) = self.networks.get_mut(&prefix)
                && let NetworkKind::Overlay(overlay) = &mut Arc::make_mut(network).kind
            {
                overlay.advertised = advertised;
            }
        }
    }

    /// Advertisement of a network whose definitions name these objects. Without the feature there is
    /// none.
    fn advertised(&self, named: &[Option<Vec<String>>]) -> Advertised {
        let Some(node) =
            self.own_node().filter(|_| self.settings().has_feature(Feature::RouteAdvertisements))
        else {
            return Advertised::No;
        };
        let of_object = |name: &String| {
            let object = self.advertisements.get(name.as_str());
            object.map_or(Advertised::AsBefore, |object| advertised_on_node(object, &node.labels))
        };
        let of_definitions = named.iter().map(|names| match names {
            Some(names) => names.iter().map(of_object).max().unwrap_or_default(),
            None => Advertised::AsBefore,
        });
        of_definitions.max().unwrap_or_default()
    }

    /// Limits networks to the nodes on which they are rendered. `None`: they are on all nodes.
    pub fn set_activity(&mut self, activity: Option<&NetworkActivity>) {
        let earlier = std::mem::take(&mut self.activity);
        let limited =
            activity.into_iter().flat_map(NetworkActivity::limited).map(|(name, nodes)| {
                let nodes = ActiveNodes {
                    is_kept: activity.is_some_and(|activity| activity.is_kept(name)),
                    nodes: nodes.clone(),
                };
                let known = earlier.get(name).filter(|known| ***known == nodes);
                let nodes = known.cloned().unwrap_or_else(|| Arc::new(nodes));
                (name.clone(), nodes)
            });
        self.activity = limited.collect();
    }

    /// Nodes on which a network is rendered. `None`: all.
    pub fn active_nodes(&self, network: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.activity.get(network).map(|active| &active.nodes)
    }

    /// Nodes on which a network has users. `None`: it is on all nodes.
    pub fn nodes_with_users(&self, network: &str) -> Option<BTreeSet<Arc<str>>> {
        let active = self.activity.get(network)?;
        let mut nodes = active.nodes.clone();
        if active.is_kept {
            nodes.remove(self.zone());
        }
        Some(nodes)
    }

    /// `true` if a network has users on a node, or is on all nodes. On the zone's node it may be
    /// rendered for a while without users.
    pub fn has_users(&self, network: &str, node: &str) -> bool {
        let active = self.activity.get(network);
        active.is_none_or(|active| {
            active.nodes.contains(node) && !(active.is_kept && *node == **self.zone())
        })
    }

    /// `true` if a network is rendered on a node.
    pub fn is_rendered(&self, network: &str, node: &str) -> bool {
        let nodes = self.active_nodes(network);
        nodes.is_none_or(|nodes| nodes.contains(node))
    }

    /// Networks whose rows the zone has, by the prefix of the rows' names.
    pub fn networks(&self) -> impl Iterator<Item = (&Arc<str>, &ZoneNetwork)> {
        let networks = self.networks.iter();
        networks.map(|(prefix, network)| (prefix, &**network))
    }

    /// A network, by the prefix of its rows' names.
    pub fn network(&self, prefix: &str) -> Option<&ZoneNetwork> {
        self.networks.get(prefix).map(|network| &**network)
    }

    /// A network with an overlay that is primary in some namespaces.
    pub fn primary_network(&self, name: &str) -> Option<&Arc<Network>> {
        let network = &self.network(&network_prefix(name))?.kind.overlay()?.network;
        (network.role == Role::Primary && network.name == name).then_some(network)
    }

    /// Networks whose rows would have the names of those of another network, with that network.
    pub fn name_conflicts(&self) -> &BTreeMap<String, String> {
        &self.name_conflicts
    }

    /// `true` if a network that has gone while the controller runs had this subnet.
    pub fn had_subnet(&self, subnet: IpNet) -> bool {
        self.former_subnets.contains(&subnet)
    }

    /// Takes over what a running controller has known of networks: subnets of those that are gone,
    /// and switches that have been made again.
    pub fn follow_networks(&mut self, earlier: &Self) {
        let changed: Vec<Arc<str>> =
            changed_keys(&earlier.networks, &self.networks).cloned().collect();
        self.former_subnets = earlier.former_subnets.clone();
        let has_egress_ips = self.settings().has_feature(Feature::EgressIp);
        for prefix in &changed {
            let Some(former) = earlier.networks.get(prefix) else {
                continue;
            };
            let Some(network) = self.networks.get_mut(prefix) else {
                Arc::make_mut(&mut self.former_subnets).extend(former.kind.pod_subnets());
                continue;
            };
            if former.switch == NodeSwitch::New
                || network.kind.remakes_switch(&former.kind, has_egress_ips)
            {
                Arc::make_mut(network).switch = NodeSwitch::New;
            }
        }
        let former_node = earlier.nodes.get(self.zone());
        if !changed.is_empty() || !ZoneNode::are_same(former_node, self.own_node()) {
            self.make_management_ports(earlier.own_node());
        }
    }

    /// Notes that management ports are made again in subnets that the zone's node did not have
    /// before.
    fn make_management_ports(&mut self, earlier: Option<&Arc<ZoneNode>>) {
        let Some(node) = self.own_node() else {
            return;
        };
        let subnets = |node: &ZoneNode, network: &str| node.node.subnets_of(network).to_vec();
        let is_stale = |network: &ZoneNetwork| {
            let before = earlier.map(|node| subnets(node, &network.name));
            network.switch == NodeSwitch::New && before != Some(subnets(node, &network.name))
        };
        let networks = self.networks();
        let stale: Vec<Arc<str>> = networks
            .filter(|(_, network)| is_stale(network))
            .map(|(prefix, _)| prefix.clone())
            .collect();
        for prefix in stale {
            if let Some(network) = self.networks.get_mut(&prefix) {
                Arc::make_mut(network).switch = NodeSwitch::Complete;
            }
        }
    }
}

/// RouteAdvertisements that the definitions of primary networks name, by network.
fn advertisements_by_network<'a>(
    networks: &'a Networks,
    definitions: &BTreeMap<NadKey, AttachmentDefinition<'_>>,
) -> BTreeMap<&'a str, Vec<Option<Vec<String>>>> {
    let mut named = BTreeMap::<_, Vec<_>>::new();
    for definition in definitions.values() {
        let network = networks.by_nad(&definition.key);
        let network = network.filter(|network| network.role == Role::Primary);
        if let (Some(network), Some(text)) = (network, definition.advertisements) {
            let names =
                if text.is_empty() { Some(Vec::new()) } else { serde_json::from_str(text).ok() };
            named.entry(network.name.as_str()).or_default().push(names);
        }
    }
    named
}

/// Announcements of an object on a node with these labels.
fn advertised_on_node(
    object: &RouteAdvertisement,
    labels: &BTreeMap<String, String>,
) -> Advertised {
    let selects = || object.nodes.as_ref().map(|nodes| nodes.matches(labels));
    match object.is_accepted {
        Some(true) if object.has_pod_networks => match selects() {
            Some(true) => Advertised::Yes,
            Some(false) => Advertised::No,
            None => Advertised::AsBefore,
        },
        Some(false) if object.has_pod_networks => Advertised::AsBefore,
        _ => Advertised::No,
    }
}
