//! Objects of an API server, reduced to what checks need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use patchbay_model::{NODE_CHASSIS_ID, NODE_ID, NODE_SUBNETS};
use patchbay_resources::object::{ConfigMap, ObjectMeta};
use serde::Deserialize as _;
use serde_json::Value;

use crate::api::requests::identity_of;
use crate::reports::zone_reports::{WatchedZoneReport, project_report};

/// Annotation with the name of the zone of a node.
const ZONE_NAME: &str = "k8s.ovn.org/zone-name";
/// Value of that annotation where all nodes have one database.
pub(crate) const GLOBAL_ZONE: &str = "global";

/// A node, as far as OVN is concerned.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) has_chassis: bool,
    pub(crate) has_subnets: bool,
}

impl NodeFacts {
    /// `true` if OVN manages the node.
    pub(crate) fn is_managed(&self) -> bool {
        self.id.is_some() || self.has_chassis || self.has_subnets
    }
}

/// A lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseFacts {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) holder: String,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) duration: SignedDuration,
}

/// A Deployment or a `DaemonSet`.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    pub(crate) wanted: u64,
    pub(crate) ready: u64,
    pub(crate) updated: u64,
    pub(crate) arguments: Vec<String>,
}

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct PodFacts {
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) is_ready: bool,
    /// Reason for which it is not ready.
    pub(crate) reason: String,
}

/// A workload of OVN-Kubernetes.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// Kind, namespace and name.
    pub(crate) name: String,
    pub(crate) writes_connects: bool,
    pub(crate) writes_networks: bool,
}

/// A ClusterNetworkConnect.
#[derive(Clone, Debug)]
pub(crate) struct ConnectFacts {
    pub(crate) name: String,
    pub(crate) metadata: ObjectMeta,
    /// Status, reason and message by type.
    pub(crate) conditions: BTreeMap<String, Condition>,
}

/// A condition.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl LeaseFacts {
    /// Time since the last renewal. `None`: nobody holds the lease.
    pub(crate) fn age(&self, now: Timestamp) -> Option<SignedDuration> {
        let renewed = self.renewed.filter(|_| !self.holder.is_empty())?;
        Some(renewed.duration_until(now).max(SignedDuration::ZERO))
    }

    /// `true` if the lease is held and not expired.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        self.age(now).is_some_and(|age| age <= self.duration)
    }
}

/// A workload of OVN-Kubernetes. `None`: it is another one.
pub(crate) fn workload(kind: &str, object: &Value) -> Option<Writer> {
    let name = name_of(object)?;
    let containers = object["spec"]["template"]["spec"]["containers"].as_array()?;
    let is_ovnkube = name.starts_with("ovnkube")
        || containers.iter().any(|one| text(&one["name"]).starts_with("ovnkube"));
    let has = |flag: &str, variable: &str| {
        containers.iter().any(|container| {
            let words = texts(&container["command"]).chain(texts(&container["args"]));
            let lines: Vec<&str> = words.collect();
            let is_set = |one: &Value| one["name"] == variable && one["value"] == "true";
            let mut variables = container["env"].as_array().into_iter().flatten();
            lines.iter().any(|line| has_flag(line, flag)) || variables.any(is_set)
        })
    };
    is_ovnkube.then(|| Writer {
        name: format!("{kind} {}/{name}", text(&object["metadata"]["namespace"])),
        writes_connects: has("--enable-network-connect", "OVN_NETWORK_CONNECT_ENABLE"),
        writes_networks: has("--enable-network-segmentation", "OVN_NETWORK_SEGMENTATION_ENABLE"),
    })
}

/// `true` if an argument or a script has a flag that is not switched off. A script that gives the flag
/// a variable is not judged.
fn has_flag(line: &str, flag: &str) -> bool {
    line.match_indices(flag).any(|(at, _)| {
        let rest = &line[at + flag.len()..];
        match rest.chars().next() {
            None => true,
            Some('=') => rest[1..].starts_with("true"),
            Some(next) => next.is_whitespace(),
        }
    })
}

