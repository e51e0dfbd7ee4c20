//! Objects of a small cluster that tests change directly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, ConnectInput, IpFamily, NetworkActivity, Networks, Node, Protocol, Service,
    ServiceKey, ServicePort, TargetPort,
};
use patchbay_zone::ZoneObjects;

/// Objects from which the zone is made for each plan.
#[derive(Clone, Default)]
pub(crate) struct Inputs {
    pub(crate) zone: String,
    pub(crate) families: Vec<IpFamily>,
    pub(crate) service_cidrs: Vec<IpNet>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) networks: Arc<Networks>,
    /// Nodes of networks that are not on all nodes.
    pub(crate) limited: BTreeMap<String, BTreeSet<String>>,
    /// Namespace and protocols of each service.
    pub(crate) services: Vec<(String, Vec<Protocol>)>,
    pub(crate) connects: BTreeMap<String, Arc<ConnectInput>>,
}

impl Inputs {
    pub(crate) fn put_node(&mut self, node: Node) {
        self.nodes.insert(node.name.clone(), Arc::new(node));
    }

    pub(crate) fn put_connect(&mut self, name: impl Into<String>, connect: ConnectInput) {
        self.connects.insert(name.into(), Arc::new(connect));
    }

    /// The objects of the zone. `former`: as the running controller has seen them last.
    pub(crate) fn objects(&self, former: Option<&ZoneObjects>) -> ZoneObjects {
        let settings = ClusterSettings {
            families: self.families.clone(),
            service_cidrs: self.service_cidrs.clone(),
            ..ClusterSettings::default()
        };
        let mut objects = ZoneObjects::new(&self.zone, &settings);
        objects.set_connectable_networks(&self.networks);
        for node in self.nodes.values() {
            objects.put_checked_node(Node::clone(node));
        }
        let uses = self.limited.iter().flat_map(|(network, nodes)| {
            let nodes = nodes.iter().map(|node| node.as_str().into());
            nodes.map(|node| (network.as_str().into(), node))
        });
        let limited = self.limited.keys().map(|network| network.as_str().into());
        objects.set_activity(Some(&NetworkActivity::new(limited, uses, &[])));
        for (number, (namespace, protocols)) in self.services.iter().enumerate() {
            objects.put_service(service(namespace, number, protocols));
        }
        for (name, input) in &self.connects {
            objects.put_connect(name, input.clone());
        }
        if let Some(former) = former {
            objects.follow(former);
        }
        objects
    }
}

fn service(namespace: &str, number: usize, protocols: &[Protocol]) -> Service {
    let ports = protocols.iter().map(|protocol| ServicePort {
        name: protocol.to_string(),
        protocol: *protocol,
        port: 80,
        node_port: None,
        target: TargetPort::Number(80),
    });
    Service {
        key: ServiceKey { namespace: namespace.into(), name: format!("s{number}").into() },
        cluster_ips: vec!["10.96.0.7".parse().unwrap()],
        external_ips: Vec::new(),
        ports: ports.collect(),
        affinity_timeout: None,
        is_internal_local: false,
        is_external_local: false,
        publishes_unready: false,
        selector: BTreeMap::new(),
        problems: Vec::new(),
    }
}
