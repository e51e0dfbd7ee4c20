//! A zone that follows the watched objects of a cluster with many networks and pods: cost of a pass
//! after single changes, with the database in this process.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use patchbay_benches::networks::{render_network, render_node};
use patchbay_benches::process::resident_bytes;
use patchbay_benches::stopwatch::Stopwatch;
use patchbay_benches::text::format_duration;
use patchbay_model::{ClusterSettings, Feature, POD_NETWORKS};
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::object::{Node, Object as _, Pod, Time};
use patchbay_schemas::uuids::UuidSource;
use serde_json::json;
use tokio::runtime::Runtime;

/// Name of the zone, and of its node.
const ZONE: &str = "node0";
/// Pods that come at once.
const BURST: usize = 1_000;
/// Measurements of which the best one counts.
const RUNS: usize = 5;

/// Numbers of objects.
#[derive(Clone, Copy)]
pub(crate) struct WatchedSize {
    pub(crate) networks: usize,
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
}

/// Measures a zone with these features, and prints the table.
pub(crate) fn report(size: WatchedSize, features: &BTreeSet<Feature>) -> Result<()> {
    let mut zone = WatchedZone::new(size, features)?;
    println!(
        "\nwatched objects: {} networks, {} nodes, {} pods in the zone",
        size.networks, size.nodes, size.pods
    );
    for feature in features {
        println!("with feature {feature}");
    }
    print_line("first pass", zone.pass()?);
    print_line("the next pass, which reads the written rows", zone.pass()?);
    print_line("no change", best(|_| zone.pass())?);
    let pod_added = best(|run| {
        zone.add_pod(size.pods + run)?;
        zone.pass()
    })?;
    print_line("one pod more", pod_added);
    let following = best(|_| zone.pass())?;
    print_line("  the next pass", following);
    let pod_removed = best(|run| {
        zone.remove_pod(size.pods + run);
        zone.pass()
    })?;
    print_line("one pod less", pod_removed);
    let node_added = best(|run| {
        zone.add_node(size.nodes + run)?;
        zone.pass()
    })?;
    print_line("one node more", node_added);
    let namespace_labelled = best(|run| {
        zone.label_namespace(run)?;
        zone.pass()
    })?;
    print_line("other labels of a namespace", namespace_labelled);
    for pod in size.pods..size.pods + BURST {
        zone.add_pod(pod)?;
    }
    let burst = zone.pass()?;
    print_line(&format!("{BURST} pods at once"), burst);
    println!("{:<46}{:>12.0}", "  pods per second", BURST as f64 / burst.as_secs_f64());
    drop(zone.restart());
    let restart = zone.pass()?;
    let rows = zone.reconciler.northbound().snapshot().row_count();
    print_line(&format!("restart, {rows} rows, nothing to do"), restart);
    let resident = resident_bytes(std::process::id())? as f64 / f64::from(1 << 20);
    println!("{:<46}{resident:>8.0} MiB", "  database and controllers");
    Ok(())
}

fn print_line(name: &str, time: Duration) {
    println!("{name:<46}{:>12}", format_duration(time));
}

fn best(mut measure: impl FnMut(usize) -> Result<Duration>) -> Result<Duration> {
    (0..RUNS).try_fold(Duration::MAX, |best, run| Ok(best.min(measure(run)?)))
}

/// A zone whose objects come from an API server.
struct WatchedZone {
    runtime: Runtime,
    inventory: Inventory,
    allocator: PodAllocator,
    reconciler: ZoneReconciler<Embedded>,
    size: WatchedSize,
    settings: ClusterSettings,
}

impl WatchedZone {
    fn new(size: WatchedSize, features: &BTreeSet<Feature>) -> Result<Self> {
        let folder = ScratchDir::new();
        let file = folder.path().join("cluster.yaml");
        fs::write(&file, manifests(size, features))?;
        let settings = ClusterSettings { features: features.clone(), ..ClusterSettings::default() };
        let inventory = read(&file, &settings)?;
        Ok(Self {
            runtime: Runtime::new()?,
            inventory,
            allocator: PodAllocator::new(AllocationScope::Zone),
            reconciler: ZoneReconciler::new(ZONE, Embedded::new(1)?, UuidSource::seeded(1)),
            size,
            settings,
        })
    }

    /// Forgets everything but the database and the objects.
    fn restart(&mut self) -> ZoneReconciler<Embedded> {
        let northbound = self.reconciler.northbound().clone();
        let started = ZoneReconciler::new(ZONE, northbound, UuidSource::seeded(2));
        self.allocator = PodAllocator::new(AllocationScope::Zone);
        std::mem::replace(&mut self.reconciler, started)
    }

    fn cluster(&self) -> Cluster {
        let (inventory, settings) = (self.inventory.clone(), self.settings.clone());
        Cluster::watched(inventory, settings, Time(Timestamp::now()))
    }

