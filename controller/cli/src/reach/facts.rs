//! Facts that databases lack, from manifests and flags.

use patchbay_reach::{Northbound, Northd};
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion;
use patchbay_resources::manifests::Inventory;

use super::routes::PodRoutes;

/// Facts that databases lack.
#[derive(Default)]
pub(super) struct Facts {
    routes: PodRoutes,
    /// Chassis with the names of their nodes.
    nodes: Vec<(String, String)>,
    northd: Option<Northd>,
}

impl Facts {
    /// The facts of a cluster. `northd`: the ovn-northd that reads the rows.
    pub(super) fn of_cluster(cluster: &Cluster, northd: Option<Northd>) -> Self {
        let nodes = node_names(&cluster.inventory);
        Self { routes: PodRoutes::of_cluster(cluster), nodes, northd }
    }

    /// The facts of manifests beside databases that exist.
    pub(super) fn of_inventory(inventory: &Inventory, northd: Option<Northd>) -> Self {
        let nodes = node_names(inventory);
        Self { routes: PodRoutes::of_annotations(inventory), nodes, northd }
    }

    /// Gives the facts to a database.
    pub(super) fn add_to(&self, database: &mut Northbound) {
        self.routes.add_to(database);
        for (chassis, node) in &self.nodes {
            database.set_node_name(chassis, node);
        }
        if let Some(northd) = self.northd {
            database.set_northd(northd);
        }
    }
}

fn node_names(inventory: &Inventory) -> Vec<(String, String)> {
    let nodes = inventory.nodes.iter().map(|(_, node)| conversion::vpc_node(&node.object));
    nodes.filter_map(|node| Some((node.chassis?.to_string(), node.name.to_string()))).collect()
}
