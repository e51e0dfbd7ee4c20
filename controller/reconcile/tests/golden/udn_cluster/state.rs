//! Recorded states of objects, and the same of the API server's objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::api_server::ApiServer;
use crate::report::Difference;

/// Annotation of a pod: its addresses.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
/// Annotations of a node that are compared.
const NODE_ANNOTATIONS: [&str; 3] = [
    "k8s.ovn.org/node-id",
    "k8s.ovn.org/node-subnets",
    "k8s.ovn.org/node-transit-switch-port-ifaddr",
];
/// Condition whose presence depends on timing.
const UNTIMED_CONDITION: &str = "NetworkAllocationSucceeded";
/// Annotation of a mirrored slice: version of the slice that it mirrors.
const SOURCE_VERSION: &str = "k8s.ovn.org/source-endpointslice-version";
/// Manager of mirrored slices, in a label.
const SLICE_MIRROR: &str = "endpointslice-mirror-controller.k8s.ovn.org";

/// Compares all kinds of a recorded state.
pub(crate) fn compare(expected: &Map<String, Value>, api_server: &ApiServer) -> Vec<Difference> {
    let kinds = expected.iter().flat_map(|(kind, wanted)| {
        let mut wanted = wanted.as_object().cloned().unwrap_or_default();
        let mut found = found(kind, api_server);
        wanted.values_mut().for_each(forget_counted_versions);
        found.values_mut().for_each(forget_counted_versions);
        for (key, state) in &mut found {
            forget_untimed(state, wanted.get(key));
        }
        compare_kind(kind, &wanted, &found)
    });
    kinds.collect()
}

fn compare_kind(
    kind: &str,
    wanted: &Map<String, Value>,
    found: &BTreeMap<String, Value>,
) -> Vec<Difference> {
    let keys: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    let differing = keys.into_iter().filter_map(|key| {
        let (want, have) = (wanted.get(key), found.get(key));
        let is_equal = match (want, have) {
            (Some(want), Some(have)) => as_multiset(want) == as_multiset(have),
            _ => false,
        };
        let text = |state: Option<&Value>| state.map(ToString::to_string).into_iter().collect();
        (!is_equal).then(|| Difference {
            place: format!("{kind} {key}"),
            missing: text(want),
            extra: text(have),
        })
    });
    differing.collect()
}

/// Mirrored slices are a list without order; all other states are objects.
fn as_multiset(state: &Value) -> Vec<String> {
    let mut items: Vec<String> = match state {
        Value::Array(items) => items.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    };
    items.sort();
    items
}

/// Removes the versions of mirrored slices that an API server has counted, unlike those of the
/// scenario's objects.
fn forget_counted_versions(state: &mut Value) {
    for slice in state.as_array_mut().into_iter().flatten() {
        let annotations = slice["annotations"].as_object_mut();
        let is_counted = |version: &Value| {
            let mut digits = version.as_str().unwrap_or_default().chars();
            digits.all(|digit| digit.is_ascii_digit())
        };
        if let Some(annotations) = annotations
            && annotations.get(SOURCE_VERSION).is_some_and(is_counted)
        {
            annotations.remove(SOURCE_VERSION);
        }
    }
}

/// Removes the condition that is recorded at times only.
fn forget_untimed(found: &mut Value, wanted: Option<&Value>) {
    let is_untimed = |condition: &Value| condition["type"] == UNTIMED_CONDITION;
    let wanted = wanted.and_then(|state| state["conditions"].as_array());
    if wanted.is_some_and(|wanted| wanted.iter().any(is_untimed)) {
        return;
    }
    if let Some(Value::Array(conditions)) = found.get_mut("conditions") {
        conditions.retain(|condition| !is_untimed(condition));
        if conditions.is_empty() {
            found.as_object_mut().map(|state| state.remove("conditions"));
        }
    }
}

/// States of all objects of a kind.
fn found(kind: &str, api_server: &ApiServer) -> BTreeMap<String, Value> {
    if kind == "mirrored_EndpointSlice" {
        return mirrored_slices(api_server);
    }
    let objects = api_server.of_kind(kind);
    let states = objects.filter_map(|(namespace, name, object)| {
        let key =
            if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        Some((key, state_of(kind, object)?))
    });
    states.collect()
}

fn state_of(kind: &str, object: &Value) -> Option<Value> {
    let mut state = Map::new();
    let mut put = |key: &str, value: &Value| {
        let is_empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            state.insert(key.to_owned(), value.clone());
        }
    };
    let metadata = &object["metadata"];
    match kind {
        "Node" => {
            for annotation in NODE_ANNOTATIONS {
                let value = &metadata["annotations"][annotation];
                if annotation == NODE_ANNOTATIONS[0] {
                    put(annotation, value);
                } else {
                    put(annotation, &parsed(value));
                }
            }
        }
        "Pod" => {
            let networks = &metadata["annotations"][POD_NETWORKS];
            return networks.is_string().then(|| parsed(networks));
        }
        "NetworkAttachmentDefinition" => {
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                put(field, &metadata[field]);
            }
            put("config", &object["spec"]["config"]);
            put_deleting(metadata, put);
        }
        "IPAMClaim" => {
            put("finalizers", &metadata["finalizers"]);
            for field in ["ips", "ownerPod"] {
                put(field, &object["status"][field]);
            }
            put("conditions", &conditions(object));
        }
        _ => {
            put("finalizers", &metadata["finalizers"]);
            put("conditions", &conditions(object));
            put_deleting(metadata, put);
        }
    }
    Some(Value::Object(state))
}

fn put_deleting(metadata: &Value, mut put: impl FnMut(&str, &Value)) {
    if !metadata["deletionTimestamp"].is_null() {
        put("deleting", &Value::Bool(true));
    }
}

fn parsed(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Conditions by type, without times.
fn conditions(object: &Value) -> Value {
    let mut conditions: Vec<Value> =
        object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for condition in &mut conditions {
        condition.as_object_mut().map(|condition| condition.remove("lastTransitionTime"));
    }
    conditions.sort_by_key(|condition| condition["type"].to_string());
    Value::Array(conditions)
}

fn mirrored_slices(api_server: &ApiServer) -> BTreeMap<String, Value> {
    let mut slices = BTreeMap::<String, Vec<Value>>::new();
    for (namespace, _, object) in api_server.of_kind("EndpointSlice") {
        let metadata = &object["metadata"];
        if metadata["labels"]["endpointslice.kubernetes.io/managed-by"] != SLICE_MIRROR {
            continue;
        }
        let mut state = Map::new();
        for field in ["generateName", "labels", "annotations", "ownerReferences"] {
            state.insert(field.to_owned(), metadata[field].clone());
        }
        for field in ["addressType", "endpoints", "ports"] {
            state.insert(field.to_owned(), object[field].clone());
        }
        state.retain(|_, value| !value.is_null());
        let of_namespace = slices.entry(namespace.to_owned()).or_default();
        of_namespace.push(Value::Object(state));
    }
    slices.into_iter().map(|(namespace, slices)| (namespace, Value::Array(slices))).collect()
}
