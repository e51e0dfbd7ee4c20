//! Kubernetes objects from which the rows of networks are derived.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::attached_network::{AttachedNetworks, Definition};
use super::network_activity::NetworkActivity;
use super::networks::{AttachmentDefinition, NadKey, Networks};
use super::route_advertisement::RouteAdvertisement;
use super::service::Service;
use super::settings::ClusterSettings;

/// Name, creation time, labels and annotations of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeObject<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Creation time of the node; `None`: the node comes from a manifest.
    pub created: Option<Timestamp>,
    /// Labels of the node; `None`: the node has no labels.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// Annotations of the node; `None`: the node has no annotations.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// Nodes, services, attachment definitions and the networks of the definitions.
#[derive(Debug)]
pub struct NetworkObjects<'a> {
    /// Networks of the attachment definitions.
    pub networks: Networks,
    /// Attachment definitions.
    pub definitions: BTreeMap<NadKey, AttachmentDefinition<'a>>,
    /// Nodes, in the order of their names.
    pub nodes: Vec<NodeObject<'a>>,
    /// Services, in the order of their namespaces and names.
    pub services: Vec<Service>,
    /// RouteAdvertisements.
    pub advertisements: Vec<RouteAdvertisement>,
}

impl NetworkObjects<'_> {
    /// Leaves out the networks that are not rendered on a node, and their definitions. `labelled`
    /// has the namespaces with the label [`PRIMARY_NETWORK_LABEL`](super::PRIMARY_NETWORK_LABEL).
    pub fn limit_to(
        &mut self,
        node: &str,
        activity: &NetworkActivity,
        labelled: &BTreeSet<String>,
        settings: &ClusterSettings,
    ) {
        let attached = AttachedNetworks::new(&self.networks, self.definitions.values(), labelled);
        self.definitions.retain(|key, _| match attached.definition(key) {
            Some(Definition::Network(network)) => activity.is_rendered(&network.name, node),
            Some(Definition::None) | None => true,
        });
        let undecoded = self.networks.undecoded().map(str::to_owned).collect();
        let definitions = self.definitions.values().cloned();
        let networks = Networks::of_cluster(definitions, labelled, settings);
        self.networks = networks.with_undecoded(undecoded);
    }
}
