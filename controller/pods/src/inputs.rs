//! Inputs of pods' rows: settings, nodes, networks and pods of a zone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use patchbay_model::{
    AttachedNetworks, AttachmentProblem, ClusterSettings, Definition, NadKey, NetworkObjects,
    Networks, Node, NodeChassis, NodeObject, Pod, PodAttachment, PodKey, PodPlace,
    PrimaryDefinition, ServiceObject, UnreadNetworks, attachments,
};
use patchbay_rows::{Inputs, changed_keys};

/// Namespace and name of the service of the cluster's name server.
pub const NAME_SERVER: (&str, &str) = ("kube-system", "kube-dns");

/// Everything that the rows of pods in one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZonePods {
    zone: Arc<Zone>,
    nodes: OrdMap<Arc<str>, Arc<PodNode>>,
    definitions: OrdMap<NadKey, Definition>,
    /// Namespaces whose pods have a primary network, with its definition if there is one.
    primary: OrdMap<Arc<str>, Option<NadKey>>,
    pods: OrdMap<PodKey, Arc<Pod>>,
    /// Pods of virtual machines.
    machines: OrdMap<MachineKey, OrdSet<PodKey>>,
    unread: Arc<UnreadNetworks>,
    /// Port groups that new ports wait for, by the ports' names.
    gates: OrdMap<Arc<str>, Arc<[String]>>,
}

/// The zone, the cluster's settings and its name server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Zone {
    pub(crate) name: Arc<str>,
    pub(crate) settings: ClusterSettings,
    pub(crate) name_servers: Vec<IpAddr>,
}

/// A node, as pods on it depend on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodNode {
    pub(crate) chassis: NodeChassis,
    /// The node's subnets of layer3 networks.
    pub(crate) subnets: BTreeMap<String, Vec<IpNet>>,
}

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
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        Some(Self {
            namespace: pod.key.namespace.clone(),
            name: pod.machine.as_ref()?.name.clone(),
        })
    }
}

/// A piece of [`ZonePods`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum PodCell {
    /// The zone, the cluster's settings and its name server.
    Zone,
    /// A node.
    Node(Arc<str>),
    /// The primary network of a namespace.
    Namespace(Arc<str>),
    /// Target of an attachment definition.
    Definition(NadKey),
    /// A pod.
    Pod(PodKey),
    /// The pods of a virtual machine.
    Machine(MachineKey),
    /// Networks that may exist although they are not known.
    Unread,
    /// The port groups that a new port waits for, by the port's name.
    Gates(Arc<str>),
}

impl ZonePods {
    /// Inputs of the zone of the node with this name, without objects.
    pub fn new(zone: &str, settings: &ClusterSettings) -> Self {
        Self {
            zone: Arc::new(Zone {
                name: zone.into(),
                settings: settings.clone(),
                name_servers: Vec::new(),
            }),
            ..Self::default()
        }
    }

    /// Sets nodes, services, attachment definitions and networks. `labelled` has the namespaces
    /// with the label [`PRIMARY_NETWORK_LABEL`](patchbay_model::PRIMARY_NETWORK_LABEL).
    pub fn set_objects(&mut self, objects: &NetworkObjects<'_>, labelled: &BTreeSet<String>) {
        let former = std::mem::take(&mut self.nodes);
        for node in &objects.nodes {
            self.put_node(*node);
        }
        self.follow_nodes(&former);
        self.set_services(&objects.services);
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(&objects.networks, definitions, labelled);
        self.set_networks(&attached, &objects.networks);
    }

    /// Sets attachment definitions and networks.
    pub fn set_networks(&mut self, attached: &AttachedNetworks, networks: &Networks) {
        self.unread = Arc::new(UnreadNetworks::new(networks));
        let definitions = attached.definitions();
        self.definitions = definitions
            .map(|(key, definition)| (key.clone(), definition.clone()))
            .collect();
        let primary = attached.primary();
        self.primary = primary
            .map(|(namespace, key)| (namespace.clone(), key.cloned()))
            .collect();
    }

