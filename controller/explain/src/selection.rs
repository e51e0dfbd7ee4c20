//! Networks that the selectors of a connect select, and problems of selected objects.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use patchbay_allocate::connects::VpcMembers;
use patchbay_model::{
    NETWORK_ID, NadKey, NadProblem, NetConf, Network, Networks, PRIMARY_NETWORK_LABEL, Role,
    Topology, Transport,
};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectSpec};
use patchbay_resources::manifests::{Inventory, ObjectKey, Sourced, describe};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::LabelSelector;
use patchbay_resources::object::Object;
use patchbay_resources::selector;
use patchbay_resources::udn::ClusterUserDefinedNetwork;

use super::reasons::{Reason, annotation, field_of};
use super::refusals::Definition;

/// Networks and problems of all selectors.
#[derive(Debug, Default)]
pub(super) struct Selection<'a> {
    /// Selected networks, by name.
    pub(super) networks: BTreeMap<&'a str, SelectedNetwork<'a>>,
    /// Reasons why selected objects have no network that can be connected.
    pub(super) obstacles: BTreeSet<Reason>,
}

/// Selected network.
#[derive(Debug)]
pub(super) struct SelectedNetwork<'a> {
    pub(super) network: &'a Network,
    /// Object that defines the network.
    pub(super) object: String,
    /// Attachment definition that is used for the network.
    pub(super) definition: Option<&'a NadKey>,
    /// Reason why nodes have no subnets of the network. `None`: not known.
    pub(super) without_subnets: Option<Reason>,
    /// Selectors that select the network, with the selected object.
    pub(super) by: BTreeSet<String>,
}

impl<'a> Selection<'a> {
    pub(super) fn of(
        spec: &ClusterNetworkConnectSpec,
        inventory: &'a Inventory,
        networks: &'a Networks,
    ) -> Self {
        let mut selection = Self::default();
        for (place, entry) in spec.network_selectors.iter().enumerate() {
            let by = format!("spec.networkSelectors[{place}]");
            if let Some(member) = &entry.cluster_user_defined_network_selector {
                selection.cluster_networks(&member.network_selector, &by, inventory, networks);
            }
            if let Some(member) = &entry.primary_user_defined_network_selector {
                selection.namespaces(&member.namespace_selector, &by, inventory, networks);
            }
        }
        selection
    }

    /// Selects VPCs by the attachment definitions of their subnets.
    pub(super) fn vpcs(&mut self, connect: &ClusterNetworkConnect, members: &'a VpcMembers) {
        let name = connect.name_any();
        let entries = connect.spec.network_selectors.iter().enumerate();
        let by: BTreeSet<String> = entries
            .filter(|(_, entry)| entry.network_attachment_definition_selector.is_some())
            .map(|(place, _)| format!("spec.networkSelectors[{place}]"))
            .collect();
        for vpc in members.vpcs(&name).into_iter().flat_map(BTreeMap::values) {
            let network = &vpc.network;
            self.networks.entry(&network.name).or_insert_with(|| SelectedNetwork {
                network,
                object: format!("Vpc {}", network.name),
                definition: None,
                without_subnets: None,
                by: by.clone(),
            });
        }
        self.obstacles.extend(members.problems(&name).iter().map(|(nad, reason)| {
            Reason::new(reason, format!("NetworkAttachmentDefinition {nad}"), None)
        }));
    }

    /// Moves layer3 networks to the obstacles, because a database of all nodes does not have them.
    pub(super) fn refuse_layer3(&mut self) {
        let networks = mem::take(&mut self.networks).into_iter();
        let (layer3, others): (BTreeMap<_, _>, _) =
            networks.partition(|(_, selected)| selected.network.topology == Topology::Layer3);
        self.networks = others;
        for (name, selected) in layer3 {
            let message = format!(
                "network {name} is a layer3 network, which a database of all nodes does not have"
            );
            self.obstacles.insert(Reason::new(message, selected.object, None));
        }
    }

