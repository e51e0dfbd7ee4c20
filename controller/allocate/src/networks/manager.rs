//! The cluster manager of user-defined networks, and its state while it runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use patchbay_model::Feature;
use patchbay_resources::conversion::networks_of;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, Problem};
use patchbay_resources::object::{Object as _, Time};

use super::attach::sync_definitions;
use super::evpn::FabricIds;
use super::network_ids::{NetworkIdMemory, assign_network_ids};
use super::node_subnets::{NodeSubnetMemory, NodeSubnets, assign_node_subnets};
use super::nodes::{NodeIdMemory, assign_node_ids};
use super::numbered_networks::NumberedNetworks;
use super::pods::{AttachedPods, Claims, PodMemory, PodPass, address_pods};
use super::settings::ManagerSettings;
use super::slices::mirror_slices;
use super::{activity, default_network, status};
use crate::router_key_cursor::RouterKeyCursor;

/// Cluster manager of user-defined networks.
///
/// The objects contain all allocations. The manager itself has only the positions of its
/// allocators, so that a released id or subnet is allocated again as late as possible.
#[derive(Clone, Debug, Default)]
pub struct NetworkManager {
    settings: ManagerSettings,
    node_ids: NodeIdMemory,
    fabric_ids: FabricIds,
    network_ids: NetworkIdMemory,
    node_subnets: NodeSubnetMemory,
    /// Allocators of networks whose addresses are given for the whole cluster.
    pods: BTreeMap<String, PodMemory>,
}

impl NetworkManager {
    /// Makes a manager as after a start.
    pub fn new(settings: ManagerSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Shares the position of the allocator of tunnel keys with that of connect routers.
    #[must_use]
    pub fn with_router_keys(self, keys: RouterKeyCursor) -> Self {
        Self { network_ids: NetworkIdMemory::with_router_keys(keys), ..self }
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
        let mut numbered = self.define_networks(inventory, now);
        let pods = AttachedPods::read(inventory, &numbered.networks);
        let subnets = self.assign_subnets(inventory, &numbered, &pods, now);
        let mut problems = std::mem::take(&mut numbered.problems);
        problems.extend(subnets.problems);
        if self.settings.workloads.is_some() {
            self.address_workloads(inventory, &numbered, &pods, now);
        }
        problems
    }

    /// Time of the next change that no object causes: a node loses the subnet of a network without
    /// users there. `None`: never.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let period = self.settings.cluster.udn_deletion_grace_period;
        self.node_subnets.next_expiry(period)
    }

    /// Gives nodes and networks their ids, and networks their attachment definitions.
    pub(super) fn define_networks(
        &mut self,
        inventory: &mut Inventory,
        now: &Time,
    ) -> NumberedNetworks {
        let settings = &self.settings;
        let mut node_ids = assign_node_ids(&inventory.nodes, &settings.cluster, &mut self.node_ids);
        node_ids.write(&mut inventory.nodes);
        if settings.default_network.is_some() || settings.workloads.is_some() {
            default_network::define(inventory, settings.default_network.is_some());
        }
        let left = sync_definitions(inventory, settings, &mut self.fabric_ids, now);
        for network in &left {
            self.network_ids.forget(network);
            self.node_subnets.forget(network);
            self.pods.remove(network);
        }
        let ids = assign_network_ids(inventory, &settings.cluster, &mut self.network_ids);
        ids.write(&mut inventory.network_attachment_definitions);
        inventory.warnings.extend(ids.warnings);
        let mut problems = std::mem::take(&mut node_ids.problems);
        problems.extend(ids.problems);
        NumberedNetworks {
            networks: networks_of(inventory),
            node_ids,
            refused: ids.refused,
            left,
            problems,
        }
    }

    /// Gives nodes their subnets: with dynamic allocation where networks have users, such as `pods`.
    pub(super) fn assign_subnets(
        &mut self,
        inventory: &mut Inventory,
        numbered: &NumberedNetworks,
        pods: &AttachedPods,
        now: &Time,
    ) -> NodeSubnets {
        let cluster = &self.settings.cluster;
        let is_dynamic = cluster.has_feature(Feature::DynamicUdnAllocation);
        if is_dynamic || self.settings.workloads.is_some() {
            inventory.warnings.extend(pods.warnings.iter().cloned());
        }
        let active =
            is_dynamic.then(|| activity::of_networks(inventory, &numbered.networks, pods, cluster));
        let mut subnets = assign_node_subnets(
            inventory,
            numbered,
            &self.settings,
            active.as_ref(),
            &mut self.node_subnets,
            now,
        );
        subnets.write(&mut inventory.nodes);
        inventory.warnings.append(&mut subnets.warnings);
        status::note_allocation(inventory, &subnets.failures, now);
        if let Some(active) = &active
            && activity::is_known(inventory, cluster)
        {
            status::note_selected_nodes(&mut inventory.user_defined_networks, active, now);
            let cudns = &mut inventory.cluster_user_defined_networks;
            status::note_selected_nodes(cudns, active, now);
        }
        subnets
    }

    /// Gives pods their addresses, and EndpointSlices their mirrors.
    fn address_workloads(
        &mut self,
        inventory: &mut Inventory,
        numbered: &NumberedNetworks,
        pods: &AttachedPods,
        now: &Time,
    ) {
        let pass = PodPass {
            inventory,
            pods,
            node_ids: &numbered.node_ids,
            settings: &self.settings,
            claims: if inventory.lacks(&[IPAMClaim::KIND]) {
                Claims::Missing
            } else {
                Claims::Complete
            },
            now,
        };
        let addresses = address_pods(&pass, &mut self.pods);
        let slices = mirror_slices(inventory, &numbered.networks, &addresses);
        addresses.write(inventory);
        slices.write(inventory);
    }
}
