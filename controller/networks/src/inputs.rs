//! Inputs of the networks' rows: settings, nodes and networks of a zone.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use ipnet::IpNet;
use patchbay_model::{
    AttachmentDefinition, ClusterSettings, DatapathKey, NadProblem, Network, NetworkObjects,
    Networks, Node, NodeId, NodeObject, Topology, Transport, transit_addresses,
};
use patchbay_rows::Inputs;
use serde::Deserialize;

use super::{NetworkRows, RemoteRows, SkipReason, SkippedNetwork, layer2, layer3};

/// Node annotation: `"false"` if ports of the node cannot tell packets that are too big.
const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";

/// Everything that the rows of the networks in one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZoneNetworks {
    zone: Arc<Zone>,
    nodes: OrdMap<Arc<str>, Arc<ZoneNode>>,
    networks: OrdMap<Arc<str>, Arc<ZoneNetwork>>,
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
    network: Network,
    details: Result<Details, SkipReason>,
}

/// A piece of [`ZoneNetworks`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum NetworkCell {
    /// The zone and the cluster's settings.
    Zone,
    /// A node.
    Node(Arc<str>),
    /// A network.
    Network(Arc<str>),
    /// Everything that decides which networks have rows.
    Networks,
}

impl ZoneNetworks {
    /// Reads objects with ids, keys and subnets, for the zone of the node with this name.
    pub fn read(objects: &NetworkObjects<'_>, zone: &str, settings: &ClusterSettings) -> Self {
        let networks = &objects.networks;
        let mut this = Self {
            zone: Arc::new(Zone {
                name: zone.into(),
                settings: settings.clone(),
            }),
            without_names: without_names(networks).into(),
            ..Self::default()
        };
        for node in &objects.nodes {
            this.put_node(*node);
        }
        for network in networks.iter() {
            let definition = networks.definition(&network.name);
            let definition = definition.and_then(|key| objects.definitions.get(key));
            let network = ZoneNetwork {
                network: network.clone(),
                details: Details::read(definition),
            };
            let name = network.network.name.as_str().into();
            this.networks.insert(name, Arc::new(network));
        }
        this
    }

    /// Adds a node, or replaces the one of its name.
    pub fn put_node(&mut self, object: NodeObject<'_>) {
        let node = ZoneNode::read(object);
        self.nodes.insert(node.name.as_str().into(), Arc::new(node));
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Removes the network of this name.
    pub fn remove_network(&mut self, name: &str) {
        self.networks.remove(name);
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
        self.networks.keys()
    }

    pub(super) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(super) fn has_network(&self, name: &str) -> bool {
        self.networks.contains_key(name)
    }

    /// Networks that have no place in the zone, and why.
    pub fn skipped(&self) -> Vec<SkippedNetwork> {
        let skipped = self.networks().filter_map(|network| {
            Some(SkippedNetwork {
                network: network.to_string(),
                reason: self.network_rows(network)?.err()?,
            })
        });
        skipped.chain(self.without_names.iter().cloned()).collect()
    }

    /// The rows of a network, but for those that lead to other nodes. `None`: there is no such
    /// network.
    pub fn network_rows(&self, network: &str) -> Option<Result<NetworkRows, SkipReason>> {
        let site = self.site(network)?;
        let made = site.and_then(
            |site| match (site.network.transport, site.network.topology) {
                (Transport::Evpn, _) => Err(SkipReason::Evpn),
                (_, Topology::Layer3) => layer3::rows(&site),
                (_, Topology::Layer2) => layer2::rows(&site),
            },
        );
        Some(made)
    }

    /// The rows of a network that lead to another node; `None` if there are none.
    pub fn remote_rows(&self, network: &str, node: &str) -> Option<RemoteRows> {
        let site = self.site(network)?.ok()?;
        let node = self.nodes.get(node)?;
        let is_remote = node.name != site.node.name;
        match site.network.topology {
            Topology::Layer3 if is_remote => layer3::remote_rows(&site, node),
            Topology::Layer2 | Topology::Layer3 => None,
        }
    }

    /// A network at the zone's node. `None`: there is no such network.
    fn site(&self, network: &str) -> Option<Result<Site<'_>, SkipReason>> {
        let ZoneNetwork { network, details } = &**self.networks.get(network)?;
        let node = self.nodes.get(&self.zone.name).ok_or(SkipReason::NoNode);
        Some(node.and_then(|node| {
            let details = details.as_ref().map_err(Clone::clone)?;
            Site::new(network, details, node, &self.zone.settings)
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
        let earlier = earlier.unwrap_or(&nothing);
        for node in changed_names(&earlier.nodes, &self.nodes) {
            networks_changed |= *node == self.zone.name;
            changed(NetworkCell::Node(node.clone()));
        }
        for network in changed_names(&earlier.networks, &self.networks) {
            networks_changed = true;
            changed(NetworkCell::Network(network.clone()));
        }
        if networks_changed {
            changed(NetworkCell::Networks);
        }
    }
}

fn changed_names<'a, V: PartialEq>(
    old: &'a OrdMap<Arc<str>, V>,
    new: &'a OrdMap<Arc<str>, V>,
) -> impl Iterator<Item = &'a Arc<str>> {
    old.diff(new).map(|item| match item {
        DiffItem::Add(name, _)
        | DiffItem::Remove(name, _)
        | DiffItem::Update { new: (name, _), .. } => name,
    })
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

/// A node with its addresses on transit switches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ZoneNode {
    pub(super) name: String,
    id: Option<NodeId>,
    chassis: Option<String>,
    subnets: BTreeMap<String, Vec<IpNet>>,
    /// IPv4 first, with the length of the range.
    pub(super) transit: Vec<IpNet>,
    has_gateway_mtu: bool,
}

impl ZoneNode {
    /// Reads a node. An annotation that cannot be read counts as missing: the cluster manager has
    /// reported it.
    pub(super) fn read(object: NodeObject<'_>) -> Self {
        let (
            Node {
                name,
                id,
                chassis_id,
                subnets,
                ..
            },
            _,
        ) = Node::read(object.name, object.annotations, None);
        Self {
            name,
            id,
            chassis: chassis_id,
            subnets,
            transit: transit_addresses(object.annotations).unwrap_or_default(),
            has_gateway_mtu: object
                .annotations
                .and_then(|annotations| annotations.get(GATEWAY_MTU_SUPPORT))
                .is_none_or(|value| value != "false"),
        }
    }

