//! Manager of virtual private clouds: addresses, MAC addresses, external addresses, and status.
//!
//! Everything that is allocated is in an object: the status of an `OvnEip`, an `IP` of a pod's port,
//! annotations of the pod. Rows follow from objects only.

mod addresses;
mod balancers;
mod checks;
mod claims;
mod conditions;
mod objects;
mod status;
mod unsupported;

use patchbay_resources::conversion::{read_addresses, vpc_scene};
use patchbay_resources::manifests::{Inventory, Problem};
use patchbay_resources::object::Time;

/// Completes the objects of VPCs: external ports and ports of pods get addresses and MAC addresses,
/// and all objects get a status. `now` is the time of conditions that change.
///
/// Returns what cannot be done as the objects specify. Everything else goes on.
pub fn resolve(inventory: &mut Inventory, now: &Time) -> Vec<Problem> {
    let mut scene = vpc_scene(inventory);
    let mut allocated = addresses::allocate(inventory, &scene);
    let unaddressed = objects::write(inventory, &scene, &allocated, now);
    read_addresses(&mut scene, inventory);
    let rules = scene.rules();
    let unchecked = checks::allocate(inventory, &mut scene, &rules, &mut allocated.pools);
    let mut problems = status::write(inventory, &scene, (&rules, &allocated.pools), now);
    problems.extend(unaddressed);
    problems.extend(unchecked);
    problems
}
