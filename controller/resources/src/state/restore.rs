//! State under manifests.

use std::fmt::Display;

use crate::object::Node;
use crate::object::Object;
use serde_json::{Map, Value};

use crate::Violation;
use crate::cnc::ClusterNetworkConnect;
use crate::manifests::{Inventory, Kind, LoadError, Origin, Problem, Sourced, describe};
use crate::nad::NetworkAttachmentDefinition;
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    self, ConnectSubnetMap, DatapathKey, NETWORK_ID, NETWORK_NAME, NODE_ID, NODE_SUBNETS,
    NetworkId, ROUTER_TUNNEL_KEY,
};

/// Lays what an earlier run has left under the manifests: annotations that the controller writes and status, where the
/// manifests do not have them, and attachment definitions that were made for a custom resource. The spec is always that
/// of the manifests; state of objects that are not among them any more is left out.
///
/// # Errors
/// [`LoadError`], if an annotation of the state cannot be read, or if a spec has changed in a way that an API server would
/// refuse. Nothing is restored then.
pub fn restore(manifests: &mut Inventory, state: &Inventory) -> Result<(), LoadError> {
    let mut problems = unreadable(state);
    problems.extend(refused_changes(
        manifests,
        state,
        |new: &UserDefinedNetwork, old| new.spec.transition_violations(&old.spec),
    ));
    problems.extend(refused_changes(
        manifests,
        state,
        |new: &ClusterUserDefinedNetwork, old| new.spec.transition_violations(&old.spec),
    ));
    problems.extend(refused_changes(
        manifests,
        state,
        |new: &ClusterNetworkConnect, old| new.spec.transition_violations(&old.spec),
    ));
    if !problems.is_empty() {
        return Err(LoadError { problems });
    }
    restore_kind(manifests, state, |new: &mut Node, old| {
        restore_annotations(new, old, &[NODE_ID]);
        restore_node_subnets(new, old);
    });
    restore_kind(
        manifests,
        state,
        |new: &mut NetworkAttachmentDefinition, old| {
            restore_annotations(new, old, &[NETWORK_NAME, NETWORK_ID, TUNNEL_KEYS]);
        },
    );
    restore_kind(manifests, state, |new: &mut UserDefinedNetwork, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(
        manifests,
        state,
        |new: &mut ClusterUserDefinedNetwork, old| {
            restore_status(&mut new.status, old.status.as_ref());
        },
    );
    restore_kind(manifests, state, |new: &mut ClusterNetworkConnect, old| {
        restore_annotations(new, old, &[ConnectSubnetMap::ANNOTATION, ROUTER_TUNNEL_KEY]);
        restore_status(&mut new.status, old.status.as_ref());
    });
    let made = state
        .network_attachment_definitions
        .iter()
        .filter(|(key, nad)| {
            let known = manifests.network_attachment_definitions.get(key).is_some();
            !known
                && nad
                    .object
                    .owner_references()
                    .iter()
                    .any(|owner| owner.controller == Some(true))
        });
    let made: Vec<_> = made.map(|(_, nad)| nad.clone()).collect();
    for nad in made {
        manifests.network_attachment_definitions.insert(nad);
    }
    Ok(())
}

/// Annotations that nobody can read. Found here, they are told with the file that they are in; later they look like the
/// manifests' own.
fn unreadable(state: &Inventory) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (_, sourced) in state.nodes.iter() {
        for error in crate::read::node(&sourced.object).1 {
            problems.push(unreadable_annotation(
                sourced,
                error.annotation,
                &error.reason,
            ));
        }
    }
    for (_, sourced) in state.network_attachment_definitions.iter() {
        let id = sourced.object.annotations().get(NETWORK_ID);
        if let Some(Err(error)) = id.map(|id| id.parse::<NetworkId>()) {
            problems.push(unreadable_annotation(sourced, NETWORK_ID, &error));
        }
    }
    for (_, sourced) in state.cluster_network_connects.iter() {
        let annotations = sourced.object.annotations();
        let key = annotations.get(ROUTER_TUNNEL_KEY);
        if let Some(Err(error)) = key.map(|key| key.parse::<DatapathKey>()) {
            problems.push(unreadable_annotation(sourced, ROUTER_TUNNEL_KEY, &error));
        }
        let subnets = annotations.get(ConnectSubnetMap::ANNOTATION);
        if let Some(Err(error)) = subnets.map(|text| ConnectSubnetMap::parse(text)) {
            let (key, error) = (ConnectSubnetMap::ANNOTATION, error.reason());
            problems.push(unreadable_annotation(sourced, key, error));
        }
    }
    problems
}

fn unreadable_annotation<T: Kind>(
    sourced: &Sourced<T>,
    annotation: &str,
    error: &dyn Display,
) -> Problem {
    Problem {
        place: sourced.origin.place().cloned(),
        object: Some(describe(&sourced.object)),
        field: Some(format!("metadata.annotations[{annotation}]")),
        message: format!("{error} (correct the file, or remove it to start anew)"),
    }
}

/// Changes that an API server would refuse. Only a new object may have the new spec: without its state it is one.
fn refused_changes<T: Kind>(
    manifests: &Inventory,
    state: &Inventory,
    violations: impl Fn(&T, &T) -> Vec<Violation>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, new) in T::of(manifests).in_order() {
        let Some(old) = T::of(state).get(key) else {
            continue;
        };
        problems.extend(
            violations(&new.object, &old.object)
                .into_iter()
                .map(|violation| Problem {
                    place: new.origin.place().cloned(),
                    object: Some(describe(&new.object)),
                    field: Some(violation.field),
                    message: format!("{} ({})", violation.message, way_out(old)),
                }),
        );
    }
    problems
}

/// How to have the change all the same.
fn way_out<T>(sourced: &Sourced<T>) -> String {
    match &sourced.origin {
        Origin::State(place) => format!("remove {} to start anew", place.file),
        // It is this process that remembers.
        Origin::Manifest(_) | Origin::Rendered(_) | Origin::Cluster => {
            "stop and start again to start anew".to_owned()
        }
    }
}

fn restore_kind<T: Kind>(
    manifests: &mut Inventory,
    state: &Inventory,
    restore: impl Fn(&mut T, &T),
) {
    for (key, new) in T::of_mut(manifests).iter_mut() {
        if let Some(old) = T::of(state).get(key) {
            restore(&mut new.object, &old.object);
        }
    }
}

fn restore_annotations<T: Kind>(new: &mut T, old: &T, keys: &[&str]) {
    for key in keys {
        if let Some(value) = old.annotations().get(*key) {
            new.annotations_mut()
                .entry((*key).to_owned())
                .or_insert_with(|| value.clone());
        }
    }
}

/// The annotation holds one entry for each network, and a manifest may know some of them.
fn restore_node_subnets(new: &mut Node, old: &Node) {
    let read = |node: &Node| -> Option<Map<String, Value>> {
        serde_json::from_str(node.annotations().get(NODE_SUBNETS)?).ok()
    };
    match (read(new), read(old)) {
        (Some(given), Some(mut entries)) => {
            entries.extend(given);
            new.annotations_mut()
                .insert(NODE_SUBNETS.to_owned(), Value::from(entries).to_string());
        }
        // What the manifest has and nobody can read is told by those who need it.
        _ => restore_annotations(new, old, &[NODE_SUBNETS]),
    }
}

fn restore_status<S: Clone>(new: &mut Option<S>, old: Option<&S>) {
    if new.is_none() {
        *new = old.cloned();
    }
}
