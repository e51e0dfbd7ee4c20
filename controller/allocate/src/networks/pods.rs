//! Addresses of pods in layer2 and localnet networks, which are given for the whole cluster.

mod attached;
mod attempt;
mod claim;
mod memory;
mod network;

use std::collections::BTreeMap;

use ipnet::IpNet;
use patchbay_model::{Definition, POD_NETWORKS, Pod, PodAttachment, PodNetworks};
use patchbay_resources::ipam_claim::{IPAMClaim, IpamClaimStatus, OwnerPod};
use patchbay_resources::manifests::{Inventory, ObjectKey, Objects, Problem};
use patchbay_resources::object::{Object as _, Time};
use patchbay_resources::set_condition;

use super::annotations::write_annotations;
use super::nodes::NodeIds;
use super::settings::ManagerSettings;
pub use attached::AttachedPods;
use attempt::{Attempt, AttemptError, older_layout};
use claim::{Claim, kept_addresses};
use memory::FailedAttempt;
pub(super) use memory::PodMemory;
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

/// What the addresses of pods follow from.
pub(super) struct PodPass<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) pods: &'a AttachedPods,
    pub(super) node_ids: &'a NodeIds,
    pub(super) settings: &'a ManagerSettings,
    pub(super) claims: Claims,
    pub(super) now: &'a Time,
}

/// Addresses of pods, and the claims that keep them.
#[derive(Debug)]
pub struct PodAddresses {
    /// Addresses of the pods that have got some.
    pub networks: BTreeMap<ObjectKey, PodNetworks>,
    claims: Objects<IPAMClaim>,
    /// Pods that get no addresses, or whose addresses are not kept.
    pub(super) warnings: Vec<Problem>,
}

impl PodAddresses {
    /// Writes the annotations of the pods, and the claims. Warnings become those of the inventory.
    pub fn write(self, inventory: &mut Inventory) {
        for (key, networks) in &self.networks {
            let value = Some(networks.to_json());
            write_annotations(&mut inventory.pods, key, [(POD_NETWORKS, value)]);
        }
        inventory.ipam_claims = self.claims;
        inventory.warnings.extend(self.warnings);
    }
}

/// Gives pods addresses, MAC addresses and tunnel ids in layer2 networks, and in localnet networks
/// that manage addresses. IPAMClaims get the addresses of their first pod.
///
/// Addresses that pods and claims have already are kept. A pod that gets no addresses is a warning;
/// it is tried again when it changes, or when addresses become free. While claims are missing, no
/// pod gets addresses in networks that keep them, because they may be those of such a claim.
pub(super) fn address_pods(
    pass: &PodPass<'_>,
    memory: &mut BTreeMap<String, PodMemory>,
) -> PodAddresses {
    let mut addressed = PodAddresses {
        networks: BTreeMap::new(),
        claims: pass.inventory.ipam_claims.clone(),
        warnings: Vec::new(),
    };
    let mut networks = known_networks(pass.pods);
    reserve_claims(&addressed.claims, &mut networks);
    for (pod, attachment) in pass.pods.attachments() {
        let network = networks.get_mut(&*attachment.network.name);
        if let (Some(network), Some(known)) = (network, pod.networks.get(&attachment.key)) {
            network.reserve(pod, &attachment.key, known);
        }
    }
    for (name, network) in &mut networks {
        if !memory.contains_key(name) {
            network.start();
        }
        network.resume(memory.entry(name.clone()).or_default());
    }
    memory.retain(|name, _| networks.contains_key(name));
    for (key, pod, attachments) in pass.pods.iter() {
        for attachment in attachments {
            let name = &*attachment.network.name;
            let annotated = addressed.networks.get(key).unwrap_or(&pod.networks);
            if annotated.get(&attachment.key).is_some() || !pod.has_readable_networks() {
                continue;
            }
            if let (Some(network), Some(memory)) = (networks.get_mut(name), memory.get_mut(name)) {
                pass.address(key, pod, attachment, (network, memory), &mut addressed);
            }
        }
    }
    for (name, network) in &networks {
        if let Some(memory) = memory.get_mut(name) {
            network.remember(memory);
        }
    }
    addressed
}

