//! Clusters for the zone controller: one CNC that uses all tunnel keys of its router, and many CNCs
//! over many networks.

mod zone;

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Result, ensure};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_model::{ClusterSettings, ConnectInput, IpFamily, Networks, Node};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Namespace;
use patchbay_schemas::nb::{Copp, LogicalRouter, LogicalSwitch};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::ZoneObjects;
use serde_json::json;
pub use zone::{ConnectPass, ConnectZone};

/// Zone whose Northbound is written.
const ZONE: &str = "node0";

/// Size of a cluster. All networks have topology layer3 and IPv4.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClusterSize {
    /// Number of networks, at most 255.
    pub networks: usize,
    /// Number of nodes with the zone's own, at most 2,040.
    pub nodes: usize,
}

impl ClusterSize {
    /// Size to which the goals refer: 32,000 links.
    pub const GOAL: Self = Self { networks: 16, nodes: 2_000 };

    /// Number of links: ports of a connect router that joins all networks.
    pub const fn links(self) -> usize {
        self.networks * self.nodes
    }

    /// Returns the objects of the zone, without CNCs.
    ///
    /// # Errors
    /// The inputs are refused, because the types of the controller have changed.
    pub fn objects(self) -> Result<ZoneObjects> {
        let settings =
            ClusterSettings { families: vec![IpFamily::V4], ..ClusterSettings::default() };
        let mut objects = ZoneObjects::new(ZONE, &settings);
        objects.set_connectable_networks(&networks(self.networks)?);
        for number in 0..self.nodes {
            objects.put_checked_node(node(number, self.networks)?);
        }
        Ok(objects)
    }

    /// Returns the objects of the zone with one CNC, `connect`, of all networks.
    ///
    /// # Errors
    /// The inputs are refused, because the types of the controller have changed.
    pub fn connected_objects(self) -> Result<ZoneObjects> {
        let mut objects = self.objects()?;
        objects.put_connect("connect", connect("connect", 0..self.networks)?);
        Ok(objects)
    }

    /// Returns a transaction that inserts the rows on which connects depend: routers and switches
    /// of the networks, and Copp.
    ///
    /// # Errors
    /// The schema lacks a table.
    pub fn prerequisites(self, snapshot: &Snapshot) -> Result<Transaction> {
        let mut txn = TxnBuilder::with_uuids(snapshot, UuidSource::seeded(2));
        txn.insert(&Copp { name: "ovnkube-default".into(), ..Copp::default() })?;
        for number in 0..self.networks {
            let network = network(number);
            txn.insert(&LogicalRouter {
                name: format!("{network}_ovn_cluster_router"),
                ..LogicalRouter::default()
            })?;
            txn.insert(&LogicalSwitch {
                name: format!("{network}_{ZONE}"),
                ..LogicalSwitch::default()
            })?;
        }
        Ok(txn.finish())
    }
}

/// Returns a CNC of some networks, with a block of 4,096 addresses for each.
///
/// # Errors
/// The object is refused, because the type of the resource has changed.
pub fn connect(name: &str, networks: Range<usize>) -> Result<ConnectInput> {
    let subnets: BTreeMap<String, serde_json::Value> = networks
        .enumerate()
        .map(|(block, network)| {
            let subnet = format!("192.168.{}.0/20", block * 16);
            (format!("layer3_{}", network + 1), json!({"ipv4": subnet}))
        })
        .collect();
    let object: ClusterNetworkConnect = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {
            "k8s.ovn.org/connect-router-tunnel-key": "16715779",
            "k8s.ovn.org/network-connect-subnet": json!(subnets).to_string(),
        }},
        "spec": {
            "networkSelectors": [{
                "networkSelectionType": "ClusterUserDefinedNetworks",
                "clusterUserDefinedNetworkSelector": {"networkSelector": {}},
            }],
            "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 20}],
            "connectivity": ["PodNetwork"],
        },
    }))?;
    Ok(conversion::connect_input(&object))
}

