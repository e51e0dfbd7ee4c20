//! EgressIPs on the row engine: which parts there are, and the rows of each.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::external_ids::key;
use patchbay_model::names::{gateway_router, network_in_rows};
use patchbay_model::{
    ClusterSettings, EGRESS_IP_MARK, Feature, FieldProblem, IpFamily, Network, ObjectProblem,
    PodKey, Topology, format_address, object_kind,
};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::QoS;
use patchbay_schemas::schema::{Constraint, DatabaseSchema};
use patchbay_schemas::typed::TableRow;
use patchbay_zone::{
    Cell, Kind, ServedPod, Server, ZoneCapability, ZoneObjects, kinds_of, pod_kinds,
    reported_problems,
};

use super::next_hop::next_hop;
use super::problems::{egress_ip, object_problems};
use super::rows::{
    PodPolicies, is_egress_row, reply_rules, served_set, served_set_name, service_pods_set,
    stay_policies,
};
use super::tables::{DEFAULT_ROUTER, PolicyOwner, SetName, Tables};

/// Returns `true` if the feature is on.
pub(super) fn is_on(objects: &ZoneObjects) -> bool {
    objects.settings().has_feature(Feature::EgressIp)
}

/// A primary network, while the feature is on.
fn network<'a>(objects: &'a ZoneObjects, name: &str) -> Option<&'a Arc<Network>> {
    objects.primary_network(name).filter(|_| is_on(objects))
}

/// Returns `true` if the schema allows marks of rules in `QoS`.
fn has_marks(schema: &DatabaseSchema) -> bool {
    let Some((_, table)) = schema.table_by_name(QoS::TABLE) else {
        return false;
    };
    let action = table.column_id("action").map(|id| table.column_type(id));
    action.is_some_and(|action| match &action.key.constraint {
        Constraint::Enum(allowed) => allowed.contains(&Atom::from("mark")),
        _ => true,
    })
}

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// Address sets that rows of all networks name.
    Shared,
    /// Rows of every primary network: policies that keep packets in the cluster, and the address
    /// set of served pods, without the addresses.
    Network(Arc<str>),
    /// Rows that lead packets of a served pod to egress nodes, and its members of the address set.
    Pod(Arc<str>, PodKey),
}

/// EgressIPs of a zone, as a capability of the row engine.
#[derive(Debug)]
pub struct Egress {
    tables: Tables,
}

type Rows = PartRows<Vec<ObjectProblem>>;

impl ZoneCapability for Egress {
    const NAME: &'static str = "EgressIPs";

    fn needs(settings: &ClusterSettings) -> Vec<&'static str> {
        let own = kinds_of(settings, Feature::EgressIp, &[object_kind::EGRESS_IP]);
        pod_kinds(settings).into_iter().chain(own).collect()
    }

    fn problems(engine: &Engine<Self>, inputs: &ZoneObjects) -> Vec<ObjectProblem> {
        let problems: BTreeSet<ObjectProblem> =
            object_problems(inputs).into_iter().chain(reported_problems(engine)).collect();
        problems.into_iter().collect()
    }
}

impl Capability for Egress {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = Vec<ObjectProblem>;
    type SharedKey = Infallible;
    type Shared = ();

    const KINDS: &'static [Kind] = &[Kind::Zone, Kind::Nodes, Kind::Networks, Kind::EgressIps];

    fn is_off(inputs: &ZoneObjects) -> bool {
        !is_on(inputs)
    }

    fn has_rows(snapshot: &Snapshot) -> bool {
        let policies = snapshot.typed::<PolicyOwner>();
        let mut policies = policies.iter().filter_map(Result::ok);
        policies.any(|(_, policy)| is_egress_row(&policy.external_ids))
    }

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: egress".to_owned()
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        match cell {
            Cell::Zone => part(Part::Shared),
            Cell::Network(prefix) => {
                if let Some(network) = inputs.network(prefix) {
                    part(Part::Network(network.name.clone()));
                }
            }
            Cell::ServedPod(network, pod) => part(Part::Pod(network.clone(), pod.clone())),
            _ => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        match part {
            Part::Shared => true,
            Part::Network(name) => network(inputs, name).is_some(),
            Part::Pod(network, pod) => inputs.served_pod(network, pod).is_some(),
        }
    }

