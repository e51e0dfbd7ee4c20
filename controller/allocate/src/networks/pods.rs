//! Addresses of pods in layer2 and localnet networks, which are given for the whole cluster.

mod attempt;
mod claim;
mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, Definition, NadKey, POD_NETWORKS, PRIMARY_NETWORK_LABEL, Pod, PodAttachment,
    PodNetworks, PrimaryDefinition, attachments, waits_for_primary_network,
};
use patchbay_resources::conversion;
use patchbay_resources::ipam_claim::{IPAMClaim, IpamClaimStatus, OwnerPod};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem};
use patchbay_resources::object::{Object, Time};
use patchbay_resources::set_condition;

use super::annotations::{annotate, annotation_field};
use super::manager::ManagerSettings;
use super::memory::{FailedAttempt, Memory};
use super::networks_of;
use attempt::{Attempt, Node};
use claim::{Claim, kept_addresses};
use network::NetworkAddresses;

/// Condition of an IPAMClaim: whether it has addresses.
const IPS_ALLOCATED: &str = "IPsAllocated";

/// Completeness of the IPAMClaims in an inventory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Claims {
    /// It has all of them: one that is missing does not exist.
    Complete,
    /// It has none, because its manifests leave them out.
    Unknown,
    /// Some exist that it lacks, because they cannot be listed or decoded.
    Missing,
}

/// Pods that are attached to networks, with these.
pub(super) struct AttachedPods {
    /// In the order in which they were given.
    pods: Vec<(ObjectKey, Pod, Vec<PodAttachment>)>,
    /// Pods that wait for their first primary network. They use no network yet.
    waiting: BTreeSet<ObjectKey>,
}

impl AttachedPods {
    /// Reads all pods that have ports. Reasons why they are not attached become warnings.
    pub(super) fn read(inventory: &mut Inventory) -> Self {
        let (pods, warnings) = Self::collect(inventory);
        inventory.warnings.extend(warnings);
        pods
    }

    /// Reads all pods that have ports, and the reasons why some are not attached.
    pub(super) fn collect(inventory: &Inventory) -> (Self, Vec<Problem>) {
        let mut warnings = Vec::new();
        let networks = attached_networks(inventory);
        let primary: BTreeMap<&str, Option<&NadKey>> = networks
            .primary()
            .map(|(namespace, key)| (&**namespace, key))
            .collect();
        let (mut pods, mut waiting) = (Vec::new(), BTreeSet::new());
        for (key, object) in inventory.pods.in_order() {
            let mut pod = conversion::pod(&object.object);
            let mut warn = |message: String| {
                warnings.push(Problem {
                    location: object.origin.location().cloned(),
                    object: Some(format!("Pod {key}")),
                    message,
                    ..Problem::default()
                });
            };
            if !pod.is_wired() {
                continue;
            }
            let primary = match primary.get(&*pod.key.namespace) {
                None => PrimaryDefinition::Default,
                Some(None) => PrimaryDefinition::Missing,
                Some(Some(key)) => PrimaryDefinition::Definition(key),
            };
            let (attached, problems) = attachments(&pod, &primary, |key| networks.definition(key));
            for problem in &pod.problems {
                warn(problem.to_string());
            }
            for problem in &problems {
                warn(problem.to_string());
            }
            if waits_for_primary_network(&pod, &problems) {
                waiting.insert(key.clone());
            }
            // Most pods of a large cluster are on the default network only.
            if !attached.is_empty() {
                // Nothing here selects pods.
                pod.labels.clear();
                pods.push((key.clone(), pod, attached));
            }
        }
        (Self { pods, waiting }, warnings)
    }

    /// Networks with the nodes of their pods.
    pub(super) fn uses(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let pods = self.pods.iter();
        let pods = pods.filter(|(key, _, _)| !self.waiting.contains(key));
        let uses = pods.flat_map(|(_, pod, attached)| {
            let uses = attached.iter().zip(pod.node.iter().cycle());
            uses.map(|(attachment, node)| (attachment.network.name.clone(), node.clone()))
        });
        uses.collect()
    }
}

