//! Pieces of a zone's objects that can change on their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_model::names::network_prefix;
use patchbay_model::{AdminPolicyKey, NadKey, NetworkId, NodeId, PodKey, ServiceKey};
use patchbay_rows::{Inputs, changed_keys};
use smol_str::SmolStr;

use super::node::ZoneNode;
use super::objects::ZoneObjects;
use super::pods::MachineKey;
use super::policies::NetworkNamespace;
use super::selections::{Selection, SelectionKey};

/// A piece of [`ZoneObjects`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Cell {
    /// The zone and the cluster's settings.
    Zone,
    /// A node, but for its labels and its subnets of networks.
    Node(Arc<str>),
    /// A node's subnets of networks.
    NodeSubnets(Arc<str>),
    /// Existence and id of the zone's node.
    LocalNode,
    /// `true` if the id of some node cannot be read.
    UnreadableIds,
    /// Nodes that own no id.
    WithoutId,
    /// `true` if there are two nodes with ids.
    SeveralNodes,
    /// Name and chassis of the node that owns an id.
    NodeId(NodeId),
    /// Link from a node to a network: name, chassis and subnets of the node that owns the id.
    Link(NodeId, NetworkId),
    /// A network of a definition, which connects may name.
    ConnectableNetwork(NetworkId),
    /// A connect, but for its connect subnets.
    Connect(SmolStr),
    /// Connect subnets of a network in a connect.
    ConnectEntry(SmolStr, NetworkId),
    /// Number of load balancers that the services of a namespace need.
    LoadBalancers(Arc<str>),
    /// All nodes, but for their labels.
    Nodes,
    /// Nodes in the older layout of layer2 networks.
    OlderLayout,
    /// The addresses of all nodes.
    NodeAddresses,
    /// Labels of all nodes, with the addresses of their annotations.
    NodeLabels,
    /// A network, by the prefix of its rows' names.
    Network(Arc<str>),
    /// Everything that decides which networks have rows: the zone and its node, all networks, and
    /// the nodes on which they are rendered.
    Networks,
    /// Nodes on which a network is rendered, by its name.
    Activity(Arc<str>),
    /// A network that pods are attached to, by name.
    AttachedNetwork(Arc<str>),
    /// The primary network of a namespace.
    PrimaryNetwork(Arc<str>),
    /// Target of an attachment definition.
    Definition(NadKey),
    /// Networks that may exist although they are not known.
    Unread,
    /// A pod.
    Pod(PodKey),
    /// The pods of a virtual machine.
    Machine(MachineKey),
    /// The port groups that a new port waits for, by the port's name.
    Gates(Arc<str>),
    /// A service with its endpoints.
    Service(ServiceKey),
    /// A pod that an EgressIP serves in a network.
    ServedPod(Arc<str>, PodKey),
    /// A namespace.
    Namespace(Arc<str>),
    /// The policies of a namespace in a network.
    Policies(NetworkNamespace),
    /// A policy in a network, by name.
    Policy(NetworkNamespace, Arc<str>),
    /// Pods that are selected: all of them.
    Selection(SelectionKey),
    /// Uses of selected pods.
    Uses(SelectionKey),
    /// A pod among those that are selected.
    Member(SelectionKey, PodKey),
    /// The port group of a namespace in a network.
    Group(NetworkNamespace),
    /// The EgressFirewall of a namespace.
    Firewall(Arc<str>),
    /// The places of a pod in networks, if pods are selected.
    Places(PodKey),
    /// A policy of administrators.
    AdminPolicy(AdminPolicyKey),
    /// A pod, and the policies of administrators that select it.
    AdminPod(PodKey),
    /// The pods to whose named ports a policy of administrators leads.
    NamedPorts(AdminPolicyKey),
}

/// Kind of cells: that of the objects which they are about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The zone and its settings.
    Zone,
    /// Nodes.
    Nodes,
    /// Networks and their definitions.
    Networks,
    /// Pods.
    Pods,
    /// Services and their endpoints.
    Services,
    /// EgressIPs, and the pods that they serve.
    EgressIps,
    /// Namespaces.
    Namespaces,
    /// Policies and firewalls, and the pods that they select.
    Policies,
    /// Policies of administrators, and the pods that they select.
    AdminPolicies,
    /// Nodes on which networks are rendered.
    Activity,
    /// Connects, and the networks, nodes and load balancers that they join.
    Connects,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Zone,
        Self::Nodes,
        Self::Networks,
        Self::Pods,
        Self::Services,
        Self::EgressIps,
        Self::Namespaces,
        Self::Policies,
        Self::AdminPolicies,
        Self::Activity,
        Self::Connects,
    ];
}

impl Cell {
    /// The cell of a network, by its name.
    pub fn of_network(name: &str) -> Self {
        Self::Network(network_prefix(name).into())
    }
}

impl Inputs for ZoneObjects {
    type Cell = Cell;
    type Kind = Kind;

