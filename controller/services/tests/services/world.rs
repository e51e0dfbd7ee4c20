//! A database with the rows of a network on a node, its services, and a controller.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{
    AttachmentDefinition, ClusterSettings, Endpoint, EndpointPort, EndpointSlice, EndpointState,
    NadKey, Networks, NodeObject, Protocol, Service, ServiceKey, ServicePort, TargetPort,
};
use patchbay_rows::Engine;
use patchbay_schemas::nb::{self, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::Services;
use patchbay_zone::ZoneCapability as _;
use patchbay_zone::ZoneObjects;

pub(crate) const CONFIG: &str = r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"blue_l3",
    "netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/24","topology":"layer3",
    "type":"ovn-k8s-cni-overlay"}"#;

/// The networks of namespace `blue` with this configuration.
pub(crate) fn networks(config: &str) -> Networks {
    let definition = AttachmentDefinition {
        key: NadKey { namespace: "blue".to_owned(), name: "l3".to_owned() },
        config: Some(config),
        network_id: Some("1"),
        network_name: None,
        tunnel_keys: Some("[]"),
        advertisements: None,
        owner_network: None,
    };
    Networks::from_definitions([definition], &["blue".to_owned()].into())
}

pub(crate) const CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";
pub(crate) const SUBNETS: &str = "k8s.ovn.org/node-subnets";
pub(crate) const HOST_CIDRS: &str = "k8s.ovn.org/host-cidrs";
pub(crate) const GATEWAY: &str = "k8s.ovn.org/l3-gateway-config";

/// Annotations of a node with this id.
pub(crate) fn annotations(name: &str, id: u8) -> BTreeMap<&'static str, String> {
    [
        ("k8s.ovn.org/node-id", id.to_string()),
        (CHASSIS_ID, format!("c-{name}")),
        (SUBNETS, format!(r#"{{"blue_l3":["10.10.{id}.0/24"]}}"#)),
        (HOST_CIDRS, format!(r#"["172.18.0.{id}/16"]"#)),
    ]
    .into()
}

pub(crate) fn put_node(inputs: &mut ZoneObjects, name: &str, annotations: BTreeMap<&str, String>) {
    let annotations = annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    inputs.put_node(NodeObject {
        name,
        created: None,
        labels: None,
        annotations: Some(&annotations),
    });
}

pub(crate) fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: "blue".into(), name: name.into() }
}

pub(crate) fn port(port: u16, node_port: Option<u16>) -> ServicePort {
    ServicePort {
        name: String::new(),
        protocol: Protocol::Tcp,
        port,
        node_port,
        target: TargetPort::Number(8080),
    }
}

pub(crate) fn service(name: &str, cluster_ip: &str, ports: Vec<ServicePort>) -> Service {
    Service {
        key: key(name),
        cluster_ips: vec![cluster_ip.parse().unwrap()],
        external_ips: Vec::new(),
        ports,
        affinity_timeout: None,
        is_internal_local: false,
        is_external_local: false,
        publishes_unready: false,
        selector: BTreeMap::new(),
        problems: Vec::new(),
    }
}

/// A mirrored slice with ready endpoints on nodes.
pub(crate) fn slice(
    service: &str,
    name: &str,
    port: u16,
    endpoints: &[(&str, &str)],
) -> EndpointSlice {
    let endpoints = endpoints.iter().map(|(address, node)| Endpoint {
        addresses: vec![address.parse().unwrap()],
        node: Some((*node).into()),
        state: EndpointState::Ready,
    });
    EndpointSlice {
        service: key(service),
        name: name.into(),
        network: Some("blue_l3".to_owned()),
        endpoints: endpoints.collect(),
        ports: vec![EndpointPort { name: String::new(), protocol: Protocol::Tcp, port }],
    }
}

pub(crate) fn set_networks(objects: &mut ZoneObjects, networks: &Networks) {
    objects.set_networks(networks, &BTreeMap::new(), &BTreeSet::new());
}

/// A database with the rows of the network on node `n1`, and a controller.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) controller: Engine<Services>,
    pub(crate) inputs: ZoneObjects,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.insert(&LoadBalancerGroup {
            name: "blue_l3_clusterLBGroup".to_owned(),
            ..LoadBalancerGroup::default()
        })
        .unwrap();
        txn.insert(&LogicalRouter { name: "GR_blue_l3_n1".to_owned(), ..LogicalRouter::default() })
            .unwrap();
        txn.insert(&LogicalSwitch { name: "blue_l3_n1".to_owned(), ..LogicalSwitch::default() })
            .unwrap();
        database.transact(txn.finish().operations()).unwrap();
        let mut inputs = ZoneObjects::new("n1", &ClusterSettings::default());
        set_networks(&mut inputs, &networks(CONFIG));
        put_node(&mut inputs, "n1", annotations("n1", 2));
        put_node(&mut inputs, "n2", annotations("n2", 3));
        Self { database, controller: Engine::new(UuidSource::seeded(2)), inputs }
    }

    /// Plans, commits, and makes sure that neither this controller nor a new one finds more to do.
    pub(crate) fn pass(&mut self) {
        let snapshot = self.database.snapshot();
        let change = self.controller.plan(&self.inputs, &snapshot).into_change().unwrap();
        if let Some(transaction) = change.transaction {
            self.database.transact(transaction.operations()).unwrap();
        }
        let snapshot = self.database.snapshot();
        let mut fresh = Engine::<Services>::new(UuidSource::seeded(3));
        for controller in [&mut self.controller, &mut fresh] {
            let again = controller
                .plan(&self.inputs, &snapshot)
                .into_change()
                .unwrap()
                .transaction
                .map(|transaction| transaction.operations().to_vec());
            assert!(again.is_none(), "{again:?}");
        }
    }

    pub(crate) fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.database.snapshot();
        let rows = snapshot.typed::<T>();
        rows.iter().map(|row| row.unwrap().1).collect()
    }

    /// Virtual addresses with backends of each load balancer, by name without the prefix.
    pub(crate) fn vips(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let rows = self.rows::<LoadBalancer>().into_iter();
        rows.map(|row| {
            let name = row.name.strip_prefix("blue_l3_Service_blue/");
            (name.unwrap().to_owned(), row.vips)
        })
        .collect()
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = Services::problems(&self.controller, &self.inputs);
        problems.iter().map(ToString::to_string).collect()
    }
}

pub(crate) fn vips<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(vip, backends)| (vip.to_owned(), backends.to_owned())).into()
}
