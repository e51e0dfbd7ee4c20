//! A running lab: nodes, pods and the wires between them.

mod apply;
mod central;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::try_join_all;
use patchbay_engine::db::Snapshot;
use patchbay_model::Databases;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_reconcile::zone::{ZoneError, ZoneOutcome, ZoneReconciler};
use patchbay_schemas::uuids::UuidSource;
use thiserror::Error;

use super::databases::{DatabaseError, DatabaseServer, NodeDatabase};
use super::folder::{FolderError, LabFolder};
use super::node::{Node, NodeError};
use super::pods::{Pod, PodName};
use super::process::{ProgramError, Spawner, environment};
use super::provider_networks::PlannedNetwork;
use super::release::Release;
use super::switch_rows::Device;
use super::wire::asker::Asker;
use super::wire::cable::Cable;
use super::wire::endpoint::Endpoint;
use super::wire::open_questions::OpenQuestions;
use super::wire::physical::PhysicalWire;

/// Error: a lab cannot be started, or cannot follow its manifests.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The folder of the lab.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The thread that starts programs.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The manifests contain no node.
    #[error("the manifests contain no Node, so there is nothing to run")]
    NoNode,
    /// A node has no chassis id.
    #[error("node {0} has no chassis id")]
    NoChassis(String),
    /// A node cannot be started or does not follow.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A database of a node.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Rows of Patchbay.
    #[error("zone {zone}: {source}")]
    Zone {
        /// Name of the zone.
        zone: String,
        /// The error.
        source: ZoneError,
    },
    /// The name of a node is that of the databases of all nodes.
    #[error("Node {0}: the lab has another use for this name with --topology central")]
    NodeName(String),
    /// There is no node of this name.
    #[error("node {name} not found; the nodes are {}", .known.join(", "))]
    NoSuchNode {
        /// The name.
        name: String,
        /// Names of all nodes.
        known: Vec<String>,
    },
    /// There is no wire of this provider network.
    #[error("no provider network {name}; the lab has {}", .known.join(", "))]
    NoSuchWire {
        /// The name.
        name: String,
        /// Names of all provider networks.
        known: Vec<String>,
    },
    /// A node is not on the wire of a provider network.
    #[error("node {node} has no interface of provider network {network}")]
    NotOnWire {
        /// Name of the node.
        node: String,
        /// Name of the provider network.
        network: String,
    },
    /// A packet capture cannot be written.
    #[error("{}: {source}", .path.display())]
    Capture {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A lab runs no program of this name.
    #[error("no program {name}; {node} runs {list}", list = .known.join(", "))]
    NoSuchProgram {
        /// The name.
        name: String,
        /// Name of the node.
        node: String,
        /// Programs of the node.
        known: &'static [&'static str],
    },
}

/// Nodes of real OVN with pods and wires. Dropping it ends all of its programs and removes its
/// folder.
#[derive(Debug)]
pub struct Lab {
    pub(crate) release: Release,
    server: DatabaseServer,
    pub(crate) nodes: BTreeMap<String, LabNode>,
    /// Databases of all nodes. `None`: each node has its own.
    pub(crate) central: Option<Central>,
    /// Wires of provider networks by name.
    pub(crate) wires: BTreeMap<String, LabWire>,
    pub(crate) pods: Vec<LabPod>,
    /// Warnings of the last apply, one line each.
    warnings: Vec<String>,
    pub(crate) cable: Cable,
    questions: Arc<OpenQuestions>,
    /// Number of the next device, and of its endpoint.
    next_device: AtomicUsize,
    /// Number of the next node.
    next_node: usize,
    /// `false`: other programs write the rows of zones.
    writes_rows: bool,
    /// Source of the placeholders of new rows.
    uuids: UuidSource,
    pub(crate) spawner: Spawner,
    /// Dropped last, because programs write into it until they end.
    folder: LabFolder,
}

/// Node, with its zone unless all nodes have one database.
#[derive(Debug)]
pub(crate) struct LabNode {
    pub(crate) node: Node,
    own: Option<OwnZone>,
}

/// Zone of a node, with the host behind the node's gateway.
#[derive(Debug)]
pub(crate) struct OwnZone {
    zone: Zone,
    outside: Endpoint,
}

/// Databases of all nodes.
#[derive(Debug)]
pub(crate) struct Central {
    pub(crate) node: Node,
    zone: Zone,
}

/// Reconciler of a Northbound database.
#[derive(Debug)]
pub(crate) struct Zone {
    reconciler: ZoneReconciler<NodeDatabase>,
    /// Outcome of the last apply.
    outcome: ZoneOutcome,
}

