//! Nodes on which networks have users: what feature `dynamic-udn-allocation` depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, ClusterSettings, Connect, Definition, EgressIp, Feature, NetworkActivity,
    NetworkObjects, Networks, Pod, PodKey, waits_for_primary_network,
};
use patchbay_resources::conversion::{connect_input, egress_ip, network_objects, pod};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Object as _;
use patchbay_zone::ZoneObjects;

use super::zone_inputs::has_changed;
use super::{Cluster, pods};

/// Objects that use networks.
#[derive(Debug)]
pub struct NetworkUsers<'a> {
    /// All networks and their definitions.
    pub objects: &'a NetworkObjects<'a>,
    /// Namespaces whose pods have a primary network.
    pub labelled: &'a BTreeSet<String>,
    /// Pods and their attachments.
    pub pods: &'a ZoneObjects,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<&'a str, &'a BTreeMap<String, String>>,
    /// EgressIPs with the nodes that have them.
    pub egress_ips: Vec<EgressIp>,
    /// Connected networks.
    pub connects: Vec<Connect>,
}

impl NetworkUsers<'_> {
    /// The nodes of networks whose definitions belong to a UserDefinedNetwork or a
    /// ClusterUserDefinedNetwork. All other ones are rendered on all nodes.
    pub fn activity(&self) -> NetworkActivity {
        let pods = self.pods.pods();
        let of_pods = pods.flat_map(|pod| uses_of_pod(self.pods, pod));
        self.other_users().activity(of_pods)
    }

    /// Users of networks other than pods.
    fn other_users(&self) -> OtherUsers {
        let networks = &self.objects.networks;
        let egress = self.egress_ips.iter().flat_map(|object| {
            let namespaces = self.namespaces.iter();
            let namespaces = namespaces.filter(|(_, labels)| {
                let selector = object.namespaces.as_ref();
                selector.is_some_and(|selector| selector.matches(labels))
            });
            let primary = namespaces.filter_map(|(name, _)| primary_network(networks, name));
            let uses = primary.flat_map(|network| {
                let nodes = object.assignments.iter().map(|one| one.node.clone());
                nodes.map(move |node| (network.clone(), node))
            });
            uses.collect::<Vec<_>>()
        });
        let connected = self.connects.iter().map(|connect| {
            let owners = connect.subnets.owners();
            let members = owners.filter_map(|owner| networks.by_id(owner.network_id));
            members
                .map(|network| network.name.as_str().into())
                .collect()
        });
        OtherUsers {
            limited: self.limited(),
            egress: egress.collect(),
            connected: connected.collect(),
        }
    }

    /// Networks all of whose definitions belong to a custom resource.
    fn limited(&self) -> BTreeSet<Arc<str>> {
        let definitions = self.objects.definitions.values();
        let attached = AttachedNetworks::new(&self.objects.networks, definitions, self.labelled);
        let (mut limited, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (key, definition) in attached.definitions() {
            let Definition::Network(network) = definition else {
                continue;
            };
            let object = self.objects.definitions.get(key);
            if object.is_some_and(|object| object.owner_network.is_some()) {
                limited.insert(network.name.clone());
            } else {
                others.insert(network.name.clone());
            }
        }
        &limited - &others
    }
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

/// Users of networks other than pods.
#[derive(Debug)]
struct OtherUsers {
    limited: BTreeSet<Arc<str>>,
    egress: Vec<Use>,
    connected: Vec<BTreeSet<Arc<str>>>,
}

impl OtherUsers {
    fn activity(&self, of_pods: impl Iterator<Item = Use>) -> NetworkActivity {
        let uses = of_pods.chain(self.egress.iter().cloned());
        NetworkActivity::new(self.limited.iter().cloned(), uses, &self.connected)
    }
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
    others: OtherUsers,
    /// Numbers of pods.
    users: BTreeMap<Use, usize>,
    activity: NetworkActivity,
}

impl FollowedActivity {
    /// Nodes on which networks have users. `None`: the feature is off.
    pub(crate) fn update(&mut self, cluster: &Cluster) -> Option<NetworkActivity> {
        let followed = self.0.take();
        if !cluster
            .settings()
            .has_feature(Feature::DynamicUdnAllocation)
        {
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
                && !has_changed(&before.route_advertisements, &now.route_advertisements)
                && !has_changed(&before.egress_ips, &now.egress_ips)
                && !has_changed(
                    &before.cluster_network_connects,
                    &now.cluster_network_connects,
                )
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
        let egress_ips = inventory.egress_ips.iter();
        let has_egress_ips = settings.has_feature(Feature::EgressIp);
        let egress_ips = egress_ips.filter(|_| has_egress_ips);
        let namespaces = inventory.namespaces.iter();
        let users = NetworkUsers {
            objects: &objects,
            labelled: &labelled,
            pods: &pods,
            namespaces: namespaces
                .map(|(key, namespace)| (key.name.as_str(), namespace.object.labels()))
                .collect(),
            egress_ips: egress_ips
                .map(|(_, object)| egress_ip(&object.object))
                .collect(),
            connects: cluster
                .connects()
                .filter_map(|object| connect_input(object).connect.ok())
                .collect(),
        };
        let others = users.other_users();
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

fn primary_network(networks: &Networks, namespace: &str) -> Option<Arc<str>> {
    let network = networks.by_nad(networks.primary_nad(namespace)?)?;
    Some(network.name.as_str().into())
}