pub(super) fn attached_networks(inventory: &Inventory) -> AttachedNetworks {
    let nads = inventory.network_attachment_definitions.iter();
    let definitions: Vec<_> = nads
        .map(|(_, nad)| conversion::definition(&nad.object))
        .collect();
    let networks = networks_of(inventory);
    let labelled = inventory
        .namespaces
        .iter()
        .filter(|(_, namespace)| {
            namespace
                .object
                .labels()
                .contains_key(PRIMARY_NETWORK_LABEL)
        })
        .map(|(key, _)| key.name.clone());
    AttachedNetworks::new(&networks, &definitions, &labelled.collect())
}

/// Gives pods addresses, MAC addresses and tunnel ids in layer2 networks, and in localnet networks
/// that manage addresses. IPAMClaims get the addresses of their first pod.
///
/// Addresses that pods and claims have already are kept. A pod that gets no addresses is a warning;
/// it is tried again when it changes, or when addresses become free. While claims are missing, no
/// pod gets addresses in networks that keep them, because they may be those of such a claim.
pub(super) fn complete(
    inventory: &mut Inventory,
    pods: &AttachedPods,
    settings: &ManagerSettings,
    claims: Claims,
    memory: &mut Memory,
    now: &Time,
) {
    let mut networks = known_networks(inventory);
    reserve_claims(inventory, &mut networks);
    for (_, pod, attached) in &pods.pods {
        for attachment in attached {
            let network = networks.get_mut(&*attachment.network.name);
            if let (Some(network), Some(known)) = (network, pod.networks.get(&attachment.key)) {
                network.reserve(pod, &attachment.key, known);
            }
        }
    }
    for (name, network) in &mut networks {
        if !memory.pods.contains_key(name) {
            network.start();
        }
        network.resume(memory.pods.entry(name.clone()).or_default());
    }
    memory.pods.retain(|name, _| networks.contains_key(name));
    for (key, pod, attached) in &pods.pods {
        let mut annotated = pod.networks.clone();
        for attachment in attached {
            let name = &*attachment.network.name;
            let (Some(network), Some(memory)) = (networks.get_mut(name), memory.pods.get_mut(name))
            else {
                continue;
            };
            if annotated.get(&attachment.key).is_some() || !pod.has_readable_networks() {
                continue;
            }
            if claims == Claims::Missing && attachment.network.keeps_addresses {
                warn(inventory, key, missing_claims(key, inventory, name));
                continue;
            }
            let claim = match (claims, &attachment.request.claim) {
                (Claims::Complete | Claims::Missing, _) => Claim::of(attachment, inventory),
                (Claims::Unknown, None) => None,
                (Claims::Unknown, Some(name)) => {
                    let message = format!(
                        "IPAMClaim {name} is not known, so the addresses in {} are not kept",
                        attachment.key
                    );
                    warn(inventory, key, message);
                    None
                }
            };
            let attempt = Attempt {
                pod,
                attachment,
                node: Node::read(inventory, pod, settings),
                claim: claim.as_ref().map(|(_, claim)| claim),
                settings: &settings.cluster,
            };
            let (owner, fingerprint) = (attempt.owner(), attempt.fingerprint());
            let failed = memory.failed.get(&owner);
            if let Some(failed) = failed.filter(|failed| failed.fingerprint == fingerprint) {
                // Repeating it would use up tunnel ids.
                warn(inventory, key, failed.message.clone());
                continue;
            }
            let outcome = attempt.make(network, memory);
            if let Some((claim_key, _)) = &claim {
                let addresses = outcome.as_ref().map(|given| &given.addresses[..]);
                note_claim(inventory, claim_key, pod, addresses, now);
            }
            match outcome {
                Ok(given) => annotated.insert(&attachment.key, given),
                Err(error) => {
                    let message = format!("failed to update pod {key}: {error}");
                    warn(inventory, key, message.clone());
                    let failed = FailedAttempt {
                        fingerprint,
                        message,
                    };
                    memory.failed.insert(owner, failed);
                }
            }
        }
        write(inventory, key, pod, &annotated);
    }
    for (name, network) in &networks {
        if let Some(memory) = memory.pods.get_mut(name) {
            network.remember(memory);
        }
    }
}

