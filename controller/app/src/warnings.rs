//! What is odd but not wrong.

use std::collections::BTreeSet;

use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;
use patchbay_resources::object::{Condition, LabelSelector};

use patchbay_allocate::networks::{NETWORK_CREATED, TRANSPORT_ACCEPTED};
use patchbay_model::listing::listed;
use patchbay_model::{NadKey, NadProblem, NetConfError, Networks, PRIMARY_NETWORK_LABEL};
use patchbay_resources::cnc::NetworkSelector;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Problem, Sourced, describe,
};
use patchbay_resources::selector;
use patchbay_resources::udn::NetworkStatus;

/// How many namespaces, or reasons of one object, a warning names.
const NAMED: usize = 5;

/// Selectors of connects that choose nothing, or less than they seem to.
pub(crate) fn of_selectors(inventory: &Inventory, networks: &Networks) -> Vec<String> {
    let connects = inventory.cluster_network_connects.in_order().into_iter();
    connects
        .flat_map(|(_, connect)| {
            let selectors = connect.object.spec.network_selectors.iter().enumerate();
            selectors.flat_map(move |(place, entry)| {
                let (member, messages) = of_selector(inventory, networks, entry);
                let field = format!("spec.networkSelectors[{place}].{member}");
                let messages = messages.into_iter();
                messages.map(move |message| problem(connect, Some(field.clone()), message))
            })
        })
        .collect()
}

/// The member that counts, and what is odd about it.
fn of_selector(
    inventory: &Inventory,
    networks: &Networks,
    entry: &NetworkSelector,
) -> (&'static str, Vec<String>) {
    if let Some(member) = &entry.cluster_user_defined_network_selector {
        let labels = &member.network_selector;
        let mut networks = inventory.cluster_user_defined_networks.iter();
        let mut nads = inventory.network_attachment_definitions.iter();
        // Definitions may be given without the network that they are of.
        let found = networks.any(|(_, network)| selector::matches(labels, network.object.labels()))
            || nads.any(|(_, nad)| {
                nad.object.controlling_cudn().is_some()
                    && selector::matches(labels, nad.object.labels())
            });
        let messages = (!found).then(|| "matches no network".to_owned());
        return (
            "clusterUserDefinedNetworkSelector.networkSelector",
            messages.into_iter().collect(),
        );
    }
    let Some(member) = &entry.primary_user_defined_network_selector else {
        return ("networkSelectionType", Vec::new());
    };
    (
        "primaryUserDefinedNetworkSelector.namespaceSelector",
        of_namespaces(inventory, networks, &member.namespace_selector),
    )
}

/// Namespaces that are selected and have no network to connect. A selector of all namespaces does not mean each of them.
fn of_namespaces(
    inventory: &Inventory,
    networks: &Networks,
    labels: &LabelSelector,
) -> Vec<String> {
    let selected = inventory
        .namespaces
        .iter()
        .filter(|(_, namespace)| selector::matches(labels, namespace.object.labels()));
    let (asking, others): (Vec<_>, Vec<_>) = selected.partition(|(_, namespace)| {
        let labels = namespace.object.labels();
        labels.contains_key(PRIMARY_NETWORK_LABEL)
    });
    let names = |namespaces: &[(&ObjectKey, &Sourced<Namespace>)]| {
        let plural = if namespaces.len() == 1 { "" } else { "s" };
        let names: Vec<&str> = namespaces.iter().map(|(key, _)| &*key.name).collect();
        format!("namespace{plural} {}", listed(&names, NAMED))
    };
    let selects_all = *labels == LabelSelector::default();
    let mut messages = Vec::new();
    if asking.is_empty() {
        messages.push("matches no network".to_owned());
    }
    if !others.is_empty() && !selects_all {
        messages.push(format!(
            "selects {} without the label {PRIMARY_NETWORK_LABEL}: pods there are on the default network",
            names(&others)
        ));
    }
    let without: Vec<_> = asking
        .into_iter()
        .filter(|(key, _)| networks.primary_nad(&key.name).is_none())
        .collect();
    if !without.is_empty() && !selects_all {
        messages.push(format!(
            "selects {} without a primary network",
            names(&without)
        ));
    }
    messages
}

