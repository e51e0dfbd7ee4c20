//! Pods of a cluster's objects: their addresses, and the inputs of their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_allocate::networks::{AttachedPods, NumberedNetworks, PodAddresses, address_pods};
use patchbay_model::{ClusterSettings, PRIMARY_NETWORK_LABEL, Pod};
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_resources::conversion::{network_objects, pod};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem};
use patchbay_resources::object::{Object, Time};
use patchbay_zone::ZoneObjects;

/// Names of the namespaces whose pods have a primary network.
pub(crate) fn labelled_namespaces(inventory: &Inventory) -> BTreeSet<String> {
    let namespaces = inventory.namespaces.iter();
    let labelled = namespaces.filter(|(_, namespace)| {
        let labels = namespace.object.labels();
        labels.contains_key(PRIMARY_NETWORK_LABEL)
    });
    labelled.map(|(key, _)| key.name.clone()).collect()
}

/// Pods of an inventory, read once.
pub(crate) struct ClusterPods {
    /// In the order of the manifests.
    pods: Vec<(ObjectKey, Arc<Pod>)>,
    /// Warnings about pods without a node or addresses.
    pub(crate) warnings: Vec<Problem>,
}

impl ClusterPods {
    pub(crate) fn read(inventory: &Inventory) -> Self {
        let pods = inventory.pods.in_order().into_iter();
        Self {
            pods: pods
                .map(|(key, sourced)| (key.clone(), Arc::new(pod(&sourced.object))))
                .collect(),
            warnings: Vec::new(),
        }
    }

    /// The pods, in the order of the manifests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(|(_, pod)| &**pod)
    }

    /// Attaches the pods to networks.
    pub(crate) fn attach(
        &self,
        inventory: &Inventory,
        numbered: &NumberedNetworks,
    ) -> AttachedPods {
        let pods = self.pods.iter().map(|(key, pod)| (key, pod.clone()));
        AttachedPods::new(inventory, &numbered.networks, pods)
    }

    /// Gives pods without addresses those that the controllers of a cluster would give them, and
    /// writes them into the pods' annotations.
    ///
    /// In layer2 networks, and in localnet networks with subnets, it is the cluster manager that
    /// does, and IPAMClaims keep the addresses. `now` is the time of their conditions.
    pub(crate) fn address(
        &mut self,
        inventory: &mut Inventory,
        attached: AttachedPods,
        numbered: &NumberedNetworks,
        settings: &ClusterSettings,
        now: &Time,
    ) {
        if self.pods.is_empty() {
            return;
        }
        let mut warnings: Vec<String> = self.node_warnings(inventory).collect();
        let mut addresses = address_pods(inventory, numbered, &attached, settings, now);
        // Pods that nothing else has are changed in place.
        drop(attached);
        self.set_networks(&addresses);
        let mut zone = ZoneObjects::new("", settings);
        let labelled = labelled_namespaces(inventory);
        zone.set_objects(&network_objects(inventory, settings), &labelled);
        for (_, pod) in &self.pods {
            zone.put_pod(pod.clone());
        }
        let mut allocator = PodAllocator::new(AllocationScope::AllZones);
        for (key, networks) in allocator.allocate(&zone) {
            let key = ObjectKey::namespaced(&*key.namespace, &*key.name);
            addresses.networks.insert(key, networks.clone());
        }
        self.set_networks(&addresses);
        addresses.write(inventory);
        let problems = allocator.problems();
        warnings.extend(problems.map(|problem| problem.to_string()));
        self.warnings.extend(warnings.into_iter().map(Problem::from));
    }

    /// Sets the addresses that pods have got.
    fn set_networks(&mut self, addresses: &PodAddresses) {
        for (key, pod) in &mut self.pods {
            if let Some(networks) = addresses.networks.get(key) {
                Arc::make_mut(pod).networks.clone_from(networks);
            }
        }
    }

    /// Warnings about pods without a node, which have no ports.
    fn node_warnings(&self, inventory: &Inventory) -> impl Iterator<Item = String> {
        self.pods.iter().filter_map(|(key, pod)| {
            let problem = match &pod.node {
                _ if pod.has_host_network || pod.is_completed => return None,
                None => "the pod is not scheduled, so it has no ports".to_owned(),
                Some(node) if inventory.nodes.named(node).is_none() => {
                    format!("there is no node {node}, so the pod has no ports")
                }
                Some(_) => return None,
            };
            Some(format!("Pod {key}: spec.nodeName: {problem}"))
        })
    }
}
