//! Networks of a connect that its zones know nothing of: nothing is selected, or no subnet is
//! allocated.

use std::collections::BTreeSet;

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::{NadKey, PRIMARY_NETWORK_LABEL, Requirement, Role, Selector, Transport};
use patchbay_resources::cnc::{
    ClusterNetworkConnect, ClusterNetworkConnectSpec, NetworkSelectionType,
};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::LabelSelector;
use patchbay_resources::selector::{self, LabelIndex};

use super::allocation::ConnectAllocation;
use super::objects::ClusterObjects;
use super::selection::Selection;

/// Labels that a reason lists; further ones are counted. A label has at most 380 bytes.
const MAX_LABELS: usize = 10;
/// Definitions or namespaces that a selector matches of which a reason is given; further ones are
/// counted.
const MAX_MATCHED: usize = 5;
/// Prefix of label keys that OVN-Kubernetes sets itself, which no user selects by.
const OWN_LABELS: &str = "k8s.ovn.org/";

/// Networks of a connect that its zones know nothing of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unconnected {
    /// Reasons why no network is selected that can be connected. Empty: there is such a network.
    pub no_networks: Vec<String>,
    /// Names of selected networks without connect subnets.
    pub without_subnets: Vec<String>,
}

impl Unconnected {
    /// `allocation`: subnets of the connect after a reconcile; `None`: they cannot be read.
    pub(super) fn of(
        spec: &ClusterNetworkConnectSpec,
        selection: &Selection<'_>,
        allocation: Option<&ConnectAllocation>,
        objects: &ClusterObjects<'_>,
    ) -> Self {
        let networks = selection.networks.values();
        let without_subnets = networks.filter(|network| {
            allocation.is_none_or(|allocation| !allocation.allocator.has(network.owner_key()))
        });
        Self {
            no_networks: if selection.networks.is_empty() {
                reasons(spec, objects)
            } else {
                Vec::new()
            },
            without_subnets: without_subnets.map(|network| network.name.clone()).collect(),
        }
    }
}

/// Reasons why the selectors of a connect select no network that can be connected: what they match,
/// and the labels that there are. Empty: there is such a network.
pub fn reasons_without_networks(
    connect: &ClusterNetworkConnect,
    objects: &ClusterObjects<'_>,
) -> Vec<String> {
    let selection = Selection::discover(connect, objects);
    Unconnected::of(&connect.spec, &selection, None, objects).no_networks
}

fn reasons(spec: &ClusterNetworkConnectSpec, objects: &ClusterObjects<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    for (place, entry) in spec.network_selectors.iter().enumerate() {
        let field = format!("spec.networkSelectors[{place}]");
        let cluster = entry.cluster_user_defined_network_selector.as_ref();
        let primary = entry.primary_user_defined_network_selector.as_ref();
        match entry.network_selection_type {
            NetworkSelectionType::ClusterUserDefinedNetworks => {
                let labels = cluster.map(|member| &member.network_selector);
                reasons.extend(of_cluster_networks(&field, labels, objects));
            }
            NetworkSelectionType::PrimaryUserDefinedNetworks => {
                let labels = primary.map(|member| &member.namespace_selector);
                reasons.extend(of_namespaces(&field, labels, objects));
            }
            NetworkSelectionType::NetworkAttachmentDefinitions if objects.vpcs.is_some() => {
                let reason = "selects no NetworkAttachmentDefinition of a Subnet of a Vpc";
                reasons.push(format!("{field} {reason}"));
            }
            other => reasons.push(format!("{field} selects {other}, which cannot be connected")),
        }
    }
    if reasons.is_empty() {
        reasons.push("spec.networkSelectors is empty".to_owned());
    }
    reasons
}

/// Reasons of a selector of ClusterUserDefinedNetworks.
fn of_cluster_networks(
    field: &str,
    labels: Option<&LabelSelector>,
    objects: &ClusterObjects<'_>,
) -> Vec<String> {
    let Some(selector) = labels.and_then(|labels| selector::parse(field, labels).ok()) else {
        return vec![format!("{field} is invalid")];
    };
    let matched = objects.cudn_nads.select(&selector);
    if matched.is_empty() {
        let owners: BTreeSet<&str> =
            objects.cudn_nads.iter().filter_map(|((_, nad), _)| nad.controlling_cudn()).collect();
        let noun = "ClusterUserDefinedNetwork with attachment definitions";
        return vec![matches_none(
            field,
            (owners.len(), noun, "ClusterUserDefinedNetworks with attachment definitions"),
            &labels_of(&objects.cudn_nads, &selector),
        )];
    }
    // A network has a definition in each of its namespaces, with the same reason.
    let found: BTreeSet<String> =
        matched.iter().map(|(key, nad)| of_definition(key, nad, objects)).collect();
    limited(field, found.into_iter().collect())
}

