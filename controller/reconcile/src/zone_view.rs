//! A cluster's objects, as one zone sees them.

use std::collections::BTreeSet;

use patchbay_model::{NetworkActivity, NetworkObjects, NodeSubnetOwners};
use patchbay_networks::ZoneNetworks;
use patchbay_resources::conversion::network_objects;
use patchbay_zone::ZoneObjects;

use super::zone_objects::zone_objects;
use super::{Cluster, pods};

/// Networks and definitions that a zone renders, and the inputs that follow from them.
#[derive(Debug)]
pub(crate) struct ZoneView<'a> {
    cluster: &'a Cluster,
    zone: &'a str,
    objects: NetworkObjects<'a>,
    labelled: BTreeSet<String>,
    activity: Option<NetworkActivity>,
}

impl<'a> ZoneView<'a> {
    /// The view of a zone. `activity`: nodes on which networks are rendered; `None`: all.
    pub(crate) fn new(
        cluster: &'a Cluster,
        zone: &'a str,
        activity: Option<NetworkActivity>,
    ) -> Self {
        let inventory = &cluster.inventory;
        let labelled = pods::labelled_namespaces(inventory);
        let mut objects = network_objects(inventory, cluster.settings());
        if let Some(activity) = &activity {
            objects.limit_to(zone, activity, &labelled, cluster.settings());
        }
        Self {
            cluster,
            zone,
            objects,
            labelled,
            activity,
        }
    }

    /// Inputs of networks, with the owners of node subnets.
    pub(crate) fn networks(&self) -> (ZoneNetworks, NodeSubnetOwners) {
        let settings = self.cluster.settings();
        let (mut networks, owners) =
            ZoneNetworks::read_with_owners(&self.objects, self.zone, settings);
        if let Some(activity) = &self.activity {
            networks.set_activity(activity);
        }
        (networks, owners)
    }

    /// `None`: the objects contain no pods, so ports of pods that are there stay.
    pub(crate) fn pods(&self) -> Option<ZoneObjects> {
        let inventory = &self.cluster.inventory;
        let settings = self.cluster.settings();
        self.has_pods().then(|| {
            pods::zone_pods(
                inventory,
                self.zone,
                settings,
                &self.objects,
                &self.labelled,
            )
        })
    }

    /// `false`: the objects contain no pods, so ports of pods that are there stay.
    pub(crate) fn has_pods(&self) -> bool {
        self.cluster.has_every_kind() || !self.cluster.inventory.pods.is_empty()
    }

    /// `false`: there are neither pods nor policies.
    pub(crate) fn has_policies(&self) -> bool {
        let inventory = &self.cluster.inventory;
        self.has_pods()
            || !inventory.network_policies.is_empty()
            || !inventory.multi_network_policies.is_empty()
            || !inventory.egress_firewalls.is_empty()
            || !self.cluster.settings().features.is_empty()
    }

    /// The objects of the zone.
    pub(crate) fn zone_objects(&self) -> ZoneObjects {
        zone_objects(self.cluster, self.zone, &self.objects, &self.labelled)
    }

    /// The networks and definitions that the zone renders.
    pub(crate) fn objects(&self) -> &NetworkObjects<'a> {
        &self.objects
    }

    /// Names of the namespaces whose pods have a primary network.
    pub(crate) fn labelled(&self) -> &BTreeSet<String> {
        &self.labelled
    }

    /// Nodes on which networks are rendered. `None`: all.
    pub(crate) fn into_activity(self) -> Option<NetworkActivity> {
        self.activity
    }
}
