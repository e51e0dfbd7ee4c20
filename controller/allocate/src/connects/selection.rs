//! Selection of networks by the selectors of a connect.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{
    NETWORK_ID, NETWORK_NAME, NadKey, NadProblem, Network, NetworkId, Role, Topology, Transport,
};
use patchbay_resources::cnc::{ClusterNetworkConnect, NetworkSelectionType};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::LabelSelector;
use patchbay_resources::object::Object;
use patchbay_resources::selector::{self, Selector};
use thiserror::Error;

use super::objects::ClusterObjects;
use super::vpc_members::VpcMembers;

/// Reason why a selector selects no networks, or not all.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum DiscoveryError {
    #[error("configuration error: unsupported network selection type {0}")]
    SelectionType(NetworkSelectionType),
    #[error("failed to parse CUDN network selector: {0}")]
    NetworkSelector(String),
    #[error("failed to parse PUDN namespace selector: {0}")]
    NamespaceSelector(String),
    #[error(
        "network {network} has transport type {transport} that is not supported for networkConnect"
    )]
    Transport { network: String, transport: Transport },
    #[error("network {network} is a layer3 network, which a database of all nodes does not have")]
    Layer3 { network: String },
    #[error("NetworkAttachmentDefinition {nad}: {reason}")]
    Definition { nad: NadKey, reason: String },
}

/// Selected attachment definition whose network is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Unresolved {
    /// Name of the network. `None`: not known.
    pub(super) network: Option<String>,
    /// Id of the network. `None`: not known.
    pub(super) id: Option<NetworkId>,
    /// `true` if the id is the only problem of the network.
    pub(super) lacks_id: bool,
}

/// Networks that the selectors of a connect select.
#[derive(Debug, Default)]
pub(super) struct Selection<'a> {
    /// Networks by name.
    pub(super) networks: BTreeMap<&'a str, &'a Network>,
    /// Selected definitions without a network.
    pub(super) unresolved: Vec<Unresolved>,
    /// Errors, by selector, then by name.
    pub(super) errors: Vec<DiscoveryError>,
    /// Selected definitions that cannot be read, with the reason. The connect is accepted in spite
    /// of them, because they may not be definitions of its networks.
    pub(super) unreadable: Vec<(NadKey, String)>,
}

impl<'a> Selection<'a> {
    /// Selects networks by all selectors. Errors do not stop the selection.
    pub(super) fn discover(connect: &ClusterNetworkConnect, objects: &ClusterObjects<'a>) -> Self {
        let mut selection = Self::default();
        let mut seen = BTreeSet::new();
        for entry in &connect.spec.network_selectors {
            match entry.network_selection_type {
                NetworkSelectionType::ClusterUserDefinedNetworks => {
                    let labels = entry
                        .cluster_user_defined_network_selector
                        .as_ref()
                        .map(|member| &member.network_selector);
                    match parse("clusterUserDefinedNetworkSelector", labels) {
                        Ok(labels) => selection.cluster_networks(&labels, objects, &mut seen),
                        Err(error) => selection.errors.push(DiscoveryError::NetworkSelector(error)),
                    }
                }
                NetworkSelectionType::PrimaryUserDefinedNetworks => {
                    let labels = entry
                        .primary_user_defined_network_selector
                        .as_ref()
                        .map(|member| &member.namespace_selector);
                    match parse("primaryUserDefinedNetworkSelector", labels) {
                        Ok(labels) => selection.primary_networks(&labels, objects, &mut seen),
                        Err(error) => {
                            selection.errors.push(DiscoveryError::NamespaceSelector(error));
                        }
                    }
                }
                other => match (other, objects.vpcs) {
                    (NetworkSelectionType::NetworkAttachmentDefinitions, Some(vpcs)) => {
                        selection.vpcs(&connect.name_any(), vpcs);
                    }
                    _ => selection.errors.push(DiscoveryError::SelectionType(other)),
                },
            }
        }
        selection
    }