    fn kind(cell: &Cell) -> Kind {
        match cell {
            Cell::Zone => Kind::Zone,
            Cell::Node(_)
            | Cell::NodeSubnets(_)
            | Cell::Nodes
            | Cell::OlderLayout
            | Cell::NodeAddresses
            | Cell::NodeLabels => Kind::Nodes,
            Cell::Network(_)
            | Cell::Networks
            | Cell::AttachedNetwork(_)
            | Cell::PrimaryNetwork(_)
            | Cell::Definition(_)
            | Cell::Unread => Kind::Networks,
            Cell::Pod(_) | Cell::Machine(_) | Cell::Gates(_) => Kind::Pods,
            Cell::Service(_) => Kind::Services,
            Cell::ServedPod(..) => Kind::EgressIps,
            Cell::Namespace(_) => Kind::Namespaces,
            Cell::Policies(_)
            | Cell::Policy(..)
            | Cell::Selection(_)
            | Cell::Uses(_)
            | Cell::Member(..)
            | Cell::Group(_)
            | Cell::Firewall(_)
            | Cell::Places(_) => Kind::Policies,
            Cell::Activity(_) => Kind::Activity,
            Cell::LocalNode
            | Cell::UnreadableIds
            | Cell::WithoutId
            | Cell::SeveralNodes
            | Cell::NodeId(_)
            | Cell::Link(..)
            | Cell::ConnectableNetwork(_)
            | Cell::Connect(_)
            | Cell::ConnectEntry(..)
            | Cell::LoadBalancers(_) => Kind::Connects,
            Cell::AdminPolicy(_) | Cell::AdminPod(_) | Cell::NamedPorts(_) => Kind::AdminPolicies,
        }
    }

    fn diff(&self, earlier: Option<&Self>, kinds: &[Kind], changed: &mut dyn FnMut(Cell)) {
        let nothing = Self::default();
        let has = |kind| kinds.contains(&kind);
        let has_other_zone = earlier.is_none_or(|earlier| earlier.zone != self.zone);
        if has(Kind::Zone) && has_other_zone {
            changed(Cell::Zone);
        }
        if has(Kind::Networks) && has_other_zone {
            changed(Cell::Networks);
        }
        if has(Kind::Connects) {
            self.changed_connects(earlier, changed);
        }
        // There are no parts because of activity alone.
        if let Some(earlier) = earlier.filter(|_| has(Kind::Activity)) {
            for name in changed_keys(&earlier.activity, &self.activity) {
                changed(Cell::Activity(name.clone()));
            }
        }
        let earlier = earlier.unwrap_or(&nothing);
        // Parts of a network and a node are evaluated network by network. Those of a first pass lie in
        // memory in the order in which they are named here.
        if has(Kind::Networks) {
            self.changed_networks(earlier, changed);
        }
        if has(Kind::Nodes) {
            changed_nodes(&earlier.nodes, &self.nodes, changed);
        }
        if has(Kind::Pods) {
            self.changed_pods(earlier, changed);
        }
        if has(Kind::Services) {
            for key in changed_keys(&earlier.services, &self.services) {
                changed(Cell::Service(key.clone()));
            }
            for key in changed_keys(&earlier.slices, &self.slices) {
                changed(Cell::Service(key.clone()));
            }
        }
        if has(Kind::EgressIps) {
            for (network, pod) in changed_keys(earlier.serving.served(), self.serving.served()) {
                changed(Cell::ServedPod(network.clone(), pod.clone()));
            }
        }
        if has(Kind::Namespaces) {
            for name in changed_keys(&earlier.namespaces, &self.namespaces) {
                changed(Cell::Namespace(name.clone()));
            }
        }
        if has(Kind::Policies) {
            self.changed_policies(earlier, changed);
        }
        if has(Kind::AdminPolicies) {
            self.changed_admin_policies(earlier, changed);
        }
    }
}

impl ZoneObjects {
    fn changed_networks(&self, earlier: &Self, changed: &mut dyn FnMut(Cell)) {
        if earlier.unread != self.unread {
            changed(Cell::Unread);
        }
        let former_node = earlier.nodes.get(self.zone());
        let mut has_others = !ZoneNode::are_same(former_node, self.own_node());
        for prefix in changed_keys(&earlier.networks, &self.networks) {
            has_others = true;
            changed(Cell::Network(prefix.clone()));
        }
        let mut activity = changed_keys(&earlier.activity, &self.activity);
        if has_others || activity.next().is_some() {
            changed(Cell::Networks);
        }
        for name in changed_keys(&earlier.attached, &self.attached) {
            changed(Cell::AttachedNetwork(name.clone()));
        }
        for key in changed_keys(&earlier.definitions, &self.definitions) {
            changed(Cell::Definition(key.clone()));
        }
        for namespace in changed_keys(&earlier.primary, &self.primary) {
            changed(Cell::PrimaryNetwork(namespace.clone()));
        }
        for namespace in changed_keys(&earlier.attached_primary, &self.attached_primary) {
            changed(Cell::PrimaryNetwork(namespace.clone()));
        }
        for namespace in changed_keys(&earlier.primary_definitions, &self.primary_definitions) {
            changed(Cell::PrimaryNetwork(namespace.clone()));
        }
    }

