//! Scenarios of the cluster manager: a small API server around the allocation of CNCs.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use jiff::Timestamp;
use patchbay_allocate::connects::{ClusterController, ClusterObjects};
use patchbay_model::{
    ClusterSettings, ConnectSubnetMap, DatapathKey, IpFamily, NadKey, ROUTER_TUNNEL_KEY,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;
use patchbay_resources::object::{Condition, Time};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::report::{Difference, StepResult};
use crate::scenario::{Scenario, Step};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    config: Config,
    /// A summary for readers: what counts are the objects.
    #[serde(rename = "networks")]
    _networks: IgnoredAny,
    steps: Vec<Step<Op>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    ipv4: bool,
    ipv6: bool,
    service_cidrs: Vec<IpNet>,
    #[serde(default)]
    reserved_tunnel_keys: BTreeMap<String, Vec<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Op {
    StartController,
    StopController,
    CreateNamespace { object: Value },
    UpdateNamespace { object: Value },
    CreateNad { object: Value },
    UpdateNad { object: Value },
    DeleteNad { namespace: String, name: String },
    CreateCnc { object: Value },
    UpdateCncSpec { object: Value },
    DeleteCnc { name: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedStep {
    name: String,
    cncs: BTreeMap<String, ExpectedConnect>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedConnect {
    annotations: BTreeMap<String, Value>,
    #[serde(default)]
    subnets_unordered: Option<BTreeMap<String, Unordered>>,
    conditions: Vec<ExpectedCondition>,
}

/// The owners of a topology and their subnets, where it is open who got which.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unordered {
    owners: BTreeSet<String>,
    subnets: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: Option<String>,
    message_any_of: Option<Vec<String>>,
}

/// Plays a scenario.
pub(crate) fn run(scenario: &Scenario) -> Result<Vec<StepResult>, String> {
    let (input, expected) = scenario.parts::<Input, ExpectedStep>()?;
    if input.steps.len() != expected.steps.len() {
        return Err("input and expected have different numbers of steps".to_owned());
    }
    let mut cluster = Cluster::new(&input.config)?;
    let mut results = Vec::new();
    for (step, expected) in input.steps.into_iter().zip(&expected.steps) {
        if step.name != expected.name {
            return Err(format!("step {:?} is expected as {:?}", step.name, expected.name));
        }
        for op in step.ops {
            cluster.apply(op).map_err(|error| format!("step {:?}: {error}", step.name))?;
        }
        if step.by_retry {
            cluster.settle()?;
        }
        results.push(StepResult {
            name: step.name,
            differences: compare(&expected.cncs, &cluster.connects),
        });
    }
    Ok(results)
}

/// All objects, and the controller if it runs. It is given all objects after every op, as watches
/// would.
struct Cluster {
    settings: ClusterSettings,
    reserved_keys: BTreeSet<DatapathKey>,
    controller: Option<ClusterController>,
    namespaces: BTreeMap<String, Namespace>,
    nads: BTreeMap<NadKey, NetworkAttachmentDefinition>,
    connects: BTreeMap<String, ClusterNetworkConnect>,
    /// Counts ops: source of times and uids.
    ops: i64,
}

impl Cluster {
    /// The scenarios were recorded with the default masquerade subnets, and without a test of
    /// further ranges.
    fn new(config: &Config) -> Result<Self, String> {
        let families = [(config.ipv4, IpFamily::V4), (config.ipv6, IpFamily::V6)]
            .into_iter()
            .filter(|(runs, _)| *runs);
        let masquerade =
            ["169.254.169.0/29", "fd69::/125"].map(|range| range.parse().expect("it is a range"));
        let settings = ClusterSettings {
            families: families.map(|(_, family)| family).collect(),
            service_cidrs: config.service_cidrs.clone(),
            masquerade_subnets: masquerade.to_vec(),
            join_subnets: Vec::new(),
            transit_subnets: Vec::new(),
            ..ClusterSettings::default()
        };
        let reserved_keys = config
            .reserved_tunnel_keys
            .values()
            .flatten()
            .map(|key| DatapathKey::try_new(*key))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            settings,
            reserved_keys,
            controller: None,
            namespaces: BTreeMap::new(),
            nads: BTreeMap::new(),
            connects: BTreeMap::new(),
            ops: 0,
        })
    }

    fn apply(&mut self, op: Op) -> Result<(), String> {
        self.ops += 1;
        match op {
            Op::StartController => {
                let controller = ClusterController::new(self.settings.clone());
                self.controller = Some(controller.with_reserved_keys(self.reserved_keys.clone()));
            }
            Op::StopController => self.controller = None,
            Op::CreateNamespace { object } => {
                let namespace: Namespace = decode(object)?;
                create(&mut self.namespaces, namespace.name_any(), namespace)?;
            }
            Op::UpdateNamespace { object } => {
                let namespace: Namespace = decode(object)?;
                let stored = existing(&mut self.namespaces, &namespace.name_any())?;
                *stored = namespace;
            }
            Op::CreateNad { object } => {
                let nad: NetworkAttachmentDefinition = decode(object)?;
                create(&mut self.nads, patchbay_resources::conversion::nad_key(&nad), nad)?;
            }
            Op::UpdateNad { object } => {
                let nad: NetworkAttachmentDefinition = decode(object)?;
                let stored =
                    existing(&mut self.nads, &patchbay_resources::conversion::nad_key(&nad))?;
                stored.metadata.labels.clone_from(&nad.metadata.labels);
                stored.annotations_mut().extend(nad.annotations().clone());
                stored.spec = nad.spec;
            }
            Op::DeleteNad { namespace, name } => {
                let key = NadKey { namespace, name };
                self.nads.remove(&key).ok_or_else(|| format!("there is no {key}"))?;
            }
            Op::CreateCnc { object } => {
                let mut connect: ClusterNetworkConnect = decode(object)?;
                connect.metadata.uid = Some(format!("uid-{}", self.ops));
                connect.metadata.generation = Some(1);
                create(&mut self.connects, connect.name_any(), connect)?;
            }
            Op::UpdateCncSpec { object } => {
                let connect: ClusterNetworkConnect = decode(object)?;
                let stored = existing(&mut self.connects, &connect.name_any())?;
                stored.spec = connect.spec;
                let generation = stored.metadata.generation.unwrap_or_default();
                stored.metadata.generation = Some(generation + 1);
            }
            Op::DeleteCnc { name } => {
                self.connects.remove(&name).ok_or_else(|| format!("there is no {name}"))?;
            }
        }
        self.settle()
    }

    /// Lets the controller see what there is, and writes what it wants to have written.
    fn settle(&mut self) -> Result<(), String> {
        let Some(controller) = &mut self.controller else {
            return Ok(());
        };
        let now = Timestamp::from_second(self.ops).map_err(|error| error.to_string())?;
        let networks =
            patchbay_resources::conversion::networks(self.nads.values(), self.namespaces.values());
        let objects = ClusterObjects::new(
            &networks,
            self.nads.values(),
            self.namespaces.values(),
            self.connects.values(),
        );
        let report = controller.reconcile(&objects, &Time(now));
        // The recordings have no warnings.
        for outcome in report.outcomes {
            let connect = existing(&mut self.connects, &outcome.name)?;
            for (key, value) in outcome.annotations() {
                let old = connect.annotations_mut().insert(key.to_owned(), value.clone());
                // The API server's admission rule.
                if key == ROUTER_TUNNEL_KEY && old.is_some_and(|old| old != value) {
                    return Err(format!("{}: annotation {key} is changed", outcome.name));
                }
            }
            connect.status = Some(outcome.status);
        }
        Ok(())
    }
}

/// Reads an object; scenario files leave out its type.
fn decode<T: Object + DeserializeOwned>(mut object: Value) -> Result<T, String> {
    object["apiVersion"] = T::api_version().into();
    object["kind"] = T::KIND.into();
    serde_json::from_value(object).map_err(|error| format!("{}: {error}", T::KIND))
}

fn create<K: Ord + std::fmt::Debug, T>(
    objects: &mut BTreeMap<K, T>,
    key: K,
    object: T,
) -> Result<(), String> {
    if objects.contains_key(&key) {
        return Err(format!("{key:?} exists already"));
    }
    objects.insert(key, object);
    Ok(())
}

fn existing<'a, K: Ord + std::fmt::Debug, T>(
    objects: &'a mut BTreeMap<K, T>,
    key: &K,
) -> Result<&'a mut T, String> {
    objects.get_mut(key).ok_or_else(|| format!("there is no {key:?}"))
}

