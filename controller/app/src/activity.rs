//! Nodes on which networks have users: what feature `dynamic-udn-allocation` depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, Connect, Definition, EgressIp, NetworkActivity, NetworkObjects, Networks,
};
use patchbay_pods::ZonePods;

/// Objects that use networks.
#[derive(Debug)]
pub struct NetworkUsers<'a> {
    /// All networks and their definitions.
    pub objects: &'a NetworkObjects<'a>,
    /// Namespaces whose pods have a primary network.
    pub labelled: &'a BTreeSet<String>,
    /// Pods.
    pub pods: &'a ZonePods,
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
        let networks = &self.objects.networks;
        let pods = self.pods.pods().filter(|pod| pod.is_wired());
        let of_pods = pods.flat_map(|pod| {
            let (attachments, _) = self.pods.attachments(pod);
            let attachments = attachments.into_iter();
            let uses = attachments.zip(pod.node.iter().cycle());
            let uses = uses.map(|(attachment, node)| (attachment.network.name.clone(), node));
            uses.map(|(network, node)| (network, node.clone()))
                .collect::<Vec<_>>()
        });
        let of_egress = self.egress_ips.iter().flat_map(|object| {
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
        let connected: Vec<BTreeSet<Arc<str>>> = self
            .connects
            .iter()
            .map(|connect| {
                let owners = connect.subnets.owners();
                let members = owners.filter_map(|owner| networks.by_id(owner.network_id));
                members
                    .map(|network| network.name.as_str().into())
                    .collect()
            })
            .collect();
        NetworkActivity::new(self.limited(), of_pods.chain(of_egress), &connected)
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

fn primary_network(networks: &Networks, namespace: &str) -> Option<Arc<str>> {
    let network = networks.by_nad(networks.primary_nad(namespace)?)?;
    Some(network.name.as_str().into())
}