    /// Selects ClusterUserDefinedNetworks by the labels of their attachment definitions.
    fn cluster_networks(
        &mut self,
        labels: &LabelSelector,
        by: &str,
        inventory: &'a Inventory,
        networks: &'a Networks,
    ) {
        let mut owners = BTreeSet::new();
        for (_, nad) in inventory.network_attachment_definitions.iter() {
            let Some(owner) = nad.object.controlling_cudn() else {
                continue;
            };
            if selector::matches(labels, nad.object.labels()) {
                owners.insert(owner);
                let object = format!("ClusterUserDefinedNetwork {owner}");
                let by = format!("{by}: labels of {object}");
                self.definition(nad, Some(object), by, inventory, networks);
            }
        }
        for (key, cudn) in inventory.cluster_user_defined_networks.iter() {
            if !selector::matches(labels, cudn.object.labels()) {
                continue;
            }
            // A network that has definitions in some namespaces may be refused in others.
            let refusals = Definition::of_cudn(&cudn.object).refusals();
            if !owners.contains(&*key.name) {
                let is_refused = !refusals.is_empty();
                self.obstacles.extend(without_definition(cudn, is_refused, inventory));
            }
            self.obstacles.extend(refusals);
        }
    }

    /// Selects the primary networks of namespaces.
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
                let refusals = refusals_in(name, inventory);
                // A selector of everything does not mean each namespace.
                if refusals.is_empty() && *labels != LabelSelector::default() {
                    self.obstacles.insert(Reason::new(
                        format!("pods of namespace {name} are on the default network"),
                        object,
                        Some(format!("metadata.labels[{PRIMARY_NETWORK_LABEL}]")),
                    ));
                }
                self.obstacles.extend(refusals);
                continue;
            }
            if let Some(key) = networks.primary_nad(name) {
                let key = ObjectKey::namespaced(&*key.namespace, &*key.name);
                if let Some(nad) = inventory.network_attachment_definitions.get(&key) {
                    let by = format!("{by}: {object}");
                    self.definition(nad, owner(&nad.object), by, inventory, networks);
                }
                continue;
            }
            let mut obstacles = refusals_in(name, inventory);
            let nads = inventory
                .network_attachment_definitions
                .in_namespace(name)
                .filter(|(_, nad)| may_be_primary(&nad.object));
            obstacles.extend(nads.filter_map(|(_, nad)| {
                let problem = networks
                    .problems()
                    .get(&patchbay_resources::conversion::nad_key(&nad.object))?;
                Some(of_problem(problem, nad))
            }));
            if obstacles.is_empty() {
                obstacles.insert(Reason::new(
                    format!("namespace {name} has no primary network: no UserDefinedNetwork with role Primary is in it, and no such ClusterUserDefinedNetwork selects it"),
                    object,
                    None,
                ));
            }
            self.obstacles.extend(obstacles);
        }
    }

    fn definition(
        &mut self,
        nad: &'a Sourced<NetworkAttachmentDefinition>,
        object: Option<String>,
        by: String,
        inventory: &Inventory,
        networks: &'a Networks,
    ) {
        let key = patchbay_resources::conversion::nad_key(&nad.object);
        let object = object.unwrap_or_else(|| describe(&nad.object));
        let Some(network) = networks.by_nad(&key) else {
            self.obstacles.insert(match networks.problems().get(&key) {
                Some(problem) => of_problem(problem, nad),
                None => of_other_kind(&nad.object, object),
            });
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
        let selected = self.networks.entry(&network.name).or_insert_with(|| SelectedNetwork {
            network,
            object,
            definition: networks.definition(name),
            without_subnets: Definition::of_owner(&nad.object, inventory)
                .and_then(|definition| definition.without_subnets()),
            by: BTreeSet::new(),
        });
        selected.by.insert(by);
    }
}

