//! What is kept of the objects: the fields that rows, annotations and conditions follow from, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_resources::object::MetadataOnly;
use patchbay_resources::object::ObjectMeta;
use patchbay_resources::object::{Namespace, Node, Pod, Service};
use serde::Deserialize as _;

use super::node_subnets::{NetworkNames, PackedSubnets};
use super::received::Received;
use super::revision::Revision;
use patchbay_model::ClusterIpService;
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{self, ConnectSubnetMap, NETWORK_ID, NETWORK_NAME, ROUTER_TUNNEL_KEY};
use patchbay_resources::cnc::{
    ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus,
};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};

/// A connect, as far as it can be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenConnect {
    /// The object; without a spec that can be understood, its metadata and status and an empty spec.
    pub(super) object: ClusterNetworkConnect,
    /// Why the spec cannot be understood.
    pub(super) unreadable: Option<String>,
    /// Which version of the object rows follow from.
    pub(super) revision: Revision,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenNode {
    /// Tells the node from a later one of the same name.
    pub(super) uid: Option<String>,
    /// The node, without its subnets.
    pub(super) node: patchbay_model::Node,
    /// Its subnets.
    pub(super) subnets: PackedSubnets,
    /// What cannot be read of it.
    pub(super) errors: Vec<UnreadableAnnotation>,
}

/// An annotation of a node that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnreadableAnnotation {
    /// Its key.
    pub(super) annotation: &'static str,
    /// The network whose entry it is, if the others can be read.
    pub(super) network: Option<String>,
    /// What is wrong, in which object.
    pub(super) message: String,
}

/// A namespace: its labels.
pub(super) fn namespace(object: MetadataOnly<Namespace>) -> Arc<Namespace> {
    let metadata = ObjectMeta {
        name: object.metadata.name,
        labels: object.metadata.labels,
        ..ObjectMeta::default()
    };
    Arc::new(Namespace {
        metadata,
        ..Namespace::default()
    })
}

/// A node: what its annotations say about OVN; of its subnets nothing if nobody names the networks.
pub(super) fn node(object: MetadataOnly<Node>, networks: Option<&NetworkNames>) -> Arc<SeenNode> {
    let uid = object.metadata.uid.clone();
    let object = Node {
        metadata: object.metadata,
        ..Node::default()
    };
    let (mut node, errors) = patchbay_resources::conversion::node(&object);
    let subnets = networks.map(|networks| networks.pack(&node.subnets));
    node.subnets.clear();
    Arc::new(SeenNode {
        uid,
        node,
        subnets: subnets.unwrap_or_default(),
        errors: errors
            .iter()
            .map(|error| UnreadableAnnotation {
                annotation: error.annotation,
                network: error.network().map(str::to_owned),
                message: error.to_string(),
            })
            .collect(),
    })
}

/// A service: its protocols, if it has a cluster IP.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what is kept is all that is left of an object"
)]
pub(super) fn service(object: Service) -> Option<Arc<ClusterIpService>> {
    patchbay_resources::conversion::service(&object).map(Arc::new)
}

/// A pod: its node, if it is on a network there.
pub(super) fn pod(object: Pod) -> Option<String> {
    let spec = object.spec?;
    let phase = object.status.and_then(|status| status.phase);
    let is_over = phase.is_some_and(|phase| matches!(&*phase, "Succeeded" | "Failed"));
    let has_network = spec.host_network != Some(true) && !is_over;
    spec.node_name.filter(|_| has_network)
}

/// An attachment definition: its configuration, its ids, and who made it.
pub(super) fn attachment_definition(
    object: Received<NetworkAttachmentDefinition>,
) -> Arc<NetworkAttachmentDefinition> {
    let (meta, spec) = match object.0 {
        Ok(nad) => (nad.metadata, nad.spec),
        // Without a configuration it is told as one that leads to no network.
        Err(invalid) => (invalid.metadata, NetworkAttachmentDefinitionSpec::default()),
    };
    let mut nad = NetworkAttachmentDefinition::new("", spec);
    nad.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        labels: meta.labels,
        annotations: only(meta.annotations, &[NETWORK_ID, NETWORK_NAME, TUNNEL_KEYS]),
        owner_references: meta.owner_references,
        ..ObjectMeta::default()
    };
    Arc::new(nad)
}

