//! Makes nodes, rows and pods of a lab those of a cluster.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use patchbay_model::Databases;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_resources::conversion;
use patchbay_schemas::uuids::UuidSource;
use tokio::task::yield_now;

use super::{Lab, LabError, LabNode, LabPod, OwnZone, Zone};
use crate::databases::NodeDatabase;
use crate::node::{Node, NodeId, NodeRole};
use crate::outside;
use crate::pods::{self, Pod, PodName};
use crate::switch_rows::{CABLE_SOCKET, Device};
use crate::wire::endpoint::{Endpoint, EndpointConfig, EndpointRole};

/// Maximum number of nodes whose reconcilers keep their plans from one apply to the next. The plans
/// of a node grow with the number of nodes. In larger labs they would take as much memory as rows.
const MAX_PLANNED_NODES: usize = 64;

impl Lab {
    /// Makes nodes, rows and pods those of the cluster. Returns when packets flow accordingly.
    ///
    /// # Errors
    /// As for [`start`](Self::start). The next apply completes what an error has left undone.
    pub async fn apply(&mut self, cluster: &Cluster) -> Result<(), LabError> {
        self.warnings.clone_from(&cluster.warnings);
        self.set_databases(cluster.settings().databases).await?;
        let ids = self.node_ids(cluster)?;
        let started = self.create_nodes(&ids).await?;
        if let Some(central) = &self.central {
            central.node.write_chassis(&ids).await?;
        } else {
            for one in self.nodes.values() {
                one.node.write_chassis(&ids).await?;
            }
        }
        if self.central.is_some() {
            self.write_central_rows(cluster).await?;
        } else {
            self.write_rows(cluster).await?;
        }
        self.start_nodes(&ids, &started).await?;
        self.sync().await
    }

    /// Identities of the cluster's nodes. A node keeps its number.
    fn node_ids(&mut self, cluster: &Cluster) -> Result<Vec<NodeId>, LabError> {
        let mut ids = Vec::new();
        for (key, sourced) in cluster.inventory.nodes.in_order() {
            let name = key.name.clone();
            let chassis = if self.central.is_some() {
                if name == Databases::CENTRAL {
                    return Err(LabError::NodeName(name));
                }
                conversion::vpc_node(&sourced.object).chassis.map(|chassis| chassis.to_string())
            } else {
                conversion::node(&sourced.object).0.chassis_id
            };
            let Some(chassis) = chassis else {
                return Err(LabError::NoChassis(name));
            };
            let known = self.nodes.get(&name).map(|one| one.node.id.number);
            let number = known.unwrap_or_else(|| self.take_node_number());
            ids.push(NodeId { name, number, chassis });
        }
        if ids.is_empty() {
            return Err(LabError::NoNode);
        }
        Ok(ids)
    }

    /// Creates the nodes that are new, and removes those that are gone or have another chassis.
    /// Returns the names of the new ones.
    async fn create_nodes(&mut self, ids: &[NodeId]) -> Result<Vec<String>, LabError> {
        let removed = self.remove_nodes(|node| !ids.contains(&node.id));
        self.pods.retain(|pod| removed.iter().all(|node| node.name != pod.pod.node));
        let mut created = Vec::new();
        for id in ids {
            if self.nodes.contains_key(&id.name) {
                continue;
            }
            let mut id = id.clone();
            if removed.iter().any(|node| node.number == id.number) {
                // The folder of the node's first life is still there.
                id.number = self.take_node_number();
            }
            let southbound = self.central.as_ref().map(|central| central.node.remote());
            let role =
                southbound.map_or(NodeRole::Zone, |southbound| NodeRole::Host { southbound });
            let has_zone = role == NodeRole::Zone;
            let node = self.create_node(id.clone(), role).await?;
            created.push(id.name.clone());
            let own = has_zone.then(|| OwnZone {
                zone: Zone::new(&id.name, &node, self.uuids.fork()),
                outside: Endpoint::start(
                    EndpointConfig::outside(self.take_number()),
                    node.folder.join(outside::DEVICE_SOCKET),
                    self.questions.clone(),
                ),
            });
            self.nodes.insert(id.name, LabNode { node, own });
        }
        Ok(created)
    }

    /// Removes nodes. Returns their identities.
    pub(super) fn remove_nodes(&mut self, is_removed: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        let (cable, switches) = (&self.cable, &self.questions.switches);
        let mut removed = Vec::new();
        self.nodes.retain(|name, one| {
            let id = &one.node.id;
            let stays = !is_removed(&one.node);
            if !stays {
                cable.disconnect(id.number);
                switches.remove(id.number);
                for wire in self.wires.values_mut() {
                    wire.wire.disconnect(name);
                    wire.connected.remove(name);
                }
                removed.push(id.clone());
            }
            stays
        });
        removed
    }

    pub(super) async fn create_node(&self, id: NodeId, role: NodeRole) -> Result<Node, LabError> {
        let folder = self.folder.node(id.number)?;
        let (release, spawner) = (&self.release, &self.spawner);
        Ok(Node::create(id, role, folder, self.server, release, spawner).await?)
    }

    pub(super) fn take_node_number(&mut self) -> usize {
        self.next_node += 1;
        self.next_node - 1
    }

