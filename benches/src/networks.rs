//! The networks' own rows in one zone: manifests of a cluster, and passes that write their rows to
//! a Northbound database in this process.
//!
//! All networks are cluster-wide, of topology layer3 and IPv4. A "link" is one network on one node.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use patchbay_allocate::networks;
use patchbay_model::ClusterSettings;
use patchbay_networks::{Topologies, skipped_networks};
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_resources::conversion::{network_objects, node_object};
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;
use patchbay_rows::{Counts, Engine};
use patchbay_zone::ZoneObjects;
use tokio::runtime::Runtime;

use crate::connect::{ClusterSize, network};
use crate::stopwatch::Stopwatch;

/// Name of the zone, and of its node.
pub const ZONE: &str = "node0";

/// Returns the manifests of a cluster: its nodes, each with a subnet of every network, and its
/// networks with a namespace each.
pub fn render_manifests(size: ClusterSize) -> String {
    let mut yaml = String::new();
    for node in 0..size.nodes {
        let (third, fourth) = (node / 8, node % 8 * 32);
        let subnets: Vec<String> = (0..size.networks)
            .map(|number| {
                let network = network(number);
                format!(r#""{network}":["10.{number}.{third}.{fourth}/27"]"#)
            })
            .collect();
        let subnets = format!("{{{}}}", subnets.join(","));
        yaml += &render_node(node, &subnets);
    }
    for number in 0..size.networks {
        yaml += &render_network(number, &format!("10.{number}.0.0/16"));
    }
    yaml
}

/// Returns the manifest of a node. `subnets`: the value of its annotation `node-subnets`.
pub fn render_node(node: usize, subnets: &str) -> String {
    let id = node + 2;
    format!(
        "\
---
apiVersion: v1
kind: Node
metadata:
  name: node{node}
  annotations:
    k8s.ovn.org/node-id: \"{id}\"
    k8s.ovn.org/node-chassis-id: chassis-{node}
    k8s.ovn.org/node-subnets: '{subnets}'
"
    )
}

/// Returns the manifests of a network and its namespace. `cidr`: the range of its subnets.
pub fn render_network(number: usize, cidr: &str) -> String {
    format!(
        "\
---
apiVersion: v1
kind: Namespace
metadata:
  name: net{number}
  labels:
    network: net{number}
    k8s.ovn.org/primary-user-defined-network: \"\"
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata:
  name: net{number}
spec:
  namespaceSelector:
    matchLabels:
      network: net{number}
  network:
    topology: Layer3
    layer3:
      role: Primary
      subnets:
      - cidr: {cidr}
        hostSubnet: 27
"
    )
}

/// Writes the manifests of a cluster into a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_manifests(file: &Path, size: ClusterSize) -> Result<()> {
    Ok(fs::write(file, render_manifests(size))?)
}

/// Reads manifests and completes them: networks and nodes have ids and subnets.
///
/// # Errors
/// The manifests are refused.
pub fn read_cluster(file: &Path) -> Result<Inventory> {
    let mut inventory = read_manifests(&[file.to_owned()], &mut std::io::empty())?;
    let now = Time(Timestamp::now());
    networks::resolve(&mut inventory, &ClusterSettings::default(), &now)?;
    Ok(inventory)
}

/// A zone whose northbound is in this process.
#[derive(Debug)]
pub struct NetworksZone {
    runtime: Runtime,
    northbound: Embedded,
    controller: Engine<Topologies>,
    objects: ZoneObjects,
}

/// Costs of one pass: CPU time, or wall-clock time below 50 ms.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworksPass {
    /// Reading the cluster's objects, or the one that changed.
    pub read: Duration,
    /// Planning the rows that change.
    pub plan: Duration,
    /// Committing the transaction.
    pub commit: Duration,
    /// Rows that changed.
    pub counts: Counts,
}

impl NetworksPass {
    /// Total time.
    pub fn total(&self) -> Duration {
        self.read + self.plan + self.commit
    }

