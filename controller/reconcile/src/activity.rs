//! Nodes on which networks have users: what feature `dynamic-udn-allocation` depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, ClusterSettings, Feature, NetworkActivity, NetworkUsers, Pod, PodKey,
    waits_for_primary_network,
};
use patchbay_resources::conversion::{network_objects, network_users, pod};
use patchbay_resources::manifests::Inventory;
use patchbay_zone::ZoneObjects;

use super::zone_inputs::has_changed;
use super::{Cluster, pods};

/// The nodes of networks whose definitions belong to a UserDefinedNetwork or a
/// ClusterUserDefinedNetwork. All other ones are rendered on all nodes. `users`: those besides pods.
pub fn network_activity(pods: &ZoneObjects, users: &NetworkUsers) -> NetworkActivity {
    users.activity(pods.pods().flat_map(|pod| uses_of_pod(pods, pod)))
}

/// A network with a node on which it has a user.
type Use = (Arc<str>, Arc<str>);

/// The networks that a pod uses on its node. One that waits for its first primary network uses none
/// yet.
fn uses_of_pod(pods: &ZoneObjects, pod: &Pod) -> BTreeSet<Use> {
    let Some(node) = pod.node.as_ref().filter(|_| pod.is_wired()) else {
        return BTreeSet::new();
    };
    let (attachments, problems) = pods.attachments(pod);
    if waits_for_primary_network(pod, &problems) {
        return BTreeSet::new();
    }
    let networks = attachments.into_iter().map(|one| one.network.name.clone());
    networks.map(|network| (network, node.clone())).collect()
}

/// Activity that follows watched pods at the cost of the change. With changes of other objects, it
/// is made from nothing.
#[derive(Debug, Default)]
pub(crate) struct FollowedActivity(Option<Box<Followed>>);

#[derive(Debug)]
struct Followed {
    inventory: Inventory,
    settings: ClusterSettings,
    pods: ZoneObjects,
    others: NetworkUsers,
    /// Numbers of pods.
    users: BTreeMap<Use, usize>,
    activity: NetworkActivity,
}

impl FollowedActivity {
    /// Nodes on which networks have users. `None`: the feature is off.
    pub(crate) fn update(&mut self, cluster: &Cluster) -> Option<NetworkActivity> {
        let followed = self.0.take();
        if !cluster.settings().has_feature(Feature::DynamicUdnAllocation) {
            return None;
        }
        let follows = |followed: &Followed| {
            let (before, now) = (&followed.inventory, &cluster.inventory);
            cluster.is_watched()
                && followed.settings == *cluster.settings()
                && !has_changed(&before.namespaces, &now.namespaces)
                && !has_changed(
                    &before.network_attachment_definitions,
                    &now.network_attachment_definitions,
                )
                && !has_changed(&before.egress_ips, &now.egress_ips)
                && !has_changed(&before.cluster_network_connects, &now.cluster_network_connects)
        };
        let followed = match followed.filter(|followed| follows(followed)) {
            Some(mut followed) => {
                followed.follow_pods(&cluster.inventory);
                followed
            }
            None => Box::new(Followed::read(cluster)),
        };
        let activity = followed.activity.clone();
        self.0 = Some(followed);
        Some(activity)
    }
}

impl Followed {
    fn read(cluster: &Cluster) -> Self {
        let (inventory, settings) = (&cluster.inventory, cluster.settings());
        let objects = network_objects(inventory, settings);
        let labelled = pods::labelled_namespaces(inventory);
        // Attachments of pods follow from networks and definitions, and not from nodes.
        let mut pods = ZoneObjects::new("", settings);
        pods.set_networks(&objects.networks, &objects.definitions, &labelled);
        for (_, sourced) in inventory.pods.iter() {
            pods.put_pod(Arc::new(pod(&sourced.object)));
        }
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(&objects.networks, definitions, &labelled);
        let others = network_users(inventory, &objects.networks, &attached, settings);
        let mut users = BTreeMap::new();
        for one in pods.pods().flat_map(|pod| uses_of_pod(&pods, pod)) {
            *users.entry(one).or_default() += 1;
        }
        Self {
            activity: others.activity(users.keys().cloned()),
            inventory: inventory.clone(),
            settings: settings.clone(),
            pods,
            others,
            users,
        }
    }

    fn follow_pods(&mut self, now: &Inventory) {
        let mut has_other_users = false;
        for change in now.pods.changes_since(&self.inventory.pods) {
            let namespace = change.key.namespace.as_deref().unwrap_or_default();
            let key = PodKey::new(namespace, &change.key.name);
            if let Some(former) = self.pods.pod(&key) {
                for one in uses_of_pod(&self.pods, former) {
                    let number = self.users.entry(one.clone()).or_default();
                    *number = number.saturating_sub(1);
                    if *number == 0 {
                        self.users.remove(&one);
                        has_other_users = true;
                    }
                }
            }
            let Some(current) = change.current else {
                self.pods.remove_pod(&key);
                continue;
            };
            let current = Arc::new(pod(&current.object));
            for one in uses_of_pod(&self.pods, &current) {
                let number = self.users.entry(one).or_default();
                *number += 1;
                has_other_users |= *number == 1;
            }
            self.pods.put_pod(current);
        }
        self.inventory = now.clone();
        if has_other_users {
            self.activity = self.others.activity(self.users.keys().cloned());
        }
    }
}
