//! Recorded states, and their differences from those of a world.

use std::collections::BTreeMap;

use patchbay_model::{DEFAULT_NETWORK_KEY, POD_NETWORKS};
use serde_json::{Map, Value};

use super::world::World;
use crate::report::Difference;

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
fn without_default_network(recorded: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
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
        differing.map(|(pod, networks)| format!("{pod} {networks}")).collect::<Vec<_>>()
    };
    let (missing, extra) = (only_in(expected, found), only_in(found, expected));
    (missing != extra).then(|| Difference { place: POD_NETWORKS.to_owned(), missing, extra })
}
