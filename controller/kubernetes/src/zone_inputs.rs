//! The inputs of the zone controller, updated from the differences of watched objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_allocate::connects::{ClusterObjects, refusals};
use patchbay_connects::Inputs;
use patchbay_model::{ClusterIpService, ClusterSettings, ConnectInput};
use patchbay_model::{ConnectError, NODE_ID, NODE_SUBNETS, Node, NodeSubnetOwners};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{self as core, Object as _};

use super::activity::network_activity;
use super::cluster_manager::CommonSources;
use super::config::ZoneControllerConfig;
use super::debounce::ChangeSource;
use super::egress_ips::{EgressNodes, WatchedEgressIp};
use super::input_digest::{InputDigest, NodeDigests};
use super::node_subnets::NetworkNumbers;
use super::projections::{WatchedConnect, WatchedNode};
use super::read_failure_events::KindWatch;
use super::store::{StoreReader, WatchEnded};

/// The objects that the zone controller watches.
#[derive(Clone, Debug)]
pub(super) struct ZoneSources {
    pub(super) common: CommonSources,
    pub(super) nodes: StoreReader<Arc<WatchedNode>>,
    pub(super) services: StoreReader<Option<Arc<ClusterIpService>>>,
    /// Objects that determine where networks are rendered. `None`: every network is rendered on all
    /// nodes.
    pub(super) activity: Option<ActivitySources>,
    /// The numbers of networks in the nodes' packed subnets.
    pub(super) network_numbers: NetworkNumbers,
}

/// Objects for which networks are rendered on nodes.
#[derive(Clone, Debug)]
pub(super) struct ActivitySources {
    /// The node of each pod.
    pub(super) pods: StoreReader<Option<String>>,
    pub(super) egress_ips: StoreReader<Option<Arc<WatchedEgressIp>>>,
}

impl ActivitySources {
    async fn ready(&mut self) -> Result<(), WatchEnded> {
        self.pods.ready().await?;
        self.egress_ips.ready().await
    }
}

impl ChangeSource for ActivitySources {
    type Error = WatchEnded;

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
        match &mut self.activity {
            Some(activity) => activity.ready().await,
            None => Ok(()),
        }
    }

    /// The watches of the objects.
    pub(super) fn watches(&self) -> Vec<KindWatch> {
        let mut watches = self.common.watches();
        watches.extend([
            KindWatch::new(core::Node::KIND, &self.nodes),
            KindWatch::new(core::Service::KIND, &self.services),
        ]);
        if let Some(activity) = &self.activity {
            watches.extend([
                KindWatch::new(core::Pod::KIND, &activity.pods),
                KindWatch::new(core::EgressIP::KIND, &activity.egress_ips),
            ]);
        }
        watches
    }
}

impl ChangeSource for ZoneSources {
    type Error = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        let Self {
            common,
            nodes,
            services,
            activity,
            ..
        } = self;
        let activity = async {
            match activity {
                Some(activity) => activity.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = common.changed() => changed,
            changed = nodes.changed() => changed,
            changed = services.changed() => changed,
            changed = activity => changed,
        }
    }
}

/// The inputs, and the objects from which they were computed.
#[derive(Debug)]
pub(super) struct ZoneInputs {
    inputs: Inputs,
    settings: ClusterSettings,
    /// Reasons why connects must not be connected as they are now, by connect.
    refusals: BTreeMap<String, String>,
    connects: OrdMap<ObjectKey, Arc<WatchedConnect>>,
    nads: OrdMap<ObjectKey, Arc<NetworkAttachmentDefinition>>,
    namespaces: OrdMap<ObjectKey, Arc<core::Namespace>>,
    readable_nodes: ReadableNodes,
    nodes: OrdMap<ObjectKey, Arc<WatchedNode>>,
    services: OrdMap<ObjectKey, Option<Arc<ClusterIpService>>>,
    pods: OrdMap<ObjectKey, Option<String>>,
    egress: EgressNodes,
    /// The connected networks. Only their subnets are unpacked, because nodes have a subnet of
    /// every network.
    connected: BTreeSet<String>,
    /// Owners of the node subnets of the connected networks.
    subnet_owners: NodeSubnetOwners,
    /// Problems of `NetworkAttachmentDefinition`s that have been logged.
    problems: BTreeSet<String>,
    node_digests: NodeDigests,
    /// Digest of the nodes and networks of each ClusterNetworkConnect, by name.
    digests: BTreeMap<String, InputDigest>,
}

