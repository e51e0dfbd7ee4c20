//! Objects that have no rows in the one database of all nodes.

use patchbay_allocate::vpcs;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::{Inventory, InventoryKind, Problem};
use patchbay_resources::object::Time;
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, CudnTopology, UdnTopology, UserDefinedNetwork,
};

/// Reason why a layer3 network has no rows.
const LAYER3: &str = "layer3 networks have other rows in each zone, so that they are refused in a \
                      database of all nodes";
/// Reason why other networks have no rows.
const NOT_WRITTEN: &str = "not supported in a database of all nodes yet: no rows are written";

/// Gives objects of VPCs their addresses and status, if all nodes have one database. Returns
/// warnings about them, and [`refusals`].
pub(crate) fn allocate(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    now: &Time,
) -> Vec<Problem> {
    if settings.databases != Databases::Central {
        return Vec::new();
    }
    let mut found = vpcs::resolve(inventory, now);
    found.extend(refusals(inventory, settings));
    found
}

/// User-defined networks and connects, each with the reason why it has no rows, if all nodes have
/// one database.
pub(crate) fn refusals(inventory: &Inventory, settings: &ClusterSettings) -> Vec<Problem> {
    if settings.databases != Databases::Central {
        return Vec::new();
    }
    let udns = refused::<UserDefinedNetwork>(inventory, |udn| {
        reason(udn.spec.topology == UdnTopology::Layer3)
    });
    let cudns = refused::<ClusterUserDefinedNetwork>(inventory, |cudn| {
        reason(cudn.spec.network.topology == CudnTopology::Layer3)
    });
    let connects = refused::<ClusterNetworkConnect>(inventory, |_| NOT_WRITTEN);
    udns.chain(cudns).chain(connects).collect()
}

fn reason(is_layer3: bool) -> &'static str {
    if is_layer3 { LAYER3 } else { NOT_WRITTEN }
}

fn refused<'a, T: InventoryKind + 'a>(
    inventory: &'a Inventory,
    reason: impl Fn(&T) -> &'static str + 'a,
) -> impl Iterator<Item = Problem> + 'a {
    let objects = T::objects(inventory).iter();
    objects.map(move |(_, sourced)| sourced.problem(reason(&sourced.object)))
}
