//! Objects of a zone, which follow those of a cluster at the cost of what changes.

mod walk;

use patchbay_model::{ClusterSettings, NetworkActivity};
use patchbay_policies::gates;
use patchbay_resources::manifests::Inventory;
use patchbay_services::derived_slices;
use patchbay_zone::ZoneObjects;

use super::Cluster;
use super::central::zone_inventory;
use walk::{Walk, follow_gates};

pub(crate) use walk::has_changed;

/// Objects from which the rows of one zone follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZoneInputs {
    pub(crate) objects: ZoneObjects,
    /// `true`: the objects are only those from which the rows of connects follow, because others
    /// take memory.
    pub(crate) has_only_connects: bool,
    /// Nodes on which networks are rendered. `None`: all.
    activity: Option<NetworkActivity>,
    /// What the objects follow from. `None`: they are read from nothing.
    followed: Option<Followed>,
}

/// Objects and settings from which those of a zone were made.
#[derive(Clone, Debug, Default)]
struct Followed {
    inventory: Inventory,
    settings: ClusterSettings,
}

impl ZoneInputs {
    /// Reads the objects of a cluster, for a zone. `activity`: nodes on which networks are
    /// rendered; `None`: all.
    pub(crate) fn read(cluster: &Cluster, zone: &str, activity: Option<NetworkActivity>) -> Self {
        let mut inputs = Self::default();
        inputs.update(cluster, zone, activity);
        inputs
    }

    /// Follows the objects of a cluster. Those of files are read from nothing, because what they lack
    /// is derived from others.
    pub(crate) fn update(
        &mut self,
        cluster: &Cluster,
        zone: &str,
        activity: Option<NetworkActivity>,
    ) {
        let settings = cluster.settings();
        let inventory = zone_inventory(&cluster.inventory, settings);
        let followed = self
            .followed
            .take()
            .filter(|followed| cluster.is_watched() && followed.settings == *settings);
        let is_new = followed.is_none();
        let followed = followed.unwrap_or_default();
        let earlier = self.objects.clone();
        let former_activity = std::mem::replace(&mut self.activity, activity);
        let objects = &mut self.objects;
        if is_new {
            *objects = ZoneObjects::new(zone, settings);
        }
        if is_new || former_activity != self.activity {
            objects.set_activity(self.activity.as_ref());
        }
        let mut walk = Walk { before: &followed.inventory, now: &inventory, objects };
        let has_other_definitions = is_new || walk.has_other_networks();
        if has_other_definitions {
            walk.set_connectable_networks();
        }
        if !self.has_only_connects
            && (has_other_definitions
                || has_other_activity(zone, former_activity.as_ref(), self.activity.as_ref()))
        {
            walk.set_networks(self.activity.as_ref());
        }
        walk.follow_nodes_and_services();
        walk.follow_connects();
        if !self.has_only_connects {
            walk.follow_others();
        }
        let objects = &mut self.objects;
        if is_new {
            objects.follow(&earlier);
            if !cluster.is_watched() {
                for slice in derived_slices(objects) {
                    objects.put_slice(slice);
                }
            }
            objects.set_gates(gates(objects));
        } else {
            objects.follow_networks(&earlier);
            follow_gates(objects, &earlier);
        }
        self.followed =
            Some(Followed { inventory: inventory.into_owned(), settings: settings.clone() });
    }
}

/// `true` if a zone has other networks in two activities.
fn has_other_activity(
    zone: &str,
    one: Option<&NetworkActivity>,
    other: Option<&NetworkActivity>,
) -> bool {
    match (one, other) {
        (None, None) => false,
        (Some(one), Some(other)) => {
            let mut limited = one.limited().chain(other.limited());
            limited.any(|(name, _)| one.is_rendered(name, zone) != other.is_rendered(name, zone))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
