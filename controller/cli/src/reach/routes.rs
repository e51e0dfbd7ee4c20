//! Routes of pods that `patchbay reach` takes from annotations, or from what allocation gives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use patchbay_model::{DEFAULT_NETWORK_KEY, PodNetwork, port_name};
use patchbay_reach::{MachineRoute, Northbound, Prefix};
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion;
use patchbay_resources::manifests::Inventory;

/// Routes of pods by the names of their switch ports.
#[derive(Default)]
pub(super) struct PodRoutes(Vec<(String, Vec<MachineRoute>)>);

impl PodRoutes {
    /// The routes of all pods of a cluster, in all networks.
    pub(super) fn of_cluster(cluster: &Cluster) -> Self {
        let Some(pods) = cluster.zone_pods("") else {
            return Self::default();
        };
        let places = pods.pods().flat_map(|pod| pods.places(pod));
        Self(places.map(|place| (place.port, routes(&place.addresses))).collect())
    }

    /// The routes in the annotations of pods. One that cannot be read names none.
    pub(super) fn of_annotations(inventory: &Inventory) -> Self {
        let pods = inventory.pods.iter().map(|(_, sourced)| conversion::pod(&sourced.object));
        let named = pods.flat_map(|pod| {
            let networks = pod.networks.iter().map(|(key, network)| {
                let port = if key == DEFAULT_NETWORK_KEY {
                    format!("{}_{}", pod.key.namespace, pod.key.name)
                } else {
                    port_name(key, &pod.key)
                };
                (port, routes(network))
            });
            networks.collect::<Vec<_>>()
        });
        Self(named.collect())
    }

    /// Gives the ports of a database their routes.
    pub(super) fn add_to(&self, database: &mut Northbound) {
        for (port, routes) in &self.0 {
            database.set_routes(port, routes.clone());
        }
    }
}

/// The default routes of a pod in a network, and the others.
fn routes(network: &PodNetwork) -> Vec<MachineRoute> {
    let defaults = network.gateways.iter().map(|gateway| MachineRoute {
        destination: Prefix {
            address: match gateway {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            length: 0,
        },
        next_hop: *gateway,
    });
    let others = network.routes.iter().map(|route| MachineRoute {
        destination: Prefix { address: route.dest.addr(), length: route.dest.prefix_len() },
        next_hop: route.next_hop,
    });
    defaults.chain(others).collect()
}
