//! Scenarios of user-defined networks: the objects of a cluster around the zone controller.

mod northbound;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use patchbay_app::activity::NetworkUsers;
use patchbay_egress::{EgressController, EgressObjects, ZoneEgress};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_model::{
    ClusterSettings, DEFAULT_NETWORK_KEY, Feature, GatewayMode, IpFamily, NetworkActivity,
    NetworkObjects, POD_NETWORKS, PRIMARY_NETWORK_LABEL, Pod, PodKey, PolicyKey, PolicyKind,
    RenderedNetworks,
};
use patchbay_networks::{NetworkController, ZoneNetworks};
use patchbay_pods::{AllocationScope, PodAllocator, PodController, ZonePods};
use patchbay_policies::admin::{AdminPolicyController, AdminPolicyObjects, ZoneAdminPolicies};
use patchbay_policies::{PolicyController, ZonePolicies};
use patchbay_resources::conversion;
use patchbay_resources::object::{Namespace, Object};
use patchbay_rows::PlanError;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::{ServiceController, ZoneServices};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::report::{Difference, StepResult};
use crate::scenario::{ObjectOp, Scenario, Step};
use northbound::Northbound;
pub(crate) use objects::Objects;
use objects::{AnnotatedNode, ObjectId};

/// Passes after which a scenario that still changes rows fails.
const MAX_PASSES: usize = 12;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    config: Config,
    objects: Vec<Value>,
    pub(crate) steps: Vec<Step<ObjectOp>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    node: String,
    ipv4: bool,
    ipv6: bool,
    gateway_mode: String,
    /// With the prefix length of the nodes' subnets.
    cluster_subnets: Vec<String>,
    service_cidrs: Vec<IpNet>,
    join_subnets: Vec<IpNet>,
    transit_subnets: Vec<IpNet>,
    masquerade_subnets: Vec<IpNet>,
    mtu: u32,
    ephemeral_port_range: String,
    node_ports: bool,
    udn_allowed_default_services: Vec<String>,
    features: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedStep {
    name: String,
    #[serde(default)]
    nb: BTreeMap<String, Vec<Map<String, Value>>>,
    /// Addresses of all pods that have some. `None`: as after the step before.
    #[serde(default)]
    pods: Option<BTreeMap<String, Value>>,
    #[serde(default, rename = "cluster")]
    _cluster: Option<Value>,
}

/// Plays a scenario and compares the database after each step.
pub(crate) fn run(scenario: &Scenario) -> Result<Vec<StepResult>, String> {
    let (input, expected) = scenario.parts::<Input, ExpectedStep>()?;
    if input.steps.len() != expected.steps.len() {
        return Err("there are not as many states as steps".to_owned());
    }
    let mut world = World::new(&input)?;
    let mut state = State::default();
    let steps = input.steps.into_iter().zip(expected.steps);
    steps
        .map(|(step, expected)| {
            if step.name != expected.name {
                let (have, want) = (expected.name, step.name);
                return Err(format!("state {have:?} is not of step {want:?}"));
            }
            world.know_default_network(expected.pods.as_ref());
            state.update(expected.nb, expected.pods);
            let mut differences = world.play(step)?;
            differences.extend(state.compare(&world)?);
            Ok(StepResult {
                name: expected.name,
                differences,
            })
        })
        .collect()
}

/// Recorded rows, and addresses of pods.
#[derive(Default)]
pub(crate) struct State {
    /// Rows by table. A table that a step does not name is as after the step before.
    tables: BTreeMap<String, Vec<Map<String, Value>>>,
    pods: BTreeMap<String, Value>,
}

impl State {
    /// Takes over what a step has changed. `pods`: addresses of all pods; `None`: no change.
    pub(crate) fn update(
        &mut self,
        tables: BTreeMap<String, Vec<Map<String, Value>>>,
        pods: Option<BTreeMap<String, Value>>,
    ) {
        self.tables.extend(tables);
        if let Some(pods) = pods {
            self.pods = without_default_network(pods);
        }
    }

    pub(crate) fn compare(&self, world: &World) -> Result<Vec<Difference>, String> {
        let found = world.objects.pod_networks()?;
        let mut differences: Vec<Difference> =
            compare_pods(&self.pods, &found).into_iter().collect();
        for (table, rows) in &self.tables {
            differences.extend(world.northbound.compare(table, rows)?);
        }
        Ok(differences)
    }
}