impl ZoneInputs {
    pub(super) fn new(config: &ZoneControllerConfig, numbers: NetworkNumbers) -> Self {
        Self {
            inputs: Inputs {
                zone: config.zone.clone(),
                families: config.settings.families.clone(),
                service_cidrs: config.settings.service_cidrs.clone(),
                ..Inputs::default()
            },
            settings: config.settings.clone(),
            refusals: BTreeMap::new(),
            connects: OrdMap::new(),
            nads: OrdMap::new(),
            namespaces: OrdMap::new(),
            readable_nodes: ReadableNodes::default(),
            nodes: OrdMap::new(),
            services: OrdMap::new(),
            pods: OrdMap::new(),
            egress: EgressNodes::default(),
            connected: BTreeSet::new(),
            subnet_owners: NodeSubnetOwners::default(),
            problems: BTreeSet::new(),
            node_digests: NodeDigests::new(numbers),
            digests: BTreeMap::new(),
        }
    }

    /// Updates the inputs.
    pub(super) fn update(&mut self, sources: &mut ZoneSources) -> &Inputs {
        let before = (
            self.nads.clone(),
            self.namespaces.clone(),
            self.connects.clone(),
        );
        let networks_before = self.inputs.networks.clone();
        self.update_networks(&mut sources.common);
        let connects = sources.common.connects.objects();
        let refusals = if connects.ptr_eq(&self.connects)
            && Arc::ptr_eq(&self.inputs.networks, &networks_before)
        {
            self.refusals.clone()
        } else {
            self.refusals_of(&connects)
        };
        self.update_connects(connects, refusals);
        let are_connects_unchanged = self.connects.ptr_eq(&before.2);
        if let Some(activity) = &mut sources.activity {
            let pods = activity.pods.objects();
            let (nads, namespaces, connects) = before;
            let ips = activity.egress_ips.objects();
            let is_unchanged = !self.egress.update(ips, &self.namespaces)
                && pods.ptr_eq(&self.pods)
                && nads.ptr_eq(&self.nads)
                && namespaces.ptr_eq(&self.namespaces)
                && connects.ptr_eq(&self.connects);
            if !is_unchanged {
                let (networks, connects) = (&self.inputs.networks, &self.inputs.connects);
                self.inputs.activity = Arc::new(network_activity(
                    networks,
                    connects,
                    &pods,
                    self.egress.nodes(),
                ));
                self.pods = pods;
            }
        }
        let connected = self.connected_networks();
        // The used subnets of a node depend on the connected networks and their ranges, so all
        // nodes are read again.
        let networks = || {
            let names = connected.iter();
            names.filter_map(|name| self.inputs.networks.by_name(name))
        };
        if !connected.is_subset(&self.connected) || !self.subnet_owners.is_of(networks()) {
            self.subnet_owners = NodeSubnetOwners::new(networks());
            self.nodes = OrdMap::new();
            self.inputs.nodes.clear();
        }
        self.connected = connected;
        let nodes = sources.nodes.objects();
        self.node_digests.set_connected(self.connected.clone());
        let are_digests_unchanged = !self.node_digests.update(&nodes)
            && are_connects_unchanged
            && Arc::ptr_eq(&networks_before, &self.inputs.networks);
        if !are_digests_unchanged {
            self.update_digests();
        }
        let nodes = self.readable_nodes.update(nodes, &sources.network_numbers);
        self.update_nodes(nodes, &sources.network_numbers);
        let services = sources.services.objects();
        if !services.ptr_eq(&self.services) {
            let with_ip = services.values().flatten();
            self.inputs.services = with_ip.map(|service| (**service).clone()).collect();
            self.services = services;
        }
        &self.inputs
    }

    /// A ClusterNetworkConnect by name, with the digest of its nodes and networks.
    pub(super) fn connect(&self, name: &str) -> Option<(&WatchedConnect, &InputDigest)> {
        let connect = self.connects.get(&ObjectKey::cluster(name))?;
        Some((connect, self.digests.get(name)?))
    }

    /// `true` if a node has an id, without which nothing is connected in its zone.
    pub(super) fn has_id(&self, node: &str) -> bool {
        let node = self.inputs.nodes.get(node);
        node.is_some_and(|node| node.id.is_some())
    }

    /// The UID of a node.
    pub(super) fn node_uid(&self, name: &str) -> Option<String> {
        let node = self.nodes.get(&ObjectKey::cluster(name))?;
        node.uid.clone()
    }

    fn update_digests(&mut self) {
        let digests = self.connects.iter().map(|(key, connect)| {
            let networks = &self.inputs.networks;
            let digest = self.node_digests.digest_of(&connect.owners, networks);
            (key.name.clone(), digest)
        });
        self.digests = digests.collect();
    }

