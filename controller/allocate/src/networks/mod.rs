//! User-defined networks: from the custom resources to networks with ids, nodes with subnets and
//! topology rows.
//!
//! [`resolve`] does what a cluster manager does between the custom resources and the zones. It is a
//! pure function of an inventory: what it hands out is in the annotations of nodes and attachment
//! definitions, and what it finds there it keeps, so that running it again changes nothing.

mod activity;
mod annotations;
mod attach;
mod default_network;
mod definition;
mod deletion;
mod evpn;
mod held_pods;
mod manager;
mod memory;
mod network_ids;
mod node_subnets;
mod nodes;
mod pods;
mod render;
mod slices;
mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transport;

use memory::Memory;
use patchbay_resources::object::Time;
use pods::Claims;

pub use attach::{
    RefusedWrite, note_refused_definitions, note_refused_finalizers, note_undefined_definitions,
};
pub use definition::FINALIZER;
pub use held_pods::{PORTS_AVAILABLE, note_held_pods};
pub use manager::{Layer2Layouts, ManagerSettings, NetworkManager};
pub use status::{NETWORK_ALLOCATION_SUCCEEDED, NETWORK_CREATED, TRANSPORT_ACCEPTED};

use patchbay_model::{ClusterSettings, Networks};
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, LoadError};
use patchbay_resources::object::Object as _;

/// Completes an inventory: nodes get ids, chassis ids, transit addresses and a subnet of every
/// layer3 network; UDNs and CUDNs get attachment definitions with network ids and tunnel keys, and
/// conditions with the result. `now` is the time of conditions that change. A node without a
/// chassis id gets a UUID made from its name.
///
/// Oddities that are not errors become warnings of the inventory. So do subnets of nodes that
/// cannot be read or are those of other nodes: they stay as they are, and zones do without them.
/// A network that needs a VTEP which cannot be read, and that has no definition of an earlier run,
/// is refused like the VTEP.
///
/// # Errors
/// [`LoadError`], if other annotations cannot be read or contradict each other. The inventory is
/// then incomplete.
pub fn resolve(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    now: &Time,
) -> Result<(), LoadError> {
    evpn::refuse_networks(inventory, settings);
    let mut problems = nodes::invent_chassis_ids(&mut inventory.nodes);
    let mut manager = NetworkManager::new(ManagerSettings {
        cluster: settings.clone(),
        ..ManagerSettings::default()
    });
    let found = manager.complete(inventory, now);
    problems.extend(found.problems);
    inventory.warnings.extend(found.node_subnets);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(LoadError { problems })
    }
}

/// Gives the pods of an inventory addresses in layer2 networks, and in localnet networks with
/// subnets. IPAMClaims get the addresses of their first pod, and keep them. `now` is the time of
/// conditions that change.
///
/// A pod that gets no addresses is a warning of the inventory. If the inventory has no IPAMClaims,
/// pods that name one get addresses that are not kept, and a warning.
pub fn allocate_pods(inventory: &mut Inventory, settings: &ClusterSettings, now: &Time) {
    let settings = ManagerSettings {
        cluster: settings.clone(),
        workloads: Some(Layer2Layouts::TransitRouters),
        ..ManagerSettings::default()
    };
    let (pods, _) = pods::AttachedPods::collect(inventory);
    let lacks_claims = inventory.lacks(&[IPAMClaim::KIND]);
    let claims = if lacks_claims || inventory.ipam_claims.is_empty() {
        Claims::Unknown
    } else {
        Claims::Complete
    };
    let memory = &mut Memory::default();
    pods::complete(inventory, &pods, &settings, claims, memory, now);
}

/// All networks of an inventory.
fn networks_of(inventory: &Inventory) -> Networks {
    let nads = inventory.network_attachment_definitions.iter();
    let namespaces = inventory.namespaces.iter();
    patchbay_resources::conversion::networks(
        nads.map(|(_, nad)| &nad.object),
        namespaces.map(|(_, namespace)| &namespace.object),
    )
}