/// Addresses of pods without those in the default network, which are not given here.
pub(crate) fn without_default_network(
    recorded: BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    let pods = recorded.into_iter().filter_map(|(pod, mut networks)| {
        let networks_of_pod = networks.as_object_mut()?;
        networks_of_pod.remove(DEFAULT_NETWORK_KEY);
        (!networks_of_pod.is_empty()).then_some((pod, networks))
    });
    pods.collect()
}

fn compare_pods(
    expected: &BTreeMap<String, Value>,
    found: &BTreeMap<String, Value>,
) -> Option<Difference> {
    let only_in = |one: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>| {
        let entries = one.iter();
        let differing = entries.filter(|(pod, networks)| other.get(*pod) != Some(networks));
        differing
            .map(|(pod, networks)| format!("{pod} {networks}"))
            .collect::<Vec<_>>()
    };
    let (missing, extra) = (only_in(expected, found), only_in(found, expected));
    (missing != extra).then(|| Difference {
        place: POD_NETWORKS.to_owned(),
        missing,
        extra,
    })
}

/// Objects, a database, and the controllers while they run.
pub(crate) struct World {
    node: String,
    settings: ClusterSettings,
    pub(crate) objects: Objects,
    northbound: Northbound,
    controllers: Option<Controllers>,
    /// Policies with their pods, as the running controllers have seen them.
    policies: ZonePolicies,
    /// The objects that the policies have seen.
    seen: BTreeSet<ObjectId>,
    /// Networks that the running controllers have rendered.
    rendered: RenderedNetworks,
    /// Addresses of pods in the default network, which its own controller has recorded.
    default_addresses: BTreeMap<String, Vec<IpAddr>>,
    started: u64,
}

struct Controllers {
    networks: NetworkController,
    pods: PodController,
    addresses: PodAllocator,
    policies: PolicyController,
    admin_policies: AdminPolicyController,
    services: ServiceController,
    egress: EgressController,
}

/// What the controllers read.
struct Inputs {
    networks: ZoneNetworks,
    pods: ZonePods,
    policies: ZonePolicies,
    admin_policies: ZoneAdminPolicies,
    services: ZoneServices,
    egress: ZoneEgress,
}

impl Controllers {
    fn new(seed: u64) -> Self {
        // Rows of one table must not get the same UUIDs.
        let mut seeds = UuidSource::seeded(seed);
        let mut uuids = || UuidSource::seeded(seeds.next_uuid().as_u64_pair().0);
        Self {
            networks: NetworkController::new(uuids()),
            pods: PodController::new(uuids()),
            addresses: PodAllocator::new(AllocationScope::Zone),
            policies: PolicyController::new(uuids()),
            admin_policies: AdminPolicyController::new(uuids()),
            services: ServiceController::new(uuids()),
            egress: EgressController::new(uuids()),
        }
    }

