//! Inputs of a zone's rows, which follow the objects of a cluster at the cost of what changes.

mod following;

use std::collections::BTreeSet;

use patchbay_model::{ClusterSettings, NetworkActivity, NodeSubnetOwners};
use patchbay_networks::ZoneNetworks;
use patchbay_policies::ZonePolicies;
use patchbay_policies::admin::ZoneAdminPolicies;
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
    /// `None`: there are neither pods nor policies.
    pub(crate) policies: Option<ZonePolicies>,
    pub(crate) admin_policies: ZoneAdminPolicies,
    /// Inputs of the rows of pods, services and EgressIPs.
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
        let (objects, policies) = view.zone_objects();
        let followed = cluster.is_watched().then(|| Followed {
            inventory: cluster.inventory.clone(),
            settings: cluster.settings().clone(),
        });
        Self {
            admin_policies: view.admin_policies(&objects),
            has_pods: view.has_pods(),
            objects,
            activity: view.into_activity(),
            networks,
            policies,
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
        let followed = followed.filter(|followed| followed.settings == *cluster.settings());
        let earlier = (followed, self.policies.take(), cluster.is_watched());
        let (Some(followed), Some(policies), true) = earlier else {
            let mut read = Self::read(cluster, zone, activity);
            read.follow(self);
            *self = read;
            return;
        };
        let has_other_activity = self.activity != activity;
        let former = std::mem::replace(&mut self.activity, activity);
        let mut following = Following {
            cluster,
            zone,
            before: &followed.inventory,
            now: &cluster.inventory,
            settings: &followed.settings,
            policies,
            changed_pods: BTreeSet::new(),
            activity: match (&former, &self.activity) {
                _ if !has_other_activity => ChangedActivity::None,
                (Some(former), Some(current)) if has_same_networks(zone, former, current) => {
                    ChangedActivity::OtherNodes
                }
                _ => ChangedActivity::Zone,
            },
        };
        following.update(self);
        self.policies = Some(following.policies);
        self.followed = Some(Followed {
            inventory: cluster.inventory.clone(),
            ..followed
        });
    }
}

#[cfg(test)]
mod tests;