    fn shared(&self, key: &Infallible, _: &Reader<'_, Self>) {
        match *key {}
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        // The rows of a database with the default network are OVN-Kubernetes'.
        if reader.row(self.tables.routers, DEFAULT_ROUTER).is_some() {
            return rows.keep_rest();
        }
        match part {
            Part::Shared => self.shared_rows(reader, rows),
            Part::Network(name) => {
                if let Some(network) = self.network(name, reader, rows) {
                    self.network_rows(network, reader, rows);
                }
            }
            Part::Pod(name, pod) => {
                if let Some(network) = self.network(name, reader, rows) {
                    self.pod_rows((name, network), pod, reader, rows);
                }
            }
        }
    }

    fn objects(&self, part: &Part, row: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        let of = |network: &str| ObjectName::new(object_kind::NETWORK, network_in_rows(network));
        match part {
            Part::Shared => Vec::new(),
            Part::Network(network) => vec![of(network)],
            Part::Pod(network, pod) => {
                let name = row.view().external_id(key::NAME);
                let egress_ip = name
                    .and_then(|name| name.split_once('_'))
                    .map(|(name, _)| ObjectName::new(object_kind::EGRESS_IP, name));
                let pod = ObjectName::new(object_kind::POD, pod);
                egress_ip.into_iter().chain([pod, of(network)]).collect()
            }
        }
    }

    /// The policies of served pods lead packets past those of the network.
    fn is_needed_by(&self, part: &Part, other: &Part) -> bool {
        matches!((part, other), (Part::Network(network), Part::Pod(of, _)) if network == of)
    }
}