/// Networks whose addresses are given here.
fn known_networks(inventory: &Inventory) -> BTreeMap<String, NetworkAddresses> {
    let networks = attached_networks(inventory);
    let known = networks.definitions().filter_map(|(_, definition)| {
        let Definition::Network(network) = definition else {
            return None;
        };
        let addresses = NetworkAddresses::new(network)?;
        Some((network.name.to_string(), addresses))
    });
    known.collect()
}

fn reserve_claims(inventory: &Inventory, networks: &mut BTreeMap<String, NetworkAddresses>) {
    for (_, claim) in inventory.ipam_claims.iter() {
        if let Some(network) = networks.get_mut(&claim.object.spec.network) {
            let addresses = kept_addresses(&claim.object).filter_map(Result::ok);
            network.reserve_claim(addresses);
        }
    }
}

/// Notes on a claim what its pod got. A claim that has addresses stays as it is.
fn note_claim(
    inventory: &mut Inventory,
    key: &ObjectKey,
    pod: &Pod,
    outcome: Result<&[ipnet::IpNet], &attempt::AttemptError>,
    now: &Time,
) {
    let Some(claim) = inventory.ipam_claims.get_mut(key) else {
        return;
    };
    let status = claim
        .object
        .status
        .get_or_insert_with(IpamClaimStatus::default);
    if !status.ips.is_empty() {
        return;
    }
    status.owner_pod = Some(OwnerPod {
        name: pod.key.name.to_string(),
    });
    let (holds, reason, message) = match outcome {
        Ok(addresses) => {
            status.ips = addresses.iter().map(ToString::to_string).collect();
            let message = "IP addresses successfully allocated".to_owned();
            (true, "SuccessfulAllocation", message)
        }
        Err(error) => (false, error.reason(), error.to_string()),
    };
    set_condition(
        &mut status.conditions,
        IPS_ALLOCATED,
        holds,
        reason,
        message,
        now,
    );
    let generation = claim.object.metadata.generation;
    let mut conditions = status.conditions.iter_mut();
    if let Some(condition) = conditions.find(|one| one.type_ == IPS_ALLOCATED) {
        condition.observed_generation = generation;
    }
}

/// Reason why a pod waits for claims.
fn missing_claims(pod: &ObjectKey, inventory: &Inventory, network: &str) -> String {
    let outcome = if inventory.unlisted.contains(IPAMClaim::KIND) {
        "listed"
    } else {
        "decoded"
    };
    format!(
        "failed to update pod {pod}: IPAMClaims cannot be {outcome}, and one may keep addresses of \
         network {network}"
    )
}

fn warn(inventory: &mut Inventory, key: &ObjectKey, message: String) {
    let pod = inventory.pods.get(key);
    inventory.warnings.push(Problem {
        location: pod.and_then(|pod| pod.origin.location().cloned()),
        object: Some(format!("Pod {key}")),
        field: Some(annotation_field(POD_NETWORKS)),
        message,
    });
}

fn write(inventory: &mut Inventory, key: &ObjectKey, pod: &Pod, annotated: &PodNetworks) {
    if pod.networks == *annotated {
        return;
    }
    if let Some(object) = inventory.pods.get_mut(key) {
        annotate(
            &mut object.object.metadata,
            POD_NETWORKS,
            annotated.to_json(),
        );
    }
}

/// Address of each family at a distance from the start of its subnet.
fn addresses_at(subnets: &[ipnet::IpNet], distance: u128) -> Vec<IpAddr> {
    let addresses = subnets.iter();
    addresses
        .filter_map(|subnet| patchbay_model::arithmetic::nth_address(*subnet, distance))
        .collect()
}