/// What a connect's status complains about.
pub(crate) fn of_status(inventory: &Inventory, connect: &str) -> Vec<String> {
    let key = ObjectKey::cluster(connect);
    let Some(sourced) = inventory.cluster_network_connects.get(&key) else {
        return Vec::new();
    };
    let status = sourced.object.status.as_ref();
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.status == "False")
        .map(|condition| {
            let message = format!("not {}: {}", condition.type_, condition.message);
            problem(sourced, None, message)
        })
        .collect()
}

/// Networks that are refused, in the order in which they were given: in a cluster, their status tells.
pub(crate) fn of_networks(inventory: &Inventory) -> Vec<String> {
    let udns = inventory.user_defined_networks.iter();
    let udns = udns.map(|(_, udn)| (udn.position, of_network(udn, udn.object.status.as_ref())));
    let cudns = inventory.cluster_user_defined_networks.iter();
    let cudns =
        cudns.map(|(_, cudn)| (cudn.position, of_network(cudn, cudn.object.status.as_ref())));
    let mut warnings: Vec<_> = udns.chain(cudns).collect();
    warnings.sort_by_key(|(position, _)| *position);
    warnings
        .into_iter()
        .filter_map(|(_, warning)| warning)
        .collect()
}

/// Nodes without subnets are not looked at here: each has a warning of its own.
fn of_network<T: InventoryKind>(
    network: &Sourced<T>,
    status: Option<&NetworkStatus>,
) -> Option<String> {
    let conditions = &status?.conditions;
    let is_refused = |condition: &&Condition| condition.status == "False";
    // A network that is not made has no use for a transport.
    let condition = [NETWORK_CREATED, TRANSPORT_ACCEPTED]
        .into_iter()
        .find_map(|kind| {
            let mut of_kind = conditions
                .iter()
                .filter(|condition| condition.type_ == kind);
            of_kind.find(is_refused)
        })?;
    // There is a line for each namespace. What is wrong with the network itself is the same in all of them.
    let lines: BTreeSet<&str> = condition.message.lines().collect();
    let named = lines.iter().take(NAMED);
    let mut named: Vec<String> = named.map(ToString::to_string).collect();
    if let Some(more @ 1..) = lines.len().checked_sub(NAMED) {
        named.push(format!("and {more} more reasons"));
    }
    let message = format!("not {}: {}", condition.type_, named.join("; "));
    Some(problem(network, None, message))
}

/// Attachment definitions that lead to no network. Those that have been told of before are left out.
pub(crate) fn of_definitions(
    inventory: &Inventory,
    networks: &Networks,
    told: &BTreeSet<NadKey>,
) -> Vec<String> {
    let nads = inventory.network_attachment_definitions.in_order();
    let refused = nads.into_iter().filter_map(|(_, nad)| {
        let key = patchbay_resources::conversion::nad_key(&nad.object);
        let problem = networks.problems().get(&key)?;
        if matches!(problem, NadProblem::Config(NetConfError::Missing)) {
            // Those of other plugins need no configuration.
            return None;
        }
        let object = describe(&nad.object);
        let is_told = told.contains(&key)
            || inventory.warnings.iter().any(|warning| {
                warning.object.as_ref() == Some(&object)
                    && warning.field.as_deref() == Some("spec.config")
            });
        (!is_told).then_some((nad, problem))
    });
    refused
        .map(|(nad, reason)| problem(nad, None, reason.to_string()))
        .collect()
}

fn problem<T: InventoryKind>(
    object: &Sourced<T>,
    field: Option<String>,
    message: impl Into<String>,
) -> String {
    let problem = Problem {
        location: object.origin.location().cloned(),
        object: Some(describe(&object.object)),
        field,
        message: message.into(),
    };
    problem.to_string()
}