/// A connect: everything but the annotations of others.
pub(super) fn connect(object: Received<ClusterNetworkConnect>) -> Arc<SeenConnect> {
    let (mut object, unreadable) = match object.0 {
        Ok(object) => (object, None),
        Err(invalid) => {
            let spec = ClusterNetworkConnectSpec::default();
            let mut object = ClusterNetworkConnect::new("", spec);
            object.metadata = invalid.metadata;
            // What was said about it before goes on from there.
            object.status = ClusterNetworkConnectStatus::deserialize(invalid.status).ok();
            (object, Some(invalid.error))
        }
    };
    let meta = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: meta.name,
        uid: meta.uid,
        creation_timestamp: meta.creation_timestamp,
        generation: meta.generation,
        resource_version: meta.resource_version,
        annotations: only(
            meta.annotations,
            &[ROUTER_TUNNEL_KEY, ConnectSubnetMap::ANNOTATION],
        ),
        ..ObjectMeta::default()
    };
    Arc::new(SeenConnect {
        revision: Revision::of(&object.metadata),
        object,
        unreadable,
    })
}

fn only(
    annotations: Option<BTreeMap<String, String>>,
    keys: &[&str],
) -> Option<BTreeMap<String, String>> {
    let mut annotations = annotations?;
    annotations.retain(|key, _| keys.contains(&key.as_str()));
    (!annotations.is_empty()).then_some(annotations)
}

#[cfg(test)]
mod tests {
    use patchbay_resources::object::Object;
    use serde_json::json;

    use super::*;
    use patchbay_model::{NODE_ID, NODE_SUBNETS};

    #[test]
    fn a_node_is_its_ovn_annotations() {
        let read = |annotations: serde_json::Value| {
            let object = json!({"metadata": {"name": "n1", "annotations": annotations}});
            let networks = NetworkNames::default();
            node(serde_json::from_value(object).unwrap(), Some(&networks))
        };
        let ours = json!({NODE_ID: "2", NODE_SUBNETS: r#"{"red":["10.1.2.0/24"]}"#});
        let mut more = ours.clone();
        more["example.org/heartbeat"] = "now".into();
        assert_eq!(read(ours.clone()), read(more));
        assert!(read(ours).errors.is_empty());
        assert_eq!(
            read(json!({NODE_ID: "two", NODE_SUBNETS: "{"}))
                .errors
                .len(),
            2
        );
    }

    #[test]
    fn pods_count_where_they_are_on_a_network() {
        let node = |spec: serde_json::Value, phase: &str| {
            let object = json!({"metadata": {}, "spec": spec, "status": {"phase": phase}});
            pod(serde_json::from_value(object).unwrap())
        };
        let spec = json!({"containers": [], "nodeName": "n1"});
        assert_eq!(node(spec.clone(), "Running").as_deref(), Some("n1"));
        assert_eq!(node(spec, "Succeeded"), None);
        assert_eq!(node(json!({"containers": []}), "Pending"), None);
        let on_host = json!({"containers": [], "nodeName": "n1", "hostNetwork": true});
        assert_eq!(node(on_host, "Running"), None);
    }

    #[test]
    fn a_connect_that_cannot_be_understood_is_still_there() {
        let object = json!({
            "metadata": {
                "name": "c", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {ROUTER_TUNNEL_KEY: "16715779", "other": "x"},
            },
            "spec": {"networkSelectors": "all"},
        });
        let seen = connect(serde_json::from_value(object).unwrap());
        assert!(
            seen.unreadable.as_ref().is_some_and(
                |error| error.contains("networkSelectors") || error.contains("sequence")
            )
        );
        assert_eq!(seen.object.metadata.uid.as_deref(), Some("u"));
        assert!(seen.object.creation_timestamp().is_some());
        assert_eq!(seen.object.annotations().len(), 1);
    }

    #[test]
    fn a_definition_that_cannot_be_understood_has_no_configuration() {
        let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"config": 1}});
        let nad = attachment_definition(serde_json::from_value(object).unwrap());
        assert_eq!(nad.spec.config, None);
    }
}
