//! From manifests to complete objects: what a cluster's managers would write into them is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use patchbay_resources::object::Object;
use patchbay_resources::object::Time;

use super::warnings;
use patchbay_allocate::connects::{ClusterController, Objects, Warning, with_verdict};
use patchbay_allocate::networks as allocate_networks;
use patchbay_connects::{ConnectReport, Inputs, ZoneReports, ZoneSummary};
use patchbay_model::{ClusterSettings, NadKey, Networks, Node};
use patchbay_networks::ZoneNetworks;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, LoadError, Objects as Sources, read_manifests,
};
use patchbay_resources::state::{StateFolder, restore};

/// All objects of a run, complete.
#[derive(Debug)]
pub struct Cluster {
    /// The objects.
    pub inventory: Inventory,
    settings: ClusterSettings,
    now: Time,
    /// What is odd, a line each.
    pub warnings: Vec<String>,
}

/// Reads manifests, with the state of an earlier run under them.
pub fn load(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    state: Option<&StateFolder>,
) -> Result<Inventory, LoadError> {
    let mut inventory = read_manifests(paths, stdin)?;
    if let Some(folder) = state {
        restore(&mut inventory, &folder.load()?)?;
    }
    Ok(inventory)
}

impl Cluster {
    /// Completes the objects: networks and ids first, then what connects get.
    pub fn new(
        mut inventory: Inventory,
        settings: ClusterSettings,
        now: Time,
    ) -> Result<Self, LoadError> {
        allocate_networks::resolve(&mut inventory, &settings, &now)?;
        let warnings = inventory.warnings.iter().map(ToString::to_string).collect();
        let mut resolved = Self {
            inventory,
            settings,
            now,
            warnings,
        };
        let networks = resolved.networks();
        let of_networks = warnings::of_networks(&resolved.inventory);
        let of_selectors = warnings::of_selectors(&resolved.inventory, &networks);
        resolved
            .warnings
            .extend(of_networks.into_iter().chain(of_selectors));
        let told = resolved.serve_connects();
        let of_definitions = warnings::of_definitions(&resolved.inventory, &networks, &told);
        resolved.warnings.extend(of_definitions);
        Ok(resolved)
    }

    /// The objects of a cluster, which has managers that complete them.
    pub fn of_cluster(inventory: Inventory, settings: ClusterSettings, now: Time) -> Self {
        let warnings = inventory.warnings.iter().map(ToString::to_string).collect();
        Self {
            inventory,
            settings,
            now,
            warnings,
        }
    }

    /// The cluster-wide half: annotations and status of all connects. Returns the attachment definitions that it has
    /// told to lead nowhere.
    fn serve_connects(&mut self) -> BTreeSet<NadKey> {
        let networks = self.networks();
        let inventory = &self.inventory;
        let nodes: Vec<Node> = objects(&inventory.nodes)
            .map(|node| patchbay_resources::conversion::node(node).0)
            .collect();
        let ids = nodes.iter();
        let objects = Objects::new(
            &networks,
            objects(&inventory.network_attachment_definitions),
            objects(&inventory.namespaces),
            objects(&inventory.cluster_network_connects),
        )
        .with_nodes(ids.filter_map(|node| Some((&*node.name, node.id?))));
        let report = ClusterController::new(self.settings.clone()).reconcile(&objects, &self.now);
        self.warnings
            .extend(report.warnings.iter().map(ToString::to_string));
        let told = report.warnings.iter().filter_map(|warning| match warning {
            Warning::Definition { nad, .. } => Some(nad.clone()),
            _ => None,
        });
        let told = told.collect();
        for outcome in report.outcomes {
            let accepted = outcome.is_accepted();
            let annotations = outcome.annotations();
            self.change_connect(&outcome.name, |object| {
                for (key, value) in annotations {
                    object.annotations_mut().insert(key.to_owned(), value);
                }
                object.status = Some(outcome.status);
            });
            if !accepted {
                self.warnings
                    .extend(warnings::of_status(&self.inventory, &outcome.name));
            }
        }
        told
    }

    fn change_connect(&mut self, name: &str, change: impl FnOnce(&mut ClusterNetworkConnect)) {
        let connects = self.inventory.cluster_network_connects.iter_mut();
        let found = connects.into_iter().find(|(key, _)| key.name == name);
        if let Some((_, sourced)) = found {
            change(&mut sourced.object);
        }
    }

    /// All networks.
    pub fn networks(&self) -> Networks {
        patchbay_resources::conversion::networks(
            objects(&self.inventory.network_attachment_definitions),
            objects(&self.inventory.namespaces),
        )
    }

    /// Names of all nodes, in the order in which they were given.
    pub fn zones(&self) -> Vec<String> {
        let nodes = self.inventory.nodes.in_order().into_iter();
        nodes.map(|(key, _)| key.name.clone()).collect()
    }

    /// The connects, by name.
    pub fn connects(&self) -> impl Iterator<Item = &ClusterNetworkConnect> {
        objects(&self.inventory.cluster_network_connects)
    }

    /// What the rows of the networks themselves in a zone follow from.
    pub fn zone_networks(&self, zone: &str) -> ZoneNetworks {
        ZoneNetworks::read(&network_objects(&self.inventory), zone, &self.settings)
    }

    /// What the connects' rows in a zone follow from.
    pub fn inputs(&self, zone: &str) -> Inputs {
        Inputs {
            zone: zone.to_owned(),
            families: self.settings.families.clone(),
            service_cidrs: self.settings.service_cidrs.clone(),
            nodes: objects(&self.inventory.nodes)
                .map(|node| patchbay_resources::conversion::node(node).0)
                .map(|node| (node.name.clone(), Arc::new(node)))
                .collect(),
            networks: Arc::new(self.networks()),
            activity: Arc::default(),
            services: objects(&self.inventory.services)
                .filter_map(patchbay_resources::conversion::service)
                .collect(),
            connects: self
                .connects()
                .map(|object| {
                    (
                        object.name_any(),
                        Arc::new(patchbay_resources::conversion::connect_input(object)),
                    )
                })
                .collect(),
        }
    }

    /// Puts what the zones report about connects into the connects' status.
    pub fn report(&mut self, zones: &BTreeMap<String, BTreeMap<String, Arc<ConnectReport>>>) {
        let names: Vec<String> = self.connects().map(Object::name_any).collect();
        let now = self.now.clone();
        for name in names {
            let summaries: Vec<(&str, ZoneSummary)> = zones
                .iter()
                .filter_map(|(zone, reports)| {
                    Some((zone.as_str(), (&**reports.get(&name)?).into()))
                })
                .collect();
            if summaries.is_empty() {
                continue;
            }
            let reports = ZoneReports {
                current: summaries.iter().map(|(zone, said)| (*zone, said)).collect(),
                ..ZoneReports::default()
            };
            let verdict = reports.verdict();
            self.change_connect(&name, |object| {
                let generation = object.metadata.generation;
                let status = with_verdict(object.status.as_ref(), verdict, generation, &now);
                object.status = Some(status);
            });
        }
    }
}

fn objects<T: InventoryKind>(objects: &Sources<T>) -> impl Iterator<Item = &T> {
    objects.iter().map(|(_, sourced)| &sourced.object)
}