/// Reason why a network that is selected by its labels has no definitions. `None`: a refusal is the
/// reason.
fn without_definition(
    cudn: &Sourced<ClusterUserDefinedNetwork>,
    is_refused: bool,
    inventory: &Inventory,
) -> Option<Reason> {
    let name = cudn.object.name_any();
    let mut nads = inventory.network_attachment_definitions.iter();
    let labelled_otherwise =
        nads.find(|(_, nad)| nad.object.controlling_cudn() == Some(name.as_str()));
    if let Some((_, nad)) = labelled_otherwise {
        return Some(Reason::new(
            format!("network attachment definitions of {name} do not have its labels yet"),
            describe(&nad.object),
            Some("metadata.labels".to_owned()),
        ));
    }
    let object = describe(&cudn.object);
    let mut namespaces = inventory.namespaces.iter();
    let labels = &cudn.object.spec.namespace_selector;
    let is_offered = namespaces.any(|(_, namespace)| {
        let meta = &namespace.object.metadata;
        meta.deletion_timestamp.is_none() && selector::matches(labels, namespace.object.labels())
    });
    if !is_offered {
        let field = Some("spec.namespaceSelector".to_owned());
        return Some(Reason::new("it is in no namespace", object, field));
    }
    let message = "it has no network attachment definitions yet";
    (!is_refused).then(|| Reason::new(message, object, None))
}

/// Refusals in the status of networks that are offered to a namespace as its primary network.
fn refusals_in(namespace: &str, inventory: &Inventory) -> BTreeSet<Reason> {
    let udns = inventory
        .user_defined_networks
        .in_namespace(namespace)
        .map(|(_, udn)| Definition::of_udn(&udn.object));
    let labels = inventory.namespaces.named(namespace);
    let labels = labels.map(Object::labels);
    let cudns = inventory
        .cluster_user_defined_networks
        .iter()
        .filter(|(_, cudn)| {
            let selector = &cudn.object.spec.namespace_selector;
            labels.is_some_and(|labels| selector::matches(selector, labels))
        })
        .map(|(_, cudn)| Definition::of_cudn(&cudn.object));
    udns.chain(cudns)
        .filter(|definition| definition.is_primary)
        .flat_map(|definition| definition.refusals_in(namespace))
        .collect()
}

/// `true` if the definition may be that of a primary network.
fn may_be_primary(nad: &NetworkAttachmentDefinition) -> bool {
    let config = nad.spec.config.as_deref().unwrap_or_default();
    match NetConf::parse(config) {
        Ok(conf) => conf.is_some_and(|conf| conf.role == Role::Primary),
        Err(_) => true,
    }
}

fn of_problem(problem: &NadProblem, nad: &Sourced<NetworkAttachmentDefinition>) -> Reason {
    let object = describe(&nad.object);
    match problem {
        NadProblem::NoId { .. } | NadProblem::BadId { .. } | NadProblem::IdTaken { .. } => {
            Reason::new(problem, object, Some(annotation(NETWORK_ID)))
        }
        // The content of a definition follows from the custom resource that controls it.
        _ => match owner(&nad.object) {
            Some(owner) => Reason::new(format!("{object}: {problem}"), owner, None),
            None => Reason::new(problem, object, Some("spec.config".to_owned())),
        },
    }
}

/// Reason why a valid definition has no network that can be connected.
fn of_other_kind(nad: &NetworkAttachmentDefinition, object: String) -> Reason {
    let config: serde_json::Value =
        serde_json::from_str(nad.spec.config.as_deref().unwrap_or_default()).unwrap_or_default();
    match config["topology"].as_str() {
        Some(topology @ "localnet") => {
            let field = match object.split_once(' ') {
                Some(("ClusterUserDefinedNetwork", _)) => "spec.network.topology",
                _ => "spec.config",
            };
            let name = config["name"].as_str().unwrap_or_default();
            Reason::new(
                format!("network {name} has topology {topology}, which cannot be connected"),
                object,
                Some(field.to_owned()),
            )
        }
        _ => Reason::new(
            "it is the definition of no user-defined network",
            describe(nad),
            Some("spec.config".to_owned()),
        ),
    }
}

/// Owner of the definition that is its controller, as in messages.
fn owner(nad: &NetworkAttachmentDefinition) -> Option<String> {
    let mut owners = nad.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let namespace = match &*owner.kind {
        "UserDefinedNetwork" => format!("{}/", nad.namespace().unwrap_or_default()),
        _ => String::new(),
    };
    Some(format!("{} {namespace}{}", owner.kind, owner.name))
}