    /// Sets the services, of which the name server is needed.
    pub fn set_services(&mut self, services: &[ServiceObject<'_>]) {
        let mut services = services.iter();
        let found = services.find(|service| (service.namespace, service.name) == NAME_SERVER);
        let name_servers = found.map_or_else(Vec::new, |service| service.cluster_ips.clone());
        if self.zone.name_servers != name_servers {
            self.zone = Arc::new(Zone {
                name_servers,
                ..(*self.zone).clone()
            });
        }
    }

    /// Adds a node, or replaces the one of its name.
    pub fn put_node(&mut self, object: NodeObject<'_>) {
        let (node, _) = Node::read(object.name, object.annotations, None);
        let mut chassis = NodeChassis::new(node.chassis_id, object.created);
        if let Some(earlier) = self.nodes.get(object.name) {
            chassis.follow(&earlier.chassis);
        }
        let node = PodNode {
            chassis,
            subnets: node.subnets,
        };
        self.nodes.insert(object.name.into(), Arc::new(node));
    }

    /// Takes over what a running controller has known of nodes, if the inputs were read from
    /// nothing.
    pub fn follow(&mut self, earlier: &Self) {
        self.follow_nodes(&earlier.nodes);
    }

    fn follow_nodes(&mut self, earlier: &OrdMap<Arc<str>, Arc<PodNode>>) {
        for (name, former) in earlier {
            if let Some(node) = self.nodes.get_mut(name) {
                Arc::make_mut(node).chassis.follow(&former.chassis);
            }
        }
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Adds a pod, or replaces the one of its name.
    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        self.remove_pod(&pod.key);
        if let Some(machine) = MachineKey::of(&pod) {
            self.machines
                .entry(machine)
                .or_default()
                .insert(pod.key.clone());
        }
        self.pods.insert(pod.key.clone(), pod);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &PodKey) {
        let removed = self.pods.remove(key);
        let Some(machine) = removed.and_then(|pod| MachineKey::of(&pod)) else {
            return;
        };
        if let Some(pods) = self.machines.get_mut(&machine) {
            pods.remove(key);
            if pods.is_empty() {
                self.machines.remove(&machine);
            }
        }
    }

    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    /// Sets the port groups whose ACLs drop packets of ports, by the ports' names. A new port is
    /// disabled until it is in all of its groups, so that no packet passes before. Ports of virtual
    /// machines that migrate are not.
    pub fn set_gates(&mut self, gates: impl IntoIterator<Item = (Arc<str>, Vec<String>)>) {
        let gates = gates.into_iter();
        self.gates = gates
            .map(|(port, groups)| {
                let known = self.gates.get(&port).filter(|known| ***known == *groups);
                let groups = known.cloned().unwrap_or_else(|| groups.into());
                (port, groups)
            })
            .collect();
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
    pub(crate) fn gates(&self, port: &str) -> &[String] {
        self.gates.get(port).map_or(&[], |groups| groups)
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

    /// A pod.
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// Attachments of a pod to networks, the primary network first.
    pub fn attachments(&self, pod: &Pod) -> (Vec<PodAttachment>, Vec<AttachmentProblem>) {
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

    /// `true` if the namespace's pods have a primary network, and it is known.
    pub(crate) fn has_primary_network(&self, namespace: &str) -> bool {
        let PrimaryDefinition::Definition(key) = self.primary_definition(namespace) else {
            return false;
        };
        matches!(self.definitions.get(key), Some(Definition::Network(_)))
    }

    /// Definition of the primary network of a namespace's pods.
    pub(crate) fn primary_definition(&self, namespace: &str) -> PrimaryDefinition<'_> {
        match self.primary.get(namespace) {
            None => PrimaryDefinition::Default,
            Some(None) => PrimaryDefinition::Missing,
            Some(Some(key)) => PrimaryDefinition::Definition(key),
        }
    }

    pub(crate) fn settings(&self) -> &ClusterSettings {
        &self.zone.settings
    }

    /// Addresses of the cluster's name server.
    pub(crate) fn name_servers(&self) -> &[IpAddr] {
        &self.zone.name_servers
    }

    pub(crate) fn node(&self, name: &str) -> Option<&PodNode> {
        self.nodes.get(name).map(|node| &**node)
    }

    /// Pods of a virtual machine.
    pub(crate) fn machine(&self, key: &MachineKey) -> impl Iterator<Item = &Arc<Pod>> {
        let pods = self.machines.get(key).into_iter().flatten();
        pods.filter_map(|key| self.pods.get(key))
    }

    /// Virtual machines that have pods.
    pub(crate) fn machines(&self) -> impl Iterator<Item = &MachineKey> {
        self.machines.keys()
    }

    /// Names of all networks.
    pub(crate) fn networks(&self) -> HashSet<&str> {
        let definitions = self.definitions.values();
        let networks = definitions.filter_map(|definition| match definition {
            Definition::Network(network) => Some(&*network.name),
            Definition::None => None,
        });
        networks.collect()
    }

    /// `true` if a network whose rows' names start with this prefix may exist although it is not
    /// known.
    pub(crate) fn may_have_prefix(&self, prefix: &str) -> bool {
        self.unread.may_have_prefix(prefix)
    }
}

impl Inputs for ZonePods {
    type Cell = PodCell;

    fn diff(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(PodCell)) {
        let nothing = Self::default();
        let (is_first, earlier) = (earlier.is_none(), earlier.unwrap_or(&nothing));
        if is_first || earlier.zone != self.zone {
            changed(PodCell::Zone);
        }
        if earlier.unread != self.unread {
            changed(PodCell::Unread);
        }
        for name in changed_keys(&earlier.nodes, &self.nodes) {
            changed(PodCell::Node(name.clone()));
        }
        for key in changed_keys(&earlier.definitions, &self.definitions) {
            changed(PodCell::Definition(key.clone()));
        }
        for namespace in changed_keys(&earlier.primary, &self.primary) {
            changed(PodCell::Namespace(namespace.clone()));
        }
        for port in changed_keys(&earlier.gates, &self.gates) {
            changed(PodCell::Gates(port.clone()));
        }
        let mut machines = BTreeSet::new();
        for item in earlier.pods.diff(&self.pods) {
            let (key, pods) = match item {
                DiffItem::Add(key, pod) | DiffItem::Remove(key, pod) => (key, [Some(pod), None]),
                DiffItem::Update { old, new } => (new.0, [Some(old.1), Some(new.1)]),
            };
            let pods = pods.into_iter().flatten();
            machines.extend(pods.filter_map(|pod| MachineKey::of(pod)));
            changed(PodCell::Pod(key.clone()));
        }
        for key in machines {
            changed(PodCell::Machine(key));
        }
    }
}
