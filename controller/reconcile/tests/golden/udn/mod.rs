//! Scenarios of user-defined networks: the objects of a cluster around the zone controller.

pub(crate) mod config;
mod connects;
mod controllers;
mod inputs;
mod northbound;
mod objects;
mod state;
mod world;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::report::StepResult;
use crate::scenario::{ObjectOp, Pace, Scenario, Step};
use crate::unnamed;
use config::Config;
pub(crate) use objects::Objects;
pub(crate) use state::State;
pub(crate) use world::World;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    config: Config,
    objects: Vec<Value>,
    pub(crate) steps: Vec<Step<ObjectOp>>,
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
pub(crate) fn run(scenario: &Scenario, pace: Pace) -> Result<Vec<StepResult>, String> {
    let (input, expected) = scenario.parts::<Input, ExpectedStep>()?;
    if input.steps.len() != expected.steps.len() {
        return Err("there are not as many states as steps".to_owned());
    }
    let mut world = World::new(&input, pace)?;
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
            unnamed::check(&world.northbound.snapshot(), &world.node)?;
            Ok(StepResult { name: expected.name, differences })
        })
        .collect()
}
