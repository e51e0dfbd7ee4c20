//! The inputs of the zone half, kept up to date: of what has changed only the difference is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use patchbay_resources::object as core;

use super::activity::activity;
use super::cluster::Sources;
use super::config::ZoneHalf;
use super::egress_ips::{EgressNodes, SeenEgressIp};
use super::node_subnets::NetworkNames;
use super::objects::{SeenConnect, SeenNode};
use super::pace::Happening;
use super::store::{Objects, Reader, WatchEnded};
use patchbay_connects::Inputs;
use patchbay_model::{ClusterIpService, ConnectInput};
use patchbay_model::{ConnectError, NODE_ID, NODE_SUBNETS, Node};
use patchbay_resources::nad::NetworkAttachmentDefinition;

/// The objects that the zone half looks at.
#[derive(Clone, Debug)]
pub(super) struct ZoneSources {
    pub(super) common: Sources,
    pub(super) nodes: Reader<Arc<SeenNode>>,
    pub(super) services: Reader<Option<Arc<ClusterIpService>>>,
    /// What says where networks are rendered, if they are not rendered everywhere.
    pub(super) users: Option<NetworkUsers>,
    /// The names of the networks of which nodes have subnets.
    pub(super) networks: NetworkNames,
}

/// What networks are rendered for.
#[derive(Clone, Debug)]
pub(super) struct NetworkUsers {
    /// The nodes of pods.
    pub(super) pods: Reader<Option<String>>,
    pub(super) egress_ips: Reader<Option<Arc<SeenEgressIp>>>,
}

impl NetworkUsers {
    async fn ready(&mut self) -> Result<(), WatchEnded> {
        self.pods.ready().await?;
        self.egress_ips.ready().await
    }
}

impl Happening for NetworkUsers {
    type Ended = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        tokio::select! {
            changed = self.pods.changed() => changed,
            changed = self.egress_ips.changed() => changed,
        }
    }
}

impl ZoneSources {
    pub(super) async fn ready(&mut self) -> Result<(), WatchEnded> {
        self.common.ready().await?;
        self.nodes.ready().await?;
        self.services.ready().await?;
        match &mut self.users {
            Some(users) => users.ready().await,
            None => Ok(()),
        }
    }
}

impl Happening for ZoneSources {
    type Ended = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        let Self {
            common,
            nodes,
            services,
            users,
            ..
        } = self;
        let users = async {
            match users {
                Some(users) => users.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = common.changed() => changed,
            changed = nodes.changed() => changed,
            changed = services.changed() => changed,
            changed = users => changed,
        }
    }
}

/// The inputs, and the objects that they were made from.
#[derive(Debug)]
pub(super) struct ZoneInputs {
    inputs: Inputs,
    connects: Objects<Arc<SeenConnect>>,
    nads: Objects<Arc<NetworkAttachmentDefinition>>,
    namespaces: Objects<Arc<core::Namespace>>,
    counted_nodes: CountedNodes,
    nodes: Objects<Arc<SeenNode>>,
    services: Objects<Option<Arc<ClusterIpService>>>,
    pods: Objects<Option<String>>,
    egress: EgressNodes,
    /// The networks whose subnets on nodes are kept: those that are connected. Nodes have one of every network.
    connected: BTreeSet<String>,
    /// What keeps attachment definitions from leading to networks: told once.
    problems: BTreeSet<String>,
}

impl ZoneInputs {
    pub(super) fn new(half: &ZoneHalf) -> Self {
        Self {
            inputs: Inputs {
                zone: half.zone.clone(),
                families: half.families.clone(),
                service_cidrs: half.service_cidrs.clone(),
                ..Inputs::default()
            },
            connects: Objects::new(),
            nads: Objects::new(),
            namespaces: Objects::new(),
            counted_nodes: CountedNodes::default(),
            nodes: Objects::new(),
            services: Objects::new(),
            pods: Objects::new(),
            egress: EgressNodes::default(),
            connected: BTreeSet::new(),
            problems: BTreeSet::new(),
        }
    }

    /// Brings the inputs up to date.
    pub(super) fn update(&mut self, sources: &mut ZoneSources) -> &Inputs {
        let before = (
            self.nads.clone(),
            self.namespaces.clone(),
            self.connects.clone(),
        );
        self.update_networks(&mut sources.common);
        self.update_connects(sources.common.connects.objects());
        if let Some(users) = &mut sources.users {
            let pods = users.pods.objects();
            let (nads, namespaces, connects) = before;
            let ips = users.egress_ips.objects();
            let is_known = !self.egress.update(ips, &self.namespaces)
                && pods.ptr_eq(&self.pods)
                && nads.ptr_eq(&self.nads)
                && namespaces.ptr_eq(&self.namespaces)
                && connects.ptr_eq(&self.connects);
            if !is_known {
                let (networks, connects) = (&self.inputs.networks, &self.inputs.connects);
                self.inputs.activity =
                    Arc::new(activity(networks, connects, &pods, self.egress.nodes()));
                self.pods = pods;
            }
        }
        let connected = self.connected_networks();
        // Which of a node's subnets count is a matter of the connects, so then all nodes are read again.
        if !connected.is_subset(&self.connected) {
            self.nodes = Objects::new();
            self.inputs.nodes.clear();
        }
        self.connected = connected;
        let nodes = sources.nodes.objects();
        let nodes = self.counted_nodes.update(nodes, &sources.networks);
        self.update_nodes(nodes, &sources.networks);
        let services = sources.services.objects();
        if !services.ptr_eq(&self.services) {
            let with_ip = services.values().flatten();
            self.inputs.services = with_ip.map(|service| (**service).clone()).collect();
            self.services = services;
        }
        &self.inputs
    }

