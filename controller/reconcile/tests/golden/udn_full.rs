//! Scenarios of user-defined networks: cluster manager and zone controller on the same objects.

use std::collections::BTreeMap;

use patchbay_model::{DEFAULT_NETWORK_KEY, POD_NETWORKS};
use patchbay_resources::object::Object as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::report::{Difference, StepResult};
use crate::scenario::{ObjectOp, Pace, Scenario, Step};
use crate::udn::{self, Objects};
use crate::udn_cluster::{self, state};

/// Turns of both controllers after which a scenario that still changes objects fails.
const MAX_TURNS: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedStep {
    name: String,
    #[serde(default)]
    nb: BTreeMap<String, Vec<Map<String, Value>>>,
    /// Addresses of all pods that have some. `None`: as after the step before.
    #[serde(default)]
    pods: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    cluster: Map<String, Value>,
}

/// Plays a scenario and compares the database and the objects after each step.
pub(crate) fn run(scenario: &Scenario) -> Result<Vec<StepResult>, String> {
    let (cluster, _) = scenario.parts::<udn_cluster::Input, Value>()?;
    let (zone, expected) = scenario.parts::<udn::Input, ExpectedStep>()?;
    if zone.steps.len() != expected.steps.len() {
        return Err("there are not as many states as steps".to_owned());
    }
    let mut world = World {
        cluster: udn_cluster::World::new(&cluster)?,
        zone: udn::World::new(&zone, Pace::Steady)?,
    };
    let mut rows = udn::State::default();
    let mut objects = Map::new();
    let steps = zone.steps.into_iter().zip(expected.steps);
    steps
        .map(|(step, expected)| {
            if step.name != expected.name {
                let (have, want) = (expected.name, step.name);
                return Err(format!("state {have:?} is not of step {want:?}"));
            }
            world.zone.know_default_network(expected.pods.as_ref());
            rows.update(expected.nb, expected.pods);
            objects.extend(expected.cluster);
            forget_default_network(&mut objects);
            let mut differences = world.play(step)?;
            differences.extend(rows.compare(&world.zone)?);
            differences.extend(state::compare(&objects, &world.cluster.api_server));
            Ok(StepResult { name: expected.name, differences })
        })
        .collect()
}

/// Removes the addresses in the default network, which are not given here, from pods.
fn forget_default_network(objects: &mut Map<String, Value>) {
    let Some(pods) = objects.get_mut("Pod").and_then(Value::as_object_mut) else {
        return;
    };
    for networks in pods.values_mut().filter_map(Value::as_object_mut) {
        networks.remove(DEFAULT_NETWORK_KEY);
    }
    pods.retain(|_, networks| *networks != json!({}));
}

/// Both controllers. The objects of the zone controller are those of the API server.
struct World {
    cluster: udn_cluster::World,
    zone: udn::World,
}

impl World {
    fn play(&mut self, step: Step<ObjectOp>) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for op in step.ops {
            match op {
                ObjectOp::StartController => self.zone.start(),
                ObjectOp::StopController => self.zone.stop(),
                _ => {}
            }
            self.cluster.apply(op)?;
            differences.extend(self.settle()?);
        }
        Ok(differences)
    }

    /// Lets the controllers take turns until neither changes objects.
    fn settle(&mut self) -> Result<Vec<Difference>, String> {
        for _ in 0..MAX_TURNS {
            let mut differences: Vec<Difference> = self.cluster.settle()?.into_iter().collect();
            self.zone.objects = Objects::default();
            for object in self.cluster.api_server.objects() {
                self.zone.objects.put(object.clone())?;
            }
            differences.extend(self.zone.settle()?);
            if !differences.is_empty() || !self.write_addresses()? {
                return Ok(differences);
            }
        }
        Ok(vec![Difference {
            place: "turns".to_owned(),
            missing: vec![format!("rest after {MAX_TURNS} turns")],
            extra: Vec::new(),
        }])
    }

    /// Writes addresses of pods that the zone controller has allocated. Returns `true` if there are
    /// some.
    fn write_addresses(&mut self) -> Result<bool, String> {
        let mut known = Objects::default();
        for object in self.cluster.api_server.objects() {
            known.put(object.clone())?;
        }
        let known = known.pods()?;
        let mut has_written = false;
        for pod in self.zone.objects.pods()? {
            let networks = pod.annotations().get(POD_NETWORKS);
            let mut same = known.iter().filter(|one| {
                one.namespace() == pod.namespace() && one.name_any() == pod.name_any()
            });
            if same.any(|one| one.annotations().get(POD_NETWORKS) == networks) {
                continue;
            }
            let patch = json!({"metadata": {"annotations": {POD_NETWORKS: networks}}});
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let api_server = &mut self.cluster.api_server;
            api_server.patch("Pod", &namespace, &name, &patch)?;
            has_written = true;
        }
        Ok(has_written)
    }
}
