//! Inputs of a zone's rows, which follow the objects of a cluster at the cost of what changes.

mod following;

use patchbay_model::{ClusterSettings, NetworkActivity, NodeSubnetOwners};
use patchbay_networks::ZoneNetworks;
use patchbay_resources::manifests::Inventory;
use patchbay_zone::ZoneObjects;

use super::Cluster;
use super::zone_view::ZoneView;
use following::{ChangedActivity, Following, has_same_networks};

pub(crate) use following::has_changed;

/// Inputs of the rows of networks, pods, policies, services and EgressIPs in one zone.
///
/// [`update`](Self::update) makes them what [`read`](Self::read) would make them from nothing, but
/// for the chassis ids that nodes had before.
#[derive(Debug, Default)]
pub(crate) struct ZoneInputs {
    pub(crate) networks: ZoneNetworks,
    /// `false`: the objects contain no pods, so ports of pods that are there stay.
    pub(crate) has_pods: bool,
    /// `false`: there are neither pods nor policies.
    pub(crate) has_policies: bool,
    /// Inputs of the rows of pods, policies, services and EgressIPs.
    pub(crate) objects: ZoneObjects,
    /// Nodes on which networks are rendered. `None`: all.
    activity: Option<NetworkActivity>,
    /// Owners of the node subnets of the networks.
    owners: NodeSubnetOwners,
    /// The objects that the inputs follow from. `None`: they have to be read from nothing.
    followed: Option<Followed>,
}

/// Objects and settings from which inputs were made.
#[derive(Clone, Debug)]
struct Followed {
    inventory: Inventory,
    settings: ClusterSettings,
}

impl ZoneInputs {
    /// Reads the objects of a cluster, for a zone. `activity`: nodes on which networks are
    /// rendered; `None`: all.
    pub(crate) fn read(cluster: &Cluster, zone: &str, activity: Option<NetworkActivity>) -> Self {
        let view = ZoneView::new(cluster, zone, activity);
        let (networks, owners) = view.networks();
        let followed = cluster.is_watched().then(|| Followed {
            inventory: cluster.inventory.clone(),
            settings: cluster.settings().clone(),
        });
        Self {
            has_pods: view.has_pods(),
            has_policies: view.has_policies(),
            objects: view.zone_objects(),
            activity: view.into_activity(),
            networks,
            owners,
            followed,
        }
    }

    /// Takes over what a running controller has known of nodes, if the inputs were read from
    /// nothing.
    pub(crate) fn follow(&mut self, earlier: &Self) {
        self.networks.follow(&earlier.networks);
        self.objects.follow(&earlier.objects);
    }

    /// Follows the objects of a cluster. Objects of files are read from nothing, because what they
    /// lack is derived from others.
    pub(crate) fn update(
        &mut self,
        cluster: &Cluster,
        zone: &str,
        activity: Option<NetworkActivity>,
    ) {
        let followed = self.followed.take();
        let followed = followed
            .filter(|followed| cluster.is_watched() && followed.settings == *cluster.settings());
        let Some(followed) = followed else {
            let mut read = Self::read(cluster, zone, activity);
            read.follow(self);
            *self = read;
            return;
        };
        let has_other_activity = self.activity != activity;
        let former = std::mem::replace(&mut self.activity, activity);
        Following {
            cluster,
            zone,
            before: &followed.inventory,
            now: &cluster.inventory,
            settings: &followed.settings,
            activity: match (&former, &self.activity) {
                _ if !has_other_activity => ChangedActivity::None,
                (Some(former), Some(current)) if has_same_networks(zone, former, current) => {
                    ChangedActivity::OtherNodes
                }
                _ => ChangedActivity::Zone,
            },
        }
        .update(self);
        self.followed = Some(Followed {
            inventory: cluster.inventory.clone(),
            ..followed
        });
    }
}

#[cfg(test)]
mod tests;