/// Returns a node with a subnet of each network.
///
/// # Errors
/// The object is refused, because the annotations of nodes have changed.
pub fn node(number: usize, networks: usize) -> Result<Node> {
    let subnets: BTreeMap<String, serde_json::Value> = (0..networks)
        .map(|network| {
            let (third, fourth) = (number / 8, number % 8 * 32);
            let subnet = format!("10.{network}.{third}.{fourth}/27");
            (self::network(network), json!([subnet]))
        })
        .collect();
    let object = serde_json::from_value(json!({
        "metadata": {"name": format!("node{number}"), "annotations": {
            "k8s.ovn.org/node-id": (number + 2).to_string(),
            "k8s.ovn.org/node-chassis-id": format!("chassis-{number}"),
            "k8s.ovn.org/node-subnets": json!(subnets).to_string(),
        }},
    }))?;
    let (node, errors) = conversion::node(&object);
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(node)
}

/// Returns the name of a network.
pub fn network(number: usize) -> String {
    format!("cluster_udn_net{number}")
}

fn networks(count: usize) -> Result<Networks> {
    let (mut definitions, mut namespaces) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (namespace, network) = (format!("ns{number}"), network(number));
        let labels = json!({"k8s.ovn.org/primary-user-defined-network": ""});
        namespaces.push(serde_json::from_value::<Namespace>(
            json!({"metadata": {"name": namespace, "labels": labels}}),
        )?);
        let config = json!({
            "cniVersion": "1.1.0", "name": network, "type": "ovn-k8s-cni-overlay", "topology": "layer3",
            "netAttachDefName": format!("{namespace}/net{number}"), "role": "primary",
            "subnets": format!("10.{number}.0.0/16/27"),
        });
        let annotations = json!({
            "k8s.ovn.org/network-name": network,
            "k8s.ovn.org/network-id": (number + 1).to_string(),
        });
        definitions.push(serde_json::from_value::<NetworkAttachmentDefinition>(json!({
            "metadata": {"name": format!("net{number}"), "namespace": namespace, "annotations": annotations},
            "spec": {"config": config.to_string()},
        }))?);
    }
    Ok(conversion::networks(&definitions, &namespaces))
}

#[cfg(test)]
mod tests {
    use patchbay_connects::{Counts, ZoneController};
    use patchbay_engine::client::Client;
    use patchbay_reconcile::northbound::{Embedded, Northbound as _, connects_config};

    use super::*;

    /// Counts of all changes that a new controller plans, and its transactions.
    fn plan(objects: &ZoneObjects, snapshot: &Snapshot) -> (Counts, Vec<Transaction>) {
        let mut counts = Counts::default();
        let mut transactions = Vec::new();
        for connect in ZoneController::default().plan(objects, snapshot).connects {
            let change = connect.change.unwrap();
            counts += change.counts;
            transactions.extend(change.transaction);
        }
        (counts, transactions)
    }

    #[test]
    fn plans_on_what_connects_read_are_those_on_the_whole_database() {
        let size = ClusterSize { networks: 3, nodes: 4 };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut northbound = Embedded::new(1).unwrap();
            let prerequisites = size.prerequisites(&northbound.snapshot()).unwrap();
            northbound.commit(prerequisites).await.unwrap();
            let objects = size.connected_objects().unwrap();
            let mut rows = Vec::new();
            // All rows come, stay, and go.
            for objects in [&objects, &objects, &size.objects().unwrap()] {
                let remotes = northbound.sim().connector().into();
                let client = Client::connect(connects_config(remotes)).await.unwrap();
                let (counts, _) = plan(objects, &client.snapshot());
                let (whole, transactions) = plan(objects, &northbound.snapshot());
                assert_eq!(counts, whole);
                rows.push((whole.inserted > 0, whole.deleted > 0));
                for transaction in transactions {
                    northbound.commit(transaction).await.unwrap();
                }
            }
            assert_eq!(rows, [(true, false), (false, false), (false, true)]);
        });
    }
}
