//! Pods, their attachments to networks, and their virtual machines.

use std::collections::HashSet;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::{
    Definition, FieldProblem, Pod, PodAttachment, PodKey, PodPlace, PrimaryDefinition, attachments,
};

use super::objects::ZoneObjects;

/// Namespace and name of a virtual machine.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MachineKey {
    /// Namespace of the machine.
    pub namespace: Arc<str>,
    /// Name of the machine.
    pub name: Arc<str>,
}

impl MachineKey {
    /// The virtual machine in a pod. `None`: there is none.
    pub fn of(pod: &Pod) -> Option<Self> {
        Some(Self {
            namespace: pod.key.namespace.clone(),
            name: pod.machine.as_ref()?.name.clone(),
        })
    }
}

impl ZoneObjects {
    /// Adds a pod, or replaces the one of its name.
    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        let key = pod.key.clone();
        self.remove_from_machine(&key);
        if let Some(machine) = MachineKey::of(&pod) {
            self.machines.entry(machine).or_default().insert(key.clone());
        }
        self.pods.insert(key.clone(), pod);
        self.follow_pod(&key);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &PodKey) {
        self.remove_from_machine(key);
        self.pods.remove(key);
        self.follow_pod(key);
    }

    fn remove_from_machine(&mut self, key: &PodKey) {
        let Some(machine) = self.pods.get(key).and_then(|pod| MachineKey::of(pod)) else {
            return;
        };
        if let Some(pods) = self.machines.get_mut(&machine) {
            pods.remove(key);
            if pods.is_empty() {
                self.machines.remove(&machine);
            }
        }
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// Pods of a namespace.
    pub fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let first = PodKey::new(namespace, "");
        let pods = self.pods.range(first.clone()..).map(|(_, pod)| pod);
        pods.take_while(move |pod| pod.key.namespace == first.namespace)
    }

    /// A pod. `None`: there is none of this name.
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// Pods of a virtual machine.
    pub fn machine(&self, key: &MachineKey) -> impl Iterator<Item = &Arc<Pod>> {
        let pods = self.machines.get(key).into_iter().flatten();
        pods.filter_map(|key| self.pods.get(key))
    }

    /// Virtual machines that have pods.
    pub fn machines(&self) -> impl Iterator<Item = &MachineKey> {
        self.machines.keys()
    }

    /// Attachments of a pod to networks, the primary network first.
    pub fn attachments(&self, pod: &Pod) -> (Vec<PodAttachment>, Vec<FieldProblem>) {
        attachments(pod, &self.primary_definition(&pod.key.namespace), |key| {
            self.definitions.get(key)
        })
    }

    /// Places of a pod in networks: where it has addresses.
    pub fn places(&self, pod: &Arc<Pod>) -> impl Iterator<Item = PodPlace> {
        let (attachments, _) = self.attachments(pod);
        let attachments = attachments.into_iter();
        attachments.filter_map(|attachment| attachment.place(pod))
    }

    /// Definition of the primary network of a namespace's pods.
    pub fn primary_definition(&self, namespace: &str) -> PrimaryDefinition<'_> {
        match self.primary_definitions.get(namespace) {
            None => PrimaryDefinition::Default,
            Some(None) => PrimaryDefinition::Missing,
            Some(Some(key)) => PrimaryDefinition::Definition(key),
        }
    }

    /// `true` if the namespace's pods have a primary network, and it is known.
    pub fn has_primary_network(&self, namespace: &str) -> bool {
        let PrimaryDefinition::Definition(key) = self.primary_definition(namespace) else {
            return false;
        };
        matches!(self.definitions.get(key), Some(Definition::Network(_)))
    }

    /// Names of the networks that pods are attached to.
    pub fn attached_networks(&self) -> HashSet<&str> {
        let definitions = self.definitions.values();
        let networks = definitions.filter_map(|definition| match definition {
            Definition::Network(network) => Some(&*network.name),
            Definition::None => None,
        });
        networks.collect()
    }

    /// Sets the port groups whose ACLs drop packets of ports, by the ports' names. A new port is
    /// disabled until it is in all of its groups, so that no packet passes before. Ports of virtual
    /// machines that migrate are not.
    pub fn set_gates(&mut self, gates: impl IntoIterator<Item = (Arc<str>, Vec<String>)>) {
        let former = std::mem::take(&mut self.gates);
        self.gates = gates
            .into_iter()
            .map(|(port, groups)| {
                let known = former.get(&port).filter(|known| ***known == *groups);
                let groups = known.cloned().unwrap_or_else(|| groups.into());
                (port, groups)
            })
            .collect::<OrdMap<_, _>>();
    }

    /// Sets the [gates](Self::set_gates) of one port.
    pub fn put_gates(&mut self, port: Arc<str>, groups: Vec<String>) {
        self.gates.insert(port, groups.into());
    }

    /// Removes the [gates](Self::set_gates) of one port.
    pub fn remove_gates(&mut self, port: &str) {
        self.gates.remove(port);
    }

    /// Port groups that a new port waits for.
    pub fn gates(&self, port: &str) -> &[String] {
        self.gates.get(port).map_or(&[], |groups| groups)
    }
}
