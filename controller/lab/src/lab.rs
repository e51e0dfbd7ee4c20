//! A running lab: nodes, pods and the wires between them.

mod apply;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::try_join_all;
use patchbay_engine::db::Snapshot;
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
use super::release::{PROGRAMS, Release};
use super::switch_rows::Device;
use super::wire::asker::Asker;
use super::wire::cable::Cable;
use super::wire::endpoint::Endpoint;
use super::wire::open_questions::OpenQuestions;

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
    /// There is no node of this name.
    #[error("node {name} not found; the nodes are {}", .known.join(", "))]
    NoSuchNode {
        /// The name.
        name: String,
        /// Names of all nodes.
        known: Vec<String>,
    },
    /// A lab runs no program of this name.
    #[error("no program {0}; a node runs {list}", list = PROGRAMS.join(", "))]
    NoSuchProgram(String),
}

/// Nodes of real OVN with pods and wires. Dropping it ends all of its programs and removes its
/// folder.
#[derive(Debug)]
pub struct Lab {
    pub(crate) release: Release,
    server: DatabaseServer,
    pub(crate) zones: BTreeMap<String, Zone>,
    pub(crate) pods: Vec<LabPod>,
    /// Warnings of the last apply, one line each.
    warnings: Vec<String>,
    pub(crate) cable: Cable,
    questions: Arc<OpenQuestions>,
    /// Number of the next device, and of its endpoint.
    next_device: usize,
    /// Number of the next node.
    next_node: usize,
    /// Source of the placeholders of new rows.
    uuids: UuidSource,
    pub(crate) spawner: Spawner,
    /// Dropped last, because programs write into it until they end.
    folder: LabFolder,
}

/// Node with the reconciler of its zone.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) node: Node,
    reconciler: ZoneReconciler<NodeDatabase>,
    /// Outcome of the last apply.
    outcome: ZoneOutcome,
    /// The host behind the gateway.
    outside: Endpoint,
}

/// Pod with its device and its end of the wire.
#[derive(Debug)]
pub(crate) struct LabPod {
    pub(crate) pod: Pod,
    device: Device,
    pub(crate) endpoint: Endpoint,
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
        let questions = Arc::<OpenQuestions>::default();
        let mut lab = Self {
            folder: LabFolder::create()?,
            spawner: Spawner::start().map_err(LabError::Thread)?,
            release,
            server,
            zones: BTreeMap::new(),
            pods: Vec::new(),
            warnings: Vec::new(),
            cable: Cable::new(questions.clone()),
            questions,
            next_device: 1,
            next_node: 1,
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
        let zones = self.zones.values_mut();
        let release = &self.release;
        try_join_all(zones.map(|zone| zone.node.sync(release))).await?;
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
        let mut zones = self.zones.values_mut();
        zones.try_for_each(|zone| zone.node.check())
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
        self.zones.keys().map(String::as_str)
    }

    /// Running programs of a node with their process ids.
    ///
    /// # Errors
    /// There is no such node.
    pub fn programs(&self, node: &str) -> Result<Vec<(&'static str, u32)>, LabError> {
        Ok(self.zone(node)?.node.running().collect())
    }

    /// Programs that were killed and not started again, each after the name of its node. The node
    /// does not follow changed rows without ovn-northd and ovn-controller, and forwards no packet
    /// without ovs-vswitchd.
    pub fn stopped_programs(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.zones.iter().flat_map(|(name, zone)| {
            let stopped = zone.node.stopped();
            stopped.map(move |program| (name.as_str(), program))
        })
    }

    /// Snapshot of a node's Northbound database.
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
        let node = &self.zone(node)?.node;
        let folders = environment(&node.folder)
            .into_iter()
            .map(|(name, path)| (name, path.display().to_string()));
        let remotes = ["OVN_NB_DB", "OVN_SB_DB"].map(|name| (name, node.remote()));
        Ok(folders.chain(remotes).collect())
    }

    pub(crate) fn zone_mut(&mut self, node: &str) -> Result<&mut Zone, LabError> {
        let known: Vec<String> = self.zones.keys().cloned().collect();
        let zone = self.zones.get_mut(node);
        zone.ok_or_else(|| LabError::NoSuchNode { name: node.to_owned(), known })
    }

    pub(crate) fn zone(&self, node: &str) -> Result<&Zone, LabError> {
        self.zones.get(node).ok_or_else(|| LabError::NoSuchNode {
            name: node.to_owned(),
            known: self.zones.keys().cloned().collect(),
        })
    }

    /// Chassis name of a node. `None`: there is no such node.
    pub(crate) fn chassis(&self, node: &str) -> Option<&str> {
        Some(&self.zones.get(node)?.node.id.chassis)
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
        let mut zones = self.zones.values();
        zones.any(|zone| zone.outside.config().number == number)
    }

    /// Name of the node with this number.
    pub(crate) fn node_name(&self, number: usize) -> Option<&str> {
        let mut zones = self.zones.iter();
        let found = zones.find(|(_, zone)| zone.node.id.number == number)?;
        Some(found.0)
    }

    /// Pods that have this address.
    pub fn pods_with_address(&self, address: IpAddr) -> impl Iterator<Item = &Pod> {
        self.pods().filter(move |pod| pod.ips().any(|ip| ip == address))
    }
}