/// The configuration file of OVN-Kubernetes.
pub(crate) fn configuration(object: &Value) -> Writer {
    let files = object["data"].as_object();
    let lines: BTreeSet<String> = files
        .into_iter()
        .flat_map(|files| files.values())
        .flat_map(|file| text(file).lines())
        .map(|line| line.split_whitespace().collect())
        .collect();
    let metadata = &object["metadata"];
    Writer {
        name: format!("ConfigMap {}/{}", text(&metadata["namespace"]), text(&metadata["name"])),
        writes_connects: lines.contains("enable-network-connect=true"),
        writes_networks: lines.contains("enable-network-segmentation=true"),
    }
}

pub(crate) fn node(object: &Value) -> Option<NodeFacts> {
    let annotations = &object["metadata"]["annotations"];
    let value = |key: &str| annotations[key].as_str().filter(|value| !value.is_empty());
    Some(NodeFacts {
        name: name_of(object)?,
        id: value(NODE_ID).map(str::to_owned),
        zone: value(ZONE_NAME).map(str::to_owned),
        has_chassis: value(NODE_CHASSIS_ID).is_some(),
        has_subnets: value(NODE_SUBNETS).is_some(),
    })
}

pub(crate) fn listed_lease(object: &Value) -> Option<LeaseFacts> {
    name_of(object)?;
    Some(lease_of(object))
}

pub(crate) fn lease_of(object: &Value) -> LeaseFacts {
    let spec = &object["spec"];
    let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or_default();
    LeaseFacts {
        namespace: text(&object["metadata"]["namespace"]).to_owned(),
        name: text(&object["metadata"]["name"]).to_owned(),
        holder: text(&spec["holderIdentity"]).to_owned(),
        renewed: text(&spec["renewTime"]).parse().ok(),
        duration: SignedDuration::from_secs(seconds.clamp(1, i64::from(i32::MAX))),
    }
}

pub(crate) fn controller(object: &Value) -> Controller {
    let (spec, status) = (&object["spec"], &object["status"]);
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let is_observed =
        number(&object["metadata"]["generation"]) == number(&status["observedGeneration"]);
    let (wanted, ready, updated) = if object["kind"] == "DaemonSet" {
        ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
    } else {
        ("replicas", "readyReplicas", "updatedReplicas")
    };
    let containers = spec["template"]["spec"]["containers"].as_array().into_iter().flatten();
    Controller {
        wanted: spec["replicas"].as_u64().unwrap_or_else(|| number(&status[wanted])),
        ready: number(&status[ready]),
        updated: if is_observed { number(&status[updated]) } else { 0 },
        arguments: containers
            .flat_map(|container| texts(&container["args"]))
            .map(str::to_owned)
            .collect(),
    }
}

pub(crate) fn pod(object: &Value) -> Option<PodFacts> {
    let status = &object["status"];
    let containers: Vec<&Value> =
        status["containerStatuses"].as_array().into_iter().flatten().collect();
    let waiting = containers.iter().find_map(|one| one["state"]["waiting"]["reason"].as_str());
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
    Some(PodFacts {
        name: name_of(object)?,
        node: text(&object["spec"]["nodeName"]).to_owned(),
        is_ready,
        reason: waiting.or(status["phase"].as_str()).unwrap_or("unknown").to_owned(),
    })
}

pub(crate) fn connect(object: &Value) -> Option<ConnectFacts> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let conditions = conditions.map(|one| {
        let field = |name: &str| text(&one[name]).to_owned();
        let condition = Condition {
            status: field("status"),
            reason: field("reason"),
            message: field("message"),
        };
        (field("type"), condition)
    });
    Some(ConnectFacts {
        name: name_of(object)?,
        metadata: ObjectMeta {
            generation: object["metadata"]["generation"].as_i64(),
            ..identity_of(object)
        },
        conditions: conditions.collect(),
    })
}

pub(crate) fn report(object: &Value) -> Option<Arc<WatchedZoneReport>> {
    project_report(ConfigMap::deserialize(object).ok()?)
}

pub(crate) fn name_of(object: &Value) -> Option<String> {
    object["metadata"]["name"].as_str().map(str::to_owned)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str)
}