impl PodPass<'_> {
    /// Gives a pod addresses in a network.
    fn address(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        attachment: &PodAttachment,
        (network, memory): (&mut NetworkAddresses, &mut PodMemory),
        addressed: &mut PodAddresses,
    ) {
        if self.claims == Claims::Missing && attachment.network.keeps_addresses {
            let message = self.missing_claims(key, &attachment.network.name);
            self.warn(key, message, addressed);
            return;
        }
        let claim = match (self.claims, &attachment.request.claim) {
            (Claims::Complete | Claims::Missing, _) => Claim::of(attachment, &addressed.claims),
            (Claims::Unknown, None) => None,
            (Claims::Unknown, Some(name)) => {
                let message = format!(
                    "IPAMClaim {name} is not known, so the addresses in {} are not kept",
                    attachment.key
                );
                self.warn(key, message, addressed);
                None
            }
        };
        let attempt = Attempt {
            pod,
            attachment,
            older_layout: older_layout(self.inventory, pod, self.node_ids, self.settings),
            claim: claim.as_ref().map(|(_, claim)| claim),
            settings: &self.settings.cluster,
        };
        let (owner, fingerprint) = (attempt.owner(), attempt.fingerprint());
        let failed = memory.failed.get(&owner);
        if let Some(failed) = failed.filter(|failed| failed.fingerprint == fingerprint) {
            // Repeating it would use up tunnel ids.
            self.warn(key, failed.message.clone(), addressed);
            return;
        }
        let outcome = attempt.make(network, memory);
        if let Some((claim_key, _)) = &claim {
            let addresses = outcome.as_ref().map(|given| &given.addresses[..]);
            note_claim(&mut addressed.claims, claim_key, pod, addresses, self.now);
        }
        match outcome {
            Ok(given) => {
                let networks = addressed.networks.entry(key.clone());
                let networks = networks.or_insert_with(|| pod.networks.clone());
                networks.insert(&attachment.key, given);
            }
            Err(error) => {
                let message = format!("failed to update pod {key}: {error}");
                self.warn(key, message.clone(), addressed);
                let failed = FailedAttempt { fingerprint, message };
                memory.failed.insert(owner, failed);
            }
        }
    }

    /// Reason why a pod waits for claims.
    fn missing_claims(&self, pod: &ObjectKey, network: &str) -> String {
        let outcome =
            if self.inventory.unlisted.contains(IPAMClaim::KIND) { "listed" } else { "decoded" };
        format!(
            "failed to update pod {pod}: IPAMClaims cannot be {outcome}, and one may keep \
             addresses of network {network}"
        )
    }

    fn warn(&self, key: &ObjectKey, message: String, addressed: &mut PodAddresses) {
        let pod = self.inventory.pods.get(key);
        let problem = pod.map(|pod| pod.problem(message).in_annotation(POD_NETWORKS));
        addressed.warnings.extend(problem);
    }
}

/// Networks whose addresses are given here.
fn known_networks(pods: &AttachedPods) -> BTreeMap<String, NetworkAddresses> {
    let mut known = BTreeMap::new();
    for (_, definition) in pods.networks().definitions() {
        if let Definition::Network(network) = definition
            && !known.contains_key(&*network.name)
            && let Some(addresses) = NetworkAddresses::new(network)
        {
            known.insert(network.name.to_string(), addresses);
        }
    }
    known
}

fn reserve_claims(claims: &Objects<IPAMClaim>, networks: &mut BTreeMap<String, NetworkAddresses>) {
    for (_, claim) in claims.iter() {
        if let Some(network) = networks.get_mut(&claim.object.spec.network) {
            let addresses = kept_addresses(&claim.object).filter_map(Result::ok);
            network.reserve_claim(addresses);
        }
    }
}

/// Notes on a claim what its pod got. A claim that has addresses stays as it is.
fn note_claim(
    claims: &mut Objects<IPAMClaim>,
    key: &ObjectKey,
    pod: &Pod,
    outcome: Result<&[IpNet], &AttemptError>,
    now: &Time,
) {
    let Some(claim) = claims.get_mut(key) else {
        return;
    };
    let status = claim.object.status.get_or_insert_with(IpamClaimStatus::default);
    if !status.ips.is_empty() {
        return;
    }
    status.owner_pod = Some(OwnerPod { name: pod.key.name.to_string() });
    let (holds, reason, message) = match outcome {
        Ok(addresses) => {
            status.ips = addresses.iter().map(ToString::to_string).collect();
            let message = "IP addresses successfully allocated".to_owned();
            (true, "SuccessfulAllocation", message)
        }
        Err(error) => (false, error.reason(), error.to_string()),
    };
    set_condition(&mut status.conditions, IPS_ALLOCATED, holds, reason, message, now);
    let generation = claim.object.metadata.generation;
    let mut conditions = status.conditions.iter_mut();
    if let Some(condition) = conditions.find(|one| one.type_ == IPS_ALLOCATED) {
        condition.observed_generation = generation;
    }
}
