//! Attachments of pods to networks, and their ports there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attached_network::{AttachedNetwork, AttachedTopology, Definition};
use super::names::network_prefix;
use super::network::Role;
use super::networks::{NadKey, PRIMARY_NETWORK_LABEL};
use super::object_problem::FieldProblem;
use super::pod::{AddressRequest, DEFAULT_NETWORK_SELECTION, NETWORK_SELECTIONS, Pod, PodKey};
use super::pod_networks::PodNetwork;

/// Field of the problem of a pod whose namespace has no primary network.
const NAMESPACE_FIELD: &str = "metadata.namespace";

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
    format!("{}{}_{}", network_prefix(attachment), pod.namespace, pod.name)
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
) -> (Vec<PodAttachment>, Vec<FieldProblem>) {
    let (mut attachments, mut problems) = (Vec::new(), Vec::new());
    let Some(selections) = &pod.selections else {
        return (attachments, problems);
    };
    let missing = || {
        let namespace = &pod.key.namespace;
        let reason = format!(
            "namespace {namespace} has the label {PRIMARY_NETWORK_LABEL}, but no primary network"
        );
        FieldProblem::new(NAMESPACE_FIELD, reason)
    };
    let in_selections = |reason: String| FieldProblem::of_annotation(NETWORK_SELECTIONS, reason);
    let in_request = |reason: &str| FieldProblem::of_annotation(DEFAULT_NETWORK_SELECTION, reason);
    match primary {
        PrimaryDefinition::Default => {}
        PrimaryDefinition::Missing => problems.push(missing()),
        PrimaryDefinition::Definition(key) => match definition(key) {
            Some(Definition::Network(network)) => match &pod.primary_request {
                Ok(request) => {
                    let usable = usable_request(request, network);
                    if usable.addresses != request.addresses {
                        problems.push(in_request(&format!(
                            "network {} has topology layer3 and gives no requested addresses",
                            network.name
                        )));
                    }
                    attachments.push(PodAttachment {
                        key: key.to_string(),
                        network: network.clone(),
                        request: usable,
                    });
                }
                Err(reason) => problems.push(in_request(reason)),
            },
            _ => problems.push(missing()),
        },
    }
    let mut counts = BTreeMap::<NadKey, usize>::new();
    for selection in selections {
        let key = NadKey { namespace: selection.namespace.clone(), name: selection.name.clone() };
        let network = match definition(&key) {
            Some(Definition::Network(network)) => network,
            Some(Definition::None) => continue,
            None => {
                let reason = format!("there is no NetworkAttachmentDefinition {key}");
                problems.push(in_selections(reason));
                continue;
            }
        };
        if network.role == Role::Primary {
            attachments.retain(|one| one.network.name != network.name);
            problems.push(in_selections(format!(
                "unexpected primary network {:?} specified with a NetworkSelectionElement",
                network.name
            )));
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
            Err(reason) => problems.push(in_selections(format!("{key}: {reason}"))),
        }
    }
    (attachments, problems)
}

/// `true` if a pod waits for the first primary network of its namespace, with these problems of its
/// attachments. A pod with addresses in a primary network had such a network before, and stays
/// attached to its other networks.
pub fn waits_for_primary_network(pod: &Pod, problems: &[FieldProblem]) -> bool {
    !pod.networks.has_primary() && problems.iter().any(|one| one.field == NAMESPACE_FIELD)
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