/// Reasons of a selector of namespaces.
fn of_namespaces(
    field: &str,
    labels: Option<&LabelSelector>,
    objects: &ClusterObjects<'_>,
) -> Vec<String> {
    let Some(selector) = labels.and_then(|labels| selector::parse(field, labels).ok()) else {
        return vec![format!("{field} is invalid")];
    };
    let matched = objects.primary_namespaces.select(&selector);
    if matched.is_empty() {
        let noun = format!("namespace with the label {PRIMARY_NETWORK_LABEL}");
        let plural = format!("namespaces with the label {PRIMARY_NETWORK_LABEL}");
        return vec![matches_none(
            field,
            (objects.primary_namespaces.iter().count(), &noun, &plural),
            &labels_of(&objects.primary_namespaces, &selector),
        )];
    }
    let found: BTreeSet<String> = matched
        .into_iter()
        .flat_map(|namespace| {
            let keys: Vec<&NadKey> = match objects.networks.primary_nad(namespace) {
                Some(key) => vec![key],
                None => objects.networks.problems_in(namespace).collect(),
            };
            let definitions =
                keys.into_iter().filter_map(|key| Some((key, *objects.nads.get(key)?)));
            let mut reasons: Vec<String> =
                definitions.map(|(key, nad)| of_definition(key, nad, objects)).collect();
            if reasons.is_empty() {
                reasons.push(format!("namespace {namespace} has no primary network"));
            }
            reasons
        })
        .collect();
    limited(field, found.into_iter().collect())
}

/// Reason why a selected definition has no network that can be connected.
fn of_definition(
    key: &NadKey,
    nad: &NetworkAttachmentDefinition,
    objects: &ClusterObjects<'_>,
) -> String {
    if let Some(network) = objects.networks.by_nad(key) {
        let name = &network.name;
        return match (network.role, network.transport) {
            (Role::Primary, Transport::Overlay) => format!("network {name} can be connected"),
            (Role::Primary, transport) => {
                format!("network {name} has transport type {transport}, which cannot be connected")
            }
            _ => format!("network {name} is not primary"),
        };
    }
    match (objects.networks.problems().get(key), nad.controlling_cudn()) {
        (Some(problem), _) => format!("network attachment definition {key}: {problem}"),
        (None, Some(owner)) => {
            format!("ClusterUserDefinedNetwork {owner} is of a kind that cannot be connected")
        }
        (None, None) => format!("network attachment definition {key} defines no such network"),
    }
}

/// Reason of a selector without a match. `kinds`: number of objects that it could match, singular
/// and plural.
fn matches_none(field: &str, kinds: (usize, &str, &str), labels: &[String]) -> String {
    let (count, singular, plural) = kinds;
    let labels = match labels {
        [] => "without labels".to_owned(),
        labels => format!("labels there: {}", abbreviate_list(labels, MAX_LABELS)),
    };
    match count {
        0 => format!("{field} matches nothing: there is no {singular}"),
        1 => format!("{field} does not match the only {singular} ({labels})"),
        count => format!("{field} matches none of {count} {plural} ({labels})"),
    }
}

/// Labels of the objects that a selector could match, first those with keys of the selector.
fn labels_of<T>(index: &LabelIndex<'_, T>, selector: &Selector) -> Vec<String> {
    let asked: BTreeSet<&str> = selector.requirements().iter().map(Requirement::key).collect();
    let labels: BTreeSet<(bool, &str, &str)> = index
        .iter()
        .flat_map(|(_, labels)| labels)
        .filter(|(key, _)| !key.starts_with(OWN_LABELS))
        .map(|(key, value)| (!asked.contains(key.as_str()), key.as_str(), value.as_str()))
        .collect();
    let labels = labels.into_iter();
    labels.map(|(_, key, value)| format!("{key}={value}")).collect()
}

/// The first reasons with their selector, and the number of the others.
fn limited(field: &str, found: Vec<String>) -> Vec<String> {
    let more = found.len().saturating_sub(MAX_MATCHED);
    let first = found.into_iter().take(MAX_MATCHED);
    let mut reasons: Vec<String> = first.map(|reason| format!("{field}: {reason}")).collect();
    if more > 0 {
        reasons.push(format!("{field}: {more} more"));
    }
    reasons
}