/// Wire of a provider network.
#[derive(Debug)]
pub(crate) struct LabWire {
    pub(crate) wire: PhysicalWire,
    pub(crate) network: PlannedNetwork,
    /// Nodes with a device on the wire.
    connected: BTreeSet<String>,
    /// Ports of the gateways, by subnet.
    pub(crate) gateways: BTreeMap<String, usize>,
    /// Ports of other hosts, by subnet and address.
    pub(crate) hosts: Mutex<BTreeMap<(String, IpAddr), usize>>,
}

/// Pod with its device and its end of the wire.
#[derive(Debug)]
pub(crate) struct LabPod {
    pub(crate) pod: Pod,
    device: Device,
    pub(crate) endpoint: Endpoint,
}

impl Central {
    /// The Northbound database.
    pub(crate) fn northbound(&self) -> &NodeDatabase {
        self.zone.northbound()
    }
}

impl Lab {
    /// Starts a node for each node of the cluster, with the rows of its networks, pods, policies,
    /// services and connects. Returns when packets flow. [`with_default_pods`] adds pods to a
    /// cluster without any.
    ///
    /// [`with_default_pods`]: super::with_default_pods
    ///
    /// # Errors
    /// The cluster has no node, a program does not start, or rows do not fit its databases.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start(release: Release, cluster: &Cluster) -> Result<Self, LabError> {
        Self::start_with(DatabaseServer::default(), release, cluster).await
    }

    /// [`start`](Self::start) with a server of the databases.
    ///
    /// # Errors
    /// As for [`start`](Self::start), or ovsdb-server does not run.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start_with(
        server: DatabaseServer,
        release: Release,
        cluster: &Cluster,
    ) -> Result<Self, LabError> {
        Self::start_as(server, release, cluster, true).await
    }

    /// [`start_with`](Self::start_with), without rows of the cluster: other programs write them, such
    /// as zone controllers. [`apply`](Self::apply) makes nodes and pods those of a cluster.
    ///
    /// # Errors
    /// As for [`start_with`](Self::start_with).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start_without_rows(
        server: DatabaseServer,
        release: Release,
        cluster: &Cluster,
    ) -> Result<Self, LabError> {
        Self::start_as(server, release, cluster, false).await
    }

    async fn start_as(
        server: DatabaseServer,
        release: Release,
        cluster: &Cluster,
        writes_rows: bool,
    ) -> Result<Self, LabError> {
        let questions = Arc::<OpenQuestions>::default();
        let mut lab = Self {
            folder: LabFolder::create()?,
            spawner: Spawner::start().map_err(LabError::Thread)?,
            release,
            server,
            nodes: BTreeMap::new(),
            central: None,
            wires: BTreeMap::new(),
            pods: Vec::new(),
            warnings: Vec::new(),
            cable: Cable::new(questions.clone()),
            questions,
            next_device: AtomicUsize::new(1),
            next_node: 1,
            writes_rows,
            uuids: UuidSource::seeded(0),
        };
        lab.apply(cluster).await?;
        Ok(lab)
    }

    /// Waits until all switches forward packets as the databases require. A node without ovn-northd
    /// or ovn-controller is not waited for. Pods forget the Ethernet addresses of their neighbours,
    /// so that rows which stop ARP count at once.
    ///
    /// # Errors
    /// A program has ended, or does not follow within a minute.
    pub async fn sync(&mut self) -> Result<(), LabError> {
        let nodes = self.nodes.values_mut();
        let release = &self.release;
        match &mut self.central {
            None => {
                try_join_all(nodes.map(|one| one.node.sync(release))).await?;
            }
            Some(_) => self.sync_central().await?,
        }
        for wire in self.wires.values() {
            wire.wire.forget_neighbours();
        }
        for pod in &self.pods {
            pod.endpoint.forget_neighbours();
        }
        Ok(())
    }

    /// Fails if a program has ended by itself.
    ///
    /// # Errors
    /// The program, its exit status and the end of its log.
    pub fn check_programs(&mut self) -> Result<(), ProgramError> {
        let central = self.central.iter_mut().map(|central| &mut central.node);
        let mut nodes = self.nodes.values_mut().map(|one| &mut one.node).chain(central);
        nodes.try_for_each(Node::check)
    }

    /// The release of OVN.
    pub fn release(&self) -> &Release {
        &self.release
    }

    /// Folder with a subfolder for each node.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Warnings of the last apply, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The pods, in the order in which they were asked for.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(|pod| &pod.pod)
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// Running programs of a node with their process ids.
    ///
    /// # Errors
    /// There is no such node.
    pub fn programs(&self, node: &str) -> Result<Vec<(&'static str, u32)>, LabError> {
        Ok(self.node(node)?.running().collect())
    }

    /// Programs that were killed and not started again, each after the name of its node. The node
    /// does not follow changed rows without ovn-northd and ovn-controller, and forwards no packet
    /// without ovs-vswitchd.
    pub fn stopped_programs(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let central = self.central.iter().map(|central| (Databases::CENTRAL, &central.node));
        let nodes = self.nodes.iter().map(|(name, one)| (name.as_str(), &one.node));
        nodes
            .chain(central)
            .flat_map(|(name, node)| node.stopped().map(move |program| (name, program)))
    }

    /// Snapshot of a node's Northbound database, which may be that of all nodes.
    ///
    /// # Errors
    /// There is no such node.
    pub fn northbound(&self, node: &str) -> Result<Snapshot, LabError> {
        Ok(self.zone(node)?.reconciler.northbound().snapshot())
    }

    /// Outcome of the last apply on a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn outcome(&self, node: &str) -> Result<&ZoneOutcome, LabError> {
        Ok(&self.zone(node)?.outcome)
    }

    /// Environment variables with which the programs of OVN and Open vSwitch reach a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn environment(&self, node: &str) -> Result<Vec<(&'static str, String)>, LabError> {
        let own = self.node(node)?;
        let folders = environment(&own.folder)
            .into_iter()
            .map(|(name, path)| (name, path.display().to_string()));
        let databases = self.central.as_ref().map_or(own, |central| &central.node);
        let remotes = ["OVN_NB_DB", "OVN_SB_DB"].map(|name| (name, databases.remote()));
        Ok(folders.chain(remotes).collect())
    }

    /// Name of the place of a node's rows: the node, or that of all nodes.
    pub(crate) fn zone_name<'a>(&self, node: &'a str) -> &'a str {
        if self.central.is_some() { Databases::CENTRAL } else { node }
    }

    pub(crate) fn node_mut(&mut self, name: &str) -> Result<&mut Node, LabError> {
        let error = self.no_such_node(name);
        let central = self.central.as_mut().filter(|_| name == Databases::CENTRAL);
        let node = self.nodes.get_mut(name).map(|one| &mut one.node);
        node.or(central.map(|central| &mut central.node)).ok_or(error)
    }

    pub(crate) fn node(&self, name: &str) -> Result<&Node, LabError> {
        let central = self.central.as_ref().filter(|_| name == Databases::CENTRAL);
        let node = self.nodes.get(name).map(|one| &one.node);
        let found = node.or(central.map(|central| &central.node));
        found.ok_or_else(|| self.no_such_node(name))
    }

    pub(crate) fn zone(&self, node: &str) -> Result<&Zone, LabError> {
        let error = || self.no_such_node(node);
        match &self.central {
            Some(central) if node == Databases::CENTRAL || self.nodes.contains_key(node) => {
                Ok(&central.zone)
            }
            Some(_) => Err(error()),
            None => {
                let own = self.nodes.get(node).and_then(|one| one.own.as_ref());
                own.map(|own| &own.zone).ok_or_else(error)
            }
        }
    }

    fn no_such_node(&self, name: &str) -> LabError {
        let central = self.central.as_ref().map(|_| Databases::CENTRAL.to_owned());
        let known = self.nodes.keys().cloned().chain(central);
        LabError::NoSuchNode { name: name.to_owned(), known: known.collect() }
    }

    /// Number of the next device or endpoint.
    pub(crate) fn take_number(&self) -> usize {
        self.next_device.fetch_add(1, Ordering::Relaxed)
    }

    /// Chassis name of a node. `None`: there is no such node.
    pub(crate) fn chassis(&self, node: &str) -> Option<&str> {
        Some(&self.nodes.get(node)?.node.id.chassis)
    }

    /// The pod of this name, with a handle that asks questions.
    pub(crate) fn asker(&self, pod: &PodName) -> Option<(&Pod, Asker)> {
        let found = self.pods.iter().find(|known| known.pod.name == *pod)?;
        Some((&found.pod, found.endpoint.asker()))
    }

    /// The pod with the endpoint of this number.
    pub(crate) fn pod_of_endpoint(&self, number: usize) -> Option<&Pod> {
        let mut pods = self.pods.iter();
        let found = pods.find(|pod| pod.endpoint.config().number == number)?;
        Some(&found.pod)
    }

    /// `true` if the endpoint of this number is a host outside of the cluster.
    pub(crate) fn is_outside(&self, number: usize) -> bool {
        let mut zones = self.nodes.values().filter_map(|one| one.own.as_ref());
        let is_behind_node = zones.any(|own| own.outside.config().number == number);
        is_behind_node || self.wires.values().any(|wire| wire.wire.has_host(number))
    }

    /// Name of the node with this number.
    pub(crate) fn node_name(&self, number: usize) -> Option<&str> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, one)| one.node.id.number == number)?;
        Some(found.0)
    }

    /// Pods that have this address.
    pub fn pods_with_address(&self, address: IpAddr) -> impl Iterator<Item = &Pod> {
        self.pods().filter(move |pod| pod.ips().any(|ip| ip == address))
    }
}
