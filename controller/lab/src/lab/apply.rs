//! Makes nodes, rows and pods of a lab those of a cluster.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_resources::conversion;
use patchbay_resources::manifests::ObjectKey;
use tokio::task::yield_now;

use super::{Lab, LabError, LabPod, Zone};
use crate::node::{Node, NodeId};
use crate::outside;
use crate::pods::{self, PodName};
use crate::switch_rows::{CABLE_SOCKET, Device};
use crate::wire::endpoint::{Endpoint, EndpointConfig};

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
        let ids = self.node_ids(cluster)?;
        let started = self.create_nodes(&ids).await?;
        for zone in self.zones.values() {
            zone.node.write_chassis(&ids).await?;
        }
        self.write_rows(cluster).await?;
        self.start_nodes(&ids, &started).await?;
        self.sync().await
    }

    /// Identities of the cluster's nodes. A node keeps its number.
    fn node_ids(&mut self, cluster: &Cluster) -> Result<Vec<NodeId>, LabError> {
        let names = cluster.zones();
        if names.is_empty() {
            return Err(LabError::NoNode);
        }
        let mut ids = Vec::new();
        for name in names {
            let object = cluster.inventory.nodes.get(&ObjectKey::cluster(&*name));
            let node = object.map(|node| conversion::node(&node.object).0);
            let Some(chassis) = node.and_then(|node| node.chassis_id) else {
                return Err(LabError::NoChassis(name));
            };
            let known = self.zones.get(&name).map(|zone| zone.node.id.number);
            let number = known.unwrap_or_else(|| {
                self.next_node += 1;
                self.next_node - 1
            });
            ids.push(NodeId { name, number, chassis });
        }
        Ok(ids)
    }

    /// Creates the nodes that are new, and removes those that are gone or have another chassis.
    /// Returns the names of the new ones.
    async fn create_nodes(&mut self, ids: &[NodeId]) -> Result<Vec<String>, LabError> {
        let (cable, switches) = (&self.cable, &self.questions.switches);
        let mut removed = Vec::new();
        self.zones.retain(|_, zone| {
            let stays = ids.contains(&zone.node.id);
            if !stays {
                cable.disconnect(zone.node.id.number);
                switches.remove(zone.node.id.number);
                removed.push(zone.node.id.clone());
            }
            stays
        });
        self.pods.retain(|pod| removed.iter().all(|node| node.name != pod.pod.node));
        let mut created = Vec::new();
        for id in ids {
            if self.zones.contains_key(&id.name) {
                continue;
            }
            let mut id = id.clone();
            if removed.iter().any(|node| node.number == id.number) {
                // The folder of the node's first life is still there.
                id.number = self.next_node;
                self.next_node += 1;
            }
            let folder = self.folder.node(id.number)?;
            let (release, spawner) = (&self.release, &self.spawner);
            let node = Node::create(id.clone(), folder, self.server, release, spawner).await?;
            let northbound = node.databases.northbound.clone();
            let reconciler = ZoneReconciler::new(&*id.name, northbound, self.uuids.fork());
            created.push(id.name.clone());
            let socket = node.folder.join(outside::DEVICE_SOCKET);
            let host = EndpointConfig::outside(self.next_device);
            self.next_device += 1;
            let zone = Zone {
                outside: Endpoint::start(host, socket, self.questions.clone()),
                node,
                reconciler,
                outcome: ZoneOutcome::default(),
            };
            self.zones.insert(id.name, zone);
        }
        Ok(created)
    }

    /// Writes the rows of networks, connects and pods, and connects the pods.
    async fn write_rows(&mut self, cluster: &Cluster) -> Result<(), LabError> {
        let keeps_plans = self.zones.len() <= MAX_PLANNED_NODES;
        for (name, zone) in &mut self.zones {
            // Planning does not wait, and the caller may have to drop this future.
            yield_now().await;
            let outcome = zone
                .reconciler
                .reconcile(cluster)
                .await
                .map_err(|source| LabError::Zone { zone: name.clone(), source })?;
            self.warnings.extend(warnings_of(name, &outcome));
            zone.outcome = outcome;
            if !keeps_plans {
                let northbound = zone.node.databases.northbound.clone();
                zone.reconciler = ZoneReconciler::new(name, northbound, self.uuids.fork());
            }
            zone.node.sources = outside::marked_sources(cluster, name);
            zone.node.marks = outside::marks(cluster);
        }
        self.place_pods(cluster);
        for (name, zone) in &mut self.zones {
            let devices: Vec<Device> = self
                .pods
                .iter()
                .filter(|pod| pod.pod.node == *name)
                .map(|pod| pod.device.clone())
                .collect();
            zone.node.write_devices(&devices).await?;
        }
        Ok(())
    }

    /// Gives each pod a device and an endpoint. An unchanged pod keeps them.
    fn place_pods(&mut self, cluster: &Cluster) {
        let (pods, others) = pods::placed(cluster);
        self.warnings.extend(
            others.iter().map(|pod| format!("Pod {pod}: it has no addresses in a primary network")),
        );
        let mut kept: BTreeMap<PodName, LabPod> = std::mem::take(&mut self.pods)
            .into_iter()
            .map(|pod| (pod.pod.name.clone(), pod))
            .collect();
        for pod in pods {
            if let Some(same) = kept.remove(&pod.name)
                && same.pod == pod
            {
                self.pods.push(same);
            } else if let Some(zone) = self.zones.get(&pod.node) {
                let number = self.next_device;
                self.next_device += 1;
                let device = Device {
                    name: format!("p{number}"),
                    port: pod.port.clone(),
                    pod_uid: pod.uid.clone(),
                };
                let config = EndpointConfig {
                    is_outside: false,
                    number,
                    mac: pod.mac,
                    addresses: pod.addresses.clone(),
                    gateways: pod.gateways.clone(),
                };
                let socket = device.socket(&zone.node.folder);
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
        let zones = self.zones.values_mut();
        try_join_all(zones.map(|zone| async move {
            let node = &mut zone.node;
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
