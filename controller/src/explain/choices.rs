//! What the selectors of a connect choose, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;

use super::reasons::{Reason, annotation};
use crate::api::cnc::ClusterNetworkConnectSpec;
use crate::api::nad::NetworkAttachmentDefinition;
use crate::api::selector;
use crate::api::udn::ClusterUserDefinedNetwork;
use crate::model::{
    NETWORK_ID, NadKey, NadProblem, Network, Networks, PRIMARY_NETWORK_LABEL, Role, Topology,
    Transport,
};
use crate::source::{Inventory, ObjectKey, Sourced, describe};

/// What all selectors choose.
#[derive(Debug, Default)]
pub(super) struct Choices<'a> {
    /// Networks by name, each with what has chosen it.
    pub(super) networks: BTreeMap<&'a str, Chosen<'a>>,
    /// What is chosen and is no network that can be connected.
    pub(super) obstacles: BTreeSet<Reason>,
}

/// A chosen network.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub(super) network: &'a Network,
    /// The object to mend if something is wrong with the network.
    pub(super) object: String,
    /// The selectors that have chosen it, and through what.
    pub(super) by: BTreeSet<String>,
}

impl<'a> Choices<'a> {
    pub(super) fn of(
        spec: &ClusterNetworkConnectSpec,
        inventory: &'a Inventory,
        networks: &'a Networks,
    ) -> Self {
        let mut choices = Self::default();
        for (place, entry) in spec.network_selectors.iter().enumerate() {
            let by = format!("spec.networkSelectors[{place}]");
            if let Some(member) = &entry.cluster_user_defined_network_selector {
                choices.cluster_networks(&member.network_selector, &by, inventory, networks);
            }
            if let Some(member) = &entry.primary_user_defined_network_selector {
                choices.namespaces(&member.namespace_selector, &by, inventory, networks);
            }
        }
        choices
    }

    /// ClusterUserDefinedNetworks by label. What counts are the labels of their definitions.
    fn cluster_networks(
        &mut self,
        labels: &LabelSelector,
        by: &str,
        inventory: &'a Inventory,
        networks: &'a Networks,
    ) {
        let mut owners = BTreeSet::new();
        for (_, nad) in inventory.network_attachment_definitions.iter() {
            let Some(owner) = nad.object.cluster_network() else {
                continue;
            };
            if selector::matches(labels, nad.object.labels()) {
                owners.insert(owner);
                let object = format!("ClusterUserDefinedNetwork {owner}");
                let by = format!("{by}: labels of {object}");
                self.definition(nad, Some(object), by, networks);
            }
        }
        for (key, cudn) in inventory.cluster_user_defined_networks.iter() {
            if !owners.contains(&*key.name) && selector::matches(labels, cudn.object.labels()) {
                self.obstacles.insert(without_definition(cudn, inventory));
            }
        }
    }

    /// The primary networks of namespaces.
    fn namespaces(
        &mut self,
        labels: &LabelSelector,
        by: &str,
        inventory: &'a Inventory,
        networks: &'a Networks,
    ) {
        for (key, namespace) in inventory.namespaces.iter() {
            let of_namespace = namespace.object.labels();
            if !selector::matches(labels, of_namespace) {
                continue;
            }
            let name = &*key.name;
            let object = format!("Namespace {name}");
            if !of_namespace.contains_key(PRIMARY_NETWORK_LABEL) {
                // A selector of everything does not mean each namespace.
                if *labels != LabelSelector::default() {
                    self.obstacles.insert(Reason::new(
                        format!("pods of namespace {name} are on the default network"),
                        object,
                        Some(format!("metadata.labels[{PRIMARY_NETWORK_LABEL}]")),
                    ));
                }
                continue;
            }
            let keys: Vec<&NadKey> = match networks.primary_nad(name) {
                Some(key) => vec![key],
                None => networks
                    .problems()
                    .keys()
                    .filter(|key| key.namespace == *name)
                    .collect(),
            };
            if keys.is_empty() {
                self.obstacles.insert(Reason::new(
                    format!("namespace {name} has no primary network: no UserDefinedNetwork with role Primary is in it, and no such ClusterUserDefinedNetwork selects it"),
                    object,
                    None,
                ));
                continue;
            }
            for key in keys {
                let key = ObjectKey::namespaced(&*key.namespace, &*key.name);
                if let Some(nad) = inventory.network_attachment_definitions.get(&key) {
                    self.definition(nad, owner(&nad.object), format!("{by}: {object}"), networks);
                }
            }
        }
    }

