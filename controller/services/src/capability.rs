//! Services on the row engine: which parts there are, and the rows of each.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::names::network_in_rows;
use patchbay_model::{
    ClusterSettings, FieldProblem, ObjectProblem, Service, ServiceKey, ServicePort, object_kind,
};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader};
use patchbay_zone::{Cell, Kind, ZoneCapability, ZoneObjects, network_kinds, reported_problems};

use super::load_balancers::load_balancers;
use super::node::NodePlace;
use super::rules::{PortAddresses, Scene, ServiceRules};
use super::tables::{DEFAULT_ROUTER, Tables};

/// A service in the primary network of its namespace.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Part {
    network: Arc<str>,
    service: ServiceKey,
}

impl Part {
    /// The part of the network and service that a row names. `None`: it names no service.
    pub(super) fn new(network: &str, owner: &str) -> Option<Self> {
        let (namespace, name) = owner.split_once('/')?;
        Some(Self {
            network: network.into(),
            service: ServiceKey { namespace: namespace.into(), name: name.into() },
        })
    }
}

/// The addresses of all nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeAddresses;

/// The services of a zone, as a capability of the row engine.
#[derive(Debug)]
pub struct Services {
    tables: Tables,
}

type Rows = PartRows<Vec<ObjectProblem>>;

impl ZoneCapability for Services {
    const NAME: &'static str = "services";

    fn needs(settings: &ClusterSettings) -> Vec<&'static str> {
        let own = [object_kind::SERVICE, object_kind::ENDPOINT_SLICE];
        network_kinds(settings).into_iter().chain(own).collect()
    }

    fn problems(engine: &Engine<Self>, _: &ZoneObjects) -> Vec<ObjectProblem> {
        reported_problems(engine).collect()
    }
}

impl Capability for Services {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = Vec<ObjectProblem>;
    type SharedKey = NodeAddresses;
    type Shared = BTreeSet<IpAddr>;

    const KINDS: &'static [Kind] = &[Kind::Zone, Kind::Nodes, Kind::Networks, Kind::Services];

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: services".to_owned()
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        let of = |network: &Arc<str>, service: &ServiceKey| Part {
            network: network.clone(),
            service: service.clone(),
        };
        match cell {
            Cell::Service(key) => {
                let network = inputs.primary_network_of(&key.namespace);
                if let Some(network) = network.filter(|_| forwarded(inputs, key).is_some()) {
                    part(of(network, key));
                }
            }
            Cell::PrimaryNetwork(namespace) => {
                let network = inputs.primary_network_of(namespace);
                if let Some(network) = network {
                    for service in inputs.services_in(namespace) {
                        part(of(network, service));
                    }
                }
            }
            _ => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        inputs.primary_network_of(&part.service.namespace) == Some(&part.network)
            && forwarded(inputs, &part.service).is_some()
    }

    fn shared(&self, NodeAddresses: &NodeAddresses, reader: &Reader<'_, Self>) -> BTreeSet<IpAddr> {
        reader.read(&Cell::NodeAddresses).node_addresses()
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let is_shared = reader.row(self.tables.routers, DEFAULT_ROUTER).is_some();
        reader.read(&Cell::of_network(&part.network));
        let inputs = reader.read(&Cell::Unread);
        let is_unknown = inputs.primary_network(&part.network).is_none();
        if is_shared || is_unknown && inputs.may_exist(&part.network) {
            rows.keep_rest();
        }
        reader.read(&Cell::PrimaryNetwork(part.service.namespace.clone()));
        let inputs = reader.read(&Cell::Service(part.service.clone()));
        if !self.exists(part, inputs) {
            return;
        }
        if let Some(service) = forwarded(inputs, &part.service) {
            self.service(part, service, is_shared, reader, rows);
        }
    }

    fn objects(&self, part: &Part, _: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        vec![
            ObjectName::new(object_kind::SERVICE, &part.service),
            ObjectName::new(object_kind::NETWORK, network_in_rows(&part.network)),
        ]
    }
}

