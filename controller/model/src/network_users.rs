//! Users of networks, for dynamic allocation of networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attached_network::{AttachedNetworks, Definition};
use super::connect::Connect;
use super::egress_ip::EgressIp;
use super::network_activity::NetworkActivity;
use super::networks::{AttachmentDefinition, Networks};

/// Users of networks other than pods, and the networks that are limited to nodes with users.
#[derive(Clone, Debug, Default)]
pub struct NetworkUsers {
    limited: BTreeSet<Arc<str>>,
    /// Networks with nodes on which they have users.
    uses: Vec<(Arc<str>, Arc<str>)>,
    connected: Vec<BTreeSet<Arc<str>>>,
}

impl NetworkUsers {
    /// Networks all of whose definitions belong to a UserDefinedNetwork or a
    /// ClusterUserDefinedNetwork are limited. All other ones are rendered on all nodes.
    pub fn new<'a>(
        definitions: impl IntoIterator<Item = AttachmentDefinition<'a>>,
        attached: &AttachedNetworks,
    ) -> Self {
        let (mut limited, mut others) = (BTreeSet::new(), BTreeSet::new());
        for definition in definitions {
            let Some(Definition::Network(network)) = attached.definition(&definition.key) else {
                continue;
            };
            let names = match definition.owner_network {
                Some(_) => &mut limited,
                None => &mut others,
            };
            names.insert(network.name.clone());
        }
        Self { limited: &limited - &others, ..Self::default() }
    }

    /// Adds an EgressIP: a user of the primary networks of the namespaces that it selects, on its
    /// nodes. `namespaces`: names and labels of all namespaces.
    pub fn add_egress_ip<'a>(
        &mut self,
        object: &EgressIp,
        networks: &Networks,
        namespaces: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
    ) {
        let Some(selector) = &object.namespaces else {
            return;
        };
        let namespaces = namespaces.into_iter();
        for (name, _) in namespaces.filter(|(_, labels)| selector.matches(labels)) {
            let network = networks.primary_nad(name).and_then(|nad| networks.by_nad(nad));
            let uses = network.into_iter().flat_map(|network| {
                let nodes = object.assignments.iter().map(|one| one.node.clone());
                nodes.map(|node| (network.name.as_str().into(), node))
            });
            self.uses.extend(uses);
        }
    }

    /// Adds a connect. A network is rendered where a network that it is connected with has users.
    pub fn add_connect(&mut self, connect: &Connect, networks: &Networks) {
        let owners = connect.subnets.owners();
        let members = owners.filter_map(|owner| networks.by_id(owner.network_id));
        let names = members.map(|network| network.name.as_str().into());
        self.connected.push(names.collect());
    }

    /// The nodes of networks. `of_pods`: networks with nodes on which pods use them.
    pub fn activity(
        &self,
        of_pods: impl IntoIterator<Item = (Arc<str>, Arc<str>)>,
    ) -> NetworkActivity {
        let uses = of_pods.into_iter().chain(self.uses.iter().cloned());
        NetworkActivity::new(self.limited.iter().cloned(), uses, &self.connected)
    }
}