// === comparison ===

fn compare(
    expected: &BTreeMap<String, ExpectedConnect>,
    found: &BTreeMap<String, ClusterNetworkConnect>,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let names = |only: BTreeSet<&String>| only.into_iter().cloned().collect::<Vec<_>>();
    let (wanted, there): (BTreeSet<_>, BTreeSet<_>) =
        (expected.keys().collect(), found.keys().collect());
    if wanted != there {
        differences.push(Difference {
            place: "objects".to_owned(),
            missing: names(&wanted - &there),
            extra: names(&there - &wanted),
        });
    }
    for (name, expected) in expected {
        let Some(found) = found.get(name) else {
            continue;
        };
        for key in [ROUTER_TUNNEL_KEY, ConnectSubnetMap::ANNOTATION] {
            let place = format!("{name}, annotation {key}");
            differences.extend(compare_annotation(place, key, expected, found));
        }
        let conditions = found.status.as_ref().map_or(&[][..], |status| &status.conditions);
        differences.extend(compare_conditions(name, &expected.conditions, conditions));
    }
    differences
}

fn compare_annotation(
    place: String,
    key: &str,
    expected: &ExpectedConnect,
    found: &ClusterNetworkConnect,
) -> Option<Difference> {
    let wanted = expected.annotations.get(key);
    let text = found.annotations().get(key);
    let there = text.map(|text| {
        if key == ConnectSubnetMap::ANNOTATION {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        } else {
            Value::from(text.as_str())
        }
    });
    let equal = match (&expected.subnets_unordered, &there) {
        (Some(unordered), Some(there)) if key == ConnectSubnetMap::ANNOTATION => {
            *unordered == by_topology(there)
        }
        _ => wanted == there.as_ref(),
    };
    let shown = |value: Option<&Value>| value.map(ToString::to_string).into_iter().collect();
    (!equal).then(|| Difference { place, missing: shown(wanted), extra: shown(there.as_ref()) })
}