    /// Number of rows that were inserted, changed or deleted.
    pub fn rows(&self) -> usize {
        self.counts.inserted + self.counts.changed + self.counts.deleted
    }
}

impl NetworksZone {
    /// Creates a zone with an empty northbound.
    ///
    /// # Errors
    /// The northbound does not start.
    pub fn new() -> Result<Self> {
        Ok(Self {
            runtime: Runtime::new()?,
            northbound: Embedded::new(1)?,
            controller: Engine::default(),
            objects: ZoneObjects::default(),
        })
    }

    /// Writes the rows that the cluster needs, in one transaction, like a command that has seen
    /// nothing.
    ///
    /// # Errors
    /// The plan or the transaction fails.
    pub fn pass(&mut self, cluster: &Inventory) -> Result<NetworksPass> {
        let watch = Stopwatch::start()?;
        let settings = ClusterSettings::default();
        self.objects = ZoneObjects::new(ZONE, &settings);
        self.objects.set_objects(&network_objects(cluster, &settings), &BTreeSet::new());
        let read = watch.stop()?;
        let skipped = skipped_networks(&self.objects);
        anyhow::ensure!(skipped.is_empty(), "{skipped:?}");
        self.controller = Engine::default();
        self.finish_pass(read)
    }

    /// Follows a node that came, changed or went, like a running controller.
    ///
    /// # Errors
    /// The plan or the transaction fails.
    pub fn node_pass(&mut self, cluster: &Inventory, node: &str) -> Result<NetworksPass> {
        let mut nodes = cluster.nodes.iter();
        let object = nodes.find(|(key, _)| key.name == node);
        let watch = Stopwatch::start()?;
        match object {
            Some((_, object)) => self.objects.put_node(node_object(&object.object)),
            None => self.objects.remove_node(node),
        }
        let read = watch.stop()?;
        self.finish_pass(read)
    }

    fn finish_pass(&mut self, read: Duration) -> Result<NetworksPass> {
        let mut pass = NetworksPass { read, ..NetworksPass::default() };
        let snapshot = self.northbound.snapshot();
        let watch = Stopwatch::start()?;
        let change = self.controller.plan(&self.objects, &snapshot).into_change()?;
        pass.plan = watch.stop()?;
        pass.counts = change.counts;
        // The database changes rows in place that no snapshot holds.
        drop(snapshot);

        let watch = Stopwatch::start()?;
        if let Some(transaction) = change.transaction {
            self.runtime.block_on(self.northbound.commit(transaction))?;
        }
        pass.commit = watch.stop()?;
        Ok(pass)
    }

    /// The northbound.
    pub fn northbound(&mut self) -> &mut Embedded {
        &mut self.northbound
    }

    /// Number of rows in the northbound.
    pub fn row_count(&self) -> usize {
        self.northbound.snapshot().row_count()
    }
}

#[cfg(test)]
mod tests {
    use patchbay_ovn_programs::testing::ScratchDir;

    use super::*;

    #[test]
    fn a_node_that_comes_and_goes_leaves_the_rows_of_the_first_pass() {
        let folder = ScratchDir::new();
        let cluster = |nodes| {
            let file = folder.path().join("cluster.yaml");
            write_manifests(&file, ClusterSize { networks: 2, nodes }).unwrap();
            read_cluster(&file).unwrap()
        };
        let (three, four) = (cluster(3), cluster(4));
        let mut zone = NetworksZone::new().unwrap();
        assert!(zone.pass(&three).unwrap().rows() > 0);
        let rows = zone.row_count();
        assert_eq!(zone.pass(&three).unwrap().rows(), 0);
        assert!(zone.node_pass(&four, "node3").unwrap().rows() > 0);
        assert!(zone.row_count() > rows);
        assert!(zone.node_pass(&three, "node3").unwrap().rows() > 0);
        assert_eq!(zone.row_count(), rows);
    }
}
