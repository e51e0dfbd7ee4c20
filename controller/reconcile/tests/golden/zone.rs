//! Scenarios of the zone controller: a Northbound database and the objects of a cluster around the
//! controller.

mod northbound;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_connects::ZoneController;
use patchbay_model::{
    ClusterSettings, IpFamily, NadKey, Network, NetworkActivity, NetworkId, PodSubnet, Role,
    Topology, Transport,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::object as core;
use patchbay_resources::object::Object;
use patchbay_zone::ZoneObjects;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::report::{Difference, StepResult};
use crate::scenario::{Pace, Scenario, Step};
use crate::unnamed;
use northbound::Northbound;

/// Passes after which a scenario that still changes rows fails.
const MAX_PASSES: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    config: Config,
    nodes: Vec<Value>,
    networks: Vec<NetworkInput>,
    services: Vec<Value>,
    cncs: Vec<Value>,
    nb: Vec<Map<String, Value>>,
    steps: Vec<Step<Op>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    ipv4: bool,
    ipv6: bool,
    zone: String,
    service_cidrs: Vec<IpNet>,
    dynamic_udn: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkInput {
    name: String,
    id: i64,
    topology: String,
    role: String,
    subnets: Vec<String>,
    #[serde(default)]
    namespaces: BTreeSet<String>,
    #[serde(default)]
    nads: Vec<String>,
    active_nodes: Option<BTreeSet<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Op {
    StartController,
    StopController,
    CreateCnc { object: Value },
    UpdateCnc { object: Value },
    DeleteCnc { name: String },
    CreateNode { object: Value },
    UpdateNode { object: Value },
    DeleteNode { name: String },
    CreateService { object: Value },
    UpdateService { object: Value },
    DeleteService { namespace: String, name: String },
    PutNetwork { network: NetworkInput },
    RemoveNetwork { name: String },
    SetNetworkActive { network: String, node: String, active: bool },
    NbInsert { table: String, row: Map<String, Value> },
    NbDelete { table: String, name: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedStep {
    name: String,
    nb: BTreeMap<String, Vec<Map<String, Value>>>,
}

/// Plays a scenario and compares the database after each step.
pub(crate) fn run(scenario: &Scenario, pace: Pace) -> Result<Vec<StepResult>, String> {
    let (input, expected) = scenario.parts::<Input, ExpectedStep>()?;
    if input.steps.len() != expected.steps.len() {
        return Err("there are not as many states as steps".to_owned());
    }
    let mut world = World::new(&input)?;
    let steps = input.steps.into_iter().zip(expected.steps);
    steps
        .map(|(step, expected)| {
            if step.name != expected.name {
                return Err(format!("state {:?} is not of step {:?}", expected.name, step.name));
            }
            let mut differences = world.play(step, pace)?;
            for (table, rows) in &expected.nb {
                differences.extend(world.northbound.compare(table, rows)?);
            }
            unnamed::check(&world.northbound.snapshot(), &world.config.zone)?;
            Ok(StepResult { name: expected.name, differences })
        })
        .collect()
}

/// Objects, networks, a database, and the controller while it runs.
struct World {
    config: Config,
    cncs: BTreeMap<String, ClusterNetworkConnect>,
    nodes: BTreeMap<String, core::Node>,
    services: BTreeMap<(String, String), core::Service>,
    networks: BTreeMap<String, Network>,
    /// Nodes of networks that are not on all nodes.
    limited: BTreeMap<String, BTreeSet<String>>,
    northbound: Northbound,
    /// Objects as the running controller has seen them last.
    former: Option<ZoneObjects>,
    controller: Option<ZoneController>,
    created: u64,
}

impl World {
    fn new(input: &Input) -> Result<Self, String> {
        let config = Config {
            zone: input.config.zone.clone(),
            service_cidrs: input.config.service_cidrs.clone(),
            ..input.config
        };
        let mut world = Self {
            config,
            cncs: BTreeMap::new(),
            nodes: BTreeMap::new(),
            services: BTreeMap::new(),
            networks: BTreeMap::new(),
            limited: BTreeMap::new(),
            northbound: Northbound::new(&input.nb)?,
            former: None,
            controller: None,
            created: 0,
        };
        for object in &input.nodes {
            world.put_node(object)?;
        }
        for object in &input.services {
            world.put_service(object)?;
        }
        for object in &input.cncs {
            world.put_cnc(object)?;
        }
        for network in &input.networks {
            world.put_network(network)?;
        }
        Ok(world)
    }

    /// Applies the ops of a step and lets the controller come to rest.
    fn play(&mut self, step: Step<Op>, pace: Pace) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for (index, op) in step.ops.into_iter().enumerate() {
            if index > 0 && pace == Pace::Interrupted {
                differences.extend(self.settle(pace)?);
            }
            self.apply(op)?;
        }
        differences.extend(self.settle(pace)?);
        Ok(differences)
    }

    fn settle(&mut self, pace: Pace) -> Result<Option<Difference>, String> {
        let Some(mut controller) = self.controller.take() else {
            return Ok(None);
        };
        for _ in 0..MAX_PASSES {
            let objects = self.zone_objects();
            let plan = controller.plan(&objects, &self.northbound.snapshot());
            self.former = Some(objects);
            if plan.is_empty() {
                self.controller = Some(controller);
                return Ok(None);
            }
            self.northbound.commit(&plan)?;
            if pace == Pace::Interrupted {
                controller = ZoneController::default();
                self.former = None;
            }
        }
        self.controller = Some(controller);
        Ok(Some(Difference {
            place: "passes".to_owned(),
            missing: vec![format!("rest after {MAX_PASSES} passes")],
            extra: Vec::new(),
        }))
    }

    fn apply(&mut self, op: Op) -> Result<(), String> {
        match op {
            Op::StartController => {
                self.controller = Some(ZoneController::default());
                self.former = None;
            }
            Op::StopController => self.controller = None,
            Op::CreateCnc { object } | Op::UpdateCnc { object } => self.put_cnc(&object)?,
            Op::DeleteCnc { name } => {
                self.cncs.remove(&name);
            }
            Op::CreateNode { object } | Op::UpdateNode { object } => self.put_node(&object)?,
            Op::DeleteNode { name } => {
                self.nodes.remove(&name);
            }
            Op::CreateService { object } | Op::UpdateService { object } => {
                self.put_service(&object)?;
            }
            Op::DeleteService { namespace, name } => {
                self.services.remove(&(namespace, name));
            }
            Op::PutNetwork { network } => self.put_network(&network)?,
            Op::RemoveNetwork { name } => {
                self.networks.remove(&name);
            }
            Op::SetNetworkActive { network, node, active } => {
                let everywhere = || self.nodes.keys().cloned().collect();
                let nodes = self.limited.entry(network).or_insert_with(everywhere);
                if active {
                    nodes.insert(node);
                } else {
                    nodes.remove(&node);
                }
            }
            Op::NbInsert { table, row } => self.northbound.insert(&table, &row)?,
            Op::NbDelete { table, name } => self.northbound.delete(&table, &name)?,
        }
        Ok(())
    }

    /// Creates or replaces a connect. As an API server does, it gives each object an identity of
    /// its own.
    fn put_cnc(&mut self, object: &Value) -> Result<(), String> {
        let mut object = object.clone();
        object["apiVersion"] = json!("k8s.ovn.org/v1");
        object["kind"] = json!("ClusterNetworkConnect");
        let mut object: ClusterNetworkConnect =
            serde_json::from_value(object).map_err(|error| format!("connect: {error}"))?;
        let former = self.cncs.get(&object.name_any());
        object.metadata.uid = former.and_then(Object::uid).or_else(|| {
            self.created += 1;
            Some(format!("uid-{}", self.created))
        });
        self.cncs.insert(object.name_any(), object);
        Ok(())
    }

    fn put_node(&mut self, object: &Value) -> Result<(), String> {
        let node: core::Node =
            serde_json::from_value(object.clone()).map_err(|error| format!("node: {error}"))?;
        self.nodes.insert(node.name_any(), node);
        Ok(())
    }

    fn put_service(&mut self, object: &Value) -> Result<(), String> {
        let service: core::Service =
            serde_json::from_value(object.clone()).map_err(|error| format!("service: {error}"))?;
        let key = (service.namespace().unwrap_or_default(), service.name_any());
        self.services.insert(key, service);
        Ok(())
    }

    fn put_network(&mut self, input: &NetworkInput) -> Result<(), String> {
        if self.config.dynamic_udn
            && let Some(nodes) = &input.active_nodes
        {
            self.limited.insert(input.name.clone(), nodes.clone());
        }
        self.networks.insert(input.name.clone(), network(input)?);
        Ok(())
    }

    fn zone_objects(&self) -> ZoneObjects {
        let families = [(self.config.ipv4, IpFamily::V4), (self.config.ipv6, IpFamily::V6)];
        let settings = ClusterSettings {
            families: families
                .into_iter()
                .filter_map(|(runs, family)| runs.then_some(family))
                .collect(),
            service_cidrs: self.config.service_cidrs.clone(),
            ..ClusterSettings::default()
        };
        let mut objects = ZoneObjects::new(&self.config.zone, &settings);
        objects.set_connectable_networks(&self.networks.values().cloned().collect());
        for node in self.nodes.values() {
            objects.put_checked_node(patchbay_resources::conversion::node(node).0);
        }
        let uses = self.limited.iter().flat_map(|(network, nodes)| {
            let nodes = nodes.iter().map(|node| node.as_str().into());
            nodes.map(|node| (network.as_str().into(), node))
        });
        let limited = self.limited.keys().map(|network| network.as_str().into());
        objects.set_activity(Some(&NetworkActivity::new(limited, uses, &[])));
        for service in self.services.values() {
            objects.put_service(patchbay_resources::conversion::network_service(service));
        }
        for (name, object) in &self.cncs {
            objects.put_connect(name, patchbay_resources::conversion::connect_input(object));
        }
        if let Some(former) = &self.former {
            objects.follow(former);
        }
        objects
    }
}

fn network(input: &NetworkInput) -> Result<Network, String> {
    let topology = match &*input.topology {
        "layer2" => Topology::Layer2,
        "layer3" => Topology::Layer3,
        other => return Err(format!("topology {other:?}")),
    };
    let subnet = |text: &String| -> Result<PodSubnet, String> {
        let invalid = |_| format!("subnet {text:?}");
        let (cidr, host_prefix) = match text.match_indices('/').nth(1) {
            Some((at, _)) => {
                let length: u8 = text[at + 1..].parse().map_err(|_| format!("subnet {text:?}"))?;
                (&text[..at], Some(length))
            }
            None => (&**text, None),
        };
        Ok(PodSubnet { cidr: cidr.parse().map_err(invalid)?, host_prefix })
    };
    let nad = |text: &String| {
        let (namespace, name) = text.split_once('/').ok_or(format!("nad {text:?}"))?;
        Ok::<_, String>(NadKey { namespace: namespace.to_owned(), name: name.to_owned() })
    };
    Ok(Network {
        name: input.name.clone(),
        id: NetworkId::try_new(input.id).map_err(|error| error.to_string())?,
        topology,
        role: match &*input.role {
            "primary" => Role::Primary,
            "secondary" => Role::Secondary,
            other => return Err(format!("role {other:?}")),
        },
        transport: Transport::Overlay,
        pod_subnets: input.subnets.iter().map(subnet).collect::<Result<_, _>>()?,
        join_subnets: Vec::new(),
        transit_subnets: Vec::new(),
        namespaces: input.namespaces.clone(),
        nads: input.nads.iter().map(nad).collect::<Result<_, _>>()?,
    })
}
