//! Scenarios of user-defined networks: the objects of a cluster around the cluster manager.

pub(crate) mod api_server;
pub(crate) mod state;

use patchbay_allocate::networks::{Layer2Layouts, ManagerSettings, NetworkManager};
use patchbay_model::PodSubnet;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::report::{Difference, StepResult};
use crate::scenario::{ObjectOp, Scenario, Step};
use crate::udn::config::{self, Config};
use api_server::ApiServer;

/// Passes after which a scenario that still changes objects fails.
const MAX_PASSES: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    config: Config,
    objects: Vec<Value>,
    steps: Vec<Step<ObjectOp>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedStep {
    name: String,
    #[serde(default)]
    cluster: Map<String, Value>,
}

/// Plays a scenario and compares the objects after each step.
pub(crate) fn run(scenario: &Scenario) -> Result<Vec<StepResult>, String> {
    let (input, expected) = scenario.parts::<Input, ExpectedStep>()?;
    if input.steps.len() != expected.steps.len() {
        return Err("there are not as many states as steps".to_owned());
    }
    let mut world = World::new(&input)?;
    // A kind that a step does not name is as after the step before.
    let mut state = Map::new();
    let steps = input.steps.into_iter().zip(expected.steps);
    steps
        .map(|(step, expected)| {
            if step.name != expected.name {
                let (have, want) = (expected.name, step.name);
                return Err(format!("state {have:?} is not of step {want:?}"));
            }
            state.extend(expected.cluster);
            let mut differences = world.play(step)?;
            differences.extend(state::compare(&state, &world.api_server));
            Ok(StepResult { name: expected.name, differences })
        })
        .collect()
}

/// An API server, and the cluster manager while it runs.
pub(crate) struct World {
    settings: ManagerSettings,
    pub(crate) api_server: ApiServer,
    manager: Option<NetworkManager>,
}

impl World {
    pub(crate) fn new(input: &Input) -> Result<Self, String> {
        let mut api_server = ApiServer::default();
        for object in &input.objects {
            api_server.create(object.clone())?;
        }
        Ok(Self { settings: settings(&input.config)?, api_server, manager: None })
    }

    /// Applies the ops of a step. The manager comes to rest after each of them.
    fn play(&mut self, step: Step<ObjectOp>) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for op in step.ops {
            self.apply(op)?;
            differences.extend(self.settle()?);
        }
        Ok(differences)
    }

    pub(crate) fn apply(&mut self, op: ObjectOp) -> Result<(), String> {
        match op {
            ObjectOp::StartController => {
                self.manager = Some(NetworkManager::new(self.settings.clone()));
            }
            ObjectOp::StopController => self.manager = None,
            ObjectOp::Settle => {}
            ObjectOp::Create { object } => self.api_server.create(object)?,
            ObjectOp::Patch { kind, namespace, name, patch } => {
                self.api_server.patch(&kind, &namespace, &name, &patch)?;
            }
            ObjectOp::Delete { kind, namespace, name } => {
                self.api_server.delete(&kind, &namespace, &name)?;
            }
        }
        Ok(())
    }

    /// Reconciles until nothing changes. A new manager has to agree.
    pub(crate) fn settle(&mut self) -> Result<Option<Difference>, String> {
        let Some(manager) = &mut self.manager else {
            return Ok(None);
        };
        for _ in 0..MAX_PASSES {
            let changes = self.api_server.reconcile(manager)?;
            if changes.is_empty() {
                let mut again = NetworkManager::new(self.settings.clone());
                let changes = self.api_server.clone().reconcile(&mut again)?;
                return Ok((!changes.is_empty()).then(|| Difference {
                    place: "a new manager".to_owned(),
                    missing: Vec::new(),
                    extra: changes,
                }));
            }
        }
        Ok(Some(Difference {
            place: "passes".to_owned(),
            missing: vec![format!("rest after {MAX_PASSES} passes")],
            extra: Vec::new(),
        }))
    }
}

fn settings(config: &Config) -> Result<ManagerSettings, String> {
    let default_network = config
        .cluster_subnets
        .iter()
        .map(|text| cluster_subnet(text))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ManagerSettings {
        cluster: config::settings(config)?,
        default_network: Some(default_network),
        workloads: Some(Layer2Layouts::Annotated),
    })
}

/// Reads `<cidr>/<prefix length of the nodes' subnets>`.
fn cluster_subnet(text: &str) -> Result<PodSubnet, String> {
    let error = || format!("cluster subnet {text:?}");
    let (cidr, length) = text.rsplit_once('/').ok_or_else(error)?;
    Ok(PodSubnet {
        cidr: cidr.parse().map_err(|_| error())?,
        host_prefix: Some(length.parse().map_err(|_| error())?),
    })
}
