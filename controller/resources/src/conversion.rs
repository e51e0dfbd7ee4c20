//! Conversion of Kubernetes objects into values of [`patchbay_model`].

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{
    AttachedNetworks, AttachmentDefinition, ClusterSettings, Connect, ConnectError, ConnectInput,
    ConnectRange, ConnectSubnetMap, Connectivity, Feature, NETWORK_ID, NETWORK_NAME, NadKey,
    NetworkObjects, NetworkUsers, Networks, Node, NodeError, NodeObject as NodeAnnotations,
    PRIMARY_NETWORK_LABEL, ROUTE_ADVERTISEMENTS, ROUTER_TUNNEL_KEY, TUNNEL_KEYS, names,
};

use crate::cnc::{self, ClusterNetworkConnect};
use crate::manifests::{Inventory, ObjectKey};
use crate::nad::NetworkAttachmentDefinition;
use crate::object::{Namespace, Node as NodeObject, Object};
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

mod admin_policy;
mod egress_firewall;
mod egress_ip;
#[cfg(test)]
mod networks_tests;
mod pod;
mod policy;
mod route_advertisement;
mod service;
mod vpc;

pub use admin_policy::{admin_network_policy, baseline_admin_network_policy};
pub use egress_firewall::egress_firewall;
pub use egress_ip::egress_ip;
pub use pod::pod;
pub use policy::{multi_network_policy, network_policy};
pub use route_advertisement::route_advertisement;
pub use service::{endpoint_slice, network_service};
pub use vpc::{machine_name, port_requests, read_addresses, vpc, vpc_node, vpc_scene};

/// Key of a network attachment definition.
pub fn nad_key(nad: &NetworkAttachmentDefinition) -> NadKey {
    NadKey { namespace: nad.namespace().unwrap_or_default(), name: nad.name_any() }
}

/// Networks of attachment definitions. Of the namespaces only the label for primary networks is
/// used.
pub fn networks<'a>(
    nads: impl IntoIterator<Item = &'a NetworkAttachmentDefinition>,
    namespaces: impl IntoIterator<Item = &'a Namespace>,
) -> Networks {
    Networks::from_definitions(nads.into_iter().map(definition), &labelled(namespaces))
}

/// All networks of an inventory.
pub fn networks_of(inventory: &Inventory) -> Networks {
    let nads = inventory.network_attachment_definitions.iter();
    let namespaces = inventory.namespaces.iter();
    networks(nads.map(|(_, nad)| &nad.object), namespaces.map(|(_, namespace)| &namespace.object))
        .with_undecoded(undecoded_networks(inventory))
}

/// Networks of custom resources that cannot be decoded. Rows of these networks may exist.
pub fn undecoded_networks(inventory: &Inventory) -> BTreeSet<String> {
    let undecoded = inventory.undecoded.iter();
    let networks = undecoded.filter_map(|(kind, key)| network_of_resource(kind, key));
    networks.collect()
}

/// Name of the network of a custom resource. `None`: the kind defines no networks.
pub fn network_of_resource(kind: &str, key: &ObjectKey) -> Option<String> {
    if kind == ClusterUserDefinedNetwork::KIND {
        return Some(names::cudn_network(&key.name));
    }
    let namespace = key.namespace.as_deref()?;
    (kind == UserDefinedNetwork::KIND).then(|| names::udn_network(namespace, &key.name))
}

/// Names of the namespaces with the label for primary networks.
fn labelled<'a>(namespaces: impl IntoIterator<Item = &'a Namespace>) -> BTreeSet<String> {
    let is_labelled =
        |namespace: &&Namespace| namespace.labels().contains_key(PRIMARY_NETWORK_LABEL);
    let labelled = namespaces.into_iter().filter(is_labelled);
    labelled.map(Object::name_any).collect()
}

/// Inputs of networks from an attachment definition.
pub fn definition(nad: &NetworkAttachmentDefinition) -> AttachmentDefinition<'_> {
    let annotation = |key| nad.annotations().get(key).map(String::as_str);
    AttachmentDefinition {
        key: nad_key(nad),
        config: nad.spec.config.as_deref(),
        network_id: annotation(NETWORK_ID),
        network_name: annotation(NETWORK_NAME),
        tunnel_keys: annotation(TUNNEL_KEYS),
        advertisements: annotation(ROUTE_ADVERTISEMENTS),
        owner_network: network_of_controller(nad),
    }
}

/// Inputs of network rows from an inventory of a cluster with these settings.
pub fn network_objects<'a>(
    inventory: &'a Inventory,
    settings: &ClusterSettings,
) -> NetworkObjects<'a> {
    let nads = || inventory.network_attachment_definitions.iter();
    NetworkObjects {
        networks: Networks::of_cluster(
            nads().map(|(_, nad)| definition(&nad.object)),
            &labelled(inventory.namespaces.iter().map(|(_, one)| &one.object)),
            settings,
        )
        .with_undecoded(undecoded_networks(inventory)),
        definitions: nads()
            .map(|(_, nad)| definition(&nad.object))
            .map(|definition| (definition.key.clone(), definition))
            .collect(),
        nodes: inventory.nodes.iter().map(|(_, node)| node_object(&node.object)).collect(),
        services: inventory
            .services
            .iter()
            .map(|(_, service)| network_service(&service.object))
            .collect(),
        advertisements: inventory
            .route_advertisements
            .iter()
            .map(|(_, object)| route_advertisement(&object.object))
            .collect(),
    }
}

