//! Objects of manifests that cannot be read: their errors, and the connects whose rows stay.

use std::collections::BTreeMap;

use patchbay_model::{ConnectError, ConnectInput};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion::connect_input;
use patchbay_resources::manifests::{Inventory, Problem, RefusedObject};
use patchbay_resources::object::Object;
use patchbay_resources::selector::matches;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// Errors of the refused objects. The first error of each object names what is used instead.
pub(crate) fn errors(inventory: &Inventory) -> impl Iterator<Item = Problem> {
    inventory.refused.iter().flat_map(|object| {
        let is_missing = inventory.undecoded.contains(&(object.kind, object.key.clone()));
        let outcome = if is_missing {
            "the object is left out, and rows that may follow from it stay as they are"
        } else {
            "the former version of the object is used"
        };
        let mut problems = object.problems.clone();
        if let Some(first) = problems.first_mut() {
            first.message = format!("{}; {outcome}", first.message);
        }
        problems
    })
}

/// Inputs of the rows of all connects, by name. The rows of a connect that cannot be read stay as
/// they are, and so do those of a connect that may select a network that cannot be read.
pub(crate) fn connect_inputs(
    inventory: &Inventory,
) -> impl Iterator<Item = (String, ConnectInput)> {
    let connects = inventory.cluster_network_connects.iter();
    let known = connects.map(|(key, sourced)| {
        let mut input = connect_input(&sourced.object);
        if let Some(RefusedObject { kind, key: network, .. }) =
            missing_network(inventory, &sourced.object)
        {
            let reason = format!("{kind} {network}, which it may select, cannot be read");
            input.connect = Err(ConnectError::Object(reason));
        }
        (key.name.clone(), input)
    });
    // They follow the known ones, of which they replace those without a readable specification.
    let missing = inventory.missing(ClusterNetworkConnect::KIND).map(|object| {
        let known = inventory.cluster_network_connects.named(&object.key.name);
        let problems = object.problems.iter().map(|problem| &*problem.message);
        let reason =
            format!("the object cannot be read: {}", problems.collect::<Vec<_>>().join("; "));
        let input = ConnectInput {
            uid: known.and_then(Object::uid),
            refusal: None,
            connect: Err(ConnectError::Object(reason)),
        };
        (object.key.name.clone(), input)
    });
    known.chain(missing)
}

/// The first network that cannot be read and that a connect may select.
fn missing_network<'a>(
    inventory: &'a Inventory,
    connect: &ClusterNetworkConnect,
) -> Option<&'a RefusedObject> {
    let mut clusters = inventory.missing(ClusterUserDefinedNetwork::KIND);
    let mut networks = inventory.missing(UserDefinedNetwork::KIND);
    let selectors = &connect.spec.network_selectors;
    let selects_cluster = |object: &&RefusedObject| {
        let labels = labels_of(object);
        selectors.iter().any(|entry| {
            let member = entry.cluster_user_defined_network_selector.as_ref();
            // The network may be the primary one of any namespace.
            entry.primary_user_defined_network_selector.is_some()
                || member.is_some_and(|member| matches(&member.network_selector, &labels))
        })
    };
    let selects_network = |object: &&RefusedObject| {
        let namespace =
            inventory.namespaces.named(object.key.namespace.as_deref().unwrap_or_default());
        selectors.iter().any(|entry| {
            let member = entry.primary_user_defined_network_selector.as_ref();
            member.zip(namespace).is_some_and(|(member, namespace)| {
                matches(&member.namespace_selector, namespace.labels())
            })
        })
    };
    let found = clusters.find(selects_cluster);
    found.or_else(|| networks.find(selects_network))
}

/// Labels of an object as the manifest has them.
fn labels_of(object: &RefusedObject) -> BTreeMap<String, String> {
    let labels = object.json["metadata"]["labels"].as_object().into_iter().flatten().filter_map(
        |(key, value)| {
            let value = value.as_str()?;
            Some((key.clone(), value.to_owned()))
        },
    );
    labels.collect()
}