    /// A connect's object.
    pub(super) fn connect(&self, name: &str) -> Option<&SeenConnect> {
        let key = patchbay_resources::manifests::ObjectKey::cluster(name);
        self.connects.get(&key).map(AsRef::as_ref)
    }

    /// The UID of a node.
    pub(super) fn node_uid(&self, name: &str) -> Option<String> {
        let node = self
            .nodes
            .get(&patchbay_resources::manifests::ObjectKey::cluster(name))?;
        node.uid.clone()
    }

    fn update_networks(&mut self, sources: &mut Sources) {
        let (nads, namespaces) = (sources.nads.objects(), sources.namespaces.objects());
        if nads.ptr_eq(&self.nads) && namespaces.ptr_eq(&self.namespaces) {
            return;
        }
        (self.nads, self.namespaces) = (nads, namespaces);
        self.inputs.networks = Arc::new(patchbay_resources::conversion::networks(
            self.nads.values().map(AsRef::as_ref),
            self.namespaces.values().map(AsRef::as_ref),
        ));
        let problems = self.inputs.networks.problems().iter();
        let problems = problems
            .map(|(nad, problem)| format!("network attachment definition {nad}: {problem}"))
            .collect();
        for problem in BTreeSet::difference(&problems, &self.problems) {
            tracing::warn!("{problem}");
        }
        self.problems = problems;
    }

    fn update_connects(&mut self, connects: Objects<Arc<SeenConnect>>) {
        for change in self.connects.diff(&connects) {
            match change {
                DiffItem::Add(key, seen)
                | DiffItem::Update {
                    new: (key, seen), ..
                } => {
                    let input = read_connect(seen);
                    self.inputs.put_connect(&key.name, input);
                }
                DiffItem::Remove(key, _) => {
                    self.inputs.connects.remove(&key.name);
                }
            }
        }
        self.connects = connects;
    }

    fn connected_networks(&self) -> BTreeSet<String> {
        let connects = self.inputs.connects.values();
        connects
            .filter_map(|input| input.connect.as_ref().ok())
            .flat_map(|connect| connect.subnets.owners())
            .filter_map(|owner| self.inputs.networks.by_id(owner.network_id))
            .map(|network| network.name.clone())
            .collect()
    }

    fn update_nodes(&mut self, nodes: Objects<Arc<SeenNode>>, networks: &NetworkNames) {
        let connected = networks.numbers(&self.connected);
        for change in self.nodes.diff(&nodes) {
            let (key, object) = match change {
                DiffItem::Add(key, object)
                | DiffItem::Update {
                    new: (key, object), ..
                } => (key, Some(object)),
                DiffItem::Remove(key, _) => (key, None),
            };
            let node = object.map(|object| Node {
                subnets: object.subnets.of(&connected),
                ..object.node.clone()
            });
            match node {
                Some(node) => self.inputs.put_node(node),
                None => {
                    self.inputs.nodes.remove(&key.name);
                }
            }
        }
        self.nodes = nodes;
    }
}

/// Nodes as they count: of what cannot be read any more a node has what it had when it could. Nothing was said about it.
#[derive(Debug, Default)]
struct CountedNodes {
    watched: Objects<Arc<SeenNode>>,
    counted: Objects<Arc<SeenNode>>,
}

impl CountedNodes {
    /// Brings them up to date.
    fn update(
        &mut self,
        watched: Objects<Arc<SeenNode>>,
        networks: &NetworkNames,
    ) -> Objects<Arc<SeenNode>> {
        for change in self.watched.diff(&watched) {
            match change {
                DiffItem::Add(key, object)
                | DiffItem::Update {
                    new: (key, object), ..
                } => {
                    for error in &object.errors {
                        tracing::warn!("{}", error.message);
                    }
                    let counts = match self.counted.get(key) {
                        Some(before) if !object.errors.is_empty() => {
                            Arc::new(with_last_good(object, before, networks))
                        }
                        _ => object.clone(),
                    };
                    self.counted.insert(key.clone(), counts);
                }
                DiffItem::Remove(key, _) => {
                    self.counted.remove(key);
                }
            }
        }
        self.watched = watched;
        self.counted.clone()
    }
}

fn with_last_good(object: &SeenNode, before: &SeenNode, networks: &NetworkNames) -> SeenNode {
    let mut counts = object.clone();
    for error in &object.errors {
        match error.annotation {
            NODE_ID => counts.node.id = before.node.id,
            NODE_SUBNETS => {
                counts.subnets = match &error.network {
                    Some(network) => {
                        let network = networks.numbers([network]);
                        counts.subnets.and(&before.subnets, &network)
                    }
                    None => before.subnets.clone(),
                };
            }
            _ => {}
        }
    }
    counts
}

/// What the zone half makes of a connect. One that cannot be understood leaves its rows as they are.
fn read_connect(seen: &SeenConnect) -> ConnectInput {
    let mut input = patchbay_resources::conversion::connect_input(&seen.object);
    if let Some(error) = &seen.unreadable {
        input.connect = Err(ConnectError::Object(error.clone()));
    }
    input
}
