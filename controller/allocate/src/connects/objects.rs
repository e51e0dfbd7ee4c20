//! Kubernetes objects from which connects are allocated.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;

use patchbay_model::{DatapathKey, NadKey, Networks, NodeId, PRIMARY_NETWORK_LABEL, TUNNEL_KEYS};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::selector::LabelIndex;

use super::vpc_members::VpcMembers;

/// All objects of a cluster at one moment.
#[derive(Debug)]
pub struct ClusterObjects<'a> {
    pub(super) networks: &'a Networks,
    pub(super) nads: BTreeMap<NadKey, &'a NetworkAttachmentDefinition>,
    /// Definitions of ClusterUserDefinedNetworks, by label.
    pub(super) cudn_nads: LabelIndex<'a, (NadKey, &'a NetworkAttachmentDefinition)>,
    /// Names of the namespaces with a primary network, by label.
    pub(super) primary_namespaces: LabelIndex<'a, String>,
    pub(super) connects: BTreeMap<String, &'a ClusterNetworkConnect>,
    /// The highest node id, and the name of the node.
    pub(super) last_node: Option<(NodeId, String)>,
    /// VPCs of connects. `None`: connects cannot join VPCs.
    pub(super) vpcs: Option<&'a VpcMembers>,
}

impl<'a> ClusterObjects<'a> {
    /// Collects objects, and the networks that were read from them.
    pub fn new(
        networks: &'a Networks,
        nads: impl IntoIterator<Item = &'a NetworkAttachmentDefinition>,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
        connects: impl IntoIterator<Item = &'a ClusterNetworkConnect>,
    ) -> Self {
        let nads: BTreeMap<NadKey, &'a NetworkAttachmentDefinition> = nads
            .into_iter()
            .map(|nad| (patchbay_resources::conversion::nad_key(nad), nad))
            .collect();
        let namespaces: BTreeMap<String, &'a Namespace> = namespaces
            .into_iter()
            .filter(|namespace| namespace.labels().contains_key(PRIMARY_NETWORK_LABEL))
            .map(|namespace| (namespace.name_any(), namespace))
            .collect();
        Self {
            networks,
            cudn_nads: nads
                .iter()
                .filter(|(_, nad)| nad.controlling_cudn().is_some())
                .map(|(key, nad)| ((key.clone(), *nad), nad.labels()))
                .collect(),
            nads,
            primary_namespaces: namespaces
                .into_iter()
                .map(|(name, namespace)| (name, namespace.labels()))
                .collect(),
            connects: connects.into_iter().map(|connect| (connect.name_any(), connect)).collect(),
            last_node: None,
            vpcs: None,
        }
    }

    /// Adds the VPCs that connects select. Without this, connects cannot join VPCs.
    #[must_use]
    pub fn with_vpcs(mut self, vpcs: Option<&'a VpcMembers>) -> Self {
        self.vpcs = vpcs;
        self
    }

    /// Adds the nodes, by name and id, for warnings of connects that are too small for them.
    #[must_use]
    pub fn with_nodes<'n>(mut self, nodes: impl IntoIterator<Item = (&'n str, NodeId)>) -> Self {
        let last = nodes.into_iter().max_by_key(|(_, id)| *id);
        self.last_node = last.map(|(name, id)| (id, name.to_owned()));
        self
    }

    /// Connects from the oldest to the newest, so that an older one has precedence.
    pub(super) fn connects_by_age(&self) -> Vec<(&String, &'a ClusterNetworkConnect)> {
        let mut connects: Vec<_> =
            self.connects.iter().map(|(name, object)| (name, *object)).collect();
        connects.sort_by_key(|(name, object)| (object.creation_timestamp(), *name));
        connects
    }

    /// Tunnel keys that follow from the ids of networks and that are in attachment definitions, and
    /// the errors of definitions whose annotation cannot be read.
    pub(super) fn network_keys(&self) -> (BTreeSet<DatapathKey>, Vec<(NadKey, String)>) {
        let networks = self.networks.iter();
        let mut keys: BTreeSet<DatapathKey> =
            networks.map(|network| DatapathKey::of_network(network.id)).collect();
        let mut unreadable = Vec::new();
        for (nad, object) in &self.nads {
            let Some(text) = object.annotations().get(TUNNEL_KEYS) else {
                continue;
            };
            match parse_keys(text) {
                Ok(parsed) => keys.extend(parsed),
                Err(error) => unreadable.push((nad.clone(), error)),
            }
        }
        (keys, unreadable)
    }
}

fn parse_keys(text: &str) -> Result<Vec<DatapathKey>, String> {
    let numbers: Vec<i64> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    numbers
        .into_iter()
        .map(|number| DatapathKey::try_new(number).map_err(|error| error.to_string()))
        .collect()
}