    /// Selects the VPCs of a connect. The others are connected if a definition has no subnet.
    fn vpcs(&mut self, connect: &str, members: &'a VpcMembers) {
        let vpcs = members.vpcs(connect).into_iter().flat_map(BTreeMap::values);
        let networks = vpcs.map(|vpc| (vpc.network.name.as_str(), &vpc.network));
        self.networks.extend(networks);
        let problems = members.problems(connect).iter();
        self.errors.extend(problems.map(|(nad, reason)| DiscoveryError::Definition {
            nad: nad.clone(),
            reason: reason.clone(),
        }));
    }

    /// Selects networks of ClusterUserDefinedNetworks by the labels of their definitions.
    fn cluster_networks(
        &mut self,
        labels: &Selector,
        objects: &ClusterObjects<'a>,
        seen: &mut BTreeSet<NadKey>,
    ) {
        for (key, nad) in objects.cudn_nads.select(labels) {
            self.definition(key, nad, objects, seen);
        }
    }

    /// Selects the primary networks of namespaces, of UDNs, CUDNs and other definitions.
    fn primary_networks(
        &mut self,
        labels: &Selector,
        objects: &ClusterObjects<'a>,
        seen: &mut BTreeSet<NadKey>,
    ) {
        for name in objects.primary_namespaces.select(labels) {
            let keys: Vec<&NadKey> = match objects.networks.primary_nad(name) {
                Some(key) => vec![key],
                // One of the definitions with a problem may be that of the primary network.
                None => objects.networks.problems_in(name).collect(),
            };
            for key in keys {
                if let Some(nad) = objects.nads.get(key) {
                    self.definition(key, nad, objects, seen);
                }
            }
        }
    }

    /// Adds the network of a selected definition.
    fn definition(
        &mut self,
        key: &NadKey,
        nad: &NetworkAttachmentDefinition,
        objects: &ClusterObjects<'a>,
        seen: &mut BTreeSet<NadKey>,
    ) {
        if !seen.insert(key.clone()) {
            return;
        }
        if let Some(network) = objects.networks.by_nad(key) {
            if objects.vpcs.is_some() && network.topology == Topology::Layer3 {
                self.errors.push(DiscoveryError::Layer3 { network: network.name.clone() });
            } else if self.can_be_connected(&network.name, network.role, network.transport) {
                self.networks.insert(&network.name, network);
            }
        } else if let Some(problem) = objects.networks.problems().get(key) {
            if let NadProblem::NoId { network, role, transport }
            | NadProblem::BadId { network, role, transport, .. } = problem
                && !self.can_be_connected(network, *role, *transport)
            {
                return;
            }
            let unresolved = unresolved(nad, problem);
            if !unresolved.lacks_id {
                self.unreadable.push((key.clone(), problem.to_string()));
            }
            self.unresolved.push(unresolved);
        }
    }

    /// `true` if networks of this kind can be connected. Secondary networks are skipped without
    /// error.
    fn can_be_connected(&mut self, network: &str, role: Role, transport: Transport) -> bool {
        if role != Role::Primary {
            return false;
        }
        if transport != Transport::Overlay {
            self.errors.push(DiscoveryError::Transport { network: network.to_owned(), transport });
            return false;
        }
        true
    }
}

fn parse(member: &str, selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let selector = selector.ok_or_else(|| format!("{member} is not set"))?;
    selector::convert(selector).map_err(|error| error.to_string())
}

fn unresolved(nad: &NetworkAttachmentDefinition, problem: &NadProblem) -> Unresolved {
    let annotation = |key| nad.annotations().get(key);
    let (network, lacks_id) = match problem {
        NadProblem::NoId { network, .. } | NadProblem::BadId { network, .. } => {
            (Some(network.clone()), true)
        }
        _ => (annotation(NETWORK_NAME).cloned(), false),
    };
    Unresolved { network, id: annotation(NETWORK_ID).and_then(|id| id.parse().ok()), lacks_id }
}