impl PartialEq for Unordered {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |side: &Self| {
            let mut texts: Vec<String> = side.subnets.iter().map(ToString::to_string).collect();
            texts.sort();
            texts
        };
        self.owners == other.owners && sorted(self) == sorted(other)
    }
}

/// The entries of a subnet annotation, owners apart from subnets.
fn by_topology(subnets: &Value) -> BTreeMap<String, Unordered> {
    let mut topologies = BTreeMap::new();
    for (owner, entry) in subnets.as_object().into_iter().flatten() {
        let topology = owner.split('_').next().unwrap_or_default().to_owned();
        let unordered = topologies
            .entry(topology)
            .or_insert_with(|| Unordered { owners: BTreeSet::new(), subnets: Vec::new() });
        unordered.owners.insert(owner.clone());
        unordered.subnets.push(entry.clone());
    }
    topologies
}

fn compare_conditions(
    name: &str,
    expected: &[ExpectedCondition],
    found: &[Condition],
) -> Option<Difference> {
    let equal = expected.len() == found.len()
        && expected.iter().zip(found).all(|(wanted, there)| {
            wanted.type_ == there.type_
                && wanted.status == there.status
                && wanted.reason == there.reason
                && wanted.messages().any(|message| *message == there.message)
        });
    (!equal).then(|| Difference {
        place: format!("{name}, conditions"),
        missing: expected.iter().map(|wanted| format!("{wanted:?}")).collect(),
        extra: found.iter().map(|there| format!("{there:?}")).collect(),
    })
}

impl ExpectedCondition {
    fn messages(&self) -> impl Iterator<Item = &String> {
        self.message.iter().chain(self.message_any_of.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_ops_are_errors() {
        let error = serde_json::from_value::<Op>(json!({"op": "pat_controller"})).unwrap_err();
        assert!(error.to_string().contains("pat_controller"), "{error}");
        let error =
            serde_json::from_value::<Op>(json!({"op": "delete_cnc", "name": "a", "grace": 1}));
        assert!(error.is_err());
    }

    #[test]
    fn an_absent_annotation_is_not_an_empty_one() {
        let expected: ExpectedConnect =
            serde_json::from_value(json!({"annotations": {}, "conditions": []})).unwrap();
        let mut found = ClusterNetworkConnect::default();
        let key = ConnectSubnetMap::ANNOTATION;
        let differs = |found: &ClusterNetworkConnect| {
            compare_annotation(String::new(), key, &expected, found).is_some()
        };
        assert!(!differs(&found));
        found.annotations_mut().insert(key.to_owned(), "{}".to_owned());
        assert!(differs(&found));
    }
}
