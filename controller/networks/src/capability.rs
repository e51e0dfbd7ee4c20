//! Networks on the row engine: which parts there are, and the rows of each.

mod network;
mod remote;
mod zone;

use std::collections::HashSet;
use std::sync::Arc;

use patchbay_model::{ClusterSettings, Feature, ObjectProblem, object_kind};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader};
use patchbay_zone::{Advertised, Cell, Kind, ZoneCapability, ZoneNode, ZoneObjects, network_kinds};

use super::default_services::{DefaultServices, default_services};
use super::node::way_to;
use super::remotes::{Remotes, WayToNode};
use super::tables::{DEFAULT_ROUTER, Tables};
use super::views::{advertised, has_waiting_rows, pass_acl_id};

use remote::made_names;

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// Control plane protection and its meters.
    Shared,
    /// Address sets of services of the default network.
    Services,
    /// Isolation of pods from the default network.
    Isolation,
    /// Addresses of the hosts of nodes.
    Hosts,
    /// The rows of the network with this prefix, but for those that lead to other nodes.
    Network(Arc<str>),
    /// The rows of a network that lead to another node.
    Remote { prefix: Arc<str>, node: Arc<str> },
    /// Isolation of advertised networks from each other.
    Advertised,
    /// Rows of any program that lead to a node. They go when the node is gone.
    Departed(Arc<str>),
}

/// Key of a value that many parts read.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum SharedKey {
    /// Names of the routers and switches that the networks have in the zone.
    MadeNames,
    /// Rows of a network that lead to other nodes.
    Links(Arc<str>),
    /// Another node, as the rows that lead to it depend on it.
    Node(Arc<str>),
    /// Services of the default network that networks reach.
    Services,
}

/// Value that many parts read.
#[derive(Debug, PartialEq)]
pub enum Shared {
    MadeNames(HashSet<String>),
    Links(Links),
    Node(Option<RemoteNode>),
    Services(DefaultServices),
}

/// A node with the common part of the rows that lead to it.
#[derive(Debug)]
pub struct RemoteNode {
    node: Arc<ZoneNode>,
    way: WayToNode,
}

impl PartialEq for RemoteNode {
    fn eq(&self, other: &Self) -> bool {
        self.node.is_same_but_labels(&other.node)
    }
}

/// Rows of a network that lead to other nodes.
#[derive(Debug, PartialEq)]
pub struct Links {
    /// `true` if rows stay that are not wanted.
    keeps_rest: bool,
    rows: LinkRows,
}

/// Parts of the network from which the rows that lead to a node follow.
#[derive(Debug, PartialEq)]
enum LinkRows {
    /// There are none.
    None,
    /// They are computed for each node.
    OfEachNode,
    /// They have this in common.
    Common(Remotes),
}

/// The networks of a zone, as a capability of the row engine.
#[derive(Debug)]
pub struct Topologies {
    tables: Tables,
}

type Rows = PartRows<()>;

impl ZoneCapability for Topologies {
    const NAME: &'static str = "networks";

    fn needs(settings: &ClusterSettings) -> Vec<&'static str> {
        network_kinds(settings)
    }

    /// Address sets come first, then the networks that refer to them, and then what refers to the
    /// networks' ports.
    fn waits_for(objects: &ZoneObjects) -> &'static [&'static str] {
        if has_waiting_rows(objects) { &[Self::NAME] } else { &[] }
    }

    /// Networks without rows are not objects: see [`SkippedNetworks`](super::SkippedNetworks).
    fn problems(_: &Engine<Self>, _: &ZoneObjects) -> Vec<ObjectProblem> {
        Vec::new()
    }
}

impl Capability for Topologies {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = ();
    type SharedKey = SharedKey;
    type Shared = Shared;

    const KINDS: &'static [Kind] =
        &[Kind::Zone, Kind::Nodes, Kind::Networks, Kind::Services, Kind::Activity];

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: networks".to_owned()
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        let remote = |prefix: &Arc<str>, node: &Arc<str>| Part::Remote {
            prefix: prefix.clone(),
            node: node.clone(),
        };
        match cell {
            Cell::Zone => {
                part(Part::Shared);
                part(Part::Services);
                part(Part::Isolation);
                part(Part::Hosts);
                part(Part::Advertised);
            }
            Cell::Network(prefix) => {
                part(Part::Network(prefix.clone()));
                for (node, _) in inputs.nodes() {
                    part(remote(prefix, node));
                }
            }
            Cell::Node(node) => {
                for (prefix, _) in inputs.networks() {
                    part(remote(prefix, node));
                }
            }
            _ => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        match part {
            Part::Shared | Part::Services | Part::Isolation | Part::Hosts | Part::Advertised => {
                true
            }
            Part::Network(prefix) => inputs.network(prefix).is_some(),
            Part::Remote { prefix, node } => {
                inputs.network(prefix).is_some() && inputs.node(node).is_some()
            }
            // It is about rows that are there, and nothing else.
            Part::Departed(_) => false,
        }
    }

