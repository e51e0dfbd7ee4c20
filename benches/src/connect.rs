//! A cluster whose connect fills the tunnel keys of its router: 16 layer3 networks on 2,000 nodes.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use patchbay_controller::api::cnc::ClusterNetworkConnect;
use patchbay_controller::api::nad::NetworkAttachmentDefinition;
use patchbay_controller::model::{IpFamily, Networks, Node};
use patchbay_controller::zone::{ConnectInput, Inputs, ZoneController};
use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{self, Copp, LogicalRouter, LogicalRouterPort, LogicalSwitch};
use patchbay_schemas::uuids::UuidSource;
use serde_json::json;

/// Networks on the connect.
pub const NETWORKS: usize = 16;
/// Nodes of the cluster, the zone's own included.
pub const NODES: usize = 2_000;

/// The zone whose northbound is written.
const ZONE: &str = "node0";

/// What the zone's controller is given.
///
/// # Errors
/// Never, unless the controller's types change.
pub fn inputs(networks: usize, nodes: usize) -> Result<Inputs> {
    let mut definitions = Vec::new();
    let mut namespaces = Vec::new();
    for i in 0..networks {
        let (namespace, network) = (format!("ns{i}"), network(i));
        namespaces.push(serde_json::from_value::<Namespace>(json!({
            "metadata": {"name": namespace, "labels": {"k8s.ovn.org/primary-user-defined-network": ""}}
        }))?);
        let config = json!({
            "cniVersion": "1.1.0", "name": network, "type": "ovn-k8s-cni-overlay", "topology": "layer3",
            "netAttachDefName": format!("{namespace}/net{i}"), "role": "primary", "subnets": format!("10.{i}.0.0/16/27"),
        });
        definitions.push(serde_json::from_value::<NetworkAttachmentDefinition>(json!({
            "metadata": {
                "name": format!("net{i}"), "namespace": namespace,
                "annotations": {"k8s.ovn.org/network-name": network, "k8s.ovn.org/network-id": (i + 1).to_string()},
            },
            "spec": {"config": config.to_string()},
        }))?);
    }
    let subnets: serde_json::Map<_, _> = (0..networks)
        .map(|i| {
            (
                format!("layer3_{}", i + 1),
                json!({"ipv4": format!("192.168.{}.0/20", i * 16)}),
            )
        })
        .collect();
    let connect: ClusterNetworkConnect = serde_json::from_value(json!({
        "metadata": {"name": "connect", "annotations": {
            "k8s.ovn.org/connect-router-tunnel-key": "16715779",
            "k8s.ovn.org/network-connect-subnet": serde_json::Value::from(subnets).to_string(),
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
    Ok(Inputs {
        zone: ZONE.to_owned(),
        families: vec![IpFamily::V4],
        nodes: (0..nodes)
            .map(|i| {
                let node = node(i, networks)?;
                Ok((node.name.clone(), Arc::new(node)))
            })
            .collect::<Result<_>>()?,
        networks: Arc::new(Networks::read(&definitions, &namespaces)),
        connects: [("connect".to_owned(), Arc::new(ConnectInput::read(&connect)))]
            .into_iter()
            .collect(),
        ..Inputs::default()
    })
}

/// A database with the networks' own routers and switches, as another controller made them.
///
/// # Errors
/// Never, unless the schema changes.
pub fn database(networks: usize) -> Result<Database> {
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
    let mut txn = TxnBuilder::with_uuids(&database.snapshot(), UuidSource::seeded(2));
    txn.insert(&Copp {
        name: "ovnkube-default".into(),
        ..Default::default()
    })?;
    for i in 0..networks {
        let prefix = network(i);
        txn.insert(&LogicalRouter {
            name: format!("{prefix}_ovn_cluster_router"),
            ..Default::default()
        })?;
        txn.insert(&LogicalSwitch {
            name: format!("{prefix}_{ZONE}"),
            ..Default::default()
        })?;
    }
    database.transact(txn.finish().operations())?;
    Ok(database)
}

/// Plans and commits until nothing is left to do; how many ports the connect router has then.
///
/// # Errors
/// A plan or a transaction fails, or something is not connected.
pub fn sync(
    controller: &mut ZoneController,
    inputs: &Inputs,
    database: &mut Database,
) -> Result<usize> {
    for plan in controller.plan(inputs, &database.snapshot()).connects {
        let report = plan.report.context("the connect is there")?;
        ensure!(report.is_complete(), "{:?}", report.messages());
        if let Some(transaction) = plan.change?.transaction {
            database.transact(transaction.operations())?;
        }
    }
    Ok(database.snapshot().typed::<LogicalRouterPort>().len())
}

fn network(i: usize) -> String {
    format!("cluster_udn_net{i}")
}

fn node(i: usize, networks: usize) -> Result<Node> {
    let subnets: serde_json::Map<_, _> = (0..networks)
        .map(|network| {
            let subnet = format!("10.{network}.{}.{}/27", i / 8, i % 8 * 32);
            (self::network(network), json!([subnet]))
        })
        .collect();
    let object = serde_json::from_value(
        json!({"metadata": {"name": format!("node{i}"), "annotations": {
            "k8s.ovn.org/node-id": (i + 2).to_string(),
            "k8s.ovn.org/node-chassis-id": format!("chassis-{i}"),
            "k8s.ovn.org/node-subnets": serde_json::Value::from(subnets).to_string(),
        }}}),
    )?;
    let (node, errors) = Node::read(&object);
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(node)
}