    /// What the zone controller does when objects have changed.
    fn pass(&mut self) -> Result<Duration> {
        let watch = Stopwatch::start()?;
        let cluster = self.cluster();
        let pods = self.reconciler.pods(&cluster).context("no pods")?;
        for (key, networks) in self.allocator.allocate(pods) {
            let key = ObjectKey::namespaced(&*key.namespace, &*key.name);
            if let Some(pod) = self.inventory.pods.get_mut(&key) {
                let annotations = pod.object.annotations_mut();
                annotations.insert(POD_NETWORKS.to_owned(), networks.to_json());
            }
        }
        let cluster = self.cluster();
        let reconciled = self.reconciler.reconcile_watched(&cluster);
        let outcome = self.runtime.block_on(reconciled)?;
        if let Some(rejection) = outcome.rejections.into_iter().next() {
            return Err(rejection.into());
        }
        watch.stop()
    }

    fn add_pod(&mut self, number: usize) -> Result<()> {
        let object: Pod = serde_json::from_value(json!({
            "metadata": {
                "namespace": format!("net{}", number % self.size.networks),
                "name": format!("pod-{number}"),
                "uid": format!("5f6c3c1e-0000-4000-8000-{number:012}"),
            },
            "spec": {"nodeName": ZONE, "containers": []},
        }))?;
        self.inventory.pods.insert(Sourced { object, origin: Origin::Cluster, position: 0 });
        Ok(())
    }

    fn remove_pod(&mut self, number: usize) {
        let namespace = format!("net{}", number % self.size.networks);
        let key = ObjectKey::namespaced(namespace, format!("pod-{number}"));
        self.inventory.pods.remove(&key);
    }

    fn add_node(&mut self, number: usize) -> Result<()> {
        let mut object: Node = serde_json::from_value(json!({
            "metadata": {"name": format!("node{number}"), "annotations": {
                "k8s.ovn.org/node-id": (number + 2).to_string(),
                "k8s.ovn.org/node-chassis-id": format!("chassis-{number}"),
            }},
        }))?;
        let subnets = node_subnets(self.size, number);
        let annotations = object.annotations_mut();
        annotations.insert("k8s.ovn.org/node-subnets".to_owned(), subnets);
        self.inventory.nodes.insert(Sourced { object, origin: Origin::Cluster, position: 0 });
        Ok(())
    }

    fn label_namespace(&mut self, number: usize) -> Result<()> {
        let key = ObjectKey::cluster(format!("net{number}"));
        let namespace = self.inventory.namespaces.get_mut(&key);
        let namespace = namespace.context("no such namespace")?;
        let labels = namespace.object.metadata.labels.get_or_insert_default();
        labels.insert("team".to_owned(), number.to_string());
        Ok(())
    }
}

/// Completes the objects as the managers of a cluster do.
fn read(file: &Path, settings: &ClusterSettings) -> Result<Inventory> {
    let cluster = Cluster::from_manifests(
        &[file.to_owned()],
        &mut std::io::empty(),
        None,
        settings.clone(),
        Time(Timestamp::now()),
    )?;
    Ok(cluster.inventory)
}

fn node_subnets(size: WatchedSize, node: usize) -> String {
    let (second, third, fourth) = (node / 2048, node / 8 % 256, node % 8 * 32);
    let subnets = (0..size.networks)
        .map(|number| format!(r#""cluster_udn_net{number}":["10.{second}.{third}.{fourth}/27"]"#));
    format!("{{{}}}", subnets.collect::<Vec<_>>().join(","))
}

/// An EgressIP, and a policy of an administrator, that select all pods.
const SELECTING: [(Feature, &str); 2] = [
    (
        Feature::EgressIp,
        "\
---
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata:
  name: all
  annotations:
    k8s.ovn.org/egressip-mark: \"50001\"
spec:
  egressIPs: [172.18.0.100]
  namespaceSelector: {}
status:
  items:
  - node: node0
    egressIP: 172.18.0.100
",
    ),
    (
        Feature::AdminNetworkPolicy,
        "\
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata:
  name: all
spec:
  priority: 5
  subject:
    namespaces: {}
  ingress:
  - action: Allow
    from:
    - namespaces: {}
",
    ),
];

fn manifests(size: WatchedSize, features: &BTreeSet<Feature>) -> String {
    let mut yaml = String::new();
    for (feature, object) in SELECTING {
        if features.contains(&feature) {
            yaml += object;
        }
    }
    for node in 0..size.nodes {
        yaml += &render_node(node, &node_subnets(size, node));
    }
    for number in 0..size.networks {
        yaml += &render_network(number, "10.0.0.0/8");
    }
    for number in 0..size.pods {
        let _ = write!(
            yaml,
            "\
---
apiVersion: v1
kind: Pod
metadata:
  name: pod-{number}
  namespace: net{namespace}
spec:
  nodeName: {ZONE}
  containers: []
",
            namespace = number % size.networks
        );
    }
    yaml
}