    fn update_networks(&mut self, sources: &mut CommonSources) {
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

    /// Reasons why connects must not be connected with the networks as they are now.
    fn refusals_of(
        &self,
        connects: &OrdMap<ObjectKey, Arc<WatchedConnect>>,
    ) -> BTreeMap<String, String> {
        let objects = ClusterObjects::new(
            &self.inputs.networks,
            self.nads.values().map(AsRef::as_ref),
            self.namespaces.values().map(AsRef::as_ref),
            connects.values().map(|seen| &seen.object),
        );
        refusals(&self.settings, &objects)
    }

    fn update_connects(
        &mut self,
        connects: OrdMap<ObjectKey, Arc<WatchedConnect>>,
        refusals: BTreeMap<String, String>,
    ) {
        let mut changed = BTreeSet::new();
        for change in self.connects.diff(&connects) {
            let (DiffItem::Add(key, _)
            | DiffItem::Remove(key, _)
            | DiffItem::Update { new: (key, _), .. }) = change;
            changed.insert(key.name.clone());
        }
        let names = self.refusals.keys().chain(refusals.keys());
        let other = names.filter(|name| self.refusals.get(*name) != refusals.get(*name));
        changed.extend(other.cloned());
        for name in changed {
            if let Some(seen) = connects.get(&ObjectKey::cluster(&*name)) {
                let refusal = refusals.get(&name).cloned();
                self.inputs.put_connect(name, read_connect(seen, refusal));
            } else {
                self.inputs.connects.remove(&name);
            }
        }
        self.refusals = refusals;
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

    fn update_nodes(
        &mut self,
        nodes: OrdMap<ObjectKey, Arc<WatchedNode>>,
        networks: &NetworkNumbers,
    ) {
        let connected = networks.numbers_of(&self.connected);
        let read = |object: &WatchedNode| Node {
            subnets: object.subnets.unpack(&connected),
            ..object.node.clone()
        };
        let mut names = BTreeSet::<Arc<str>>::new();
        for change in self.nodes.diff(&nodes) {
            let (key, old, new) = match change {
                DiffItem::Add(key, new) => (key, None, Some(new)),
                DiffItem::Update {
                    old: (_, old),
                    new: (key, new),
                } => (key, Some(old), Some(new)),
                DiffItem::Remove(key, old) => (key, Some(old), None),
            };
            if let Some(old) = old {
                self.subnet_owners.remove(&read(old));
            }
            if let Some(new) = new {
                self.subnet_owners.add(&read(new));
            }
            names.insert(key.name.as_str().into());
        }
        names.append(&mut self.subnet_owners.take_affected());
        for name in names {
            let Some(object) = nodes.get(&ObjectKey::cluster(&*name)) else {
                self.inputs.nodes.remove(&*name);
                continue;
            };
            let mut node = read(object);
            let refused = self.subnet_owners.refuse(&mut node);
            let before = self.inputs.nodes.get(&*name);
            if before.is_none_or(|before| before.refused != node.refused) {
                for error in refused {
                    tracing::warn!("{error}");
                }
            }
            self.inputs.put_node(node);
        }
        self.nodes = nodes;
    }
}

/// Nodes with the last readable value of each annotation.
///
/// An annotation that cannot be decoded counts as unchanged, because it contains no decision.
#[derive(Debug, Default)]
struct ReadableNodes {
    watched: OrdMap<ObjectKey, Arc<WatchedNode>>,
    readable: OrdMap<ObjectKey, Arc<WatchedNode>>,
}

impl ReadableNodes {
    /// Updates the nodes, and returns them.
    fn update(
        &mut self,
        watched: OrdMap<ObjectKey, Arc<WatchedNode>>,
        networks: &NetworkNumbers,
    ) -> OrdMap<ObjectKey, Arc<WatchedNode>> {
        for change in self.watched.diff(&watched) {
            match change {
                DiffItem::Add(key, object)
                | DiffItem::Update {
                    new: (key, object), ..
                } => {
                    for error in &object.errors {
                        tracing::warn!("{}", error.message);
                    }
                    let readable = match self.readable.get(key) {
                        Some(before) if !object.errors.is_empty() => {
                            Arc::new(with_last_readable(object, before, networks))
                        }
                        _ => object.clone(),
                    };
                    self.readable.insert(key.clone(), readable);
                }
                DiffItem::Remove(key, _) => {
                    self.readable.remove(key);
                }
            }
        }
        self.watched = watched;
        self.readable.clone()
    }
}

fn with_last_readable(
    object: &WatchedNode,
    before: &WatchedNode,
    networks: &NetworkNumbers,
) -> WatchedNode {
    let mut counts = object.clone();
    for error in &object.errors {
        match error.annotation {
            NODE_ID => counts.node.id = before.node.id,
            NODE_SUBNETS => {
                counts.subnets = match &error.network {
                    Some(network) => {
                        let network = networks.numbers_of([network]);
                        counts.subnets.merged_with(&before.subnets, &network)
                    }
                    None => before.subnets.clone(),
                };
            }
            _ => {}
        }
    }
    counts
}

/// Reads a ClusterNetworkConnect for the zone controller. An undecodable spec is an error, which
/// retains its rows.
fn read_connect(seen: &WatchedConnect, refusal: Option<String>) -> ConnectInput {
    let mut input = patchbay_resources::conversion::connect_input(&seen.object);
    input.refusal = refusal;
    if let Some(error) = &seen.spec_error {
        input.connect = Err(ConnectError::Object(error.clone()));
    }
    input
}