    fn changed_pods(&self, earlier: &Self, changed: &mut dyn FnMut(Cell)) {
        for port in changed_keys(&earlier.gates, &self.gates) {
            changed(Cell::Gates(port.clone()));
        }
        let mut machines = BTreeSet::new();
        for (key, versions) in changes(&earlier.pods, &self.pods) {
            let pods = versions.into_iter().flatten();
            machines.extend(pods.filter_map(|pod| MachineKey::of(pod)));
            changed(Cell::Pod(key.clone()));
        }
        for key in machines {
            changed(Cell::Machine(key));
        }
    }
}

impl ZoneObjects {
    fn changed_policies(&self, earlier: &Self, changed: &mut dyn FnMut(Cell)) {
        for place in changed_keys(&earlier.groups, &self.groups) {
            changed(Cell::Group(place.clone()));
        }
        for name in changed_keys(&earlier.firewalls, &self.firewalls) {
            changed(Cell::Firewall(name.clone()));
        }
        for pod in changed_keys(&earlier.placed, &self.placed) {
            changed(Cell::Places(pod.clone()));
        }
        let none = OrdMap::new();
        for (place, policies) in changes(&earlier.applied, &self.applied) {
            changed(Cell::Policies(place.clone()));
            let [earlier, current] = policies.map(|of| of.unwrap_or(&none));
            for name in changed_keys(earlier, current) {
                changed(Cell::Policy(place.clone(), name.clone()));
            }
        }
        for (key, versions) in changes(earlier.selections.all(), self.selections.all()) {
            let [earlier, current] = versions;
            changed(Cell::Selection(key.clone()));
            if earlier.map(Selection::uses) != current.map(Selection::uses) {
                changed(Cell::Uses(key.clone()));
            }
            Selection::changed_pods(earlier, current, |pod| {
                changed(Cell::Member(key.clone(), pod.clone()));
            });
        }
    }

    /// `true` if other nodes have addresses that cannot be read, or such a node has other labels.
    pub(crate) fn has_other_unread_nodes(&self, earlier: &Self) -> bool {
        let unread = |node: &'_ Arc<ZoneNode>| {
            let is_unread = node.annotated_addresses().is_none();
            is_unread.then(|| node.labels.clone())
        };
        let mut nodes = changes(&earlier.nodes, &self.nodes);
        nodes.any(|(_, [old, new])| old.and_then(unread) != new.and_then(unread))
    }
}

/// Keys of two versions of a map whose values differ, with the values of both.
fn changes<'a, K: Ord, V: PartialEq>(
    old: &'a OrdMap<K, V>,
    new: &'a OrdMap<K, V>,
) -> impl Iterator<Item = (&'a K, [Option<&'a V>; 2])> {
    old.diff(new).map(|item| match item {
        DiffItem::Add(key, value) => (key, [None, Some(value)]),
        DiffItem::Remove(key, value) => (key, [Some(value), None]),
        DiffItem::Update { old, new } => (new.0, [Some(old.1), Some(new.1)]),
    })
}

fn changed_nodes(
    earlier: &OrdMap<Arc<str>, Arc<ZoneNode>>,
    current: &OrdMap<Arc<str>, Arc<ZoneNode>>,
    changed: &mut dyn FnMut(Cell),
) {
    let (mut are_other, mut has_other_addresses, mut has_other_labels) = (false, false, false);
    let mut has_older_layout = false;
    for (name, [old, new]) in changes(earlier, current) {
        let has_same = |is_same: fn(&ZoneNode, &ZoneNode) -> bool| {
            let pair = old.zip(new);
            pair.is_some_and(|(old, new)| is_same(old, new))
        };
        if !has_same(ZoneNode::is_same_but_subnets) {
            are_other = true;
            changed(Cell::Node(name.clone()));
        }
        if !has_same(ZoneNode::has_same_subnets) {
            are_other = true;
            changed(Cell::NodeSubnets(name.clone()));
        }
        has_other_labels |= !has_same(ZoneNode::has_same_labels);
        has_other_addresses |= !has_same(ZoneNode::has_same_addresses);
        let mut versions = [old, new].into_iter().flatten();
        has_older_layout |= versions.any(|node| node.layer2.is_older());
    }
    for (has_changed, cell) in [
        (are_other, Cell::Nodes),
        (has_older_layout, Cell::OlderLayout),
        (has_other_addresses, Cell::NodeAddresses),
        (has_other_labels, Cell::NodeLabels),
    ] {
        if has_changed {
            changed(cell);
        }
    }
}