impl Egress {
    /// A network whose router is there. `None`: the part has no rows, or they stay as they are.
    fn network<'a>(
        &self,
        name: &Arc<str>,
        reader: &Reader<'a, Self>,
        rows: &mut Rows,
    ) -> Option<&'a Network> {
        reader.read(&Cell::Zone);
        let inputs = reader.read(&Cell::of_network(name));
        let Some(network) = network(inputs, name) else {
            if is_on(inputs) && reader.read(&Cell::Unread).may_exist(name) {
                rows.keep_rest();
            }
            return None;
        };
        let routers = self.tables.routers;
        if reader.row(routers, &network.router()).is_none() {
            rows.keep_rest();
            return None;
        }
        Some(network)
    }

    fn shared_rows(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::Zone);
        for family in inputs.families().into_iter().filter(|_| is_on(inputs)) {
            let set = service_pods_set(family);
            let set = SetName { name: set.name, external_ids: set.external_ids };
            rows.put(self.tables.service_pods, &set);
        }
    }

    fn network_rows(&self, network: &Network, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let inputs = reader.read(&Cell::Zone);
        let name: Arc<str> = network.name.as_str().into();
        let families = inputs.families();
        let router = network.router();
        let subnets: Vec<_> = network.pod_subnets.iter().map(|of| of.cidr).collect();
        let join = &inputs.settings().join_subnets;
        for policy in stay_policies(&name, &subnets, join, &families) {
            rows.put(tables.stays, &policy).held_by(tables.stays_of_router, router.as_str());
        }
        for family in &families {
            rows.put(tables.served, &served_set(&name, *family));
        }
        let switch = network.switch(inputs.zone());
        if has_marks(reader.schema()) && reader.row(tables.switches, &switch).is_some() {
            for rule in reply_rules(&name, &families) {
                rows.put(tables.rules, &rule).held_by(tables.rules_of_switch, switch.as_str());
            }
        }
    }

    fn pod_rows(
        &self,
        (name, network): (&Arc<str>, &Network),
        pod: &PodKey,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let tables = &self.tables;
        let inputs = reader.read(&Cell::ServedPod(name.clone(), pod.clone()));
        let Some(served) = inputs.served_pod(name, pod) else {
            return;
        };
        let zone = inputs.zone();
        let pod_name = pod.to_string();
        let (server, problems) = self.server(name, pod, served, reader);
        if !problems.is_empty() {
            rows.report(problems);
        }
        let is_marked = server.and_then(|server| Some((server, server.mark?)));
        let Some((server, mark)) = is_marked else {
            return;
        };
        // As in OVN-Kubernetes, which finds no next hop of another family in a layer2 network.
        let is_served = |address: &IpAddr| {
            let family = IpFamily::of(*address);
            let mut assignments = server.assignments.iter();
            assignments.any(|one| IpFamily::of(one.address) == family)
        };
        let is_layer3 = network.topology == Topology::Layer3;
        let is_member = served.is_local && (is_layer3 || served.addresses.iter().any(is_served));
        for address in served.addresses.iter().filter(|_| is_member) {
            let set = served_set_name(name, IpFamily::of(*address));
            rows.member(tables.served, set, format_address(*address).into());
        }
        let made =
            PodPolicies { network: name, egress_ip: &server.egress_ip, pod: &pod_name, mark };
        for family in IpFamily::BOTH {
            let mut addresses = served.addresses.iter().copied();
            let address = addresses.find(|address| IpFamily::of(*address) == family);
            let assignments =
                server.assignments.iter().filter(|one| IpFamily::of(one.address) == family);
            let nodes: BTreeSet<&Arc<str>> = assignments.map(|one| &one.node).collect();
            let Some(address) = address.filter(|_| !nodes.is_empty()) else {
                continue;
            };
            let leads = |node: &Arc<str>| {
                served.is_local || network.topology == Topology::Layer2 && node == zone
            };
            let led = nodes.iter().copied().filter(|node| leads(node));
            let hops: BTreeSet<IpAddr> = led
                .filter_map(|node| {
                    let inputs = reader.read(&Cell::Node(node.clone()));
                    next_hop(inputs, network, node, family)
                })
                .collect();
            if !hops.is_empty() {
                rows.put(tables.policies, &made.leave_policy(address, &hops))
                    .held_by(tables.policies_of_router, network.router());
            }
            let gateway = gateway_router(name, zone);
            if nodes.contains(zone) && reader.row(tables.routers, &gateway).is_some() {
                rows.put(tables.policies, &made.mark_policy(address))
                    .held_by(tables.policies_of_router, gateway);
            }
        }
    }

    /// The EgressIP that serves a pod, and what keeps others, or this one, from it. As in
    /// OVN-Kubernetes, it is the one that has served the pod so far; otherwise the first by name.
    fn server<'s>(
        &self,
        network: &str,
        pod: &PodKey,
        served: &'s ServedPod,
        reader: &Reader<'_, Self>,
    ) -> (Option<&'s Server>, Vec<ObjectProblem>) {
        let pod_name = pod.to_string();
        let has_rows = |server: &&Server| {
            let made =
                PodPolicies { network, egress_ip: &server.egress_ip, pod: &pod_name, mark: 0 };
            made.ids().any(|id| reader.row(self.tables.policies, &id).is_some())
        };
        let servers = &served.servers;
        let known = servers.iter().filter(|_| servers.len() > 1).find(has_rows);
        let Some(server) = known.or_else(|| servers.first()) else {
            return (None, Vec::new());
        };
        let problem = |name: &Arc<str>, problem| ObjectProblem::new(egress_ip(name), problem);
        let others = servers.iter().filter(|one| one.egress_ip != server.egress_ip);
        let mut problems: Vec<ObjectProblem> = others
            .map(|one| {
                let reason = format!("pod {pod} is served by EgressIP {}", server.egress_ip);
                problem(&one.egress_ip, FieldProblem::of_object(reason))
            })
            .collect();
        if server.mark.is_none() {
            let reason = "no mark in 1..=4294967295, so pods of networks are not served";
            let mark = FieldProblem::of_annotation(EGRESS_IP_MARK, reason);
            problems.push(problem(&server.egress_ip, mark));
        } else if !has_marks(reader.schema()) {
            let reason = "the Northbound's schema has no marks of QoS rules, so replies of its pods to \
                          clients outside of the cluster leave through the egress node, too";
            problems.push(problem(&server.egress_ip, FieldProblem::of_object(reason)));
        }
        (Some(server), problems)
    }
}