    /// Writes the rows of networks, connects and pods, and connects the pods.
    async fn write_rows(&mut self, cluster: &Cluster) -> Result<(), LabError> {
        let keeps_plans = self.nodes.len() <= MAX_PLANNED_NODES;
        for (name, LabNode { node, own }) in &mut self.nodes {
            let Some(OwnZone { zone, .. }) = own else {
                continue;
            };
            // Planning does not wait, and the caller may have to drop this future.
            yield_now().await;
            if self.writes_rows {
                self.warnings.extend(zone.reconcile(name, cluster).await?);
            }
            if !keeps_plans {
                zone.reconciler = Zone::new(name, node, self.uuids.fork()).reconciler;
            }
            node.sources = outside::marked_sources(cluster, name);
            node.marks = outside::marks(cluster);
        }
        let (pods, others) = pods::placed(cluster);
        self.warnings.extend(
            others.iter().map(|pod| format!("Pod {pod}: it has no addresses in a primary network")),
        );
        self.place_pods(pods);
        self.write_devices().await
    }

    /// Makes the devices of pods those of their nodes.
    pub(super) async fn write_devices(&mut self) -> Result<(), LabError> {
        for (name, LabNode { node, .. }) in &mut self.nodes {
            let devices: Vec<Device> = self
                .pods
                .iter()
                .filter(|pod| pod.pod.node == *name)
                .map(|pod| pod.device.clone())
                .collect();
            node.write_devices(&devices).await?;
        }
        Ok(())
    }

    /// Gives each pod a device and an endpoint. An unchanged pod keeps them.
    pub(super) fn place_pods(&mut self, pods: Vec<Pod>) {
        let mut kept: BTreeMap<PodName, LabPod> = std::mem::take(&mut self.pods)
            .into_iter()
            .map(|pod| (pod.pod.name.clone(), pod))
            .collect();
        for pod in pods {
            if let Some(same) = kept.remove(&pod.name)
                && same.pod == pod
            {
                self.pods.push(same);
            } else if let Some(one) = self.nodes.get(&pod.node) {
                let number = self.take_number();
                let device = Device {
                    name: format!("p{number}"),
                    port: pod.port.clone(),
                    pod_uid: pod.uid.clone(),
                };
                let config = EndpointConfig {
                    role: EndpointRole::Machine,
                    number,
                    mac: pod.mac,
                    addresses: pod.addresses.clone(),
                    gateways: pod.gateways.clone(),
                };
                let socket = device.socket(&one.node.folder);
                let endpoint = Endpoint::start(config, socket, self.questions.clone());
                self.pods.push(LabPod { pod, device, endpoint });
            }
        }
    }

    /// Starts the programs of new nodes, and sets the tunnel neighbours of all switches.
    async fn start_nodes(&mut self, ids: &[NodeId], started: &[String]) -> Result<(), LabError> {
        if started.is_empty() {
            return Ok(());
        }
        let (release, spawner, cable) = (&self.release, &self.spawner, &self.cable);
        let switches = &self.questions.switches;
        let nodes = self.nodes.values_mut();
        try_join_all(nodes.map(|LabNode { node, .. }| async move {
            if started.contains(&node.id.name) {
                cable.connect(node.id.number, node.folder.join(CABLE_SOCKET));
                switches.add(node.id.number, node.switch_control());
                node.start(release, spawner).await?;
            }
            node.write_neighbours(ids).await
        }))
        .await?;
        Ok(())
    }
}

impl Zone {
    /// The zone of this name in the databases of a node.
    pub(super) fn new(name: &str, node: &Node, uuids: UuidSource) -> Self {
        let northbound = node.databases.northbound.clone();
        let reconciler = ZoneReconciler::new(name, northbound, uuids);
        Self { reconciler, outcome: ZoneOutcome::default() }
    }

    /// The Northbound database.
    pub(crate) fn northbound(&self) -> &NodeDatabase {
        self.reconciler.northbound()
    }

    /// Writes the rows of a cluster. Returns warnings, one line each.
    pub(super) async fn reconcile(
        &mut self,
        name: &str,
        cluster: &Cluster,
    ) -> Result<Vec<String>, LabError> {
        let outcome = self.reconciler.reconcile(cluster).await;
        self.outcome =
            outcome.map_err(|source| LabError::Zone { zone: name.to_owned(), source })?;
        Ok(warnings_of(name, &self.outcome))
    }
}

/// Warnings of an apply in a zone, one line each.
fn warnings_of(zone: &str, outcome: &ZoneOutcome) -> Vec<String> {
    let mut warnings = Vec::new();
    for skipped in &outcome.skipped_networks {
        let (network, reason) = (&skipped.network, &skipped.reason);
        warnings.push(format!("zone {zone}: network {network}: {reason}"));
    }
    warnings.extend(outcome.warnings.iter().cloned());
    let problems = outcome.problems.iter();
    warnings.extend(problems.map(|problem| format!("zone {zone}: {problem}")));
    for (connect, report) in &outcome.reports {
        for message in &report.messages() {
            warnings.push(format!("zone {zone}: ClusterNetworkConnect {connect}: {message}"));
        }
    }
    warnings
}
