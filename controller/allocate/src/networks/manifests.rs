//! The steps of the cluster manager for manifests, without a cluster that runs it.

use std::collections::BTreeMap;

use patchbay_model::ClusterSettings;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, LoadError};
use patchbay_resources::object::{Object as _, Time};

use super::manager::NetworkManager;
use super::numbered_networks::NumberedNetworks;
use super::pods::{self, AttachedPods, Claims, PodAddresses, PodPass};
use super::settings::{Layer2Layouts, ManagerSettings};
use super::{evpn, nodes};

/// Completes an inventory but for its pods: [`define_networks`] and [`assign_node_subnets`].
///
/// # Errors
/// As for [`define_networks`].
pub fn resolve(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    now: &Time,
) -> Result<(), LoadError> {
    let networks = define_networks(inventory, settings, now)?;
    let pods = AttachedPods::read(inventory, &networks.networks);
    assign_node_subnets(inventory, &networks, &pods, settings, now);
    Ok(())
}

/// Gives nodes ids, chassis ids and transit addresses, and UDNs and CUDNs attachment definitions
/// with network ids and tunnel keys, and conditions with the result. `now` is the time of
/// conditions that change. A node without a chassis id gets a UUID made from its name.
///
/// Oddities that are not errors become warnings of the inventory. A network that needs a VTEP which
/// cannot be read, and that has no definition of an earlier run, is refused like the VTEP.
///
/// # Errors
/// [`LoadError`], if annotations cannot be read or contradict each other. The inventory is then
/// incomplete.
pub fn define_networks(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    now: &Time,
) -> Result<NumberedNetworks, LoadError> {
    evpn::refuse_networks(inventory, settings);
    let mut problems = nodes::invent_chassis_ids(&mut inventory.nodes);
    let mut networks = manager(settings).define_networks(inventory, now);
    problems.append(&mut networks.problems);
    if problems.is_empty() { Ok(networks) } else { Err(LoadError { problems }) }
}

/// Gives nodes a subnet of every layer3 network, or with dynamic allocation of those that have users
/// there, and networks conditions with the result.
///
/// Subnets of nodes that cannot be read or are those of other nodes become warnings of the
/// inventory: they stay as they are, and zones do without them.
pub fn assign_node_subnets(
    inventory: &mut Inventory,
    networks: &NumberedNetworks,
    pods: &AttachedPods,
    settings: &ClusterSettings,
    now: &Time,
) {
    let subnets = manager(settings).assign_subnets(inventory, networks, pods, now);
    inventory.warnings.extend(subnets.problems);
}

/// Gives the pods of an inventory addresses in layer2 networks, and in localnet networks with
/// subnets. IPAMClaims get the addresses of their first pod, and keep them. `now` is the time of
/// conditions that change.
///
/// A pod that gets no addresses is a warning. If the inventory has no IPAMClaims, pods that name
/// one get addresses that are not kept, and a warning.
pub fn address_pods(
    inventory: &Inventory,
    networks: &NumberedNetworks,
    pods: &AttachedPods,
    settings: &ClusterSettings,
    now: &Time,
) -> PodAddresses {
    let lacks_claims = inventory.lacks(&[IPAMClaim::KIND]);
    let pass = PodPass {
        inventory,
        pods,
        node_ids: &networks.node_ids,
        settings: &ManagerSettings {
            cluster: settings.clone(),
            workloads: Some(Layer2Layouts::TransitRouters),
            ..ManagerSettings::default()
        },
        claims: if lacks_claims || inventory.ipam_claims.is_empty() {
            Claims::Unknown
        } else {
            Claims::Complete
        },
        now,
    };
    pods::address_pods(&pass, &mut BTreeMap::new())
}

/// A manager that has just started, for networks and nodes alone.
fn manager(settings: &ClusterSettings) -> NetworkManager {
    NetworkManager::new(ManagerSettings { cluster: settings.clone(), ..ManagerSettings::default() })
}
