//! The cluster manager of user-defined networks, and its state while it runs.

use jiff::Timestamp;
use patchbay_model::{ClusterSettings, Feature, PodSubnet};
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, Problem};
use patchbay_resources::object::{Object as _, Time};

use super::memory::Memory;
use super::pods::{AttachedPods, Claims};
use super::{
    activity, attach, default_network, network_ids, node_subnets, nodes, pods, slices, status,
};
use crate::router_key_cursor::RouterKeyCursor;

/// Settings of the cluster manager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagerSettings {
    /// Settings of the cluster.
    pub cluster: ClusterSettings,
    /// Ranges of the default network, with the prefix length of its node subnets. `None`: another
    /// program manages the default network.
    pub default_network: Option<Vec<PodSubnet>>,
    /// Pods and IPAMClaims get addresses, and EndpointSlices are mirrored, by these layouts of
    /// nodes. `None`: another program does that.
    pub workloads: Option<Layer2Layouts>,
}

/// Layouts of primary layer2 networks on nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layer2Layouts {
    /// All nodes have transit routers.
    TransitRouters,
    /// A node without the annotation `k8s.ovn.org/layer2-topology-version` has none.
    Annotated,
}

/// Cluster manager of user-defined networks.
///
/// The objects contain all allocations. The manager itself has only the positions of its
/// allocators, so that a released id or subnet is allocated again as late as possible.
#[derive(Clone, Debug)]
pub struct NetworkManager {
    settings: ManagerSettings,
    memory: Memory,
}

/// Annotations that cannot be read or contradict each other.
pub(super) struct Contradictions {
    /// Ids, keys and addresses: no rows follow from them.
    pub(super) problems: Vec<Problem>,
    /// Subnets of nodes: a zone does without them.
    pub(super) node_subnets: Vec<Problem>,
}

impl NetworkManager {
    /// Makes a manager as after a start.
    pub fn new(settings: ManagerSettings) -> Self {
        Self {
            settings,
            memory: Memory::default(),
        }
    }

    /// Shares the position of the allocator of tunnel keys with that of connect routers.
    #[must_use]
    pub fn with_router_keys(mut self, keys: RouterKeyCursor) -> Self {
        self.memory.router_keys = keys;
        self
    }

    /// Completes the objects.
    ///
    /// - Nodes get ids, transit addresses and a subnet of every layer3 network.
    /// - UDNs and CUDNs get attachment definitions with network ids and tunnel keys, finalizers,
    ///   and conditions with the result. One that is being deleted loses them when no pod uses its
    ///   network.
    /// - Pods get addresses in layer2 networks, and in localnet networks with subnets. IPAMClaims
    ///   get the addresses of their first pod.
    /// - EndpointSlices in namespaces with a primary network get mirrors with the addresses there.
    ///
    /// An object that disappears from the inventory is to be deleted. Objects without a finalizer
    /// that are being deleted are to be deleted, too. `now` is the time of conditions that change.
    ///
    /// Returns annotations that cannot be read or contradict each other. They stay as they are, and
    /// everything else goes on. Oddities become warnings of the inventory.
    pub fn reconcile(&mut self, inventory: &mut Inventory, now: &Time) -> Vec<Problem> {
        let Contradictions {
            mut problems,
            node_subnets,
        } = self.complete(inventory, now);
        problems.extend(node_subnets);
        problems
    }

    /// Time of the next change that no object causes: a node loses the subnet of a network without
    /// users there. `None`: never.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let since = self.memory.unused_since.values().min()?;
        let period = self.settings.cluster.udn_deletion_grace_period;
        since.checked_add(period).ok()
    }

    /// Completes the objects as [`reconcile`](Self::reconcile).
    pub(super) fn complete(&mut self, inventory: &mut Inventory, now: &Time) -> Contradictions {
        let (settings, memory) = (&self.settings, &mut self.memory);
        let mut problems = nodes::complete(&mut inventory.nodes, &settings.cluster, memory);
        if settings.default_network.is_some() || settings.workloads.is_some() {
            default_network::define(inventory, settings.default_network.is_some());
        }
        attach::attach(inventory, settings, memory, now);
        problems.extend(network_ids::complete(inventory, &settings.cluster, memory));
        let is_dynamic = settings.cluster.has_feature(Feature::DynamicUdnAllocation);
        let is_used = settings.workloads.is_some() || is_dynamic;
        let pods = is_used.then(|| AttachedPods::read(inventory));
        let active = pods
            .as_ref()
            .filter(|_| is_dynamic)
            .map(|pods| activity::of_networks(inventory, pods, &settings.cluster));
        let subnets = node_subnets::complete(inventory, settings, active.as_ref(), memory, now);
        status::allocated(inventory, &subnets.failures, now);
        if let Some(active) = &active
            && activity::is_known(inventory, &settings.cluster)
        {
            status::nodes_selected(inventory, active, now);
        }
        if let Some(pods) = pods.as_ref().filter(|_| settings.workloads.is_some()) {
            let claims = if inventory.lacks(&[IPAMClaim::KIND]) {
                Claims::Missing
            } else {
                Claims::Complete
            };
            pods::complete(inventory, pods, settings, claims, memory, now);
            slices::complete(inventory);
        }
        Contradictions {
            problems,
            node_subnets: subnets.problems,
        }
    }
}