impl Services {
    fn service(
        &self,
        part: &Part,
        service: &Service,
        is_shared: bool,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let zone = reader.read(&Cell::Zone).zone();
        let inputs = reader.read(&Cell::Node(zone.clone()));
        reader.read(&Cell::NodeSubnets(zone.clone()));
        let Some(network) = inputs.primary_network(&part.network) else {
            return rows.keep_rest();
        };
        let place =
            inputs.node(zone).and_then(|node| NodePlace::new(node, network, inputs.settings()));
        let scene = Scene {
            settings: inputs.settings(),
            node: zone,
            network,
            place: place.as_ref(),
            service,
        };
        let mut problems = service.problems.clone();
        let mut outside = BTreeSet::new();
        let mut rules = ServiceRules::new();
        let has_address = !service.cluster_ips.is_empty();
        for port in service.ports.iter().filter(|_| has_address) {
            let addresses = claimed(service, port, reader, &mut problems);
            let backends = scene.add_rules(
                port,
                &addresses,
                inputs.slices(&service.key, &network.name),
                rules.entry(port.protocol).or_default(),
            );
            outside.extend(backends.outside(network));
        }
        if !outside.is_empty() {
            let nodes = reader.shared(&NodeAddresses);
            problems.extend(outside.difference(&nodes).map(|address| {
                FieldProblem::of_object(format!(
                    "endpoint {address} is neither in a subnet of network {} nor an address of a node",
                    network.name
                ))
            }));
        }
        let made = load_balancers(network, service, inputs.settings(), zone, place.as_ref(), rules);
        let table = self.tables.load_balancers;
        for made in made {
            // OVN-Kubernetes knows the endpoints of its load balancers better than manifests do.
            if is_shared && reader.row(table, &made.row.name).is_some() {
                continue;
            }
            let mut added = rows.put(table, &made.row);
            for group in made.groups {
                added.held_by(self.tables.of_group, group);
            }
            for router in made.routers {
                added.held_by(self.tables.of_router, router);
            }
            for switch in made.switches {
                added.held_by(self.tables.of_switch, switch);
            }
        }
        if !problems.is_empty() {
            let problems = problems.into_iter();
            rows.report(
                problems.map(|problem| ObjectProblem::new(&service.key, problem)).collect(),
            );
        }
    }
}

/// A service with load balancers in the network of its namespace. As in OVN-Kubernetes, a service
/// that the settings let all networks reach has a route in place of them.
fn forwarded<'a>(objects: &'a ZoneObjects, key: &ServiceKey) -> Option<&'a Arc<Service>> {
    let reachable = &objects.settings().reachable_default_services;
    let service = objects.service(key);
    service.filter(|_| reachable.is_empty() || !reachable.contains(&key.to_string()))
}

/// The addresses and the node port of a port that no other service has.
fn claimed(
    service: &Service,
    port: &ServicePort,
    reader: &Reader<'_, Services>,
    problems: &mut Vec<FieldProblem>,
) -> PortAddresses {
    let protocol = port.protocol;
    let mut free = |addresses: &[IpAddr]| {
        let mut addresses = addresses.to_vec();
        addresses.retain(|address| {
            let other = reader.claim("address", (protocol, address, port.port));
            if let Some(other) = other {
                let (number, other) = (port.port, &other.service);
                let reason =
                    format!("{address} port {number} of {protocol} is taken by service {other}");
                problems.push(FieldProblem::of_object(reason));
            }
            other.is_none()
        });
        addresses
    };
    let (cluster_ips, external_ips) = (free(&service.cluster_ips), free(&service.external_ips));
    let node_port = port.node_port.filter(|node_port| {
        let other = reader.claim("node port", (protocol, node_port));
        if let Some(other) = other {
            let other = &other.service;
            let reason = format!("node port {node_port} of {protocol} is taken by service {other}");
            problems.push(FieldProblem::new("spec.ports", reason));
        }
        other.is_none()
    });
    PortAddresses { cluster_ips, external_ips, node_port }
}