    /// The first transaction that one of the controllers wants.
    fn plan(
        &mut self,
        inputs: &Inputs,
        snapshot: &Snapshot,
    ) -> Result<Option<Transaction>, PlanError> {
        let plan = self.networks.plan(&inputs.networks, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.pods.plan(&inputs.pods, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.policies.plan(&inputs.policies, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.admin_policies.plan(&inputs.admin_policies, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.egress.plan(&inputs.egress, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.services.plan(&inputs.services, snapshot)?;
        Ok(plan.transaction)
    }
}

impl World {
    pub(crate) fn new(input: &Input) -> Result<Self, String> {
        let mut objects = Objects::default();
        for object in &input.objects {
            objects.put(object.clone())?;
        }
        let settings = settings(&input.config)?;
        Ok(Self {
            node: input.config.node.clone(),
            policies: ZonePolicies::new(&input.config.node, &settings),
            settings,
            objects,
            northbound: Northbound::new(),
            controllers: None,
            seen: BTreeSet::new(),
            rendered: RenderedNetworks::default(),
            default_addresses: BTreeMap::new(),
            started: 0,
        })
    }

    /// Takes over recorded addresses of pods in the default network. `None`: no change.
    pub(crate) fn know_default_network(&mut self, pods: Option<&BTreeMap<String, Value>>) {
        let Some(pods) = pods else {
            return;
        };
        let pods = pods.iter().map(|(pod, networks)| {
            let addresses = networks[DEFAULT_NETWORK_KEY]["ip_addresses"].as_array();
            let addresses = addresses.into_iter().flatten().filter_map(Value::as_str);
            let addresses = addresses.filter_map(|text| text.parse::<IpNet>().ok());
            (pod.clone(), addresses.map(|net| net.addr()).collect())
        });
        self.default_addresses = pods.collect();
    }

    pub(crate) fn start(&mut self) {
        self.started += 1;
        self.policies = ZonePolicies::new(&self.node, &self.settings);
        self.rendered = RenderedNetworks::default();
        self.controllers = Some(Controllers::new(self.started));
    }

    pub(crate) fn stop(&mut self) {
        self.controllers = None;
    }

    /// Applies the ops of a step and lets the controllers come to rest.
    fn play(&mut self, step: Step<ObjectOp>) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for op in step.ops {
            match op {
                ObjectOp::StartController => self.start(),
                ObjectOp::StopController => self.stop(),
                ObjectOp::Settle => differences.extend(self.settle()?),
                ObjectOp::Create { object } => self.objects.put(object)?,
                ObjectOp::Patch {
                    kind,
                    namespace,
                    name,
                    patch,
                } => self.objects.patch(&kind, &namespace, &name, &patch)?,
                ObjectOp::Delete {
                    kind,
                    namespace,
                    name,
                } => {
                    self.objects.delete(&kind, &namespace, &name)?;
                    forget(&mut self.policies, &(kind, namespace, name));
                }
            }
        }
        differences.extend(self.settle()?);
        Ok(differences)
    }

    /// Plans and commits until nothing is left to do. A new controller has to agree.
    pub(crate) fn settle(&mut self) -> Result<Option<Difference>, String> {
        let Some(mut controllers) = self.controllers.take() else {
            return Ok(None);
        };
        let settled = self.settle_with(&mut controllers);
        self.controllers = Some(controllers);
        settled
    }

    fn settle_with(&mut self, controllers: &mut Controllers) -> Result<Option<Difference>, String> {
        let mut inputs = self.inputs()?;
        let addresses = controllers.addresses.allocate(&inputs.pods);
        if !addresses.is_empty() {
            for (pod, networks) in addresses {
                self.objects
                    .annotate_pod(pod, POD_NETWORKS, &networks.to_json())?;
            }
            inputs = self.inputs()?;
        }
        let pods = inputs.pods.pods();
        let local = pods.filter(|pod| pod.is_wired() && pod.node.as_deref() == Some(&*self.node));
        let default_ports = local.map(|pod| pod.key.default_port()).collect();
        self.northbound.set_default_ports(&default_ports)?;
        for _ in 0..MAX_PASSES {
            let snapshot = self.northbound.snapshot();
            let plan = controllers.plan(&inputs, &snapshot);
            let Some(transaction) = plan.map_err(|error| error.to_string())? else {
                return self.compare_new(&inputs, &snapshot);
            };
            self.northbound.commit(&transaction)?;
        }
        Ok(Some(Difference {
            place: "passes".to_owned(),
            missing: vec![format!("rest after {MAX_PASSES} passes")],
            extra: Vec::new(),
        }))
    }

    /// What new controllers would do, if anything.
    fn compare_new(
        &self,
        inputs: &Inputs,
        snapshot: &Snapshot,
    ) -> Result<Option<Difference>, String> {
        let mut controllers = Controllers::new(self.started);
        let addresses = controllers.addresses.allocate(&inputs.pods);
        let mut extra: Vec<String> = addresses
            .iter()
            .map(|(pod, networks)| format!("{pod} {}", networks.to_json()))
            .collect();
        let plan = controllers.plan(inputs, snapshot);
        if let Some(transaction) = plan.map_err(|error| error.to_string())? {
            extra.push(format!("{:?}", transaction.operations()));
        }
        Ok((!extra.is_empty()).then(|| Difference {
            place: "a new controller".to_owned(),
            missing: Vec::new(),
            extra,
        }))
    }

    /// What the controllers read.
    fn inputs(&mut self) -> Result<Inputs, String> {
        let definitions = self.objects.definitions()?;
        let namespaces = self.objects.namespaces()?;
        let services = self.objects.services()?;
        let nodes = self.objects.nodes()?;
        let mut objects = NetworkObjects {
            networks: conversion::networks(&definitions, &namespaces),
            definitions: definitions
                .iter()
                .map(conversion::definition)
                .map(|definition| (definition.key.clone(), definition))
                .collect(),
            nodes: objects::node_objects(&nodes),
            services: services.iter().map(conversion::service_object).collect(),
            advertisements: self.objects.advertisements()?,
        };
        let labelled = namespaces.iter().filter(|namespace| {
            let labels = namespace.labels();
            labels.contains_key(PRIMARY_NETWORK_LABEL)
        });
        let labelled = labelled.map(Object::name_any).collect();
        let activity = self.activity(&objects, &labelled, &namespaces)?;
        if let Some(activity) = &activity {
            objects.limit_to(&self.node, activity, &labelled);
        }
        let mut zone_services = ZoneServices::new(&self.node, &self.settings);
        zone_services.set_networks(&objects.networks);
        for node in &objects.nodes {
            zone_services.put_node(*node);
        }
        for service in services.iter().map(conversion::network_service) {
            zone_services.put_service(service);
        }
        let slices = self.objects.slices()?;
        for slice in slices.iter().filter_map(conversion::endpoint_slice) {
            zone_services.put_slice(slice);
        }
        let mut pods = ZonePods::new(&self.node, &self.settings);
        pods.set_objects(&objects, &labelled);
        for pod in self.objects.pods()?.iter().map(conversion::pod) {
            pods.put_pod(Arc::new(pod));
        }
        let names: Vec<String> = namespaces.iter().map(Object::name_any).collect();
        self.update_policies(&objects, &labelled, &namespaces, &nodes, &pods)?;
        let policies = self.policies.clone();
        pods.set_gates(policies.gates());
        let egress = EgressObjects {
            pods: pods
                .pods()
                .map(|pod| (pod.clone(), pods.places(pod).collect()))
                .collect(),
            namespaces: names
                .iter()
                .zip(&namespaces)
                .map(|(name, namespace)| (name.as_str(), namespace.labels()))
                .collect(),
            egress_ips: self.objects.egress_ips()?,
        };
        let admin_policies = AdminPolicyObjects {
            policies: self.objects.admin_policies()?,
            pods: pods
                .pods()
                .map(|pod| self.in_default_network(pod))
                .collect(),
            namespaces: egress.namespaces.clone(),
            nodes: nodes
                .iter()
                .map(|node| (&node.labels, node.host_addresses()))
                .collect(),
        };
        let admin_policies = ZoneAdminPolicies::read(&self.node, &self.settings, &admin_policies);
        let mut zone_networks = ZoneNetworks::read(&objects, &self.node, &self.settings);
        if let Some(activity) = &activity {
            zone_networks.set_activity(activity);
        }
        let (networks, nodes) = (&objects.networks, &objects.nodes);
        Ok(Inputs {
            admin_policies,
            egress: if self.settings.has_feature(Feature::EgressIp) {
                ZoneEgress::read(&self.node, &self.settings, networks, nodes, &egress)
            } else {
                ZoneEgress::off([])
            },
            networks: zone_networks,
            policies,
            pods,
            services: zone_services,
        })
    }

    /// Nodes on which networks are rendered. `None`: all. A recording takes less time than a network
    /// without users stays.
    fn activity(
        &mut self,
        objects: &NetworkObjects<'_>,
        labelled: &BTreeSet<String>,
        namespaces: &[Namespace],
    ) -> Result<Option<NetworkActivity>, String> {
        if !self.settings.has_feature(Feature::DynamicUdnAllocation) {
            return Ok(None);
        }
        let mut pods = ZonePods::new(&self.node, &self.settings);
        pods.set_objects(objects, labelled);
        for pod in self.objects.pods()?.iter().map(conversion::pod) {
            pods.put_pod(Arc::new(pod));
        }
        let names: Vec<String> = namespaces.iter().map(Object::name_any).collect();
        let users = NetworkUsers {
            objects,
            labelled,
            pods: &pods,
            namespaces: names
                .iter()
                .zip(namespaces)
                .map(|(name, namespace)| (name.as_str(), namespace.labels()))
                .collect(),
            egress_ips: self.objects.egress_ips()?,
            connects: Vec::new(),
        };
        let mut activity = users.activity();
        let grace_period = self.settings.udn_deletion_grace_period;
        self.rendered.update(
            &mut activity,
            &self.node,
            grace_period,
            Timestamp::UNIX_EPOCH,
        );
        Ok(Some(activity))
    }

    /// A pod with its recorded addresses in the default network.
    fn in_default_network(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.default_addresses.get(&pod.key.to_string()) {
            Some(addresses) if pod.addresses_in_default_network().is_empty() => Arc::new(Pod {
                default_addresses: addresses.clone(),
                ..Pod::clone(pod)
            }),
            _ => pod.clone(),
        }
    }

    /// Brings the policies to the current objects, as the watches of running controllers do.
    fn update_policies(
        &mut self,
        objects: &NetworkObjects<'_>,
        labelled: &BTreeSet<String>,
        namespaces: &[Namespace],
        nodes: &[AnnotatedNode],
        pods: &ZonePods,
    ) -> Result<(), String> {
        let policies = &mut self.policies;
        let current = self.objects.ids();
        for gone in self.seen.difference(&current) {
            forget(policies, gone);
        }
        self.seen = current;
        policies.set_objects(objects, labelled);
        for namespace in namespaces {
            let (labels, annotations) = (namespace.labels(), namespace.annotations());
            policies.put_namespace(&namespace.name_any(), labels, annotations);
        }
        for node in nodes {
            policies.put_node(&node.name, &node.labels, node.host_addresses());
        }
        for firewall in self.objects.firewalls()? {
            policies.put_firewall(firewall);
        }
        for pod in pods.pods() {
            policies.put_pod(pod, pods.places(pod));
        }
        for policy in self.objects.policies()? {
            policies.put_policy(policy);
        }
        Ok(())
    }
}

/// Removes a deleted object from the policies.
fn forget(policies: &mut ZonePolicies, (kind, namespace, name): &ObjectId) {
    let policy = |kind| PolicyKey {
        kind,
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
    };
    match kind.as_str() {
        "Namespace" => policies.remove_namespace(name),
        "Node" => policies.remove_node(name),
        "Pod" => policies.remove_pod(&PodKey::new(namespace.as_str(), name.as_str())),
        "EgressFirewall" => policies.remove_firewall(namespace),
        "NetworkPolicy" => policies.remove_policy(&policy(PolicyKind::NetworkPolicy)),
        "MultiNetworkPolicy" => policies.remove_policy(&policy(PolicyKind::MultiNetworkPolicy)),
        _ => {}
    }
}

/// Features that are not always on.
fn features(names: &[String]) -> BTreeSet<Feature> {
    let features = Feature::ALL.into_iter();
    let named = features.filter(|feature| names.iter().any(|name| name == feature.as_str()));
    named.collect()
}

fn settings(config: &Config) -> Result<ClusterSettings, String> {
    let families = [(config.ipv4, IpFamily::V4), (config.ipv6, IpFamily::V6)];
    let families = families.into_iter();
    let range = config.ephemeral_port_range.split_once('-');
    let port = |text: &str| text.parse().map_err(|_| format!("port {text:?}"));
    let range = range.map(|(first, last)| Ok::<_, String>((port(first)?, port(last)?)));
    let cluster_subnet = |text: &String| {
        let at = text
            .match_indices('/')
            .nth(1)
            .map_or(text.len(), |(at, _)| at);
        let subnet = text[..at].parse::<IpNet>();
        subnet.map_err(|_| format!("cluster subnet {text:?}"))
    };
    Ok(ClusterSettings {
        families: families
            .filter_map(|(runs, family)| runs.then_some(family))
            .collect(),
        mtu: config.mtu,
        cluster_subnets: config
            .cluster_subnets
            .iter()
            .map(cluster_subnet)
            .collect::<Result<_, _>>()?,
        service_cidrs: config.service_cidrs.clone(),
        join_subnets: config.join_subnets.clone(),
        masquerade_subnets: config.masquerade_subnets.clone(),
        transit_subnets: config.transit_subnets.clone(),
        gateway_mode: match config.gateway_mode.as_str() {
            "shared" => GatewayMode::Shared,
            "local" => GatewayMode::Local,
            other => return Err(format!("gateway mode {other:?}")),
        },
        ephemeral_ports: range.transpose()?,
        node_ports: config.node_ports,
        reachable_default_services: config.udn_allowed_default_services.clone(),
        features: features(&config.features),
        ..ClusterSettings::default()
    })
}