    fn shared(&self, key: &SharedKey, reader: &Reader<'_, Self>) -> Shared {
        match key {
            SharedKey::MadeNames => Shared::MadeNames(made_names(reader)),
            SharedKey::Links(prefix) => Shared::Links(self.links(prefix, reader)),
            SharedKey::Node(name) => {
                let node = read_node(reader, name).node(name);
                Shared::Node(node.map(|node| RemoteNode { way: way_to(node), node: node.clone() }))
            }
            SharedKey::Services => Shared::Services(read_services(reader)),
        }
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        match part {
            Part::Shared => self.shared(rows),
            Part::Services => self.services(reader, rows),
            Part::Isolation => self.isolation(reader, rows),
            Part::Hosts => self.hosts(reader, rows),
            Part::Advertised => self.advertised(reader, rows),
            Part::Network(prefix) => self.network(prefix, reader, rows),
            Part::Remote { prefix, node } => self.remote(prefix, node, reader, rows),
            // It is about rows that are there, and wants none.
            Part::Departed(_) => {}
        }
    }

    fn keeps(&self, part: &Part, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool {
        match part {
            Part::Remote { prefix, node } => self.keeps_remote((prefix, node), row, reader),
            Part::Departed(node) => self.keeps_departed(node, row, reader),
            Part::Network(_) => self.keeps_referred_set(row, reader),
            Part::Shared | Part::Services | Part::Isolation | Part::Hosts | Part::Advertised => {
                false
            }
        }
    }

    fn objects(&self, part: &Part, _: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        let network = |prefix: &str| {
            let name = prefix.strip_suffix('_').unwrap_or(prefix);
            ObjectName::new(object_kind::NETWORK, name)
        };
        let node = |node: &Arc<str>| ObjectName::new(object_kind::NODE, node);
        match part {
            Part::Network(prefix) => vec![network(prefix)],
            Part::Remote { prefix, node: of } => vec![network(prefix), node(of)],
            Part::Departed(of) => vec![node(of)],
            Part::Advertised => {
                vec![ObjectName::new(object_kind::FEATURE, Feature::RouteAdvertisements)]
            }
            Part::Shared | Part::Services | Part::Isolation | Part::Hosts => Vec::new(),
        }
    }
}

/// The inputs, of which the part reads a network and the zone's node.
fn read_network<'a>(reader: &Reader<'a, Topologies>, prefix: &Arc<str>) -> &'a ZoneObjects {
    let inputs = reader.read(&Cell::Zone);
    read_node(reader, inputs.zone());
    reader.read(&Cell::Network(prefix.clone()))
}

/// The inputs, of which the part reads a network, the zone's node, and the nodes on which the
/// network is rendered.
fn read_rendered<'a>(reader: &Reader<'a, Topologies>, prefix: &Arc<str>) -> &'a ZoneObjects {
    let inputs = read_network(reader, prefix);
    if let Some(network) = inputs.network(prefix) {
        reader.read(&Cell::Activity(network.name.clone()));
    }
    inputs
}

/// The inputs, of which the part reads a node with its subnets.
fn read_node<'a>(reader: &Reader<'a, Topologies>, name: &Arc<str>) -> &'a ZoneObjects {
    reader.read(&Cell::Node(name.clone()));
    reader.read(&Cell::NodeSubnets(name.clone()))
}

/// Services of the default network that networks reach.
fn read_services(reader: &Reader<'_, Topologies>) -> DefaultServices {
    let inputs = reader.read(&Cell::Zone);
    for key in default_services(inputs.settings()) {
        reader.read(&Cell::PrimaryNetwork(key.namespace.clone()));
        reader.read(&Cell::Service(key));
    }
    DefaultServices::of(inputs)
}

impl Topologies {
    /// `true` if OVN-Kubernetes writes the rows of networks into the database, too.
    fn is_shared_database(&self, reader: &Reader<'_, Self>) -> bool {
        reader.row(self.tables.routers, DEFAULT_ROUTER).is_some()
    }

    /// `true` if a network is advertised on the node, or was and may be still.
    fn is_advertised(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>) -> bool {
        let inputs = read_network(reader, prefix);
        match advertised(inputs, prefix) {
            Advertised::No => false,
            Advertised::Yes => true,
            Advertised::AsBefore => pass_acl_id(inputs, prefix)
                .is_some_and(|id| reader.row(self.tables.acls, &id).is_some()),
        }
    }
}