/// Users of networks other than pods. `attached`: networks of the attachment definitions.
pub fn network_users(
    inventory: &Inventory,
    networks: &Networks,
    attached: &AttachedNetworks,
    settings: &ClusterSettings,
) -> NetworkUsers {
    let nads = inventory.network_attachment_definitions.iter();
    let mut users = NetworkUsers::new(nads.map(|(_, nad)| definition(&nad.object)), attached);
    let egress_ips = inventory.egress_ips.iter();
    for (_, object) in egress_ips.filter(|_| settings.has_feature(Feature::EgressIp)) {
        let namespaces =
            inventory.namespaces.iter().map(|(key, one)| (key.name.as_str(), one.object.labels()));
        users.add_egress_ip(&egress_ip(&object.object), networks, namespaces);
    }
    for (_, object) in inventory.cluster_network_connects.iter() {
        if let Ok(connect) = connect(&object.object) {
            users.add_connect(&connect, networks);
        }
    }
    users
}

/// Network name of the UDN or CUDN that controls an attachment definition. `None`: no UDN or CUDN
/// controls it.
fn network_of_controller(nad: &NetworkAttachmentDefinition) -> Option<String> {
    if let Some(name) = nad.controlling_cudn() {
        return Some(names::cudn_network(name));
    }
    let name = nad.controlling_udn()?;
    Some(names::udn_network(&nad.namespace().unwrap_or_default(), name))
}

/// `true` when a UDN or CUDN controls the attachment definition, and has this network name.
pub fn is_owned_by_network(nad: &NetworkAttachmentDefinition, network: &str) -> bool {
    network_of_controller(nad).as_deref() == Some(network)
}

/// A node, and an error for each annotation that cannot be read.
pub fn node(object: &NodeObject) -> (Node, Vec<NodeError>) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    Node::read(name, object.metadata.annotations.as_ref(), created(object))
}

/// Annotations of a node that the rows of networks read.
pub fn node_object(object: &NodeObject) -> NodeAnnotations<'_> {
    NodeAnnotations {
        name: object.metadata.name.as_deref().unwrap_or_default(),
        created: created(object),
        labels: object.metadata.labels.as_ref(),
        annotations: object.metadata.annotations.as_ref(),
    }
}

fn created(object: &NodeObject) -> Option<jiff::Timestamp> {
    let created = object.metadata.creation_timestamp.as_ref();
    created.map(|time| time.0)
}

/// A ClusterNetworkConnect with its UID, or with the error if it cannot be read.
pub fn connect_input(object: &ClusterNetworkConnect) -> ConnectInput {
    ConnectInput { uid: object.uid(), refusal: None, connect: connect(object) }
}

/// A ClusterNetworkConnect with the annotations of the cluster manager.
///
/// # Errors
/// [`ConnectError`] if an annotation or a connect subnet cannot be read.
pub fn connect(object: &ClusterNetworkConnect) -> Result<Connect, ConnectError> {
    let annotation = |key| object.annotations().get(key).map_or("", String::as_str);
    let tunnel_key = match annotation(ROUTER_TUNNEL_KEY) {
        "" => None,
        text => Some(text.parse()?),
    };
    let (subnets, unknown_owners) =
        ConnectSubnetMap::parse(annotation(ConnectSubnetMap::ANNOTATION))?;
    let ranges = object
        .spec
        .connect_subnets
        .iter()
        .map(|entry| {
            ConnectRange::try_new(ConnectRange::parse_cidr(&entry.cidr)?, entry.network_prefix)
        })
        .collect::<Result<_, _>>()?;
    Ok(Connect {
        name: object.name_any(),
        tunnel_key,
        subnets,
        unknown_owners,
        ranges,
        connectivity: connectivity(&object.spec.connectivity),
        vpcs: BTreeMap::new(),
    })
}

fn connectivity(entries: &[cnc::Connectivity]) -> Connectivity {
    Connectivity {
        pod_network: entries.contains(&cnc::Connectivity::PodNetwork),
        service_network: entries.contains(&cnc::Connectivity::ServiceNetwork),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use patchbay_model::DatapathKey;

    use super::*;

    fn object(annotations: &serde_json::Value) -> ClusterNetworkConnect {
        serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": "mix", "annotations": annotations},
            "spec": {
                "networkSelectors": [],
                "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}],
                "connectivity": ["ServiceNetwork"],
            },
        }))
        .unwrap()
    }

    #[test]
    fn annotations_of_the_cluster_manager_are_read() {
        let object = object(&json!({
            ROUTER_TUNNEL_KEY: "16715782",
            ConnectSubnetMap::ANNOTATION: r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"odd":{"ipv4":"192.168.1.0/24"}}"#,
        }));
        let connect = super::connect(&object).unwrap();
        assert_eq!(connect.name, "mix");
        assert_eq!(connect.tunnel_key.map(DatapathKey::get), Some(16_715_782));
        assert_eq!(connect.subnets.len(), 1);
        assert_eq!(connect.unknown_owners.len(), 1);
        assert!(connect.connectivity.is_service_only());
        assert_eq!(connect.ranges.iter().count(), 1);
    }

    #[test]
    fn annotations_may_be_missing() {
        let connect = super::connect(&object(&json!({}))).unwrap();
        assert_eq!(connect.tunnel_key, None);
        assert!(connect.subnets.is_empty());
    }

    #[test]
    fn an_invalid_tunnel_key_is_an_error() {
        let error = connect(&object(&json!({ROUTER_TUNNEL_KEY: "0"}))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation k8s.ovn.org/connect-router-tunnel-key: datapath tunnel key 0 is not in 1..=16777215"
        );
    }
}