    /// Id and chassis id.
    pub(super) fn identity(&self) -> Result<(NodeId, &str), SkipReason> {
        let id = self.id.ok_or(SkipReason::NoNodeId)?;
        Ok((id, self.chassis.as_deref().ok_or(SkipReason::NoChassisId)?))
    }

    /// The node's subnets of a network.
    pub(super) fn subnets_of(&self, network: &str) -> &[IpNet] {
        self.subnets.get(network).map_or(&[], Vec::as_slice)
    }

    /// The address on transit switches in the family of a subnet.
    pub(super) fn transit_address(&self, family_of: IpNet) -> Option<IpAddr> {
        let mut addresses = self.transit.iter().map(IpNet::addr);
        addresses.find(|address| address.is_ipv4() == family_of.addr().is_ipv4())
    }
}

/// What attachment definitions say about a network for its rows only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Details {
    mtu: Option<u32>,
    pub(super) default_gateways: Vec<IpAddr>,
    pub(super) infrastructure_subnets: Vec<IpNet>,
    pub(super) tunnel_keys: Vec<DatapathKey>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDetails {
    mtu: Option<u32>,
    #[serde(rename = "defaultGatewayIPs")]
    default_gateway_ips: String,
    infrastructure_subnets: String,
}

impl Details {
    /// Reads the definition of a network.
    ///
    /// # Errors
    /// The definition's configuration or keys cannot be read.
    pub(super) fn read(definition: Option<&AttachmentDefinition<'_>>) -> Result<Self, SkipReason> {
        let Some(definition) = definition else {
            return Ok(Self::default());
        };
        let raw: RawDetails = match definition.config {
            Some(config) => serde_json::from_str(config)
                .map_err(|error| SkipReason::Config(error.to_string()))?,
            None => RawDetails::default(),
        };
        let keys = definition.tunnel_keys.filter(|keys| !keys.is_empty());
        let keys = keys.unwrap_or("[]");
        let keys: Vec<i64> =
            serde_json::from_str(keys).map_err(|error| SkipReason::Keys(error.to_string()))?;
        let keys = keys.into_iter().map(DatapathKey::try_new);
        Ok(Self {
            mtu: raw.mtu,
            default_gateways: entries("defaultGatewayIPs", &raw.default_gateway_ips)?,
            infrastructure_subnets: entries("infrastructureSubnets", &raw.infrastructure_subnets)?,
            tunnel_keys: keys
                .collect::<Result<_, _>>()
                .map_err(|error| SkipReason::Keys(error.to_string()))?,
        })
    }
}

/// The entries of a comma-separated list.
fn entries<T: FromStr>(field: &str, list: &str) -> Result<Vec<T>, SkipReason>
where
    T::Err: Display,
{
    let entries = list.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    let read = entries.map(|entry| {
        let wrong = |error| SkipReason::Config(format!("{field}: {entry:?}: {error}"));
        entry.parse().map_err(wrong)
    });
    read.collect()
}

/// A network in the zone of a node.
pub(super) struct Site<'a> {
    pub(super) network: &'a Network,
    pub(super) details: &'a Details,
    pub(super) node: &'a ZoneNode,
    pub(super) node_id: NodeId,
    pub(super) chassis: &'a str,
    settings: &'a ClusterSettings,
}

impl<'a> Site<'a> {
    fn new(
        network: &'a Network,
        details: &'a Details,
        node: &'a ZoneNode,
        settings: &'a ClusterSettings,
    ) -> Result<Self, SkipReason> {
        let (node_id, chassis) = node.identity()?;
        Ok(Self {
            network,
            details,
            node,
            node_id,
            chassis,
            settings,
        })
    }

    /// MTU of the network.
    pub(super) fn mtu(&self) -> u32 {
        self.details.mtu.unwrap_or(self.settings.mtu)
    }

    /// The option of ports towards pods that makes them tell packets that are too big for the
    /// cluster.
    pub(super) fn gateway_mtu(&self) -> Option<(String, String)> {
        self.node
            .has_gateway_mtu
            .then(|| ("gateway_mtu".to_owned(), self.settings.mtu.to_string()))
    }
}
