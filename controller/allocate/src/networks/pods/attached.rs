//! Pods that are attached to networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, NadKey, Networks, PRIMARY_NETWORK_LABEL, Pod, PodAttachment,
    PrimaryDefinition, attachments, waits_for_primary_network,
};
use patchbay_resources::conversion;
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem};
use patchbay_resources::object::Object as _;

/// Pods that are attached to networks, with these.
#[derive(Debug)]
pub struct AttachedPods {
    networks: AttachedNetworks,
    /// In the order in which they were given.
    pods: Vec<(ObjectKey, Arc<Pod>, Vec<PodAttachment>)>,
    /// Pods that wait for their first primary network. They use no network yet.
    waiting: BTreeSet<ObjectKey>,
    /// Reasons why pods are not attached.
    pub(in crate::networks) warnings: Vec<Problem>,
}

impl AttachedPods {
    /// Reads all pods that have ports, without their labels.
    pub(in crate::networks) fn read(inventory: &Inventory, networks: &Networks) -> Self {
        let pods = inventory.pods.in_order().into_iter().map(|(key, object)| {
            let mut pod = conversion::pod(&object.object);
            // Nothing here selects pods.
            pod.labels.clear();
            (key, Arc::new(pod))
        });
        Self::new(inventory, networks, pods)
    }

    /// Attaches pods to networks. `pods`: the pods of the inventory, in their order.
    pub fn new<'a>(
        inventory: &Inventory,
        networks: &Networks,
        pods: impl IntoIterator<Item = (&'a ObjectKey, Arc<Pod>)>,
    ) -> Self {
        let networks = attached_networks(inventory, networks);
        let primary: BTreeMap<&str, Option<&NadKey>> =
            networks.primary().map(|(namespace, key)| (&**namespace, key)).collect();
        let (mut attached, mut waiting) = (Vec::new(), BTreeSet::new());
        let mut warnings = Vec::new();
        for (key, pod) in pods.into_iter().filter(|(_, pod)| pod.is_wired()) {
            let primary = match primary.get(&*pod.key.namespace) {
                None => PrimaryDefinition::Default,
                Some(None) => PrimaryDefinition::Missing,
                Some(Some(key)) => PrimaryDefinition::Definition(key),
            };
            let (attachments, problems) =
                attachments(&pod, &primary, |key| networks.definition(key));
            let unread = pod.problems.iter().map(ToString::to_string);
            let messages = unread.chain(problems.iter().map(ToString::to_string));
            let object = inventory.pods.get(key);
            warnings.extend(messages.filter_map(|message| Some(object?.problem(message))));
            if waits_for_primary_network(&pod, &problems) {
                waiting.insert(key.clone());
            }
            // Most pods of a large cluster are on the default network only.
            if !attachments.is_empty() {
                attached.push((key.clone(), pod, attachments));
            }
        }
        Self { pods: attached, waiting, warnings, networks }
    }

    /// Networks that pods can be attached to.
    pub(in crate::networks) fn networks(&self) -> &AttachedNetworks {
        &self.networks
    }

    /// Pods with their attachments.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(ObjectKey, Arc<Pod>, Vec<PodAttachment>)> {
        self.pods.iter()
    }

    /// Attachments with their pods.
    pub(super) fn attachments(&self) -> impl Iterator<Item = (&Pod, &PodAttachment)> {
        let pods = self.pods.iter();
        pods.flat_map(|(_, pod, attachments)| attachments.iter().map(|one| (&**pod, one)))
    }

    /// Networks with the nodes of their pods.
    pub(in crate::networks) fn uses(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let pods = self.pods.iter();
        let using = pods.filter(|(key, _, _)| !self.waiting.contains(key));
        let uses = using.flat_map(|(_, pod, attachments)| {
            let uses = attachments.iter().zip(pod.node.iter().cycle());
            uses.map(|(attachment, node)| (attachment.network.name.clone(), node.clone()))
        });
        uses.collect()
    }
}

fn attached_networks(inventory: &Inventory, networks: &Networks) -> AttachedNetworks {
    let nads = inventory.network_attachment_definitions.iter();
    let definitions: Vec<_> = nads.map(|(_, nad)| conversion::definition(&nad.object)).collect();
    let namespaces = inventory.namespaces.iter();
    let labelled = namespaces.filter(|(_, namespace)| {
        let labels = namespace.object.labels();
        labels.contains_key(PRIMARY_NETWORK_LABEL)
    });
    let names = labelled.map(|(key, _)| key.name.clone()).collect();
    AttachedNetworks::new(networks, &definitions, &names)
}
