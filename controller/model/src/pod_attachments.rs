//! Attachments of pods to networks, and their ports there.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::attached_network::{AttachedNetwork, AttachedTopology, Definition};
use super::names::network_prefix;
use super::network::Role;
use super::networks::{NadKey, PRIMARY_NETWORK_LABEL};
use super::pod::{AddressRequest, DEFAULT_NETWORK_SELECTION, NETWORK_SELECTIONS, Pod, PodKey};
use super::pod_networks::PodNetwork;

/// Attachment of a pod to a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodAttachment {
    /// Key in the annotation [`POD_NETWORKS`](super::POD_NETWORKS): `<namespace>/<definition>`; a
    /// further attachment by the same definition ends in `/1`, `/2` and so on.
    pub key: String,
    /// The network.
    pub network: Arc<AttachedNetwork>,
    /// Request of the pod.
    pub request: AddressRequest,
}

impl PodAttachment {
    /// Name of the pod's switch port.
    pub fn port(&self, pod: &PodKey) -> String {
        port_name(&self.key, pod)
    }

    /// The pod's place in the network. `None`: it has no addresses there yet.
    pub fn place(&self, pod: &Arc<Pod>) -> Option<PodPlace> {
        let addresses = pod.networks.get(&self.key)?;
        Some(PodPlace {
            pod: pod.clone(),
            network: self.network.clone(),
            port: self.port(&pod.key),
            addresses: addresses.clone(),
        })
    }
}

/// Place of a pod in a network: its port with its addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPlace {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The network.
    pub network: Arc<AttachedNetwork>,
    /// Name of the switch port.
    pub port: String,
    /// Addresses and MAC address.
    pub addresses: PodNetwork,
}

impl PodPlace {
    /// `true` if the zone of this node has the port. In layer2 networks all zones have it, else
    /// only the zone of the pod's node.
    pub fn is_in_zone(&self, zone: &str) -> bool {
        let is_local = self.pod.node.as_deref() == Some(zone);
        self.pod.is_wired() && (is_local || self.network.has_remote_ports())
    }
}

/// Name of the switch port of an attachment.
pub fn port_name(attachment: &str, pod: &PodKey) -> String {
    format!(
        "{}{}_{}",
        network_prefix(attachment),
        pod.namespace,
        pod.name
    )
}

/// Reason why a pod is not attached to a network.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum AttachmentProblem {
    /// The namespace requires a primary network, and there is none.
    #[error(
        "metadata.namespace: namespace {0} has the label {PRIMARY_NETWORK_LABEL}, but no primary network"
    )]
    NoPrimaryNetwork(Arc<str>),
    /// The definition does not exist.
    #[error(
        "metadata.annotations[{NETWORK_SELECTIONS}]: there is no NetworkAttachmentDefinition {0}"
    )]
    NoDefinition(NadKey),
    /// A primary network is not selected by annotation.
    #[error(
        "metadata.annotations[{NETWORK_SELECTIONS}]: unexpected primary network {0:?} specified with a NetworkSelectionElement"
    )]
    Primary(Arc<str>),
    /// The request in a selected network cannot be used.
    #[error("metadata.annotations[{NETWORK_SELECTIONS}]: {key}: {reason}")]
    Request {
        /// Key of the attachment.
        key: String,
        /// Reason why it cannot.
        reason: Box<str>,
    },
    /// The request in the primary network cannot be used.
    #[error("metadata.annotations[{DEFAULT_NETWORK_SELECTION}]: {0}")]
    PrimaryRequest(Box<str>),
    /// The node chooses the addresses in a primary layer3 network.
    #[error(
        "metadata.annotations[{DEFAULT_NETWORK_SELECTION}]: network {0} has topology layer3 and gives no requested addresses"
    )]
    NoAddressRequests(Arc<str>),
}

/// Primary network of a namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PrimaryDefinition<'a> {
    /// Pods are on the default network.
    Default,
    /// Pods wait for the network.
    Missing,
    /// Definition of the network.
    Definition(&'a NadKey),
}

/// Attachments of a pod, the primary network first. `definition` finds what a definition leads to;
/// `None`: it does not exist.
///
/// A pod in a namespace without its primary network, or with a request there that cannot be used,
/// is not attached to it. Neither is one that selects its primary network by annotation, as in
/// OVN-Kubernetes. A pod with an annotation that cannot be read is attached to no network.
pub fn attachments<'a>(
    pod: &Pod,
    primary: &PrimaryDefinition<'_>,
    definition: impl Fn(&NadKey) -> Option<&'a Definition>,
) -> (Vec<PodAttachment>, Vec<AttachmentProblem>) {
    let (mut attachments, mut problems) = (Vec::new(), Vec::new());
    let Some(selections) = &pod.selections else {
        return (attachments, problems);
    };
    let missing = || AttachmentProblem::NoPrimaryNetwork(pod.key.namespace.clone());
    match primary {
        PrimaryDefinition::Default => {}
        PrimaryDefinition::Missing => problems.push(missing()),
        PrimaryDefinition::Definition(key) => match definition(key) {
            Some(Definition::Network(network)) => match &pod.primary_request {
                Ok(request) => {
                    let usable = usable_request(request, network);
                    if usable.addresses != request.addresses {
                        let name = network.name.clone();
                        problems.push(AttachmentProblem::NoAddressRequests(name));
                    }
                    attachments.push(PodAttachment {
                        key: key.to_string(),
                        network: network.clone(),
                        request: usable,
                    });
                }
                Err(reason) => problems.push(AttachmentProblem::PrimaryRequest(reason.clone())),
            },
            _ => problems.push(missing()),
        },
    }
    let mut counts = BTreeMap::<NadKey, usize>::new();
    for selection in selections {
        let key = NadKey {
            namespace: selection.namespace.clone(),
            name: selection.name.clone(),
        };
        let network = match definition(&key) {
            Some(Definition::Network(network)) => network,
            Some(Definition::None) => continue,
            None => {
                problems.push(AttachmentProblem::NoDefinition(key));
                continue;
            }
        };
        if network.role == Role::Primary {
            attachments.retain(|one| one.network.name != network.name);
            problems.push(AttachmentProblem::Primary(network.name.clone()));
            continue;
        }
        let count = counts.entry(key.clone()).or_default();
        let key = match *count {
            0 => key.to_string(),
            number => format!("{key}/{number}"),
        };
        *count += 1;
        match &selection.request {
            Ok(request) => attachments.push(PodAttachment {
                key,
                network: network.clone(),
                request: request.clone(),
            }),
            Err(reason) => {
                let reason = reason.clone();
                problems.push(AttachmentProblem::Request { key, reason });
            }
        }
    }
    (attachments, problems)
}

/// `true` if a pod waits for the first primary network of its namespace, with these problems of its
/// attachments. A pod with addresses in a primary network had such a network before, and stays
/// attached to its other networks.
pub fn waits_for_primary_network(pod: &Pod, problems: &[AttachmentProblem]) -> bool {
    let is_missing = |one: &_| matches!(one, AttachmentProblem::NoPrimaryNetwork(_));
    !pod.networks.has_primary() && problems.iter().any(is_missing)
}

/// The part of a request that primary networks of the topology grant, as in OVN-Kubernetes: in
/// layer3 the node chooses the addresses, and the network has the gateways.
fn usable_request(request: &AddressRequest, network: &AttachedNetwork) -> AddressRequest {
    let mut request = request.clone();
    request.gateways.clear();
    if network.topology == AttachedTopology::Layer3 {
        request.addresses.clear();
    }
    request
}
