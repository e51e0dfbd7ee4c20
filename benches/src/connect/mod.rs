//! Clusters for the zone half: one connect that fills the tunnel keys of its router, and many connects over many networks.

mod zone;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use patchbay_controller::api::cnc::ClusterNetworkConnect;
use patchbay_controller::api::nad::NetworkAttachmentDefinition;
use patchbay_controller::model::{IpFamily, Networks, Node};
use patchbay_controller::zone::{ConnectInput, Inputs};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::{Copp, LogicalRouter, LogicalSwitch};
use patchbay_schemas::uuids::UuidSource;
use serde_json::json;
pub use zone::{Pass, Zone};

/// The zone whose northbound is written.
const ZONE: &str = "node0";

/// How large a cluster is. All networks are of topology layer3 and IPv4.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size {
    /// Networks that there are, 255 at most.
    pub networks: usize,
    /// Nodes, the zone's own included; 2,040 at most.
    pub nodes: usize,
}

impl Size {
    /// The cluster of the goals: 32,000 ports.
    pub const GOAL: Self = Self {
        networks: 16,
        nodes: 2_000,
    };

    /// How many ports a connect router has that joins all networks.
    pub const fn ports(self) -> usize {
        self.networks * self.nodes
    }

    /// What the zone's controller is given, without connects.
    ///
    /// # Errors
    /// Never, unless the controller's types change.
    pub fn inputs(self) -> Result<Inputs> {
        let mut inputs = Inputs {
            zone: ZONE.to_owned(),
            families: vec![IpFamily::V4],
            networks: Arc::new(networks(self.networks)?),
            ..Inputs::default()
        };
        for number in 0..self.nodes {
            inputs.put_node(node(number, self.networks)?);
        }
        Ok(inputs)
    }

    /// The same with one connect, `connect`, of all networks.
    ///
    /// # Errors
    /// Never, unless the controller's types change.
    pub fn connected_inputs(self) -> Result<Inputs> {
        let mut inputs = self.inputs()?;
        inputs.put_connect("connect", connect("connect", 0..self.networks)?);
        Ok(inputs)
    }

    /// What another controller has written: the networks' own routers and switches, and what they share.
    ///
    /// # Errors
    /// The schema lacks a table.
    pub fn surroundings(self, snapshot: &Snapshot) -> Result<Transaction> {
        let mut txn = TxnBuilder::with_uuids(snapshot, UuidSource::seeded(2));
        txn.insert(&Copp {
            name: "ovnkube-default".into(),
            ..Copp::default()
        })?;
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

/// A connect of some networks, with a block of 4,096 addresses for each.
///
/// # Errors
/// Never, unless the controller's types change.
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
    Ok(ConnectInput::read(&object))
}

/// A node with a subnet of each network.
///
/// # Errors
/// Never, unless the controller's types change.
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
    let (node, errors) = Node::read(&object);
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(node)
}

/// Name of a network.
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
    Ok(Networks::read(&definitions, &namespaces))
}