    fn definition(
        &mut self,
        nad: &'a Sourced<NetworkAttachmentDefinition>,
        object: Option<String>,
        by: String,
        networks: &'a Networks,
    ) {
        let key = NadKey::of(&nad.object);
        let object = object.unwrap_or_else(|| describe(&nad.object));
        let Some(network) = networks.by_nad(&key) else {
            if let Some(problem) = networks.problems().get(&key) {
                self.obstacles.insert(of_problem(problem, nad));
            }
            return;
        };
        let name = &network.name;
        let obstacle = if network.role != Role::Primary {
            Some((format!("network {name} is not primary"), "role"))
        } else if network.transport != Transport::Overlay {
            let transport = network.transport;
            Some((
                format!("network {name} has transport type {transport}, which cannot be connected"),
                "transport",
            ))
        } else {
            None
        };
        if let Some((message, member)) = obstacle {
            let field = Some(field_of(&object, network.topology, member));
            self.obstacles.insert(Reason::new(message, object, field));
            return;
        }
        let chosen = self.networks.entry(&network.name);
        let chosen = chosen.or_insert_with(|| Chosen {
            network,
            object,
            by: BTreeSet::new(),
        });
        chosen.by.insert(by);
    }
}

/// Where an object that defines a network says this of it.
fn field_of(object: &str, topology: Topology, member: &str) -> String {
    let spec = match object.split(' ').next() {
        Some("ClusterUserDefinedNetwork") => "spec.network",
        Some("UserDefinedNetwork") => "spec",
        _ => return "spec.config".to_owned(),
    };
    match (member, topology) {
        ("role", Topology::Layer2) => format!("{spec}.layer2.role"),
        ("role", Topology::Layer3) => format!("{spec}.layer3.role"),
        _ => format!("{spec}.{member}"),
    }
}

/// Why a network that is selected by its labels leads nowhere.
fn without_definition(cudn: &Sourced<ClusterUserDefinedNetwork>, inventory: &Inventory) -> Reason {
    let name = cudn.object.name_any();
    let mut nads = inventory.network_attachment_definitions.iter();
    let labelled_otherwise =
        nads.find(|(_, nad)| nad.object.cluster_network() == Some(name.as_str()));
    if let Some((_, nad)) = labelled_otherwise {
        return Reason::new(
            format!("network attachment definitions of {name} do not have its labels yet"),
            describe(&nad.object),
            Some("metadata.labels".to_owned()),
        );
    }
    let conditions = cudn.object.status.iter();
    let mut conditions = conditions.flat_map(|status| &status.conditions);
    let message = match conditions.find(|condition| condition.status == "False") {
        Some(condition) => format!("it is in no namespace: {}", condition.message),
        None => "it is in no namespace".to_owned(),
    };
    let field = Some("spec.namespaceSelector".to_owned());
    Reason::new(message, describe(&cudn.object), field)
}

fn of_problem(problem: &NadProblem, nad: &Sourced<NetworkAttachmentDefinition>) -> Reason {
    let field = match problem {
        NadProblem::NoId { .. } | NadProblem::BadId { .. } | NadProblem::IdTaken { .. } => {
            annotation(NETWORK_ID)
        }
        _ => "spec.config".to_owned(),
    };
    Reason::new(problem, describe(&nad.object), Some(field))
}

/// What controls the definition, as messages name it.
fn owner(nad: &NetworkAttachmentDefinition) -> Option<String> {
    let mut owners = nad.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let namespace = match &*owner.kind {
        "UserDefinedNetwork" => format!("{}/", nad.namespace().unwrap_or_default()),
        _ => String::new(),
    };
    Some(format!("{} {namespace}{}", owner.kind, owner.name))
}
