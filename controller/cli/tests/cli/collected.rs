//! A must-gather of the cluster of manifests, as collectors make it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use ovsdb_sim::Sim;
use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use patchbay_resources::object::Time;
use patchbay_schemas::uuids::UuidSource;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{Run, patchbay};

/// A must-gather in a folder.
pub(crate) struct Collected {
    pub(crate) folder: TempDir,
}

impl Collected {
    /// The objects of manifests with what a cluster writes into them, and the databases of all zones.
    pub(crate) fn of(manifests: &Path) -> Self {
        let settings = ClusterSettings {
            families: vec![IpFamily::V4],
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
            ..ClusterSettings::default()
        };
        let now = Time(Timestamp::now());
        let paths = [manifests.to_owned()];
        let cluster =
            Cluster::from_manifests(&paths, &mut std::io::empty(), None, settings, now).unwrap();
        let collected = Self { folder: tempfile::tempdir().unwrap() };
        collected.write_objects(&cluster.inventory);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for zone in cluster.zones() {
            let path = collected.database(&zone);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let sim = Sim::builder().journal(&path).build().unwrap();
            let database = sim.database("OVN_Northbound").unwrap();
            let mut reconciler = ZoneReconciler::new(&*zone, database, UuidSource::seeded(0));
            runtime.block_on(reconciler.reconcile(&cluster)).unwrap();
        }
        collected
    }

    /// The folder of the must-gather.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("must-gather")
    }

    /// The database of a zone, named for a pod on its node.
    pub(crate) fn database(&self, zone: &str) -> PathBuf {
        self.path().join(format!("network_logs/ovnk_database_store/ovnkube-{zone}_nbdb"))
    }

    /// A file of the must-gather.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let file = self.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Packs the must-gather, with the store of databases as an archive of its own.
    pub(crate) fn pack(&self) -> PathBuf {
        let logs = self.path().join("network_logs");
        let store = "ovnk_database_store";
        tar(&logs, &["-czf", "ovnk_database_store.tar.gz", "--remove-files", store]);
        tar(self.folder.path(), &["-cJf", "mg.tar.xz", "must-gather"]);
        self.folder.path().join("mg.tar.xz")
    }

    /// Runs a command in the folder around the must-gather.
    pub(crate) fn run(&self, arguments: &str) -> Run {
        let mut command = patchbay();
        command.current_dir(self.folder.path()).args(arguments.split_whitespace());
        command.output().unwrap().into()
    }

    fn write_objects(&self, inventory: &Inventory) {
        self.write_kind(inventory.nodes.iter().map(|(key, one)| (key, &one.object)));
        self.write_kind(inventory.namespaces.iter().map(|(key, one)| (key, &one.object)));
        self.write_kind(inventory.pods.iter().map(|(key, one)| (key, &one.object)));
        self.write_kind(inventory.services.iter().map(|(key, one)| (key, &one.object)));
        self.write_kind(inventory.network_policies.iter().map(|(key, one)| (key, &one.object)));
        self.write_kind(inventory.endpoint_slices.iter().map(|(key, one)| (key, &one.object)));
        let definitions = inventory.network_attachment_definitions.iter();
        self.write_kind(definitions.map(|(key, one)| (key, &one.object)));
        let networks = inventory.cluster_user_defined_networks.iter();
        self.write_kind(networks.map(|(key, one)| (key, &one.object)));
        let connects = inventory.cluster_network_connects.iter();
        self.write_kind(connects.map(|(key, one)| (key, &one.object)));
        for (key, node) in inventory.nodes.iter() {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("ovnkube-{key}"), "namespace": "ovn-kubernetes"},
                "spec": {"nodeName": node.object.metadata.name, "hostNetwork": true},
            });
            let path = format!("namespaces/ovn-kubernetes/pods/ovnkube-{key}/ovnkube-{key}.yaml");
            self.write(&path, &pod.to_string());
        }
    }

    /// Writes objects of the cluster with a file for each, and those of namespaces as lists.
    fn write_kind<'a, T: InventoryKind + serde::Serialize + 'a>(
        &self,
        objects: impl Iterator<Item = (&'a ObjectKey, &'a T)>,
    ) {
        let group = if T::GROUP.is_empty() { "core" } else { T::GROUP };
        let plural = T::PLURAL;
        let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::default();
        for (key, object) in objects {
            let mut object = serde_json::to_value(object).unwrap();
            // A field of a later version.
            object["spec"]["addedLater"] = json!({"a": 1});
            if let Some(namespace) = &key.namespace {
                lists.entry(namespace).or_default().push(object);
                continue;
            }
            let path = match T::KIND {
                "Namespace" => format!("namespaces/{key}/{key}.yaml"),
                _ => format!("cluster-scoped-resources/{group}/{plural}/{key}.yaml"),
            };
            self.write(&path, &serde_saphyr::to_string(&object).unwrap());
        }
        for (namespace, items) in lists {
            let (version, kind) = (T::VERSION, T::KIND);
            let version =
                if T::GROUP.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            let list =
                json!({"apiVersion": version, "kind": format!("{kind}List"), "items": items});
            let path = format!("namespaces/{namespace}/{group}/{plural}.yaml");
            self.write(&path, &serde_saphyr::to_string(&list).unwrap());
        }
    }
}

fn tar(folder: &Path, arguments: &[&str]) {
    let status = Command::new("tar").current_dir(folder).args(arguments).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}
